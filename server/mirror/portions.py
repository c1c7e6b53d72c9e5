"""Portions of many items, in turn: those that are refused again and again do not keep others from theirs."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

T = TypeVar("T")


class Portions(Generic[T]):
    """`most`: items in a portion. `key`: their order, and their identity from one portion to the next."""

    def __init__(self, most: int, key: Callable[[T], str]) -> None:
        self._most = most
        self._key = key
        #: The key of the last item that had its turn.
        self._last = ""

    def portion(self, items: Iterable[T]) -> list[T]:
        """The items whose turn it is: those behind the last one, and the first ones after the end."""
        ordered = sorted(items, key=self._key)
        if len(ordered) > self._most:
            first = bisect_right(ordered, self._last, key=self._key)
            ordered = [*ordered[first:], *ordered[:first]][: self._most]
            self._last = self._key(ordered[-1])
        return ordered
