"""Texts within texts: what a text has in base64, hex or escapes of addresses, also in a part of it, such as the claims of a
token or an address of data. Masks look into them, since viewers of the page could decode them.

Bytes that are compressed, and those with readable words among others, may be a document of any format: Avro and Protobuf
write no names. Such bytes are opaque.
"""

from __future__ import annotations

import base64
import binascii
import re
import zlib
from collections.abc import Iterator
from typing import NamedTuple
from urllib.parse import unquote

from ..texts import drawn_text

_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{8,}={0,2}")
_HEX = re.compile(r"([0-9A-Fa-f]{2}[ :-]?){4,}")
#: Parts of a longer text: a document with one field takes as many characters.
_BASE64_PART = re.compile(r"[A-Za-z0-9+/_-]{16,}")
_HEX_PART = re.compile(r"(?:[0-9A-Fa-f]{2}[ :-]?){8,}")
_HEX_ALONE = re.compile(r"(?:[0-9A-Fa-f]{2})+")
_BETWEEN = re.compile(r"[+/_-]")
_LINE_BREAK = re.compile(r"\s*\n\s*")
_ESCAPE = re.compile(r"%[0-9A-Fa-f]{2}")
_URL_SAFE = str.maketrans("-_", "+/")
_LEAST_PART = 16
#: Zstandard, xz, bzip2, LZ4 and Snappy with frames. zlib and gzip are recognised by zlib.
_COMPRESSED = (b"\x28\xb5\x2f\xfd", b"\xfd7zXZ\0", b"BZh", b"\x04\x22\x4d\x18", b"\xff\x06\0\0sNaPpY")
#: The first two bytes of what is compressed: for zlib a method, a window and a checksum of both (RFC 1950).
COMPRESSED_BEGINS = frozenset(
    [
        *(magic[:2] for magic in _COMPRESSED),
        b"\x1f\x8b",
        *(number.to_bytes(2, "big") for number in range(0, 0x8000, 31) if number >> 8 & 15 == 8),
    ]
)
_ZLIB_OR_GZIP, _MOST_PEEKED = zlib.MAX_WBITS | 32, 64
#: Hashes and identifiers have as many readable characters in a row in one of 150.
_WORDS = re.compile(rb"[ -~]{8,}")
_LEAST_TEXT = 4
#: Lengths before texts, and fields before them: few words have them from this length on.
_LEAST_FIELD, _MOST_FIELDS_BEFORE = 16, 3


class Wrapped(NamedTuple):
    """A text within a text, or bytes that are none as Latin-1. `is_opaque`: these may be a document."""

    text: str
    is_text: bool = True
    is_opaque: bool = False


def unwrapped(text: str) -> Iterator[Wrapped]:
    """Yields the texts within a text, one layer down."""
    if _ESCAPE.search(text) and (plain := unquote(text)) != text:
        yield Wrapped(plain)
    for data in _decoded(text):
        inner = drawn_text(data)
        if is_compressed(data):
            yield Wrapped("", is_text=False, is_opaque=True)
        elif inner is None:
            yield Wrapped(data.decode("latin-1"), is_text=False, is_opaque=_WORDS.search(data) is not None)
        elif len(inner) >= _LEAST_TEXT:
            yield Wrapped(inner)


def _decoded(text: str) -> Iterator[bytes]:
    joined = "".join(text.split())
    if _HEX.fullmatch(text):
        yield _bytes_of_hex(text)
        return
    lines = _LINE_BREAK.sub("", text)
    for found in _HEX_PART.finditer(lines):
        yield _bytes_of_hex(found[0])
    if _BASE64.fullmatch(joined):
        yield from _bytes_of_base64(joined)
    else:
        for found in _BASE64_PART.finditer(lines):
            yield from _bytes_of_base64(found[0])


def _bytes_of_hex(text: str) -> bytes:
    return bytes.fromhex(re.sub(r"[ :-]", "", text))


def _bytes_of_base64(text: str) -> Iterator[bytes]:
    """The bytes of a run of characters, and of its parts: some characters of base64 also separate words."""
    if _HEX_ALONE.fullmatch(text):
        yield bytes.fromhex(text)
        return
    parts = [one for one in _BETWEEN.split(text) if len(one) >= _LEAST_PART]
    for one in (text, *(parts if parts != [text] else ())):
        plain = one.rstrip("=").translate(_URL_SAFE)
        plain = plain[:-1] if len(plain) % 4 == 1 else plain
        try:
            yield base64.b64decode(plain + "=" * (-len(plain) % 4))
        except binascii.Error:
            continue


def is_compressed(data: bytes) -> bool:
    if data[:2] not in COMPRESSED_BEGINS:
        return False
    if data.startswith(_COMPRESSED):
        return True
    try:
        return bool(zlib.decompressobj(_ZLIB_OR_GZIP).decompress(data, _MOST_PEEKED))
    except zlib.error:
        return False


def has_fields(data: bytes) -> bool:
    """Whether bytes that read as a word have the lengths of texts before them, as Avro and Protobuf write records."""
    return any(
        _is_avro(data, start) or _is_protobuf(data, start) for start in range(min(_MOST_FIELDS_BEFORE, len(data)))
    )


def _is_avro(data: bytes, start: int) -> bool:
    """Texts, each behind twice its length."""
    position = start
    while position < len(data) and data[position] % 2 == 0:
        length = data[position] // 2
        if length < _LEAST_FIELD and start:
            return False
        position += 1 + length
    return position == len(data)


def _is_protobuf(data: bytes, start: int) -> bool:
    """Texts, each behind the number of its field and its length."""
    position = start
    while position + 1 < len(data) and data[position] & 7 == 2 and data[position + 1] >= _LEAST_FIELD:
        position += 2 + data[position + 1]
    return position == len(data)
