"""Open transactions in partitions' logs, and those of them that no coordinator has (KIP-664)."""

from __future__ import annotations

import time
from collections.abc import Container, Sequence
from typing import TYPE_CHECKING, TypedDict

from .nodes import describe_cluster
from .topics import describe_topics, described_topics
from .transactions import ProducerState, describe_producers, describe_transactions
from .transactions import list_transactions as listed_transactions

if TYPE_CHECKING:
    from .places import Place
    from .session import Admin

#: Partitions in one question to the brokers.
_AT_ONCE = 500
_TRANSACTION_LOG = "__transaction_state"


class OpenTransaction(TypedDict):
    """A producer's state in a partition's log. `start_offset` is None without an open transaction."""

    topic: str
    partition: int
    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: int
    start_offset: int | None
    age_ms: int
    transactional_id: str | None
    hangs: bool | None


def open_transactions(
    admin: Admin, topics: Sequence[str] | None, *, every: bool = False, without: Container[int] = ()
) -> list[OpenTransaction]:
    """Producers with an open transaction, or with `every` all producers, of topics or of all that are not internal.

    Brokers of `without` are not asked: partitions that they lead are left out.

    `hangs` is True when no coordinator has a transaction of that producer with the partition. It is None when some
    coordinators were not asked, or moved meanwhile: then one of them may have the transaction.
    """
    described = described_topics(admin, topics)
    places = [
        (topic.name, partition.partition_index)
        for topic in described
        if topics is not None or not topic.is_internal
        for partition in topic.partitions
        if partition.leader_id >= 0 and partition.leader_id not in without
    ]
    found: list[OpenTransaction] = []
    now_ms = int(time.time() * 1000)
    for start in range(0, len(places), _AT_ONCE):
        response = describe_producers(admin, places[start : start + _AT_ONCE])
        for place, producers in sorted(response.items()):
            for producer in producers:
                if every or producer.current_transaction_start_offset >= 0:
                    found.append(_row(place, producer, now_ms))
    known, is_whole = _known(admin, {one["producer_id"] for one in found if one["start_offset"] is not None}, without)
    for one in found:
        transactional_id, held = known.get(one["producer_id"], (None, frozenset()))
        one["transactional_id"] = transactional_id
        is_held = one["start_offset"] is None or (one["topic"], one["partition"]) in held
        one["hangs"] = False if is_held else True if is_whole else None
    return found


def _row(place: Place, producer: ProducerState, now_ms: int) -> OpenTransaction:
    start = producer.current_transaction_start_offset
    return {
        "topic": place[0],
        "partition": place[1],
        "producer_id": producer.producer_id,
        "producer_epoch": producer.producer_epoch,
        "last_sequence": producer.last_sequence,
        "last_timestamp": producer.last_timestamp,
        "start_offset": start if start >= 0 else None,
        "age_ms": max(0, now_ms - producer.last_timestamp),
        "transactional_id": None,
        "hangs": None,
    }


def _known(
    admin: Admin, producer_ids: set[int], without: Container[int]
) -> tuple[dict[int, tuple[str, frozenset[tuple[str, int]]]], bool]:
    """Transactions of the coordinators: producer id -> its transactional id and the partitions of its open transaction;
    and whether these are of all coordinators.
    """
    if not producer_ids:
        return {}, True
    brokers = [one.broker_id for one in describe_cluster(admin).brokers if not one.is_fenced]
    asked = [broker for broker in brokers if broker not in without]
    before = _coordinators(admin)
    listed = [
        one
        for found in listed_transactions(admin, asked, producer_ids=sorted(producer_ids)).values()
        for one in found
        if one.state in ("Ongoing", "PrepareCommit", "PrepareAbort")
    ]
    described = describe_transactions(admin, [one.transactional_id for one in listed]) if listed else {}
    known = {one.producer_id: (one.transactional_id, described[one.transactional_id].partitions) for one in listed}
    return known, before == _coordinators(admin) and all(leader in asked for leader, _ in before.values())


def _coordinators(admin: Admin) -> dict[int, tuple[int, int]]:
    """Leader and epoch of each partition of the transaction log; none where the cluster has no such topic yet."""
    return {
        one.partition_index: (one.leader_id, one.leader_epoch)
        for topic in describe_topics(admin, [_TRANSACTION_LOG])
        for one in topic.partitions
    }
