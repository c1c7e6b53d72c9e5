"""Signed varints, zigzag: the lengths and deltas inside record batches. Negative numbers of 64 bits take ten bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .varint import ONE_BYTE, Fault

if TYPE_CHECKING:
    from .buffer import Buffer


def raw_varint(buf: Buffer, pos: int) -> tuple[int, int]:
    """Reads a varint of at most 64 bits at `pos`, without zigzag decoding. Returns (number, position after it)."""
    number = shift = 0
    while shift < 70:
        byte = buf[pos]
        pos += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            if number > 0xFFFFFFFFFFFFFFFF:
                raise Fault
            return number, pos
        shift += 7
    raise Fault


def zigzag_varint(buf: Buffer, pos: int) -> tuple[int, int]:
    """Reads a signed varint of at most 64 bits at `pos`. Returns (value, position after it)."""
    number, pos = raw_varint(buf, pos)
    return number >> 1 ^ -(number & 1), pos


def encode_zigzag(value: int) -> bytes:
    value = value << 1 ^ value >> 63
    if value < 0x80:
        return ONE_BYTE[value]
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
