"""Format strings of `consume -f`.

`-f` takes a format string as kcat's: %s value, %S its length in bytes (-1 for null), %R its length as four bytes in network
order, %k key, %K its length, %T timestamp in ms, %h headers (name=value, separated by commas), %t topic, %p partition,
%o offset, %% a percent sign. \\n, \\r, \\t, \\\\, \\0 and \\xHH are characters.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable

from ..client.user_errors import Misused
from .consumed import ConsumedRecord

_TOKEN = re.compile(rb"%(.)|%$|\\x([0-9a-fA-F]{2})|\\(.)|([^%\\]+)|(\\$)", re.DOTALL)
_ESCAPES = {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"\\": b"\\", b"0": b"\0"}
Piece = Callable[["ConsumedRecord", bytes, bytes], bytes]


def _length(data: bytes | None) -> int:
    return -1 if data is None else len(data)


def _headers_text(message: ConsumedRecord) -> bytes:
    return b",".join(
        name.encode() + b"=" + (b"NULL" if content is None else content) for name, content in message.headers() or ()
    )


_FIELDS: dict[bytes, Piece] = {
    b"s": lambda message, key, value: value,
    b"S": lambda message, key, value: b"%d" % _length(message.value()),
    b"R": lambda message, key, value: struct.pack(">i", _length(message.value())),
    b"k": lambda message, key, value: key,
    b"K": lambda message, key, value: b"%d" % _length(message.key()),
    b"T": lambda message, key, value: b"%d" % message.timestamp()[1],
    b"h": lambda message, key, value: _headers_text(message),
    b"t": lambda message, key, value: message.topic().encode(),
    b"p": lambda message, key, value: b"%d" % message.partition(),
    b"o": lambda message, key, value: b"%d" % message.offset(),
}


def compile_format(text: str) -> Piece:
    """A function of a message and its key and value as bytes. Raises Misused for an unknown field."""
    pieces: list[bytes | Piece] = []
    for field, hexadecimal, escaped, plain, lone in _TOKEN.findall(text.encode()):
        if plain or lone:
            pieces.append(plain or lone)
        elif hexadecimal:
            pieces.append(bytes.fromhex(hexadecimal.decode()))
        elif escaped:
            pieces.append(_ESCAPES.get(escaped, escaped))
        elif field == b"%":
            pieces.append(b"%")
        elif field in _FIELDS:
            pieces.append(_FIELDS[field])
        else:
            raise Misused(
                f"-f has no field %{field.decode(errors='replace')}: %s %S %R %k %K %T %h %t %p %o and %% are known"
            )

    def formatted(message: ConsumedRecord, key: bytes, value: bytes) -> bytes:
        return b"".join([piece if isinstance(piece, bytes) else piece(message, key, value) for piece in pieces])

    return formatted
