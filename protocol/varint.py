"""Unsigned varints for the lowered code, which handles the one-byte case in line."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .buffer import Buffer

ONE_BYTE = [bytes((value,)) for value in range(0x80)]


class Fault(ValueError):
    """The lowered code found invalid bytes; the interpreted codec then reports the position."""


def varint_tail(buf: Buffer, pos: int, first: int) -> tuple[int, int]:
    """Reads the rest of a varint whose first byte, over 127, is before `pos`. Returns (value, position after it)."""
    value = first & 0x7F
    for shift in (7, 14, 21, 28):
        byte = buf[pos]
        pos += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value > 0xFFFFFFFF:
                raise Fault
            return value, pos
    raise Fault


def varint(buf: Buffer, pos: int) -> tuple[int, int]:
    first = buf[pos]
    return (first, pos + 1) if first < 0x80 else varint_tail(buf, pos + 1, first)


def long_count(buf: Buffer, pos: int, first: int, limit: int | None) -> tuple[int, int]:
    """Reads a count whose varint begins with `first`, over 127, at `pos`. Returns (count, position of the varint's
    last byte).
    """
    second = buf[pos + 1]
    if second < 0x80:
        count, end = first & 0x7F | second << 7, pos + 2
    elif (third := buf[pos + 2]) < 0x80:
        count, end = first & 0x7F | (second & 0x7F) << 7 | third << 14, pos + 3
    else:
        count, end = varint_tail(buf, pos + 1, first)
    if limit is not None and count > limit:
        raise Fault
    return count, end - 1


def check_text(data: Buffer, limit: int) -> None:
    """Checks the size of a text after invalid UTF-8 is replaced, which may enlarge it: a decoded text must be encodable."""
    if len(str(data, "utf-8", "replace").encode()) > limit:
        raise Fault


def encode_varint(value: int) -> bytes:
    """Encodes an unsigned 32-bit `value`."""
    if value < 0x80:
        return ONE_BYTE[value]
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def encode_count(count: int, limit: int | None) -> bytes:
    """Encodes a count over 127, for the lowered code."""
    if limit is not None and count > limit:
        raise ValueError(f"{count - 1} bytes are more than the wire's {limit - 1}")
    return encode_varint(count)


def write_tags(write: Callable[[bytes], None], sent: dict[int, bytes], unknown: dict[int, bytes] | None) -> None:
    """Writes the tagged section of a structure (KIP-482). `sent` are the known tags that differ from their defaults."""
    every = {**unknown, **sent} if unknown else sent
    write(encode_varint(len(every)))
    for tag in sorted(every):
        data = every[tag]
        write(encode_varint(tag) + encode_varint(len(data)) + data)
