"""Randomness as an argument: the part of `random.Random` that decisions use, so that a seed reproduces them."""

from __future__ import annotations

from typing import Protocol, TypeVar

T = TypeVar("T")
#: The six highest bits make the first base64 character. 62 is "-", which tools would take for an option.
_DASH = 62


class RandomSource(Protocol):
    """The subset of `random.Random` that decisions and elections use."""

    def randrange(self, stop: int, /) -> int: ...

    def randbytes(self, count: int, /) -> bytes: ...

    def shuffle(self, items: list[T], /) -> None: ...


def random_uuid(rng: RandomSource) -> bytes:
    """Returns a random UUID (version 4) whose text form does not start with a dash, as Kafka's."""
    while True:
        raw = bytearray(rng.randbytes(16))
        raw[6] = raw[6] & 0x0F | 0x40
        raw[8] = raw[8] & 0x3F | 0x80
        if raw[0] >> 2 != _DASH:
            return bytes(raw)
