"""The file of a history that is being made: threads add operations, each line is whole."""

from __future__ import annotations

import contextvars
import itertools
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

from .operation import FAULT, OK, SETTINGS, Content, Operation

#: The worker that is no thread of its own.
_WORKER: contextvars.ContextVar[str] = contextvars.ContextVar("worker", default="")


def now_ns() -> int:
    return time.monotonic_ns()


class Recorder:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.count = 0
        self._file = path.open("w", encoding="utf-8", buffering=1)
        self._lock = threading.Lock()
        self._processes = itertools.count(1)
        self._values = itertools.count(1)
        #: Process -> the name of the worker or thread that began it.
        self.thread_of: dict[int, str] = {}

    def next_process(self) -> int:
        with self._lock:
            process = next(self._processes)
            self.thread_of[process] = _WORKER.get() or threading.current_thread().name
            return process

    @contextmanager
    def named(self, worker: str) -> Iterator[None]:
        """Names the worker whose code runs here, if it shares a thread with others."""
        token = _WORKER.set(worker)
        try:
            yield
        finally:
            _WORKER.reset(token)

    def next_value(self) -> str:
        """Returns a value that no operation has sent."""
        with self._lock:
            return f"v{next(self._values)}"

    def add(self, operation: Operation) -> None:
        line = operation.to_line()
        with self._lock:
            self.count += 1
            self._file.write(line)

    def fault(self, text: str, began: int) -> None:
        """Adds a fault that began at `began` and is healed."""
        self.add(Operation(0, FAULT, OK, began, now_ns(), text))

    def settings(self, value: Content = None, *, group: str = "", drained: bool = False) -> None:
        now = now_ns()
        self.add(Operation(0, SETTINGS, OK, now, now, value, group=group, drained=drained))

    def __enter__(self) -> Recorder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()
