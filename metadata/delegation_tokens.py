"""Delegation tokens (KIP-48, KIP-900): the password of a token, and the tokens that have one password.

The password is the HMAC of the token's id under `delegation.token.secret.key`, which all nodes of a cluster share.
It is never stored. In SASL it is written in base64.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..protocol.internal.cluster_metadata import DelegationTokenRecord
    from .image import DelegationTokenImage

#: The size of one token, in bytes of UTF-8 of its principals. A record of the metadata log is part of each snapshot, and
#: of the memory of each node.
MAX_TOKEN_BYTES = 1 << 20
#: The size of all tokens of one owner: 50,000 without renewers. A user without rights may create tokens for itself.
MAX_TOKEN_BYTES_PER_OWNER = 16 << 20
#: The size of a token besides its principals.
_TOKEN_BYTES = 100


def token_bytes(principals: Iterable[str]) -> int:
    """Returns the size of a token with these principals: owner, requester and renewers."""
    return _TOKEN_BYTES + sum(len(name) if name.isascii() else len(name.encode()) for name in principals)


class TokenSizes:
    """The size of each owner's tokens."""

    def __init__(self, tokens: Iterable[DelegationTokenImage]) -> None:
        self._sizes: Counter[str] = Counter()
        for token in tokens:
            self.add(token)

    def of(self, owner: str) -> int:
        return self._sizes[owner]

    def add(self, token: DelegationTokenImage | DelegationTokenRecord) -> None:
        self._sizes[token.owner] += token_bytes((token.owner, token.requester, *token.renewers))

    def remove(self, token: DelegationTokenImage) -> None:
        self._sizes[token.owner] -= token_bytes((token.owner, token.requester, *token.renewers))
        if self._sizes[token.owner] <= 0:
            del self._sizes[token.owner]


def token_hmac(secret: str, token_id: str) -> bytes:
    import hmac  # few clusters have tokens

    return hmac.digest(secret.encode(), token_id.encode(), "sha512")


def may_renew(token: DelegationTokenImage, principal: str) -> bool:
    return principal == token.owner or principal in token.renewers


def is_expired(token: DelegationTokenImage, now_ms: int) -> bool:
    return min(token.max_timestamp, token.expiration_timestamp) < now_ms


class TokenIds:
    """Finds a token by its HMAC. A token's HMAC is computed once, when the token is met first."""

    def __init__(self, secret: str) -> None:
        self.secret = secret
        self._hmacs: dict[str, bytes] = {}
        self._ids: dict[bytes, str] = {}
        self._seen: Mapping[str, DelegationTokenImage] | None = None

    def hmac_of(self, token_id: str) -> bytes:
        return token_hmac(self.secret, token_id)

    def find(self, tokens: Mapping[str, DelegationTokenImage], wanted: bytes) -> str | None:
        """Returns the id of the token among `tokens` that has this HMAC."""
        if tokens is not self._seen:
            self._seen = tokens
            for token_id in self._hmacs.keys() - set(tokens):
                del self._ids[self._hmacs.pop(token_id)]
            for token_id in tokens:
                if token_id not in self._hmacs:
                    made = self._hmacs[token_id] = self.hmac_of(token_id)
                    self._ids[made] = token_id
        return self._ids.get(wanted)
