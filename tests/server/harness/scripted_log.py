"""A real log whose operations the test interrupts, as a disk does that fails or is slow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from odradek.storage.log.log import Log


class ScriptedLog(Log):
    """Before an operation that `before` names, calls its function with the operation's arguments; it may raise."""

    __slots__ = ("before",)

    def __init__(self, *parts: Any) -> None:
        super().__init__(*parts)
        self.before: dict[str, Callable[..., object]] = {}

    def read(self, *arguments: Any, **options: Any) -> Any:
        self._begin("read", *arguments)
        return super().read(*arguments, **options)

    def append(self, *arguments: Any) -> None:
        self._begin("append", *arguments)
        super().append(*arguments)

    def prepare_flush(self, *arguments: Any) -> Any:
        self._begin("prepare_flush", *arguments)
        return super().prepare_flush(*arguments)

    def fail(self, name: str, failure: Exception) -> None:
        """Has each such operation fail."""

        def fail(*_: Any) -> None:
            raise failure

        self.before[name] = fail

    def _begin(self, name: str, *arguments: Any) -> None:
        if name in self.before:
            self.before[name](*arguments)
