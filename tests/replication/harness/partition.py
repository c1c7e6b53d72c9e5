"""A partition's leader at a fixed time."""

from __future__ import annotations

from typing import NamedTuple

from odradek.replication.replica_role import ReplicaRole

ME, OTHER, THIRD = 1, 2, 3


NOW = 1_000_000


class Registration(NamedTuple):
    replicas: tuple[int, ...] = (ME,)
    isr: tuple[int, ...] = (ME,)
    leader: int = ME
    leader_epoch: int = 0
    partition_epoch: int = 0


def leader_of(*isr: int, end: int = 10, high_watermark: int = 0) -> ReplicaRole:
    partition = ReplicaRole(ME, end, high_watermark)
    partition.apply(Registration(replicas=(ME, OTHER, THIRD), isr=isr), NOW)
    return partition
