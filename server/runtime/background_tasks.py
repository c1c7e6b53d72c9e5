"""Failures of background work: counted, logged, and tried again."""

from __future__ import annotations

import logging
from collections import Counter

background_log = logging.getLogger("odradek.background")
#: Work without an interval of its own is tried again after this time: a full disk or a bug seldom ends sooner, and a
#: snapshot takes a second of CPU with 100,000 partitions.
RETRY_MS = 60_000
#: Characters of a failure that health shows.
_MOST_SHOWN = 300


class BackgroundTasks:
    """The failures of one node's background work, by the name of the task.

    A part calls `failed` when its work ends with an exception that it does not expect, whatever its type, and
    `succeeded` when it works again. The part itself tries again: its next interval does it, or a timer after
    RETRY_MS.
    """

    def __init__(self) -> None:
        #: Failures since the start.
        self.failures: Counter[str] = Counter()
        #: Tasks whose last attempt failed, with the reason.
        self.failing: dict[str, str] = {}

    def failed(self, task: str, failure: BaseException) -> None:
        """Notes a failed attempt. Logs the first, the second, the fourth, and so on, with a traceback."""
        self.failures[task] += 1
        count = self.failures[task]
        is_new = task not in self.failing
        self.failing[task] = f"{type(failure).__name__}: {failure}"[:_MOST_SHOWN]
        if is_new or count & (count - 1) == 0:
            background_log.error("%s failed and is tried again (failure %d)", task, count, exc_info=failure)

    def forget(self, task: str) -> None:
        """Notes that the work is no longer this node's."""
        self.failing.pop(task, None)

    def succeeded(self, task: str) -> None:
        """Notes an attempt that succeeded."""
        if self.failing and self.failing.pop(task, None) is not None:
            background_log.warning("%s works again, after %d failures", task, self.failures[task])
