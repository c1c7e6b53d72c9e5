"""Three nodes of Odradek, started by `odradek cluster start`."""

from __future__ import annotations

import contextlib
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

_SERVING = re.compile(r"^odradek: 3 brokers serving on (?P<addresses>\S+)")
#: Groups start without a delay, and the internal topic is small.
_OVERRIDES = ("group.initial.rebalance.delay.ms=0", "offsets.topic.num.partitions=6")


@contextlib.contextmanager
def three_nodes(directory: Path) -> Iterator[str]:
    """Starts three nodes with their folders in `directory`. Yields their addresses, and stops the nodes at the end."""
    command = [sys.executable, "-m", "odradek", "cluster", "start", "--port", "0", "--data-dir", str(directory)]
    overrides = [word for one in _OVERRIDES for word in ("--override", one)]
    process = subprocess.Popen([*command, *overrides], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        found = _SERVING.match(process.stdout.readline())
        assert found
        yield found["addresses"]
    finally:
        process.terminate()
        process.wait(60)
