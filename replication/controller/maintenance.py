"""Periodic tasks of the active controller: fencing, leader rebalancing and unclean elections.

These requests are never sent over the wire. The driver submits them like client requests, so they take the same path:
decide, append, commit, respond.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from ...metadata.image import NO_LEADER, PartitionImage
from ...protocol.internal.cluster_metadata import NoOpRecord, PartitionChangeRecord
from ...protocol.node_ids import LEADER_UNCHANGED
from ...protocol.schema import INT16, INT32, INT64, Message, Request, struct, wire
from .brokers import check_epoch, fencing_records
from .brokers_to_partitions import IMBALANCED, LEADERLESS
from .leadership import (
    MAX_MOVES,
    Move,
    leadership_records,
    leaving_records,
)
from .partition_change import Election, PartitionChange
from .result import ControllerResult
from .state import ControllerState

#: The maximum number of leaders moved at once. The driver submits the rest immediately after.
MAX_ELECTIONS_PER_IMBALANCE = 1000
#: No broker changes; only leaderless partitions are considered.
_NOTHING_MOVES = Move()


@struct
class FenceBrokerRequest(Request["MaintenanceResponse"]):
    """Fences a broker whose session expired, or whose host reports that it is gone."""

    broker_id: int = wire(INT32)
    broker_epoch: int = wire(INT64)


@struct
class MoveLeadersRequest(Request["MaintenanceResponse"]):
    """Moves leaderships and ISR memberships off a leaving broker, in parts."""

    broker_id: int = wire(INT32)
    broker_epoch: int = wire(INT64)


@struct
class BalanceLeadersRequest(Request["MaintenanceResponse"]):
    """Moves leadership back to the preferred replicas (auto.leader.rebalance.enable)."""


@struct
class ElectUncleanLeadersRequest(Request["MaintenanceResponse"]):
    """Elects any live replica for leaderless partitions that allow it (unclean.leader.election.enable)."""


@struct
class WriteNoOpRequest(Request["MaintenanceResponse"]):
    """Writes a no-op record (metadata.max.idle.interval.ms, KIP-835), so that followers are seen to keep up."""


@struct
class MaintenanceResponse(Message):
    error_code: int = wire(INT16)
    #: The number of partitions with a new leader.
    elections: int = wire(INT32)


def write_no_op(state: ControllerState, request: WriteNoOpRequest, version: int) -> ControllerResult:
    return ControllerResult([NoOpRecord()], MaintenanceResponse(), atomic=False)


def fence_broker(state: ControllerState, request: FenceBrokerRequest, version: int) -> ControllerResult:
    """Fences a broker together with the last part of its partitions. Repeated until the broker is fenced."""
    broker = check_epoch(state, request.broker_id, request.broker_epoch)
    records: list[Message] = []
    if not broker.fenced:
        records += islice(leaving_records(state, broker.id), MAX_MOVES)
        if len(records) < MAX_MOVES:
            records = list(fencing_records(state, broker))
    return ControllerResult(records, _elected(records), atomic=False)


def move_leaders(state: ControllerState, request: MoveLeadersRequest, version: int) -> ControllerResult:
    """Moves a part of the partitions. No records mean that none are left."""
    broker = check_epoch(state, request.broker_id, request.broker_epoch)
    records = list(islice(leaving_records(state, broker.id), MAX_MOVES))
    return ControllerResult(records, _elected(records), atomic=False)


def _elected(records: Sequence[Message]) -> MaintenanceResponse:
    leaders = [record.leader for record in records if isinstance(record, PartitionChangeRecord)]
    return MaintenanceResponse(elections=sum(leader not in (NO_LEADER, LEADER_UNCHANGED) for leader in leaders))


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
