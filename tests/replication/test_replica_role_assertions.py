"""Assertions of a partition's state machine: an input that would break it fails before it changes anything."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from odradek.replication.isr import IsrProposal
from odradek.replication.replica_role import ReplicaRole

from tests.replication.harness.partition import ME, NOW, OTHER, THIRD, Registration, leader_of

FAR = 9


def state(partition: ReplicaRole) -> dict[str, object]:
    return {name: getattr(partition, name) for name in ReplicaRole.__slots__}


def apply(**fields: object) -> Callable[[ReplicaRole], object]:
    known = {"replicas": (ME, OTHER), "isr": (ME, OTHER), "partition_epoch": 5, "leader_epoch": 7}
    registration = Registration(**(known | fields))  # type: ignore[arg-type]
    return lambda partition: partition.apply(registration, NOW)


def accept(isr: tuple[int, ...]) -> Callable[[ReplicaRole], object]:
    def accepted(partition: ReplicaRole) -> None:
        proposal = partition.proposal
        assert proposal is not None
        partition.accepted(proposal, isr, partition.leader_epoch, partition.partition_epoch + 1, NOW)

    return accepted


@pytest.mark.parametrize(
    "wrong",
    [
        apply(isr=(ME, FAR)),
        apply(replicas=(OTHER,), isr=(ME, OTHER)),
        apply(leader_epoch=-5),
        lambda partition: partition.appended(9, NOW),
        lambda partition: partition.truncated(5, 6),
        accept((ME, FAR)),
        lambda partition: partition._propose((ME, FAR)),
        lambda partition: partition._propose((OTHER,)),
    ],
)
def test_input_that_would_break_a_partition_fails_and_leaves_it_as_it_was(
    wrong: Callable[[ReplicaRole], object],
) -> None:
    partition = leader_of(ME, OTHER)
    partition.follower_fetched(THIRD, 10, NOW)
    partition.proposal = IsrProposal((ME, OTHER, THIRD), partition.leader_epoch, partition.partition_epoch)
    before = state(partition)
    with pytest.raises(AssertionError, match=r"\w"):
        wrong(partition)
    assert state(partition) == before
    assert partition.follower_fetched(OTHER, 10, NOW) and partition.high_watermark == 10, "it goes on"


def test_high_watermark_is_not_above_the_end() -> None:
    with pytest.raises(AssertionError, match="high watermark 11 above the end 10"):
        ReplicaRole(ME, 10, 11)
