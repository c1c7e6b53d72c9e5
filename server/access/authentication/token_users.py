"""The SCRAM credentials of delegation tokens: user is the token's id, password its HMAC in base64 (KIP-48).

A credential is made when a client first logs in with its token, and kept: PBKDF2 takes some ms. Ids that are no
token's cost nothing.
"""

from __future__ import annotations

import secrets
from collections import OrderedDict
from typing import NamedTuple

from ....client.scram_messages import encoded
from ....metadata.credentials import (
    MIN_ITERATIONS,
    SALT_BITS,
    ScramMechanism,
    credential_of,
    salt_text,
    salted_password,
)
from ....metadata.delegation_tokens import token_hmac
from ....metadata.image import DelegationTokenImage, ScramCredential

#: Credentials that are kept, of 300 bytes each.
MOST_KEPT = 10_000


class TokenCredential(NamedTuple):
    """A delegation token, as the exchange needs it."""

    owner: str
    expires_ms: int
    credential: ScramCredential


class TokenUsers:
    """The credentials of the tokens under one secret."""

    def __init__(self, secret: str) -> None:
        self.secret = secret
        self._kept: OrderedDict[tuple[str, str], ScramCredential] = OrderedDict()

    def credential(self, token_id: str, token: DelegationTokenImage, mechanism: ScramMechanism) -> TokenCredential:
        key = (token_id, mechanism.name)
        found = self._kept.get(key)
        if found is None:
            password = encoded(token_hmac(self.secret, token_id))
            salt = salt_text(secrets.randbits(SALT_BITS))
            salted = salted_password(mechanism, password, salt, MIN_ITERATIONS)
            found = self._kept[key] = credential_of(mechanism, salted, salt, MIN_ITERATIONS)
            if len(self._kept) > MOST_KEPT:
                self._kept.popitem(last=False)
        owner = token.owner.partition(":")[2]
        return TokenCredential(owner, min(token.expiration_timestamp, token.max_timestamp), found)
