"""Three nodes of Odradek, started by `odradek cluster start`."""

from __future__ import annotations

import contextlib
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

_SERVING = re.compile(r"^odradek: 3 brokers serving on (?P<addresses>\S+)")
#: Groups start without a delay, members learn of a rebalance soon, and the internal topic is small.
_OVERRIDES = (
    "group.initial.rebalance.delay.ms=0",
    *(
        f"group.{kind}.{least}heartbeat.interval.ms={milliseconds}"
        for kind in ("consumer", "share", "streams")
        for least, milliseconds in (("min.", "100"), ("", "200"))
    ),
    "offsets.topic.num.partitions=6",
)


@contextlib.contextmanager
def three_nodes(directory: Path, *properties: str) -> Iterator[str]:
    """Starts three nodes with their folders in `directory`. Yields their addresses, and stops the nodes at the end.

    `properties` are further overrides, as KEY=VALUE.
    """
    command = [sys.executable, "-m", "odradek", "cluster", "start", "--port", "0", "--data-dir", str(directory)]
    overrides = [word for one in (*_OVERRIDES, *properties) for word in ("--override", one)]
    process = subprocess.Popen([*command, *overrides], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        found = _SERVING.match(process.stdout.readline())
        assert found
        yield found["addresses"]
    finally:
        process.terminate()
        process.wait(60)
