"""When a broker's process looks for garbage: never in what stays.

Python's full collection looks through all that there is, in one piece: for more than a tenth of a second where there are a
hundred thousand partitions, and nobody is served meanwhile. What is there when the broker serves is set aside by
`gc.freeze`. What comes later, as topics are created, is when it has grown so much that a collection takes long. What is
set aside is freed when nobody holds it any more, as ever, but for what was part of a cycle then and is given up later:
that is lost, and so it is not done often.
"""

from __future__ import annotations

import gc
import time

#: Of this process's own CPU time. Some 40,000 partitions take as long.
LONG_S = 0.05


class LongCollections:
    """What survives one of these is not looked through again."""

    def __init__(self, long_s: float = LONG_S) -> None:
        self._long_s = long_s
        self._began_s = 0.0

    def begin(self) -> None:
        gc.callbacks.append(self._watch)

    def end(self) -> None:
        gc.callbacks.remove(self._watch)

    def _watch(self, phase: str, info: dict[str, int]) -> None:
        if info["generation"] < 2:
            return
        if phase == "start":
            self._began_s = time.thread_time()
        elif time.thread_time() - self._began_s >= self._long_s:
            gc.freeze()
