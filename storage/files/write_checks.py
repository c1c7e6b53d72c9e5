"""Checks before writes to partitions.

None is there in operation: the test kit has disks fail and be slow here.
"""

from __future__ import annotations

from collections.abc import Callable

APPEND = "append"
FLUSH = "flush"
#: Gets the partition's folder, and whether it is an append or a flush. May take its time, or raise OSError.
WriteCheck = Callable[[str, str], None]

#: Replaced, never changed: flushes read it on other threads.
active: tuple[WriteCheck, ...] = ()


def run(path: str, doing: str) -> None:
    """Runs the checks. Raises OSError where one of them does, as the write itself may."""
    for check in active:
        check(path, doing)
