"""Functions replaced for the code of one thread, and constants."""

from __future__ import annotations

import threading
from collections.abc import Callable


class Replacements:
    """Replaces functions for the code of the thread that makes this object: other threads, which may have brokers of their
    own, keep the real ones.
    """

    def __init__(self) -> None:
        self._thread = threading.get_ident()
        self._undo: list[tuple[object, str, object]] = []

    def replace(self, place: object, name: str, function: Callable[..., object]) -> None:
        real, mine = getattr(place, name), self._thread

        def chosen(*arguments: object, **named: object) -> object:
            return (function if threading.get_ident() == mine else real)(*arguments, **named)

        self._set(place, name, chosen)

    def replace_class(self, place: object, name: str, make: Callable[..., object]) -> None:
        """The same for a class, which other threads also compare and derive from."""
        real, mine = getattr(place, name), self._thread

        class Chosen(type(real)):  # type: ignore[misc]
            def __call__(cls, *arguments: object, **named: object) -> object:
                return (make if threading.get_ident() == mine else real)(*arguments, **named)

            def __instancecheck__(cls, instance: object) -> bool:
                return isinstance(instance, real)

        self._set(place, name, Chosen(name, (real,), {}))

    def set_value(self, place: object, name: str, value: object) -> None:
        """Replaces a constant, for all threads."""
        self._set(place, name, value)

    def _set(self, place: object, name: str, value: object) -> None:
        self._undo.append((place, name, getattr(place, name)))
        setattr(place, name, value)

    def undo(self) -> None:
        while self._undo:
            setattr(*self._undo.pop())
