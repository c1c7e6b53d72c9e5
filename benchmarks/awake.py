"""Cores that do not sleep, while what is measured is a latency: a virtual machine may take longer to wake one than a broker
takes to answer. As `idle=poll` does it for a whole machine, and without being root.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator

#: Of the idle class, it runs only where nobody else wants to, and ends when its parent does.
_LOOP = """
import os, sys
os.sched_setaffinity(0, {int(sys.argv[1])})
os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
parent = os.getppid()
while os.getppid() == parent:
    for _ in range(100_000):
        pass
"""


@contextlib.contextmanager
def cores_awake() -> Iterator[None]:
    cores = sorted(os.sched_getaffinity(0))
    loops = [subprocess.Popen([sys.executable, "-c", _LOOP, str(core)]) for core in cores]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()
