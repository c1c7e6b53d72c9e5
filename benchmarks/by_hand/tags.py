"""Tagged fields: rare, so that even fast code by hand leaves them to helpers."""

from __future__ import annotations

from typing import Any

from odradek.protocol.schema import Message
from odradek.protocol.varint import Fault, varint, varint_tail


def tagged(buf: Any, pos: int, count: int) -> tuple[dict[int, bytes], int]:
    """Returns the tagged fields of a structure, and the position after them."""
    if count > 127:
        count, pos = varint_tail(buf, pos, count)
    if count > 10_000:
        raise Fault
    found = {}
    for _ in range(count):
        tag, pos = varint(buf, pos)
        size, pos = varint(buf, pos)
        if size > len(buf) - pos:
            raise Fault
        found[tag] = bytes(buf[pos : pos + size])
        pos += size
    return found, pos


def keep_tags(made: Message, buf: Any, pos: int, count: int) -> int:
    made.unknown_tags, pos = tagged(buf, pos, count)
    return pos
