"""The stopwatch of tests that limit the time of the programs that they start."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time

from compat_tests.recipes import DEADLINE_S
from compat_tests.stopwatch import Stopwatch


def test_time_of_a_wait_counts() -> None:
    watch = Stopwatch()
    until = time.monotonic() + DEADLINE_S
    while watch.seconds <= 0.15:  # other threads of this process may wait for a processor meanwhile
        assert time.monotonic() < until
        threading.Event().wait(0.1)


def test_time_that_another_process_takes_from_this_one_does_not_count() -> None:
    allowed = os.sched_getaffinity(0)
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as other:
        try:
            for process in (0, other.pid):
                os.sched_setaffinity(process, {min(allowed)})
            began, watch = time.monotonic(), Stopwatch()
            until = time.thread_time() + 0.5
            while time.thread_time() < until:
                pass
            passed, seconds = time.monotonic() - began, watch.seconds
        finally:
            os.sched_setaffinity(0, allowed)
            other.kill()
    assert passed > 0.7 and seconds < passed - 0.15
