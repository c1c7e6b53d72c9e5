"""Chance as an argument: what decisions need of `random.Random`, so that a seed repeats them."""

from __future__ import annotations

from typing import Any, Protocol


class Chance(Protocol):
    """`random.Random` has all of it."""

    def randrange(self, stop: int, /) -> int: ...

    def randbytes(self, count: int, /) -> bytes: ...

    def shuffle(self, items: list[Any], /) -> None: ...


#: In base64 the first character is made of the six highest bits; 62 is "-", which tools would take for an option.
_DASH = 62


def random_uuid(chance: Chance) -> bytes:
    """A random UUID (version 4) that does not begin with a dash when shown, as Kafka's are."""
    while True:
        raw = bytearray(chance.randbytes(16))
        raw[6] = raw[6] & 0x0F | 0x40
        raw[8] = raw[8] & 0x3F | 0x80
        if raw[0] >> 2 != _DASH:
            return bytes(raw)
