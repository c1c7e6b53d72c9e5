"""The process of one compaction: a pickled job on standard input, its pickled result or exception on standard output.

It gives way to other processes, and ends early when the broker, and so its standard input, is gone.

Niceness makes its part of a busy core small, but does not make room at once: a broker that wakes on its core waits until its
time slice ends. That took 1.9 ms in the median where a core had both. So it yields the core twice in a millisecond, also
while it imports; then that wait was 0.2 ms. It never starves, and without other work a yield costs a system call.
"""

from __future__ import annotations

import os
import pickle
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ...storage.compaction import CleaningJob, CleaningResult

#: Added to the broker's own niceness.
NICENESS = 5
#: The time between two yields of the core.
YIELD_S = 0.0005


def main() -> None:
    os.nice(NICENESS)
    with yields():
        _work()


def _work() -> None:
    from ...protocol.records.errors import BatchError
    from ...storage.compaction import CleaningAborted
    from ...storage.files.open_files import LogDirectoryFailure

    job: CleaningJob = pickle.load(sys.stdin.buffer)
    is_orphan = threading.Event()
    threading.Thread(target=_await_end_of_input, args=(is_orphan,), daemon=True).start()
    outcome: CleaningResult | Exception
    try:
        outcome = job.run(is_orphan.is_set)
    except CleaningAborted:
        sys.exit(1)
    except (BatchError, LogDirectoryFailure) as failure:
        outcome = failure
    sys.stdout.buffer.write(pickle.dumps(outcome))


@contextmanager
def yields() -> Iterator[None]:
    """Has a timer yield the core, where the system can. An interrupted system call of Python continues by itself."""
    can_yield = hasattr(os, "sched_yield")
    if can_yield:
        signal.signal(signal.SIGALRM, lambda *_: os.sched_yield())
        signal.setitimer(signal.ITIMER_REAL, YIELD_S, YIELD_S)
    try:
        yield
    finally:
        if can_yield:  # the signal would end an interpreter that is ending
            signal.setitimer(signal.ITIMER_REAL, 0)


def _await_end_of_input(is_orphan: threading.Event) -> None:
    while os.read(sys.stdin.fileno(), 1):
        pass
    is_orphan.set()


if __name__ == "__main__":
    main()
