"""The process of one compaction: a pickled job on standard input, its pickled result or exception on standard output.

It gives way to other processes, and ends early when the broker, and so its standard input, is gone.
"""

from __future__ import annotations

import os
import pickle
import sys
import threading

from ...protocol.records.errors import BatchError
from ...storage.compaction import CleaningAborted, CleaningJob, CleaningResult
from ...storage.files.open_files import LogDirectoryFailure

#: Added to the broker's own niceness.
NICENESS = 5


def main() -> None:
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


if __name__ == "__main__":
    main()
