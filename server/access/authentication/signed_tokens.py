"""Signed JSON web tokens, checked against the keys of their issuer (JWKS; KIP-768). PyJWT verifies signatures.

The key decides which algorithms are accepted: a key for RSA never verifies an HMAC, and `alg: none` is never accepted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ....extras import install_command
from ....metadata.configs import InvalidConfig
from .mechanism import Identity
from .oauth_claims import ClaimChecks, identity_of, parts_of
from .token_validator import TokenRejected, TokenValidator

if TYPE_CHECKING:
    from ....protocol.json_value import JsonValue

#: By the type of a key (RFC 7518, section 6.1). Secret keys (oct) are not taken from a public list.
_ALGORITHMS = {
    "RSA": ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    "EC": ("ES256", "ES384", "ES512"),
    "OKP": ("EdDSA",),
}
#: Keys that are tried for a token that names none.
_MOST_TRIED = 10
_NOT_INSTALLED = "sasl.enabled.mechanisms: OAUTHBEARER with signed tokens needs packages that are not installed"


class SigningKey(NamedTuple):
    id: str | None
    #: The algorithms that the key may verify.
    algorithms: tuple[str, ...]
    #: The key as an object of PyJWT.
    key: Any


def signing_keys(key_set: JsonValue) -> list[SigningKey]:
    """Returns the keys of a JWKS document that verify signatures. Raises ValueError if it is no such document."""
    import jwt

    listed = key_set.get("keys") if isinstance(key_set, dict) else None
    if not isinstance(listed, list):
        raise ValueError("the document has no list of keys")
    found = []
    for data in listed:
        if not isinstance(data, dict):
            continue
        algorithms = _ALGORITHMS.get(str(data.get("kty")), ())
        if not algorithms or data.get("use", "sig") != "sig":
            continue
        try:
            key = jwt.PyJWK(data)
        except jwt.PyJWTError:
            continue  # one that this library does not have; the others count
        named = data.get("alg")
        key_id = data.get("kid")
        allowed = tuple(name for name in algorithms if named in (None, name))
        found.append(SigningKey(key_id if isinstance(key_id, str) else None, allowed, key))
    return found


class KeySource(NamedTuple):
    """The keys of the issuer now, and what asks for newer ones when a token names a key that is not among them."""

    current: Callable[[], Sequence[SigningKey]]
    look_for: Callable[[str], None]


def signed_validator(source: KeySource, checks: ClaimChecks) -> TokenValidator:
    """Raises InvalidConfig where the packages are not installed."""
    try:
        import cryptography  # noqa: F401
        import jwt
    except ImportError:
        raise InvalidConfig(f"{_NOT_INSTALLED}: {install_command('security')}") from None

    def validate(token: str, now_ms: int) -> Identity:
        header, claims, _ = parts_of(token)
        algorithm, key_id = str(header.get("alg")), header.get("kid")
        candidates = [one for one in source.current() if algorithm in one.algorithms and key_id in (None, one.id)]
        if not candidates:
            if isinstance(key_id, str):
                source.look_for(key_id)
            raise TokenRejected("no key of its issuer has signed it")
        for candidate in candidates[:_MOST_TRIED]:
            try:
                jwt.PyJWS().decode(token, candidate.key, algorithms=[algorithm])
            except jwt.PyJWTError:
                continue
            return identity_of(claims, checks, now_ms)
        raise TokenRejected("its signature is wrong")

    return validate
