"""Replication throttling (KIP-73): the byte rate of the last samples, compared with a quota.

A sample is `replication.quota.window.size.seconds` long, and `replication.quota.window.num` samples count. Only
replicas that catch up, or are new, are throttled. Replicas in the ISR never wait.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection

ALL_REPLICAS = "*"


class ReplicationRate:
    """A byte rate over the last `samples` samples of `sample_ms` each."""

    def __init__(self, samples: int, sample_ms: int) -> None:
        self._sample_ms = sample_ms
        self._samples = samples
        #: (start time, bytes), oldest first.
        self._kept: deque[tuple[int, int]] = deque()

    def record(self, size: int, now_ms: int) -> None:
        if self._kept and now_ms - self._kept[-1][0] < self._sample_ms:
            began_ms, before = self._kept[-1]
            self._kept[-1] = (began_ms, before + size)
        else:
            self._kept.append((now_ms, size))
        self._forget(now_ms)

    def bytes_per_second(self, now_ms: int) -> float:
        self._forget(now_ms)
        if not self._kept:
            return 0.0
        elapsed_ms = max(self._sample_ms, now_ms - self._kept[0][0])
        return sum(size for _, size in self._kept) * 1000 / elapsed_ms

    def _forget(self, now_ms: int) -> None:
        while self._kept and now_ms - self._kept[0][0] >= self._samples * self._sample_ms:
            self._kept.popleft()


def is_listed(replicas: Collection[str], index: int, broker_id: int) -> bool:
    """Returns whether a topic's list of throttled replicas (`partition:broker`, or `*`) contains this one."""
    return ALL_REPLICAS in replicas or f"{index}:{broker_id}" in replicas
