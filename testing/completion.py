"""The outcome of a method: a plain program blocks for it, coroutines await it."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Coroutine, Generator
from typing import Any, Generic, TypeVar, cast

T = TypeVar("T")
_PENDING = object()


class Completion(Coroutine[object, None, T], Generic[T]):
    """The outcome of one call of `name`.

    Called synchronously, the work is done when the caller gets this: `result` is the value, and awaiting it gives the same
    at once. Called in the event loop that does the work, nothing has begun: awaiting it does the work, once. A
    `Completion` that is never awaited warns, like a coroutine.
    """

    __slots__ = ("_iterator", "_name", "_value", "_work")

    def __init__(
        self, name: str, *, value: T | object = _PENDING, work: Callable[[], Coroutine[object, None, T]] | None = None
    ):
        self._name = name
        self._value = value
        self._work = work
        self._iterator: Generator[object, None, T] | None = None

    @property
    def is_done(self) -> bool:
        return self._value is not _PENDING

    @property
    def result(self) -> T:
        """The value. Raises RuntimeError before the work is done."""
        if self._value is _PENDING:
            raise RuntimeError(
                f"{self._name} has no result yet: inside an event loop write `await broker.{self._name}`"
            )
        return cast("T", self._value)

    def __await__(self) -> Generator[object, None, T]:
        if self._value is _PENDING:
            work, self._work = self._work, None
            if work is None:
                raise RuntimeError(f"{self._name} was awaited already")
            self._value = yield from work().__await__()
        return self.result

    # asyncio takes an object with these for a coroutine: create_task() and asyncio.run() accept it.

    def send(self, value: None) -> object:
        if self._iterator is None:
            self._iterator = self.__await__()
        return self._iterator.send(value)

    def throw(self, *exception: Any) -> object:
        if self._iterator is None:
            self._iterator = self.__await__()
            self._work = None  # cancelled before its first step: it was not forgotten
        return self._iterator.throw(*exception)

    def close(self) -> None:
        self._work = None
        if self._iterator is not None:
            self._iterator.close()

    def __del__(self) -> None:
        if self._work is not None:
            message = f"odradek.Broker.{self._name} was never awaited, so it did nothing"
            warnings.warn(f"{message}: write `await broker.{self._name}`", RuntimeWarning, stacklevel=2, source=self)

    def __repr__(self) -> str:
        return f"<{self._name}: {'done' if self.is_done else 'to be awaited'}>"
