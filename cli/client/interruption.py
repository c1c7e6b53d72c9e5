"""SIGINT and SIGTERM of a command that ends its work in order: it finishes what it has begun, and tells where it stopped.

A signal ends a wait for input at once. Other work looks at `count` between its steps.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from types import FrameType
from typing import TypeVar, Union

from ...client.user_errors import UserError
from ..stop_signals import STOP_SIGNALS

T = TypeVar("T")
_Handler = Union[Callable[[int, FrameType | None], object], int, None]
#: A shell adds the number of a signal to it.
_STATUS_OF_SIGNALS = 128


class Interrupted(KeyboardInterrupt):
    """A signal came. It passes where code handles every Exception, as that of Ctrl-C does."""


class Interruption:
    """As a context manager it handles the signals inside, those that the process does not ignore."""

    def __init__(self) -> None:
        self.number: int | None = None
        self.count = 0
        self._waits = False
        self._before: dict[int, _Handler] = {}

    def __enter__(self) -> Interruption:
        if threading.current_thread() is threading.main_thread():
            for number in STOP_SIGNALS:
                if signal.getsignal(number) is not signal.SIG_IGN:
                    self._before[number] = signal.signal(number, self._got)
        return self

    def __exit__(self, *raised: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _got(self, number: int, frame: FrameType | None) -> None:
        self.count += 1
        self.number = self.number or number
        if self._waits:
            raise Interrupted

    @property
    def words(self) -> str:
        return "terminated" if self.number == signal.SIGTERM else "interrupted"

    @property
    def status(self) -> int:
        return _STATUS_OF_SIGNALS + (self.number or signal.SIGINT)

    def check(self) -> None:
        """Raises Interrupted after a signal."""
        if self.number is not None:
            raise Interrupted

    def waited(self, items: Iterable[T]) -> Iterator[T]:
        """The items. A signal ends the wait for one. An item that comes at that moment may be lost."""
        source = iter(items)
        while True:
            self._waits = True
            try:
                self.check()
                item = next(source)
            except StopIteration:
                return
            finally:
                self._waits = False
            yield item


class InterruptedCommand(UserError):
    """A signal ended the command in order. `status`: the exit status, as a shell's."""

    def __init__(self, interruption: Interruption, words: str = "") -> None:
        super().__init__(words or interruption.words)
        self.status = interruption.status
