"""A broker that kills itself at one of its appends: `python dying.py PLAN -m odradek start ...`.

Every step of a transaction is an append to some log: the joined partitions, the records, the offsets, the decision, each
marker, the completion; and the same again at each follower. The count begins when the file PLAN appears. The file has
`KIND NUMBER [TOPIC ...]`. The process kills itself with -9 at the append NUMBER to logs of the topics, or of any topic if
none is named. KIND is `before` the append, `torn` (after half of its bytes), or `after` it, before any response.
"""

from __future__ import annotations

import os
import runpy
import signal
import sys
from pathlib import Path
from typing import Any, NamedTuple

from odradek.storage.files import open_files as files
from odradek.storage.log.log import Log

KINDS = ("before", "torn", "after")


class Plan(NamedTuple):
    kind: str
    number: int
    #: The topics whose logs count; empty for all.
    topics: tuple[str, ...] = ()

    def write(self, file: Path) -> None:
        """Writes the plan to the file in one atomic step."""
        beside = file.with_suffix(".new")
        beside.write_text(" ".join((self.kind, str(self.number), *self.topics)))
        beside.replace(file)

    @classmethod
    def read(cls, file: Path) -> Plan | None:
        try:
            kind, number, *topics = file.read_text().split()
        except FileNotFoundError:
            return None
        assert kind in KINDS
        return cls(kind, int(number), tuple(topics))


def die(*_: Any, **__: Any) -> Any:
    os.kill(os.getpid(), signal.SIGKILL)


def tear(fd: int, buffer: Any, position: int) -> Any:
    _PWRITE(fd, memoryview(buffer).cast("B")[: len(buffer) // 2], position)
    die()


_PWRITE = os.pwrite
_APPEND = Log.append


class Countdown:
    """Counts appends; a new plan restarts the count."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._plan: Plan | None = None
        self._counted = 0

    def due(self, topic: str) -> str | None:
        """Counts an append to `topic`. Returns the kind of death at it, or None if the process goes on."""
        plan = Plan.read(self._file)
        if plan != self._plan:
            self._plan, self._counted = plan, 0
        if plan is None or (plan.topics and topic not in plan.topics):
            return None
        self._counted += 1
        return plan.kind if self._counted == plan.number else None


def install(file: Path) -> None:
    countdown = Countdown(file)

    def append(self: Log, *arguments: Any, **options: Any) -> None:
        kind = countdown.due(self.topic)
        if kind is None:
            _APPEND(self, *arguments, **options)
            return
        if kind == "before":
            die()
        elif kind == "torn":
            os.pwrite = tear
        _APPEND(self, *arguments, **options)
        die()

    Log.append = append  # type: ignore[method-assign]
    assert files.os is os


def main() -> None:
    file, _, module, *rest = sys.argv[1:]
    install(Path(file))
    sys.argv = [module, *rest]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
