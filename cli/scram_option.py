"""`--add-scram MECHANISM=[name=…,password=…]`, as `kafka-storage.sh format` takes it (KIP-900).

The brackets hold `name`, `password` or `saltedpassword` with `salt`, and, if wished, `salt` and `iterations`; salts and
salted passwords are base64. A value may stand in double quotes. No error shows a value: it may be a part of a password.
"""

from __future__ import annotations

import base64
import binascii
import secrets

from ..client.message_text import shown
from ..metadata.credentials import (
    BY_NAME,
    MAX_ITERATIONS,
    MIN_ITERATIONS,
    SALT_BITS,
    credential_of,
    salt_text,
    salted_password,
)
from ..protocol.internal.cluster_metadata import UserScramCredentialRecord
from .command_parser import UsageError

_KEYS = ("name", "salt", "iterations", "password", "saltedpassword")


def scram_user(text: str) -> UserScramCredentialRecord:
    """Returns the record of one user. Raises UsageError."""
    name, equals, bracketed = text.strip().partition("=")
    if not equals:
        raise UsageError("--add-scram has no equals sign: give MECHANISM=[name=…,password=…]")
    mechanism = BY_NAME.get(name)
    if mechanism is None:
        raise UsageError(f"--add-scram: {shown(name)} is not one of {', '.join(BY_NAME)}")
    if not (bracketed.startswith("[") and bracketed.endswith("]")):
        raise UsageError(f"--add-scram: enclose the text after {name}= in [ and ]")
    parts = _parts(bracketed[1:-1])
    iterations = _iterations(parts.get("iterations", str(MIN_ITERATIONS)))
    salt = _decoded("salt", parts["salt"]) if "salt" in parts else salt_text(secrets.randbits(SALT_BITS))
    if "password" in parts:
        salted = salted_password(mechanism, parts["password"], salt, iterations)
    else:
        salted = _decoded("saltedpassword", parts["saltedpassword"])
    credential = credential_of(mechanism, salted, salt, iterations)
    return UserScramCredentialRecord(name=parts["name"], mechanism=mechanism.code, **credential._asdict())


def _parts(text: str) -> dict[str, str]:
    parts: dict[str, str] = {}
    for part in text.split(","):
        key, equals, value = part.partition("=")
        if not equals or key not in _KEYS:
            raise UsageError(f"--add-scram: each part is one of {', '.join(_KEYS)}, an equals sign and a value")
        parts[key] = value[1:-1] if len(value) > 1 and value[0] == value[-1] == '"' else value
    if not parts.get("name"):
        raise UsageError("--add-scram: the user's name is missing")
    if "password" not in parts:
        if "saltedpassword" not in parts:
            raise UsageError("--add-scram: give password or saltedpassword")
        if "salt" not in parts:
            raise UsageError("--add-scram: saltedpassword needs salt, too")
    return parts


def _iterations(text: str) -> int:
    number = int(text) if text.isascii() and text.isdigit() and len(text) <= len(str(MAX_ITERATIONS)) else 0
    if not MIN_ITERATIONS <= number <= MAX_ITERATIONS:
        raise UsageError(f"--add-scram: iterations must be a number from {MIN_ITERATIONS} to {MAX_ITERATIONS}")
    return number


def _decoded(key: str, text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise UsageError(f"--add-scram: {key} is not base64") from None
