"""What the active controller does by itself, when nobody asks: it fences, balances, and elects.

These requests never are on a wire; the driver submits them like those that are, so they go the same way: decided, appended,
committed, answered.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from ...metadata.image import NO_LEADER, PartitionImage
from ...protocol.internal.cluster_metadata import NoOpRecord, PartitionChangeRecord
from ...protocol.schema import INT16, INT32, INT64, Message, struct, wire
from .brokers import check_epoch, fencing_records
from .brokers_to_partitions import IMBALANCED, LEADERLESS
from .leadership import MAX_MOVES, Move, leadership_records, leaving_records
from .partition_change import LEADER_UNCHANGED, Election, PartitionChange
from .result import ControllerResult
from .state import ControllerState

#: So many leaders move at once; for the rest the driver comes again at once.
MAX_ELECTIONS_PER_IMBALANCE = 1000
#: Nobody moves; only those without a leader are looked at.
_NOTHING_MOVES = Move()


@struct
class FenceBrokerRequest(Message):
    """A broker is not heard any more, or its machine says that it is gone."""

    broker_id: int = wire(INT32)
    broker_epoch: int = wire(INT64)


@struct
class MoveLeadersRequest(Message):
    """A broker that leaves is to lead nothing and be in sync nowhere: some of it at a time."""

    broker_id: int = wire(INT32)
    broker_epoch: int = wire(INT64)


@struct
class BalanceLeadersRequest(Message):
    """Leadership goes back to the preferred replicas (auto.leader.rebalance.enable)."""


@struct
class ElectUncleanLeadersRequest(Message):
    """Partitions that nobody leads get any replica that lives, where they may (unclean.leader.election.enable)."""


@struct
class WriteNoOpRequest(Message):
    """A record that says nothing (metadata.max.idle.interval.ms, KIP-835): by it who follows is seen to keep up."""


@struct
class UpkeepResponse(Message):
    error_code: int = wire(INT16)
    #: Partitions that got another leader.
    elections: int = wire(INT32)


def write_no_op(state: ControllerState, request: WriteNoOpRequest, version: int) -> ControllerResult:
    return ControllerResult([NoOpRecord()], UpkeepResponse(), atomic=False)


def fence_broker(state: ControllerState, request: FenceBrokerRequest, version: int) -> ControllerResult:
    """It is fenced with the last part of what it leads: to be asked again until it is."""
    broker = check_epoch(state, request.broker_id, request.broker_epoch)
    records: list[Message] = []
    if not broker.fenced:
        records += islice(leaving_records(state, broker.id), MAX_MOVES)
        if len(records) < MAX_MOVES:
            records = list(fencing_records(state, broker))
    return ControllerResult(records, _elected(records), atomic=False)


def move_leaders(state: ControllerState, request: MoveLeadersRequest, version: int) -> ControllerResult:
    """Without records nothing is left to be moved."""
    broker = check_epoch(state, request.broker_id, request.broker_epoch)
    records = list(islice(leaving_records(state, broker.id), MAX_MOVES))
    return ControllerResult(records, _elected(records), atomic=False)


def _elected(records: Sequence[Message]) -> UpkeepResponse:
    leaders = [record.leader for record in records if isinstance(record, PartitionChangeRecord)]
    return UpkeepResponse(elections=sum(leader not in (NO_LEADER, LEADER_UNCHANGED) for leader in leaders))


def balance_leaders(state: ControllerState, request: BalanceLeadersRequest, version: int) -> ControllerResult:
    records: list[Message] = []
    imbalanced = ((topic, index) for topic, indexes in state.partitions_of(IMBALANCED) for index in indexes)
    for topic, index in imbalanced:
        change = PartitionChange(state, topic, index)
        change.election = Election.PREFERRED
        record = change.record()
        if record is not None:
            records.append(record)
        if len(records) >= MAX_ELECTIONS_PER_IMBALANCE:
            break
    return ControllerResult(records, _elected(records), atomic=False)


def elect_unclean_leaders(
    state: ControllerState, request: ElectUncleanLeadersRequest, version: int
) -> ControllerResult:
    def may_be_unclean(partition: PartitionImage) -> bool:
        return partition.leader == NO_LEADER

    records = list(leadership_records(state, _NOTHING_MOVES, [LEADERLESS], may_be_unclean))
    return ControllerResult(records, _elected(records), atomic=False)
