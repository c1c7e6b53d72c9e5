"""Every field of a request at its edges, from the message tables.

`places` yields the fields of a request in one version, each as a path from the message; `edges` returns the edge values of
a field: empty, longest, negative, smallest, largest, absent, repeated.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any, NamedTuple

from construct import Construct, FormatField
from odradek.protocol import primitives as p

from tests.hostile.fields_encoding import Count, Text

LONGEST = p.MAX_STRING_BYTES
#: Enough to show work that grows with the square of the request's size, few enough for a test.
REPEATED = 300
#: Counts of array elements; the frame is shorter than the largest ones claim.
CLAIMED = (-2, -(1 << 31), p.MAX_ARRAY_ELEMENTS, p.MAX_ARRAY_ELEMENTS + 1, (1 << 31) - 1)
_BYTES = (b"", b"\0", b"\xff" * 64, bytes(100_000))

Path = tuple[str | int, ...]


class Edge(NamedTuple):
    name: str
    value: Any


class Place(NamedTuple):
    path: Path
    codec: Construct


def places(structure: p.Structure, path: Path = ()) -> Iterator[Place]:
    """Yields the fields of a structure; the first element of an array represents all."""
    for member in [*structure.members, *structure.tagged.values()]:
        at = (*path, member.name)
        yield Place(at, member.codec)
        inner = member.codec
        if isinstance(inner, p.Sequence):
            inner, at = inner.element, (*at, 0)
            if not isinstance(inner, p.Structure):
                yield Place(at, inner)
        if isinstance(inner, p.Nullable):
            inner = inner.element
        if isinstance(inner, p.Structure):
            yield from places(inner, at)


def edges(codec: Construct, value: Any) -> list[Edge]:
    """Returns the edges of a field. `value`: the field's value in the base request."""
    if isinstance(codec, FormatField):
        return _numbers(codec)
    if isinstance(codec, p.Sequence):
        return _arrays(value)
    if isinstance(codec, p.Text):
        return _texts()
    if isinstance(codec, p.Blob):
        return [Edge(f"{len(data)} bytes", data) for data in _BYTES] + _lying()
    if isinstance(codec, p.Nullable):
        return [Edge("null", None)]
    if isinstance(codec, p.Structure):
        return [Edge("unknown tags", {70_000: bytes(1000), 99: b""})] if codec.flexible else []
    return [
        Edge(name, data)
        for name, data in (
            ("no id", bytes(16)),
            ("id of one", bytes(15) + b"\1"),
            ("largest id", b"\xff" * 16),
            ("unknown id", b"\x7f" * 16),
        )
    ]


def _numbers(codec: FormatField) -> list[Edge]:
    code = codec.fmtstr[1:]
    if code == "?":
        return [Edge("true", True), Edge("false", False)]
    if code == "d":
        return [Edge(str(number), number) for number in (0.0, -1.0, 1e308, float("inf"), float("nan"))]
    bits = 8 * codec.sizeof()
    if code.isupper():
        return [Edge(str(number), number) for number in (0, 1, (1 << bits) - 1)]
    most = (1 << bits - 1) - 1
    return [Edge(str(number), number) for number in (0, 1, -1, -2, most, most - 1, -most - 1)]


def _texts() -> list[Edge]:
    return [
        Edge("empty", ""),
        Edge("longest", "y" * LONGEST),
        Edge("longest in characters of three bytes", "日" * (LONGEST // 3)),
        Edge("longest that is no UTF-8", Text(b"\xff" * LONGEST)),
        Edge("no UTF-8 that just fits", Text(b"\xff" * (LONGEST // 3))),
        Edge("longer than a string", Text(b"y" * (LONGEST + 1))),
        Edge("a zero byte", "a\0b"),
        Edge("a way out", "../../x"),
        Edge("a bracket", "["),
        Edge("a name of 249", "n" * 249),
        *_lying(),
    ]


def _lying() -> list[Edge]:
    return [Edge("null", Count(-1)), Edge("count of -2", Count(-2)), Edge("count of 32767", Count(LONGEST))]


def _arrays(value: Any) -> list[Edge]:
    found = [Edge("empty", []), Edge("null", Count(-1))]
    found += [Edge(f"count of {count}", Count(count)) for count in CLAIMED]
    if value:
        found += [Edge("twice", [value[0], value[0]]), Edge(f"{REPEATED} times", [value[0]] * REPEATED)]
    return found


def value_at(message: Any, path: Path) -> Any:
    for step in path:
        if not message or isinstance(message, Count | Text):
            return None  # an earlier change has removed the field
        message = message[step] if isinstance(step, int) else getattr(message, step)
    return message


def changed(message: Any, path: Path, value: Any) -> Any:
    """Returns a copy with another value at that place, or an unchanged copy if an earlier change has removed the place."""
    made = copy.deepcopy(message)
    holder = value_at(made, path[:-1])
    if not holder or isinstance(holder, Count | Text):
        return made
    last = path[-1]
    if isinstance(last, int):
        holder[last] = value
    else:
        setattr(holder, last, value)
    return made
