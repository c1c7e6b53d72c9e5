"""Sizes of partitions in bytes, from what the log directories of brokers hold.

The size of a partition is that of its largest replica: a follower that is behind, or has not yet deleted old segments, has
another one. A replica that is on its way to another directory of its broker (a future one) is counted once.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from .places import Place


class ReplicaSize(NamedTuple):
    """A replica in a log directory of a broker. `is_future`: a move between directories has not finished it."""

    place: Place
    broker: int
    bytes: int
    is_future: bool = False


def bytes_by_partition(replicas: Iterable[ReplicaSize]) -> dict[Place, int]:
    """The bytes of the largest replica."""
    found: dict[Place, int] = {}
    for one in replicas:
        if not one.is_future:
            found[one.place] = max(found.get(one.place, 0), one.bytes)
    return found


def bytes_of_replicas(replicas: Iterable[ReplicaSize]) -> int:
    """The bytes of all replicas together, with those that are not finished."""
    return sum(one.bytes for one in replicas)
