"""Threads that read from the disk, whose work the test does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from odradek.server.runtime.thread_pools import ThreadPool


class HeldReads(ThreadPool):
    """`reads`: each work that was begun, and what takes its result."""

    def __init__(self) -> None:
        super().__init__("held", 1)
        self.reads: list[tuple[Callable[[], Any], Callable[[Any], object]]] = []

    def run_then(self, function: Callable[[], Any], done: Callable[[Any], object]) -> None:
        self.reads.append((function, done))
