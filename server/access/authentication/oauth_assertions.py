"""Assertions: tokens that this node signs, for which the endpoint gives tokens to log in with (KIP-1139, RFC 7523).

As Kafka's JwtBearerJwtRetriever makes them: the whole assertion from `sasl.oauthbearer.assertion.file`, or claims
of the configuration, of a template file, and of the time, in this order, signed with the key of a file. Files are
read for each assertion: they may be replaced while the node runs.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ....extras import install_command
from ....metadata.configs import InvalidConfig, Password
from ....storage.files.regular_files import read_regular_file
from .oauth_claims import parts_of
from .token_validator import TokenRejected

if TYPE_CHECKING:
    from ....protocol.json_value import JsonObject

FILE = "sasl.oauthbearer.assertion.file"
ISSUER = "sasl.oauthbearer.assertion.claim.iss"
SUBJECT = "sasl.oauthbearer.assertion.claim.sub"
_KEY_FILE = "sasl.oauthbearer.assertion.private.key.file"
_TEMPLATE = "sasl.oauthbearer.assertion.template.file"
_CLAIMS = {
    "aud": "sasl.oauthbearer.assertion.claim.aud",
    "iss": ISSUER,
    "sub": SUBJECT,
}
Assertions = Callable[[], str]
#: Returns the value of a configuration key.
SettingOf = Callable[[str], Any]


def assertions(value: SettingOf) -> Assertions:
    """Returns what makes assertions. `value` reads a key of the listener. Raises InvalidConfig, for files too."""
    path = value(FILE)
    made: Assertions = _Signer(value) if not path else lambda: _assertion_in(path)
    try:
        made()
    except (OSError, ValueError, TypeError) as error:  # its words may have a part of a key
        files = FILE if path else f"{_KEY_FILE} or {_TEMPLATE}"
        raise InvalidConfig(f"{files}: no assertion can be made: {type(error).__name__}") from None
    return made


def _assertion_in(path: str) -> str:
    token = read_regular_file(path).decode().strip()
    try:
        parts_of(token)
    except TokenRejected as rejected:
        raise ValueError(str(rejected)) from None
    return token


class _Signer:
    """Makes assertions and signs them."""

    def __init__(self, value: SettingOf) -> None:
        try:
            import jwt  # noqa: F401
        except ImportError:
            raise InvalidConfig(f"{_KEY_FILE} needs a package: {install_command('security')}") from None
        if not value(_KEY_FILE):
            raise InvalidConfig(f"{_KEY_FILE} is not set: it names the key that signs assertions")
        self._key_file = Path(value(_KEY_FILE))
        self._passphrase: Password | None = value("sasl.oauthbearer.assertion.private.key.passphrase")
        self._algorithm: str = value("sasl.oauthbearer.assertion.algorithm").upper()
        self._claims = {name: value(key) for name, key in _CLAIMS.items() if value(key) is not None}
        self._template = Path(value(_TEMPLATE)) if value(_TEMPLATE) else None
        self._expires_s: int = value("sasl.oauthbearer.assertion.claim.exp.seconds")
        self._early_s: int = value("sasl.oauthbearer.assertion.claim.nbf.seconds")
        self._has_id: bool = value("sasl.oauthbearer.assertion.claim.jti.include")

    def __call__(self) -> str:
        import jwt
        from cryptography.hazmat.primitives.serialization import load_pem_private_key

        passphrase = None if self._passphrase is None else self._passphrase.value.encode()
        key = load_pem_private_key(read_regular_file(self._key_file), passphrase)
        headers, payload = self._templates()
        try:
            return jwt.PyJWS().encode(json.dumps(payload).encode(), key, self._algorithm, headers)  # type: ignore[arg-type]
        except jwt.PyJWTError as error:
            raise ValueError(type(error).__name__) from None

    def _templates(self) -> tuple[JsonObject, JsonObject]:
        """Returns headers and payload."""
        template: Mapping[str, JsonObject] = {}
        if self._template is not None:
            template = json.loads(read_regular_file(self._template))
        now_s = int(time.time())
        times = {"iat": now_s, "exp": now_s + self._expires_s, "nbf": now_s - self._early_s}
        ids = {"jti": str(uuid.uuid4())} if self._has_id else {}
        headers = dict(template.get("header", {})) | {"alg": self._algorithm, "typ": "JWT"}
        return headers, self._claims | dict(template.get("payload", {})) | times | ids
