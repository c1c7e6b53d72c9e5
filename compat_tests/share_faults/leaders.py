"""The leader epochs of partitions over time: whether a leader, with its state in memory, stayed the same."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

#: Between two samples.
_PAUSE_S = 0.3
#: Delay until brokers learn of a new leader.
_HEARD_S = 1.5


class Sample(NamedTuple):
    """The leader epoch of each partition, requested at `began` and received by `ended`."""

    began: float
    ended: float
    epochs: Mapping[int, int]


class Leaders:
    def __init__(self) -> None:
        self.samples: list[Sample] = []

    def are_steady(self, partition: int, since: float, until: float) -> bool:
        """Returns whether the samples prove that the partition had one leader for the whole time."""
        before = [sample for sample in self.samples if sample.ended <= since]
        after = next((sample for sample in self.samples if sample.began >= until + _HEARD_S), None)
        return bool(before) and after is not None and before[-1].epochs[partition] == after.epochs[partition]


class LeaderWatch:
    """Takes samples in a thread until `end`."""

    def __init__(self, ask: Callable[[], Mapping[int, int] | None]) -> None:
        self.seen = Leaders()
        self._ask = ask
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def end(self) -> Leaders:
        """Stops after a last sample, taken once brokers have learned of the latest leaders."""
        self._ended.wait(_HEARD_S + _PAUSE_S)
        self._ended.set()
        self._thread.join()
        self._look()
        return self.seen

    def _watch(self) -> None:
        while not self._ended.wait(_PAUSE_S):
            self._look()

    def _look(self) -> None:
        began = time.monotonic()
        epochs = self._ask()
        if epochs is not None:
            self.seen.samples.append(Sample(began, time.monotonic(), epochs))
