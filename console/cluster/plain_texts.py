"""Texts that masks of fields leave as they are, told from others by a short look: most keys and values of fields are some.

A text of which this is not certain takes the whole look (`Masks` in masks.py). The words here are those of ASCII, without a
name of a masked field. Such a text hides a document only in an encoding (`wrapped_texts.py`), and these are the cases:

- Up to seven characters are none.
- A word of up to 15 characters of base64, one of them no digit of hex, is decoded as base64. Then the bytes decide.
- A word of pairs of hex digits, such as a UUID, is decoded as hex. Then the bytes decide.
- A text with a character that is neither of base64 nor between digits of hex, such as a full stop, is looked at in parts:
  runs of 16 characters of base64, and of 8 pairs of hex digits. It has no such run.
"""

from __future__ import annotations

import re
from binascii import a2b_base64
from collections.abc import Sequence

from .wrapped_texts import COMPRESSED_BEGINS, has_fields

#: A longer text may read as the fields of a record of Avro or Protobuf: a length is a printable character, 32 or more.
_LEAST_FIELDS = 17
_MOST = 400
_LEAST_ENCODED = 8
_SHORT = re.compile(rb"[A-Za-z0-9][\w .,;:!?'()@~#*/+-]*").fullmatch
_BASE64 = re.compile(rb"[A-Za-z0-9][A-Za-z0-9+/_-]{7,14}").fullmatch
#: Characters of base64 that also stand in hex, or between its digits.
_OF_HEX = b"0123456789ABCDEFabcdef-+/"
_HEX = re.compile(rb"(?:[0-9A-Fa-f]{2}-?){4,32}").fullmatch
_PROSE = re.compile(
    rb"(?=.*(?:[.,;!?'()@~#*]|:.*[G-Zg-z_]|[G-Zg-z_].*:))(?!.*(?:[A-Za-z0-9+/_-]{16}|(?:[0-9A-Fa-f]{2}[ :-]?){8}))"
    rb"[A-Za-z0-9][\w .,;:!?'()@~#*+/-]*"
).fullmatch
_URL_SAFE = bytes.maketrans(b"-_", b"+/")
#: By the length of a text modulo 4, of which one character over is left out.
_PADDING = (b"", b"", b"==", b"=")
#: Bytes that are no text, or none that a page draws: control characters, and what is not UTF-8.
_NO_TEXT = re.compile(
    rb"[\0-\x08\x0b\x0c\x0e-\x1f\x7f\xf8-\xff]|[\xc0-\xff](?![\x80-\xbf])|(?<![\x80-\xff])[\x80-\xbf]"
).search
#: Words within bytes that may be a document.
_LEAST_READABLE = 8
_READABLE = re.compile(rb"[ -~]{8}").search
#: The letter of Latin-1 that is two letters of ASCII without its case.
_SHARP_S = b"\xdf"


class PlainTexts:
    """`names`: the parts of masks of fields, in lower case."""

    def __init__(self, names: Sequence[str]) -> None:
        mentions = "|".join(r"\S*".join(map(re.escape, one.strip("*").split("*"))) for one in names)
        #: Names of other letters are looked for in more spellings than those of ASCII.
        self._knows_names = mentions.isascii() and bool(names)
        pattern = mentions.encode() if self._knows_names else b""
        self._mention = re.compile(pattern, re.IGNORECASE).search

    def has(self, text: bytes) -> bool:
        """Whether masks leave the text as it is; False where that is not certain."""
        length = len(text)
        if length > _MOST or self._mention(text) is not None:
            return False
        if length < _LEAST_ENCODED:
            return _SHORT(text) is not None
        if _BASE64(text) is not None and text.translate(None, _OF_HEX):
            cut = text.translate(_URL_SAFE)
            return self._is_noise(a2b_base64((cut[:-1] if length % 4 == 1 else cut) + _PADDING[length % 4]))
        if length >= _LEAST_FIELDS and has_fields(text):
            return False
        if _HEX(text) is not None:
            return self._is_noise(bytes.fromhex(text.replace(b"-", b"").decode()))
        return _PROSE(text) is not None

    def _is_noise(self, data: bytes) -> bool:
        """Whether decoded bytes are neither a text nor a document."""
        return (
            _NO_TEXT(data) is not None
            and data[:2] not in COMPRESSED_BEGINS
            and (len(data) < _LEAST_READABLE or _READABLE(data) is None)
            and self._mention(data.replace(_SHARP_S, b"ss") if _SHARP_S in data else data) is None
        )
