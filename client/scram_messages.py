"""Messages of SCRAM (RFC 5802, section 7), which servers read and write with the same functions.

As Kafka's, they have no channel binding, and extensions are kept but mean nothing, except for `tokenauth`. The bytes that
are signed are those that the client sent.
"""

from __future__ import annotations

import base64
import binascii
import re
from typing import NamedTuple

_PRINTABLE = re.compile(r"[\x21-\x2b\x2d-\x7e]+")
SASL_NAME = re.compile(r"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+")
_VALUE = re.compile(r"[\x01-\x2b\x2d-\x7f]+")
_ATTRIBUTE = re.compile(r"[A-Za-z]+")
#: Clients send less than 1 KiB; a longer message of many extensions would hold the loop.
MOST_MESSAGE_BYTES = 16 * 1024
#: `int` takes longer for longer numbers; iterations have five digits.
_MOST_DIGITS = 9


class InvalidScramMessage(Exception):
    """The bytes are not the message; the words show none of them."""


class ClientFirst(NamedTuple):
    """`bare` is the message without its GS2 header."""

    bare: bytes
    gs2_header: bytes
    username: str
    authorization_id: str
    nonce: str
    #: The extensions after the nonce.
    extensions: dict[str, str]


class ServerFirst(NamedTuple):
    nonce: str
    salt: bytes
    iterations: int


class ClientFinal(NamedTuple):
    without_proof: bytes
    channel_binding: bytes
    nonce: str
    proof: bytes


def parse_client_first(token: bytes) -> ClientFirst:
    """Raises InvalidScramMessage."""
    text = _text(token)
    parts = text.split(",")
    if parts[0] != "n" or len(parts) < 4:
        raise InvalidScramMessage("a client's first message begins with n,, or n,a=")
    header = parts[1]
    authorization_id = _username(_attribute("a", header)) if header else ""
    rest = parts[2:]
    if rest[0].startswith("m="):
        _attribute("m", rest[0])
        rest = rest[1:]
    if len(rest) < 2:
        raise InvalidScramMessage("a client's first message has no nonce")
    username, nonce = _username(_attribute("n", rest[0])), _nonce(rest[1])
    start = len(f"n,{header},".encode())
    return ClientFirst(token[start:], token[:start], username, authorization_id, nonce, _extensions(rest[2:]))


def parse_client_final(token: bytes) -> ClientFinal:
    """Raises InvalidScramMessage."""
    parts = _text(token).split(",")
    if len(parts) < 3:
        raise InvalidScramMessage("a client's final message has a channel binding, a nonce and a proof")
    _extensions(parts[2:-1])
    channel_binding, proof = _base64(_attribute("c", parts[0])), _base64(_attribute("p", parts[-1]))
    without_proof = token[: len(token) - len(parts[-1].encode()) - 1]
    return ClientFinal(without_proof, channel_binding, _nonce(parts[1]), proof)


def parse_server_first(token: bytes) -> ServerFirst:
    """Raises InvalidScramMessage."""
    parts = _text(token).split(",")
    if parts[0].startswith("m="):
        parts = parts[1:]
    if len(parts) < 3:
        raise InvalidScramMessage("a server's first message has a nonce, a salt and a number of iterations")
    digits = _attribute("i", parts[2])
    if not (digits.isascii() and digits.isdigit() and len(digits) <= _MOST_DIGITS):
        raise InvalidScramMessage("the number of iterations is not a number")
    return ServerFirst(_nonce(parts[0]), _base64(_attribute("s", parts[1])), int(digits))


def server_signature_of(token: bytes) -> bytes:
    """Returns the signature in a server's final message. Raises InvalidScramMessage, also for an error (`e=`)."""
    return _base64(_attribute("v", _text(token).split(",")[0]))


def server_first(nonce: str, salt: bytes, iterations: int) -> bytes:
    return f"r={nonce},s={encoded(salt)},i={iterations}".encode()


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def sasl_name(username: str) -> str:
    return username.replace("=", "=3D").replace(",", "=2C")


def _text(token: bytes) -> str:
    if len(token) > MOST_MESSAGE_BYTES:
        raise InvalidScramMessage(f"a SCRAM message of {len(token)} bytes; the limit is {MOST_MESSAGE_BYTES}")
    try:
        return token.decode()
    except UnicodeDecodeError:
        raise InvalidScramMessage("a SCRAM message is not UTF-8") from None


def _attribute(name: str, text: str) -> str:
    if not text.startswith(f"{name}="):
        raise InvalidScramMessage(f"the attribute {name} is missing in a SCRAM message")
    return text[2:]


def _username(text: str) -> str:
    if not SASL_NAME.fullmatch(text):
        raise InvalidScramMessage("a name in a SCRAM message has invalid characters")
    return text.replace("=2C", ",").replace("=3D", "=")


def _nonce(text: str) -> str:
    nonce = _attribute("r", text)
    if not _PRINTABLE.fullmatch(nonce):
        raise InvalidScramMessage("a nonce is not printable")
    return nonce


def _extensions(parts: list[str]) -> dict[str, str]:
    found = {}
    for part in parts:
        name, _, value = part.partition("=")
        if not (_ATTRIBUTE.fullmatch(name) and _VALUE.fullmatch(value)):
            raise InvalidScramMessage("an extension of a SCRAM message is not NAME=VALUE")
        found[name] = value
    return found


def _base64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise InvalidScramMessage("an attribute of a SCRAM message is not base64") from None
