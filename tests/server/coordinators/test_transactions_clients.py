"""Transactions of real clients, and their state after kill -9 of the broker."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka import TopicPartition as AiokafkaTopicPartition
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from kafka import KafkaProducer
from kafka import TopicPartition as KafkaTopicPartition
from kafka.structs import OffsetAndMetadata
from odradek.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from odradek.protocol.messages.describe_transactions import DescribeTransactionsRequest
from odradek.protocol.messages.end_txn import EndTxnRequest
from odradek.protocol.messages.find_coordinator import FindCoordinatorRequest
from odradek.protocol.messages.init_producer_id import InitProducerIdRequest
from odradek.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)

from compat_tests.odradek_process import OdradekProcess
from compat_tests.recipes import is_end_of_partition
from compat_tests.wire import WireClient

pytestmark = pytest.mark.usefixtures("processes")

PARTITIONS = 2
DEADLINE_S = 60
PROPERTIES = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "100",
    "num.partitions": str(PARTITIONS),
}


@pytest.fixture(scope="module")
def odradek(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OdradekProcess]:
    with OdradekProcess(tmp_path_factory.mktemp("odradek"), PROPERTIES) as broker:
        assert isinstance(broker, OdradekProcess)
        yield broker


@pytest.fixture
def topic(odradek: OdradekProcess, request: pytest.FixtureRequest) -> str:
    return made(odradek, re.sub(r"\W", "-", request.node.name)[:80])


def made(broker: OdradekProcess, name: str) -> str:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic(name, PARTITIONS, 1)])[name].result(DEADLINE_S)
    return name


def librdkafka(broker: OdradekProcess, transactional_id: str, **settings: Any) -> Producer:
    producer = Producer(
        {"bootstrap.servers": broker.bootstrap, "transactional.id": transactional_id, "log_level": 0, **settings}
    )
    producer.init_transactions(DEADLINE_S)
    return producer


def read(broker: OdradekProcess, topic: str, isolation: str = "read_committed") -> list[str]:
    """Returns every visible record, sorted."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": "reader",
            "isolation.level": isolation,
            "enable.partition.eof": True,
            "enable.auto.commit": False,
            "log_level": 0,
        }
    )
    consumer.assign([TopicPartition(topic, index, 0) for index in range(PARTITIONS)])
    seen: list[str] = []
    ended: set[int] = set()
    until_s = time.monotonic() + DEADLINE_S
    while len(ended) < PARTITIONS:
        assert time.monotonic() < until_s
        message = consumer.poll(0.2)
        if message is None:
            continue
        if is_end_of_partition(message):
            ended.add(message.partition())
        else:
            seen.append(message.value().decode())
    consumer.close()
    return sorted(seen)


def committed(broker: OdradekProcess, group: str, topic: str) -> int:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": group, "log_level": 0})
    (place,) = consumer.committed([TopicPartition(topic, 0)], timeout=DEADLINE_S)
    consumer.close()
    return place.offset


def until(step: Callable[[], Any]) -> Any:
    end = time.monotonic() + DEADLINE_S
    while not (found := step()):
        assert time.monotonic() < end, "it did not come about in time"
    return found


def test_committed_records_are_seen_and_aborted_ones_are_not(odradek: OdradekProcess, topic: str) -> None:
    producer = librdkafka(odradek, topic)
    for number, ends in enumerate((producer.commit_transaction, producer.abort_transaction) * 2):
        producer.begin_transaction()
        for index in range(PARTITIONS):
            producer.produce(topic, f"{number}-{index}", partition=index)
        producer.flush()
        ends(DEADLINE_S)
    producer.begin_transaction()
    producer.produce(topic, "open", partition=0)
    producer.flush()
    assert read(odradek, topic) == ["0-0", "0-1", "2-0", "2-1"]
    assert len(read(odradek, topic, "read_uncommitted")) == 9
    producer.commit_transaction(DEADLINE_S)
    assert "open" in read(odradek, topic)


def test_offsets_count_with_their_transaction(odradek: OdradekProcess, topic: str) -> None:
    producer = librdkafka(odradek, topic)
    consumer = Consumer({"bootstrap.servers": odradek.bootstrap, "group.id": topic, "log_level": 0})
    consumer.subscribe([topic])
    until(lambda: consumer.poll(0.1) or consumer.assignment())
    for offset, ends in ((5, producer.commit_transaction), (9, producer.abort_transaction)):
        producer.begin_transaction()
        producer.produce(topic, "r")
        producer.send_offsets_to_transaction(
            [TopicPartition(topic, 0, offset)], consumer.consumer_group_metadata(), DEADLINE_S
        )
        ends(DEADLINE_S)
    assert committed(odradek, topic, topic) == 5
    consumer.close()


def test_replaced_producer_is_fenced_and_its_transaction_aborted(odradek: OdradekProcess, topic: str) -> None:
    zombie = librdkafka(odradek, topic)
    zombie.begin_transaction()
    zombie.produce(topic, "zombie")
    zombie.flush()
    successor = librdkafka(odradek, topic)
    with pytest.raises(KafkaException, match=r"(?i)fenced|epoch"):
        zombie.commit_transaction(DEADLINE_S)
    successor.begin_transaction()
    successor.produce(topic, "successor")
    successor.commit_transaction(DEADLINE_S)
    assert read(odradek, topic) == ["successor"]


def test_a_transaction_that_takes_too_long_is_aborted(odradek: OdradekProcess, topic: str) -> None:
    slow = librdkafka(odradek, topic, **{"transaction.timeout.ms": 1000})
    slow.begin_transaction()
    slow.produce(topic, "slow")
    slow.flush()
    with WireClient(odradek.bootstrap) as client:
        until(lambda: state(client, topic) == "CompleteAbort")
    assert read(odradek, topic) == []


def test_kafka_python_commits_and_aborts(odradek: OdradekProcess, topic: str) -> None:
    producer = KafkaProducer(bootstrap_servers=odradek.bootstrap, transactional_id=topic)
    producer.init_transactions()
    for value, ends in ((b"yes", producer.commit_transaction), (b"no", producer.abort_transaction)):
        producer.begin_transaction()
        producer.send(topic, value).get(timeout=DEADLINE_S)
        producer.send_offsets_to_transaction(
            {KafkaTopicPartition(topic, 0): OffsetAndMetadata(len(value), "", -1)}, topic
        )
        ends()
    producer.close()
    assert read(odradek, topic) == ["yes"]
    assert committed(odradek, topic, topic) == 3


async def test_aiokafka_commits_and_aborts(odradek: OdradekProcess, topic: str) -> None:
    async with AIOKafkaProducer(bootstrap_servers=odradek.bootstrap, transactional_id=topic) as producer:
        async with producer.transaction():
            await producer.send_and_wait(topic, b"yes")
            await producer.send_offsets_to_transaction({AiokafkaTopicPartition(topic, 0): 3}, topic)
        with pytest.raises(ZeroDivisionError):
            async with producer.transaction():
                await producer.send_and_wait(topic, b"no")
                raise ZeroDivisionError
    assert await asyncio.to_thread(read, odradek, topic) == ["yes"]
    assert await asyncio.to_thread(committed, odradek, topic, topic) == 3


def state(client: WireClient, transactional_id: str) -> str:
    response = client.call(DescribeTransactionsRequest([transactional_id]), 0)
    found: str = response.transaction_states[0].transaction_state
    return found


def has_to_be_completed(client: WireClient, transactional_id: str) -> bool:
    """Returns True if the coordinator returns an error, or the transaction is not complete."""
    response = client.call(DescribeTransactionsRequest([transactional_id]), 0).transaction_states[0]
    return bool(response.error_code) or response.transaction_state in ("Ongoing", "PrepareCommit", "PrepareAbort")


def test_decided_transactions_complete_after_kill_9(tmp_path: Path) -> None:
    """Kills the broker at once after the response to EndTxn, with open transactions. Each round has new producers."""
    broker = OdradekProcess(tmp_path / "broker", PROPERTIES)
    broker.start()
    topic = made(broker, "kept")
    expected: list[str] = []
    for number in range(4):
        decided, opened = librdkafka(broker, f"decided-{number}"), librdkafka(broker, f"open-{number}")
        for producer, name in ((decided, "decided"), (opened, "open")):
            producer.begin_transaction()
            for index in range(PARTITIONS):
                producer.produce(topic, f"{name}-{number}", partition=index)
            producer.flush()
        if number % 2:
            decided.commit_transaction(DEADLINE_S)
            expected += [f"decided-{number}"] * PARTITIONS
        else:
            decided.abort_transaction(DEADLINE_S)
        broker.kill()
        broker.start()
        if number < 2:
            # The open transaction continues after the restart.
            opened.commit_transaction(DEADLINE_S)
            expected += [f"open-{number}"] * PARTITIONS
        else:
            librdkafka(broker, f"open-{number}")
        with WireClient(broker.bootstrap) as client:
            # The coordinator responds to EndTxn before it writes the markers.
            for name in (f"decided-{number}", f"open-{number}"):
                until(lambda name=name: not has_to_be_completed(client, name))
        assert read(broker, topic) == sorted(expected)
    broker.stop()


def init(client: WireClient, transactional_id: str) -> Any:
    client.call(FindCoordinatorRequest(coordinator_keys=[transactional_id], key_type=1), 4)
    return until(
        lambda: (
            response
            if not (response := client.call(InitProducerIdRequest(transactional_id, 60_000), 4)).error_code
            else None
        )
    )


def test_a_hanging_transaction_is_ended_by_a_tools_marker(odradek: OdradekProcess, topic: str) -> None:
    producer = librdkafka(odradek, topic)
    producer.begin_transaction()
    producer.produce(topic, "hangs", partition=0)
    producer.flush()
    with WireClient(odradek.bootstrap) as client:
        described = client.call(DescribeTransactionsRequest([topic]), 0).transaction_states[0]
        marker = WritableTxnMarker(
            described.producer_id, described.producer_epoch, False, [WritableTxnMarkerTopic(topic, [0, 77])], 0
        )
        (response,) = client.call(WriteTxnMarkersRequest([marker]), 1).markers
        assert [(p.partition_index, p.error_code) for p in response.topics[0].partitions] == [(0, 0), (77, 3)]
    assert read(odradek, topic) == []


def test_old_and_new_ends_are_answered_on_the_wire(odradek: OdradekProcess, topic: str) -> None:
    with WireClient(odradek.bootstrap) as client:
        for version, bump in ((4, 0), (5, 1)):
            known = init(client, topic)
            add = AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=topic,
                v3_and_below_producer_id=known.producer_id,
                v3_and_below_producer_epoch=known.producer_epoch,
                v3_and_below_topics=[AddPartitionsToTxnTopic(topic, [0, 9])],
            )
            (rejected,) = client.call(add, 3).results_by_topic_v3_and_below
            assert [p.partition_error_code for p in rejected.results_by_partition] == [55, 3]
            add.v3_and_below_topics[0].partitions = [0, 1]
            (added,) = client.call(add, 3).results_by_topic_v3_and_below
            assert [p.partition_error_code for p in added.results_by_partition] == [0, 0]
            end = EndTxnRequest(topic, known.producer_id, known.producer_epoch, True)
            response = client.call(end, version)
            assert response.error_code == 0
            if bump:
                assert response.producer_epoch == known.producer_epoch + bump
            until(lambda: state(client, topic) == "CompleteCommit")
