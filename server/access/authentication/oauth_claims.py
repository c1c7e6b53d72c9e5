"""Claims of JSON web tokens (RFC 7519): the checks of a valid token, and the unsecured tokens of Kafka's tests."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from ....metadata.configs import InvalidConfig
from .mechanism import Identity
from .token_validator import TokenRejected, TokenValidator

if TYPE_CHECKING:
    from ....protocol.json_value import JsonObject, JsonValue

Claims = Mapping[str, "JsonValue"]
#: Names as long as Kafka's own principals are.
MOST_NAME_CHARACTERS = 1024


class ClaimChecks(NamedTuple):
    """The claims to check. Empty audiences and no issuer are not checked."""

    subject_claim: str = "sub"
    scope_claim: str = "scope"
    clock_skew_ms: int = 0
    audiences: tuple[str, ...] = ()
    issuer: str | None = None
    required_scope: tuple[str, ...] = ()
    needs_issue_time: bool = True


def identity_of(claims: Claims, checks: ClaimChecks, now_ms: int) -> Identity:
    """Raises TokenRejected."""
    expires_ms = _time_ms(claims, "exp")
    if expires_ms is None:
        raise TokenRejected("it has no claim exp")
    if now_ms - checks.clock_skew_ms >= expires_ms:
        raise TokenRejected("it has expired")
    issued_ms, begins_ms = _time_ms(claims, "iat"), _time_ms(claims, "nbf")
    if issued_ms is None and checks.needs_issue_time:
        raise TokenRejected("it has no claim iat")
    if issued_ms is not None and (issued_ms > now_ms + checks.clock_skew_ms or issued_ms >= expires_ms):
        raise TokenRejected("it was issued in the future, or after its expiry")
    if begins_ms is not None and begins_ms > now_ms + checks.clock_skew_ms:
        raise TokenRejected("it is not valid yet (nbf)")
    if checks.issuer is not None and claims.get("iss") != checks.issuer:
        raise TokenRejected("it has another issuer")
    if checks.audiences and not set(_texts(claims, "aud")) & set(checks.audiences):
        raise TokenRejected("it is for another audience")
    scopes = {scope for text in _texts(claims, checks.scope_claim) for scope in text.split()}
    if not scopes.issuperset(checks.required_scope):
        wanted = f"[{', '.join(checks.required_scope)}]"
        raise TokenRejected("it lacks a scope that is required", "insufficient_scope", wanted)
    return Identity(_subject(claims, checks.subject_claim), expires_ms)


def _subject(claims: Claims, name: str) -> str:
    subject = claims.get(name)
    if not isinstance(subject, str) or not subject.strip() or len(subject) > MOST_NAME_CHARACTERS:
        raise TokenRejected(f"its claim {name} is not a name")
    return subject


def _time_ms(claims: Claims, name: str) -> int | None:
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < 1 << 53:
        raise TokenRejected(f"its claim {name} is not a time")
    return int(value * 1000)


def _texts(claims: Claims, name: str) -> list[str]:
    """The texts of a claim that is one text or a list; none for anything else."""
    value = claims.get(name)
    if isinstance(value, str):
        return [value]
    return [text for text in value if isinstance(text, str)] if isinstance(value, list) else []


def parts_of(token: str) -> tuple[JsonObject, JsonObject, str]:
    """Returns the header, the claims, and the signature as text. Raises TokenRejected."""
    parts = token.split(".")
    if len(parts) != 3:
        raise TokenRejected("it does not have three parts")
    return _object(parts[0]), _object(parts[1]), parts[2]


def _object(text: str) -> JsonObject:
    try:
        data = base64.b64decode(text + "=" * (-len(text) % 4), altchars="-_", validate=True)
        found = json.loads(data)
    except (binascii.Error, ValueError, RecursionError):
        raise TokenRejected("a part of it is not JSON in base64") from None
    if not isinstance(found, dict):
        raise TokenRejected("a part of it is not a JSON object")
    return found


def unsecured_validator(options: Mapping[str, str]) -> TokenValidator:
    """Returns the validator of tokens without a signature (`alg: none`). `options`: of the JAAS configuration."""

    def option(name: str, default: str) -> str:
        return options.get(f"unsecuredValidator{name}", "").strip() or default

    skew = option("AllowableClockSkewMs", "0")
    if not (skew.isascii() and skew.isdigit() and len(skew) <= 10):
        raise InvalidConfig("unsecuredValidatorAllowableClockSkewMs must be a number of milliseconds")
    checks = ClaimChecks(
        option("PrincipalClaimName", "sub"),
        option("ScopeClaimName", "scope"),
        int(skew),
        required_scope=tuple(option("RequiredScope", "").split()),
        needs_issue_time=False,
    )

    def validate(token: str, now_ms: int) -> Identity:
        header, claims, signature = parts_of(token)
        if header.get("alg") != "none" or signature:
            raise TokenRejected("it is signed, but this listener accepts only unsecured tokens")
        return identity_of(claims, checks, now_ms)

    return validate
