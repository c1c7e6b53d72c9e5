"""A set that may grow to a million values without a long pause: to resize one set of that size takes 30 ms."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Set
from itertools import chain
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from .sliced_work import Steps

#: The most parts; a set of few values has few.
_PARTS = 61
T = TypeVar("T", bound=Hashable)


class PartedSet(Set[T]):
    __slots__ = ("_parts",)

    def __init__(self) -> None:
        self._parts: dict[int, set[T]] = {}

    def add(self, value: T) -> bool:
        """Adds the value. Returns whether it is new."""
        place = hash(value) % _PARTS
        part = self._parts.get(place)
        if part is None:
            part = self._parts[place] = set()
        size = len(part)
        part.add(value)
        return len(part) > size

    def __contains__(self, value: object) -> bool:
        return value in self._parts.get(hash(value) % _PARTS, ())

    def __iter__(self) -> Iterator[T]:
        return chain.from_iterable(self._parts.values())

    def __len__(self) -> int:
        return sum(map(len, self._parts.values()))

    def __bool__(self) -> bool:
        return bool(self._parts)

    def clear(self) -> Steps[None]:
        while self._parts:
            self._parts.popitem()
            yield


def equals_in_steps(values: Set[T], other: Set[T]) -> Steps[bool]:
    """Computes `values == other`. Of two sets in parts, a step compares one part."""
    if not isinstance(values, PartedSet) or not isinstance(other, PartedSet):
        return values == other
    if values._parts.keys() != other._parts.keys():
        return False
    for place, part in values._parts.items():
        if part != other._parts[place]:
            return False
        yield
    return True
