"""The work of the event loop while hostile peers connect."""

from __future__ import annotations

import time
from pathlib import Path

from odradek.protocol.messages.api_versions import ApiVersionsRequest

from compat_tests.wire import WireClient

#: Requests whose latency is measured, before and during the attack.
REQUESTS = 600


#: The largest number of measurements, of which the least counts.
TRIES = 3


#: The work that may precede a request besides its own: an accept and the beginning of a handshake, a millisecond. The
#: kernel counts the time of a running process in ticks of 4 ms.
MOST_WORK_S = 0.008


def worked_s(pid: int) -> float:
    """Returns the processor time of the broker's event loop (man 5 proc, schedstat)."""
    return int(Path(f"/proc/{pid}/schedstat").read_text(encoding="ascii").split()[0]) / 1e9


def p99_work_s(client: WireClient, pid: int) -> float:
    """Returns the 99th percentile of the broker's processor time per request: other processes do not count."""
    works = []
    for _ in range(REQUESTS):
        before_s = worked_s(pid)
        client.call(ApiVersionsRequest(), 0)
        works.append(worked_s(pid) - before_s)
        time.sleep(0.002)  # the interval between requests, not a wait for an event
    return sorted(works)[REQUESTS * 99 // 100]


def least_p99_work_s(client: WireClient, pid: int, limit_s: float) -> float:
    """Returns the least of up to `TRIES` measurements, and stops at the first below the limit: caches that other programs
    fill make the same work longer.
    """
    measured: list[float] = []
    while len(measured) < TRIES and min(measured, default=limit_s) >= limit_s:
        measured.append(p99_work_s(client, pid))
    return min(measured)
