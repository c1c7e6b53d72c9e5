"""The process of one compaction: all of it is CPU, which a thread would take from the loop."""

from __future__ import annotations

import os
import pickle
import sys
import threading
from typing import TYPE_CHECKING

from ...protocol.records.errors import BatchError
from ..files.failures import LogDirectoryFailure
from .cleaning_job import CleaningAborted

if TYPE_CHECKING:
    from .cleaning_job import CleaningJob, CleaningResult

#: Added to the broker's own niceness: the process gives way to others.
NICENESS = 5


def main() -> None:
    """Runs a pickled job of standard input; its pickled result or exception goes to standard output. It ends early when the
    broker, and so its standard input, is gone.
    """
    os.nice(NICENESS)
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


def _await_end_of_input(is_orphan: threading.Event) -> None:
    while os.read(sys.stdin.fileno(), 1):
        pass
    is_orphan.set()
