"""Who leads when brokers come and go."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from ...metadata.image import NO_LEADER, PartitionImage, TopicImage
from ...protocol.internal.cluster_metadata import PartitionChangeRecord
from .partition_change import Election, PartitionChange
from .state import ControllerState

NOBODY = NO_LEADER
#: What a broker leads, or is in sync in, is taken from it so many at a time: others are served in between.
MAX_MOVES = 500


class Move(NamedTuple):
    """What happens to a broker while the image does not show it yet."""

    #: Leaves every ISR and leads nothing.
    leaves: int = NOBODY
    #: May lead from now on.
    comes: int = NOBODY
    #: Comes back without a clean stop: what it has may be less than what it had acknowledged.
    lost_power: int = NOBODY


def leadership_records(
    state: ControllerState, move: Move, places: Iterable[int], concerns: Callable[[PartitionImage], bool]
) -> Iterable[PartitionChangeRecord]:
    """The changes of all partitions in these places (see brokers_to_partitions.py) that `concerns` picks, in the order of
    topics and indexes.
    """
    for topic, indexes in state.partitions_of(*places):
        for index in indexes:
            if concerns(topic.partitions[index]):
                record = leadership_record(state, topic, index, move)
                if record is not None:
                    yield record


def leaving_records(state: ControllerState, broker_id: int) -> Iterable[PartitionChangeRecord]:
    """For a broker that goes: what it leads gets another leader, or none, and it is in sync only where it is alone."""

    def concerns(partition: PartitionImage) -> bool:
        isr = partition.isr
        return partition.leader == broker_id or (broker_id in isr and len(isr) > 1)

    return leadership_records(state, Move(leaves=broker_id), [broker_id], concerns)


def leadership_record(
    state: ControllerState, topic: TopicImage, index: int, move: Move
) -> PartitionChangeRecord | None:
    def may_lead(broker: int) -> bool:
        return broker not in (move.leaves, move.lost_power) and (broker == move.comes or state.is_active(broker))

    change = PartitionChange(state, topic, index, may_lead)
    if state.unclean_elections(topic.name):
        change.election = Election.UNCLEAN
    if move.lost_power != NOBODY:
        change.unclean_shutdowns = (move.lost_power,)
    change.isr = [broker for broker in change.isr if broker not in (move.leaves, move.lost_power)]
    return change.record()
