"""A part that few nodes need: made at its first use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic

from .subsystem import T


class Lazy(Generic[T]):
    """A part that is made by its first call. `made` is None until then."""

    __slots__ = ("_make", "made")

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self.made: T | None = None

    def __call__(self) -> T:
        if self.made is None:
            self.made = self._make()
        return self.made
