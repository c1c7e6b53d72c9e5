"""Leader changes when brokers join or leave."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from ...metadata.image import PartitionImage, TopicImage
from ...protocol.internal.cluster_metadata import PartitionChangeRecord
from ...protocol.node_ids import NO_NODE
from .partition_change import Election, PartitionChange
from .state import ControllerState

#: The maximum number of partitions moved off a broker at a time. Other requests are handled in between.
MAX_MOVES = 500


class Move(NamedTuple):
    """A change of a broker that the image does not show yet."""

    #: Leaves every ISR and leads nothing.
    leaves: int = NO_NODE
    #: May lead from now on.
    comes: int = NO_NODE
    #: Returns after an unclean shutdown: it may have lost acknowledged records.
    lost_power: int = NO_NODE


def leadership_records(
    state: ControllerState, move: Move, places: Iterable[int], concerns: Callable[[PartitionImage], bool]
) -> Iterable[PartitionChangeRecord]:
    """Yields the changes of the partitions under these keys (see state.py) for which `concerns` is
    true.

    They are in the order of topics and indexes.
    """
    for topic, indexes in state.partitions_of(*places):
        for index in indexes:
            if concerns(topic.partitions[index]):
                record = leadership_record(state, topic, index, move)
                if record is not None:
                    yield record


def leaving_records(state: ControllerState, broker_id: int) -> Iterable[PartitionChangeRecord]:
    """Yields changes for a leaving broker: its partitions get another leader or none.

    It stays in the ISR only where it is the last member.
    """

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
    if move.lost_power != NO_NODE:
        change.unclean_shutdowns = (move.lost_power,)
    change.isr = [broker for broker in change.isr if broker not in (move.leaves, move.lost_power)]
    return change.record()
