"""A decoder of lz4 blocks that follows the specification token by token: slow, but simple enough to be trusted."""

from __future__ import annotations

_LEAST_MATCH = 4


class NoBlock(ValueError):
    """The bytes are not a valid block, or decoders disagree on its content."""


def decoded(block: bytes) -> bytes:
    out = bytearray()
    at = 0
    try:
        while True:
            token = block[at]
            length, at = _length(block, at + 1, token >> 4)
            if length > len(block) - at:
                raise NoBlock("literals behind the end")
            out += block[at : at + length]
            at += length
            if at == len(block):
                return bytes(out)
            offset = block[at] | block[at + 1] << 8
            length, at = _length(block, at + 2, token & 15)
            if not 0 < offset <= len(out):
                raise NoBlock(f"a match at offset {offset}")
            for _ in range(length + _LEAST_MATCH):
                out.append(out[-offset])
    except IndexError:
        raise NoBlock("too short") from None


def _length(block: bytes, at: int, length: int) -> tuple[int, int]:
    if length < 15:
        return length, at
    while True:
        byte = block[at]
        at += 1
        length += byte
        if byte < 255:
            return length, at
