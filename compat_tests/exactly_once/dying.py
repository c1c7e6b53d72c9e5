"""A broker that dies by itself at one of its appends: `python dying.py KIND NUMBER ARMED -m odradek start ...`.

Every step of a transaction is an append to some log: of the partitions that join, the records, the offsets, the decision,
each marker, the completion. They are counted from when the file ARMED is there; at the one with NUMBER the process kills
itself with -9: KIND is `before` it, `torn` (half of its bytes are written), or `after` it, before anybody is told.
"""

from __future__ import annotations

import os
import runpy
import signal
import sys
from typing import Any

from odradek.storage import files
from odradek.storage.log import Log

KINDS = ("before", "torn", "after")


def die(*_: Any, **__: Any) -> Any:
    os.kill(os.getpid(), signal.SIGKILL)


def tear(fd: int, buffer: Any, position: int) -> Any:
    _PWRITE(fd, memoryview(buffer).cast("B")[: len(buffer) // 2], position)
    die()


_PWRITE = os.pwrite
_APPEND = Log.append


def install(kind: str, number: int, armed: str) -> None:
    counted = 0

    def append(self: Log, *arguments: Any, **options: Any) -> None:
        nonlocal counted
        if os.path.exists(armed):  # noqa: PTH110  (at every append)
            counted += 1
        if counted != number:
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
    kind, number, armed, _, module, *rest = sys.argv[1:]
    assert kind in KINDS
    install(kind, int(number), armed)
    sys.argv = [module, *rest]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
