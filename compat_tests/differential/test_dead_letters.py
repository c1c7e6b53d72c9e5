"""The same history of a share group leaves equal dead-letter records in Apache Kafka 4.4 and in Odradek, and each record
goes through the same states (KIP-1191).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Producer
from odradek.coordinator.share_state_records import decode_record
from odradek.protocol.internal.share_group_state import ShareUpdateValue

from compat_tests.batches import partition_count, read_batches
from compat_tests.broker_process import BrokerProcess
from compat_tests.differential.runner import await_coordinators
from compat_tests.fixtures import UNDER_TEST
from compat_tests.java.fetch import SPECIFICATION
from compat_tests.odradek_process import OdradekProcess
from compat_tests.oracle import ApacheKafka
from compat_tests.recipes import eventually, make_topic
from tests.server.harness.dead_letter_queue import DeadLetterRecord, dead_letter_records, upgrade
from tests.server.harness.share_groups import configure, lag
from tests.server.harness.share_member import ACCEPT, REJECT, RELEASE, Member

SETTINGS = {
    **UNDER_TEST,
    "errors.deadletterqueue.auto.create.topics.enable": "true",
    "group.share.min.record.lock.duration.ms": "1000",
}
RECORDS = 6
DEADLINE_S = 60
#: Long enough for a slow machine to acknowledge records before their locks end.
LOCK_MS = 5_000

#: Offset -> its states in order, each with its delivery count.
States = dict[int, list[tuple[int, int]]]


class Left(NamedTuple):
    """The result of a history."""

    dead_letter_records: list[DeadLetterRecord]
    states: States


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[BrokerProcess, BrokerProcess]]:
    def directory(name: str) -> Path:
        return tmp_path_factory.mktemp(name)

    with (
        ApacheKafka(directory("kafka"), SETTINGS, version=SPECIFICATION) as kafka,
        OdradekProcess(directory("odradek"), SETTINGS) as odradek,
    ):
        assert upgrade(odradek.bootstrap).error_code == 0
        for broker in (kafka, odradek):
            await_coordinators(broker.bootstrap)
        yield kafka, odradek


def without_times(found: list[DeadLetterRecord]) -> list[DeadLetterRecord]:
    return sorted((one._replace(timestamp=0) for one in found), key=lambda one: (one.headers["partition"], one.offset))


def states_of(bootstrap: str, group: str) -> States:
    found: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for index in range(partition_count(bootstrap, "__share_group_state")):
        for _, records in read_batches(bootstrap, "__share_group_state", index):
            for record in records:
                assert record.key is not None
                key, value, *_ = decode_record(record.key, record.value)
                if key.group_id == group and isinstance(value, ShareUpdateValue):  # type: ignore[attr-defined]
                    _note(found, value)
    return dict(found)


def _note(found: dict[int, list[tuple[int, int]]], value: ShareUpdateValue) -> None:
    for batch in value.state_batches:
        for offset in range(batch.first_offset, batch.last_offset + 1):
            state = (batch.delivery_state, batch.delivery_count)
            if found[offset][-1:] != [state]:
                found[offset].append(state)


def history(bootstrap: str, group: str, queue: str, limit_ms: str = "30000", **settings: str) -> tuple[bytes, str]:
    """Makes a topic with records, and a group with a dead-letter queue. Returns the topic's id and the queue."""
    topic_id = make_topic(bootstrap, group)
    configure(
        bootstrap,
        group,
        errors_deadletterqueue_topic_name=queue,
        share_delivery_count_limit="2",
        share_record_lock_duration_ms=limit_ms,
        **settings,
    )
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 1000, "compression.type": "lz4", "log_level": 0})
    for number in range(RECORDS):
        headers: Any = [("own", b"header")]
        producer.produce(group, b"v%d" % number, None if number == 2 else b"k%d" % number, partition=0, headers=headers)
    assert producer.flush(30) == 0
    return topic_id, queue


def taken(member: Member) -> list[int]:
    return [offset for first, last, _ in member.take() for offset in range(first, last + 1)]


def left(bootstrap: str, group: str, queue: str, count: int) -> Left:
    """Returns the result once there are so many dead-letter records and the group has no lag."""
    eventually(lambda: len(dead_letter_records(bootstrap, queue)) == count, what="all letters", deadline_s=DEADLINE_S)
    eventually(lambda: lag(bootstrap, group) == 0, what="the group is done", deadline_s=DEADLINE_S)
    return Left(without_times(dead_letter_records(bootstrap, queue)), states_of(bootstrap, group))


def execute(bootstrap: str, group: str, lock_ms: int, **settings: str) -> Left:
    """Rejects two records, accepts one, and delivers three up to the limit. Two of these are released each time.

    The last is too if its lock is long; otherwise its lock ends.
    """
    topic_id, queue = history(bootstrap, group, f"dlq.{group}", str(lock_ms), **settings)
    member = Member(bootstrap, group, group, [(topic_id, 0)])
    try:
        assert eventually(lambda: taken(member), what="records", deadline_s=DEADLINE_S) == list(range(RECORDS))
        assert member.acknowledge((0, 1, REJECT), (2, 2, ACCEPT), (3, 5, RELEASE)).error_code == 0
        eventually(lambda: len(dead_letter_records(bootstrap, queue)) == 2, what="the rejected", deadline_s=DEADLINE_S)
        assert eventually(lambda: taken(member), what="the released", deadline_s=DEADLINE_S) == [3, 4, 5]
        last = 5 if lock_ms > LOCK_MS else 4
        assert member.acknowledge((3, last, RELEASE)).error_code == 0
        return left(bootstrap, group, queue, 5)
    finally:
        member.close()


@pytest.mark.oracle
@pytest.mark.parametrize("copies", ["true", "false"])
def test_dead_letter_records_and_states_equal_apache_kafkas(
    copies: str, brokers: tuple[BrokerProcess, BrokerProcess]
) -> None:
    kafka, ours = brokers
    group = f"buried-{copies}"
    lock_ms = LOCK_MS if copies == "true" else 30_000
    theirs = execute(kafka.bootstrap, group, lock_ms, errors_deadletterqueue_copy_record_enable=copies)
    own = execute(ours.bootstrap, group, lock_ms, errors_deadletterqueue_copy_record_enable=copies)
    assert own.dead_letter_records == theirs.dead_letter_records
    assert [list(dead_letter.headers) for dead_letter in own.dead_letter_records] == [
        list(dead_letter.headers) for dead_letter in theirs.dead_letter_records
    ]
    assert own.states == theirs.states


def in_transactions(bootstrap: str, topic: str) -> None:
    """Commits offset 0 and aborts offset 2; 1 and 3 are the markers."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": topic, "log_level": 0})
    producer.init_transactions(DEADLINE_S)
    for end in (producer.commit_transaction, producer.abort_transaction):
        producer.begin_transaction()
        producer.produce(topic, b"value", b"key", partition=0)
        assert producer.flush(DEADLINE_S) == 0
        end(DEADLINE_S)


def of_markers(bootstrap: str, isolation: str) -> Left:
    """Rejects every record that a member acquires."""
    group = f"marked-{isolation}"
    queue, wanted = f"dlq.{group}", 3 if isolation == "read_committed" else 4
    topic_id = make_topic(bootstrap, group)
    settings = {"errors_deadletterqueue_topic_name": queue, "errors_deadletterqueue_copy_record_enable": "true"}
    configure(bootstrap, group, share_isolation_level=isolation, **settings)
    in_transactions(bootstrap, group)
    member = Member(bootstrap, group, group, [(topic_id, 0)])
    try:
        given: list[int] = []
        while len(given) < wanted:
            some = eventually(lambda: taken(member), what="records", deadline_s=DEADLINE_S)
            assert member.acknowledge(*((offset, offset, REJECT) for offset in some)).error_code == 0
            given += some
        return left(bootstrap, group, queue, wanted)
    finally:
        member.close()


@pytest.mark.oracle
@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
def test_dead_letter_records_of_a_transactions_marker_equal_apache_kafkas(
    isolation: str, brokers: tuple[BrokerProcess, BrokerProcess]
) -> None:
    theirs, own = (of_markers(broker.bootstrap, isolation) for broker in brokers)
    assert own.dead_letter_records == theirs.dead_letter_records
    assert any(dead_letter.offset == 1 and dead_letter.key for dead_letter in theirs.dead_letter_records)
    assert own.states == theirs.states


@pytest.mark.oracle
@pytest.mark.parametrize("queue", ["other.prefix", "__internal", "dlq.unmarked"])
def test_invalid_queue_topics_are_refused_or_left_empty_by_both(
    queue: str, brokers: tuple[BrokerProcess, BrokerProcess]
) -> None:
    left = [unwritten(broker.bootstrap, f"held-{queue}", queue) for broker in brokers]
    assert left[0] == left[1]


def unwritten(bootstrap: str, group: str, queue: str) -> object:
    """Returns the error of the group's configuration; without an error its dead-letter records and its records' states."""
    if queue == "dlq.unmarked":
        make_topic(bootstrap, queue)
    try:
        topic_id, _ = history(bootstrap, group, queue)
    except AssertionError as rejected:
        return str(rejected)
    member = Member(bootstrap, group, group, [(topic_id, 0)])
    try:
        assert eventually(lambda: taken(member), what="records", deadline_s=DEADLINE_S) == list(range(RECORDS))
        assert member.acknowledge((0, RECORDS - 1, REJECT)).error_code == 0
        eventually(lambda: lag(bootstrap, group) == 0, what="the group is done", deadline_s=DEADLINE_S)
    finally:
        member.close()
    return dead_letter_records(bootstrap, queue), states_of(bootstrap, group)
