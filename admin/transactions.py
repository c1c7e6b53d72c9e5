"""Transactions of coordinators, and states of producers in partitions' logs (KIP-664)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ..protocol.coordinator_types import TRANSACTION
from ..protocol.messages.describe_producers import DescribeProducersRequest, DescribeProducersRequestTopic
from ..protocol.messages.describe_transactions import DescribeTransactionsRequest
from ..protocol.messages.list_transactions import ListTransactionsRequest
from ..protocol.messages.write_txn_markers import WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest
from .errors import check
from .nodes import nodes_or_running
from .places import Place
from .session import Admin
from .topics import leaders_of

#: The epoch of a marker that no coordinator writes.
_NO_COORDINATOR = -1


@dataclass(frozen=True, slots=True)
class TransactionListing:
    transactional_id: str
    producer_id: int
    state: str


@dataclass(frozen=True, slots=True)
class TransactionDescription:
    """`start_time_ms` is -1 where no transaction is open."""

    transactional_id: str
    coordinator_id: int
    producer_id: int
    producer_epoch: int
    state: str
    partitions: frozenset[Place]
    start_time_ms: int
    timeout_ms: int


@dataclass(frozen=True, slots=True)
class ProducerState:
    """`current_transaction_start_offset` is -1 without an open transaction."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: int
    current_transaction_start_offset: int


def list_transactions(
    admin: Admin, brokers: Sequence[int] | None = None, *, producer_ids: Sequence[int] = ()
) -> dict[int, list[TransactionListing]]:
    """Transactions by the broker that coordinates them, of these brokers or of all, of these producers or of all."""
    request = ListTransactionsRequest(state_filters=[], producer_id_filters=list(producer_ids))

    def step() -> dict[int, list[TransactionListing]]:
        found = {}
        for node in nodes_or_running(admin, brokers):
            response = admin.ask(request, node)
            check(f"transactions of broker {node}", response.error_code)
            found[node] = [
                TransactionListing(one.transactional_id, one.producer_id, one.transaction_state)
                for one in response.transaction_states
            ]
        return found

    return admin.repeated(step)


def describe_transactions(admin: Admin, transactional_ids: Iterable[str]) -> dict[str, TransactionDescription]:
    """Raises ResponseError for an id that does not exist."""
    wanted = list(transactional_ids)

    def step() -> dict[str, TransactionDescription]:
        found = {}
        for node, names in admin.by_coordinator(wanted, TRANSACTION).items():
            for one in admin.ask(DescribeTransactionsRequest(transactional_ids=names), node).transaction_states:
                check(f"transaction {one.transactional_id}", one.error_code)
                found[one.transactional_id] = TransactionDescription(
                    one.transactional_id,
                    node,
                    one.producer_id,
                    one.producer_epoch,
                    one.transaction_state,
                    frozenset((topic.topic, index) for topic in one.topics for index in topic.partitions),
                    one.transaction_start_time_ms,
                    one.transaction_timeout_ms,
                )
        return found

    return admin.repeated(step)


def describe_producers(admin: Admin, places: Sequence[Place]) -> dict[Place, list[ProducerState]]:
    """The producers that the logs of partitions have, from their leaders."""

    def step() -> dict[Place, list[ProducerState]]:
        found = {}
        for node, led in leaders_of(admin, places).items():
            by_topic: dict[str, list[int]] = defaultdict(list)
            for topic, index in led:
                by_topic[topic].append(index)
            topics = [DescribeProducersRequestTopic(name, indexes) for name, indexes in by_topic.items()]
            for response in admin.ask(DescribeProducersRequest(topics=topics), node).topics:
                for one in response.partitions:
                    check(f"{response.name}-{one.partition_index}", one.error_code, one.error_message)
                    found[response.name, one.partition_index] = [
                        ProducerState(
                            each.producer_id,
                            each.producer_epoch,
                            each.last_sequence,
                            each.last_timestamp,
                            each.current_txn_start_offset,
                        )
                        for each in one.active_producers
                    ]
        return found

    return admin.repeated(step) if places else {}


def abort_in_log(admin: Admin, place: Place, producer_id: int, producer_epoch: int) -> None:
    """Writes an abort marker to a partition, for a transaction that no coordinator has. Raises ResponseError."""
    topic = WritableTxnMarkerTopic(place[0], [place[1]])
    marker = WritableTxnMarker(producer_id, producer_epoch, False, [topic], _NO_COORDINATOR)
    (leader,) = admin.repeated(lambda: leaders_of(admin, [place]))
    for found in admin.ask(WriteTxnMarkersRequest(markers=[marker]), leader).markers:
        for written in found.topics:
            for one in written.partitions:
                check(f"{place[0]}-{place[1]}", one.error_code)
