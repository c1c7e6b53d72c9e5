"""Placement of the replicas of new partitions: Kafka's striped placement.

Every partition is spread over the racks, and within a rack over its brokers, in stripes. Each partition begins one
rack further than the one before, and each rack one broker further. Leaders are therefore even over racks and brokers.
Fenced brokers get replicas only if there are too few unfenced ones, and never lead. After as many partitions as there
are unfenced brokers, the orders are shuffled so that the same sets do not repeat.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ...protocol.errors import ErrorCode
from ..random_source import RandomSource
from .result import ApiError


class UsableBroker(NamedTuple):
    id: int
    rack: str | None
    fenced: bool


class _Ring:
    """The fenced or the unfenced brokers of one rack. In each epoch the round begins one broker further."""

    def __init__(self, brokers: list[int], rng: RandomSource) -> None:
        self.brokers = sorted(brokers)
        self._offset = rng.randrange(len(brokers)) if brokers else 0
        self._index = 0
        self._epoch = 0

    def next(self, epoch: int) -> int | None:
        """Returns the next broker, None if all were returned in this epoch."""
        if not self.brokers:
            return None
        if self._epoch != epoch:
            self._epoch = epoch
            self._index = 0
            self._offset = (self._offset + 1) % len(self.brokers)
        if self._index >= len(self.brokers):
            return None
        found = self.brokers[(self._index + self._offset) % len(self.brokers)]
        self._index += 1
        return found


class _Rack:
    def __init__(self, brokers: list[UsableBroker], rng: RandomSource) -> None:
        self.fenced = _Ring([broker.id for broker in brokers if broker.fenced], rng)
        self.unfenced = _Ring([broker.id for broker in brokers if not broker.fenced], rng)

    def next(self, epoch: int) -> int | None:
        found = self.unfenced.next(epoch)
        return self.fenced.next(epoch) if found is None else found


class _Racks:
    def __init__(self, brokers: list[UsableBroker], rng: RandomSource) -> None:
        names = sorted({broker.rack for broker in brokers}, key=lambda rack: (rack is not None, rack or ""))
        self._racks = [_Rack([broker for broker in brokers if broker.rack == name], rng) for name in names]
        self._unfenced = sum(not broker.fenced for broker in brokers)
        self._rng = rng
        self._epoch = 0
        self._offset = rng.randrange(len(self._racks))

    def place(self, replication_factor: int) -> list[int]:
        if self._epoch == self._unfenced and self._unfenced > 1:
            self._shuffle()
        self._offset %= len(self._racks)
        leader, leading_rack = self._leader()
        replicas = [leader]
        index, skip = self._offset, leading_rack
        while len(replicas) < replication_factor:
            if index == skip:  # the leader is in this rack
                skip = -1
            else:
                found = self._racks[index].next(self._epoch)
                if found is not None:
                    replicas.append(found)
            index = (index + 1) % len(self._racks)
        self._epoch += 1
        self._offset += 1
        return replicas

    def _leader(self) -> tuple[int, int]:
        """Returns the next unfenced broker and the index of its rack."""
        index = self._offset
        while (found := self._racks[index].unfenced.next(self._epoch)) is None:
            index = (index + 1) % len(self._racks)
        return found, index

    def _shuffle(self) -> None:
        self._rng.shuffle(self._racks)
        for rack in self._racks:
            self._rng.shuffle(rack.fenced.brokers)
            self._rng.shuffle(rack.unfenced.brokers)
        self._epoch = 0


def check_placement(replication_factor: int, brokers: list[UsableBroker]) -> ApiError | None:
    code = ErrorCode.INVALID_REPLICATION_FACTOR
    if replication_factor <= 0:
        return ApiError(
            code, f"Invalid replication factor {replication_factor}: the replication factor must be positive."
        )
    if not any(not broker.fenced for broker in brokers):
        return ApiError(code, "All brokers are currently fenced.")
    if replication_factor > len(brokers):
        return ApiError(
            code,
            f"The target replication factor of {replication_factor} cannot be reached because only "
            f"{len(brokers)} broker(s) are registered or some brokers have all their log directories cordoned.",
        )
    return None


def place(
    partitions: int, replication_factor: int, brokers: Iterable[UsableBroker], rng: RandomSource
) -> list[list[int]] | ApiError:
    """Returns the replicas of each partition, the preferred leader first."""
    usable = list(brokers)
    error = check_placement(replication_factor, usable)
    if error is not None:
        return error
    racks = _Racks(usable, rng)
    return [racks.place(replication_factor) for _ in range(partitions)]
