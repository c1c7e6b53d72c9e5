"""Scripted faults, tested with single requests and with a client."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import odradek
import pytest
from kafka import KafkaConsumer, KafkaProducer
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from odradek.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from odradek.protocol.messages.find_coordinator import FindCoordinatorRequest
from odradek.protocol.messages.heartbeat import HeartbeatRequest
from odradek.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from odradek.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from odradek.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from odradek.protocol.records.record import Record, encode_batch

from compat_tests.wire import ConnectionClosed, WireClient

NOT_LEADER = int(ErrorCode.NOT_LEADER_OR_FOLLOWER)


def create(wire: WireClient, *names: str, partitions: int = 2) -> None:
    topics = [CreatableTopic(name=name, num_partitions=partitions, replication_factor=1) for name in names]
    response = wire.call(CreateTopicsRequest(topics=topics, timeout_ms=10_000), 5)
    assert [topic.error_code for topic in response.topics] == [0] * len(names)


def produce(*partitions: tuple[str, int], acks: int = 1) -> ProduceRequest:
    records = encode_batch([Record(value=b"order")])
    topics: dict[str, list[PartitionProduceData]] = {}
    for topic, index in partitions:
        topics.setdefault(topic, []).append(PartitionProduceData(index=index, records=records))
    data = [TopicProduceData(name=name, partition_data=parts) for name, parts in topics.items()]
    return ProduceRequest(acks=acks, timeout_ms=10_000, topic_data=data)


def produced(response: Any) -> dict[tuple[str, int], int]:
    return {
        (topic.name, one.index): one.error_code for topic in response.responses for one in topic.partition_responses
    }  # fmt: skip


def ends(wire: WireClient, topic: str, *partitions: int) -> list[int]:
    parts = [ListOffsetsPartition(partition_index=index, timestamp=-1) for index in partitions]
    response = wire.call(ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=parts)]), 5)
    return [one.offset for one in response.topics[0].partitions]


def test_an_error_strikes_as_often_as_asked_and_counts(broker: odradek.Broker, wire: WireClient) -> None:
    create(wire, "orders")
    fault = broker.faults.fail("Produce", error="NOT_LEADER_OR_FOLLOWER", times=3)
    codes = [produced(wire.call(produce(("orders", 0)), 9))["orders", 0] for _ in range(5)]
    assert codes == [NOT_LEADER] * 3 + [0, 0]
    assert fault.count == 3 and not list(broker.faults)
    assert fault.struck[0] == "Produce v9 of checkout"
    assert ends(wire, "orders", 0) == [2]


def test_an_error_strikes_the_partition_that_is_meant_and_the_rest_is_done(
    broker: odradek.Broker, wire: WireClient
) -> None:
    create(wire, "orders", "payments")
    broker.faults.fail("Produce", error="KAFKA_STORAGE_ERROR", topic="ord*", partition=1)
    response = wire.call(produce(("orders", 0), ("orders", 1), ("payments", 1)), 9)
    assert produced(response) == {
        ("orders", 0): 0,
        ("orders", 1): ErrorCode.KAFKA_STORAGE_ERROR,
        ("payments", 1): 0,
    }
    assert (ends(wire, "orders", 0, 1), ends(wire, "payments", 1)) == ([1, 0], [1])


def test_an_error_after_the_effect_hides_what_was_done(broker: odradek.Broker, wire: WireClient) -> None:
    create(wire, "orders", "payments")
    broker.faults.fail("Produce", error="REQUEST_TIMED_OUT", after=True, times=1, topic="orders")
    response = produced(wire.call(produce(("orders", 0), ("payments", 0)), 9))
    assert response == {("orders", 0): ErrorCode.REQUEST_TIMED_OUT, ("payments", 0): 0}
    assert ends(wire, "orders", 0) == [1]


def test_errors_come_in_turn(broker: odradek.Broker, wire: WireClient) -> None:
    create(wire, "orders")
    fault = broker.faults.fail("Produce", error=["NOT_LEADER_OR_FOLLOWER", None, "REQUEST_TIMED_OUT"])
    codes = [produced(wire.call(produce(("orders", 0)), 9))["orders", 0] for _ in range(4)]
    assert codes == [NOT_LEADER, 0, ErrorCode.REQUEST_TIMED_OUT, 0]
    assert fault.count == 3


@pytest.mark.parametrize(
    ("which", "strikes"),
    [
        ({"client_id": "check*"}, True),
        ({"client_id": "other"}, False),
        ({"version": 9}, True),
        ({"version": (3, 8)}, False),
        ({"topic": "orders", "partition": 1}, False),
        ({"node_id": 1}, True),
        ({"node_id": 7}, False),
        ({"transactional_id": "t"}, False),
    ],
)
def test_only_requests_that_fit_are_struck(
    broker: odradek.Broker, wire: WireClient, which: dict[str, Any], strikes: bool
) -> None:
    create(wire, "orders")
    fault = broker.faults.fail("Produce", error="UNKNOWN_SERVER_ERROR", **which)
    assert (produced(wire.call(produce(("orders", 0)), 9))["orders", 0] != 0) is strikes
    assert fault.count == int(strikes)


def test_the_nth_request_is_struck(broker: odradek.Broker, wire: WireClient) -> None:
    create(wire, "orders")
    broker.faults.fail("Produce", error="UNKNOWN_SERVER_ERROR", nth=3)
    codes = [produced(wire.call(produce(("orders", 0)), 9))["orders", 0] for _ in range(4)]
    assert codes == [0, 0, -1, 0]


def test_group_is_matched_where_a_request_names_one(broker: odradek.Broker, wire: WireClient) -> None:
    moved = broker.faults.coordinator_moved(group="billing")
    wire.call(HeartbeatRequest(group_id="shipping", member_id="m"), 4)
    assert moved.count == 0
    assert wire.call(HeartbeatRequest(group_id="billing", member_id="m"), 4).error_code == ErrorCode.NOT_COORDINATOR
    assert moved.count == 1
    loading = broker.faults.coordinator_loading()
    found = wire.call(HeartbeatRequest(group_id="billing", member_id="m"), 4)
    assert found.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and loading.count == 1


def test_any_api_fails_with_its_own_form_of_error(broker: odradek.Broker, wire: WireClient) -> None:
    broker.faults.fail(None, error="COORDINATOR_NOT_AVAILABLE")
    response = wire.call(FindCoordinatorRequest(key_type=0, coordinator_keys=["a", "b"]), 4)
    assert [(one.key, one.error_code) for one in response.coordinators] == [("a", 15), ("b", 15)]


def test_metadata_fails_for_a_topic_and_keeps_the_brokers(broker: odradek.Broker, wire: WireClient) -> None:
    create(wire, "orders", "payments")
    broker.faults.fail("Metadata", error="LEADER_NOT_AVAILABLE", topic="orders", times=1)
    topics = [MetadataRequestTopic(name=name) for name in ("orders", "payments")]
    response = wire.call(MetadataRequest(topics=topics), 8)
    assert {topic.name: topic.error_code for topic in response.topics} == {"orders": 5, "payments": 0}
    assert len(response.brokers) == 1


def test_a_fetch_session_gives_way_to_a_fault(broker: odradek.Broker, wire: WireClient) -> None:
    create(wire, "orders")
    parts = [FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=1000) for index in (0, 1)]
    first = wire.call(FetchRequest(session_epoch=0, topics=[FetchTopic(topic="orders", partitions=parts)]), 11)
    assert first.session_id
    broker.faults.fail("Fetch", error="NOT_LEADER_OR_FOLLOWER")
    again = wire.call(FetchRequest(session_id=first.session_id, session_epoch=1), 11)
    assert again.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    full = wire.call(FetchRequest(session_epoch=0, topics=[FetchTopic(topic="orders", partitions=parts)]), 11)
    assert [one.error_code for topic in full.responses for one in topic.partitions] == [NOT_LEADER] * 2


@pytest.mark.parametrize("after", [False, True])
def test_a_dropped_connection_hides_whether_it_was_done(broker: odradek.Broker, wire: WireClient, after: bool) -> None:
    create(wire, "orders")
    fault = broker.faults.drop("Produce", after=after, times=1)
    with (
        WireClient(broker.bootstrap_servers, timeout=60) as victim,
        pytest.raises((ConnectionClosed, ConnectionResetError)),
    ):
        victim.call(produce(("orders", 0)), 9)
    assert fault.count == 1
    assert ends(wire, "orders", 0) == [int(after)]


def test_a_truncated_answer_ends_the_connection(broker: odradek.Broker, wire: WireClient) -> None:
    create(wire, "orders")
    broker.faults.truncate("Produce", size=9, times=1)
    with WireClient(broker.bootstrap_servers, timeout=60) as victim:
        victim.send(produce(("orders", 0)), 9)
        received = b""
        while part := victim._socket.recv(100):
            received += part
    assert len(received) == 9
    assert int.from_bytes(received[:4], "big") > 5, "the length of the whole response"


@pytest.mark.parametrize("after", [False, True])
def test_a_delay_holds_a_connection_and_keeps_its_order(broker: odradek.Broker, wire: WireClient, after: bool) -> None:
    create(wire, "orders")
    broker.faults.delay("Produce", seconds=0.2, times=1, after=after)
    began = time.monotonic()
    first, second = (wire.send(produce(("orders", 0)), 9) for _ in range(2))
    offsets = [wire.receive(produce(), 9, number).responses[0].partition_responses[0].base_offset
               for number in (first, second)]  # fmt: skip
    assert offsets == [0, 1]
    assert time.monotonic() - began >= 0.2


def test_a_throttled_client_learns_for_how_long(broker: odradek.Broker, wire: WireClient) -> None:
    create(wire, "orders")
    broker.faults.throttle("Produce", seconds=0.05, times=1)
    assert wire.call(produce(("orders", 0)), 9).throttle_time_ms == 50
    assert wire.call(produce(("orders", 0)), 9).throttle_time_ms == 0


def test_a_paused_broker_does_what_waited_when_it_goes_on(broker: odradek.Broker, wire: WireClient) -> None:
    create(wire, "orders")
    with broker.faults.pause() as pause:
        number = wire.send(produce(("orders", 0)), 9)
        pause.wait(timeout=60)
    response = wire.receive(produce(), 9, number)
    assert produced(response) == {("orders", 0): 0}


def test_a_request_that_hangs_takes_effect_only_after(broker: odradek.Broker, wire: WireClient) -> None:
    create(wire, "orders")
    fault = broker.faults.hang("Produce", times=1, after=True)
    with WireClient(broker.bootstrap_servers, timeout=60) as victim:
        victim.send(produce(("orders", 0)), 9)
        fault.wait(timeout=60)
        victim._socket.settimeout(0.2)
        with pytest.raises(TimeoutError):
            victim.receive_frame()
    assert fault.count == 1 and ends(wire, "orders", 0) == [1]


def test_acks_0_loses_the_connection_where_a_response_would_be_an_error(
    broker: odradek.Broker, wire: WireClient
) -> None:
    create(wire, "orders")
    broker.faults.fail("Produce", error="NOT_LEADER_OR_FOLLOWER", times=1)
    with WireClient(broker.bootstrap_servers, timeout=60) as victim:
        victim.send(produce(("orders", 0), acks=0), 9)
        assert victim._socket.recv(10) == b""
    assert ends(wire, "orders", 0) == [0]


def test_faults_of_different_kinds_strike_one_request(broker: odradek.Broker, wire: WireClient) -> None:
    create(wire, "orders")
    slow = broker.faults.delay("Produce", seconds=0.1, times=1)
    full = broker.faults.fail("Produce", error="KAFKA_STORAGE_ERROR", times=1)
    began = time.monotonic()
    assert produced(wire.call(produce(("orders", 0)), 9))["orders", 0] == ErrorCode.KAFKA_STORAGE_ERROR
    assert time.monotonic() - began >= 0.1 and (slow.count, full.count) == (1, 1)


def test_large_requests_are_struck_too(broker: odradek.Broker, wire: WireClient) -> None:
    create(wire, "orders")
    request = produce(("orders", 0))
    request.topic_data[0].partition_data[0].records = encode_batch([Record(value=bytes(300_000))])
    broker.faults.delay("Produce", seconds=0.01, times=1)
    broker.faults.fail("Produce", error="NOT_LEADER_OR_FOLLOWER", times=1)
    codes = [produced(wire.call(request, 9))["orders", 0] for _ in range(2)]
    assert codes == [NOT_LEADER, 0]


def test_reset_ends_all_faults(broker: odradek.Broker, wire: WireClient) -> None:
    broker.faults.fail("Produce", error="UNKNOWN_SERVER_ERROR")
    broker.reset()
    assert len(broker.faults) == 0


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda faults: faults.fail("Produse", error=1), "there is no API 'Produse': did you mean 'Produce'?"),
        (lambda faults: faults.fail(999, error=1), "there is no API with key 999"),
        (lambda faults: faults.fail("Produce", error="NOT_LEADER"), "Kafka has no error 'NOT_LEADER'"),
        (lambda faults: faults.drop("Produce", times=0), "a fault must apply to at least 1 request"),
        (lambda faults: faults.drop("Produce", nth=0), "counted from 1"),
    ],
)
def test_impossible_fault_raises_with_a_reason(make: Callable[[Any], Any], words: str) -> None:
    with pytest.raises(ValueError, match=words.replace("?", r"\?")):
        make(odradek.Broker().faults)


def test_a_client_retries_through_faults(broker: odradek.Broker) -> None:
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap_servers, retry_backoff_ms=10)
    fault = broker.faults.fail("Produce", error="NOT_LEADER_OR_FOLLOWER", times=3)
    lost = broker.faults.drop("Produce", after=True, times=1)
    sent = threading.Thread(target=lambda: producer.send("orders", b"order 1").get(timeout=60))
    sent.start()
    fault.wait(3, timeout=60)
    lost.wait(timeout=60)
    sent.join(60)
    consumer = KafkaConsumer(
        "orders", bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="earliest", consumer_timeout_ms=60_000
    )
    assert next(consumer).value == b"order 1"
    assert consumer.end_offsets(consumer.assignment()) == dict.fromkeys(consumer.assignment(), 1)
    consumer.close()
    producer.close()
