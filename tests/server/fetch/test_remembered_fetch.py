"""Fetches whose unchanged partitions a connection remembers: the response has the bytes that it has without the memory."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import odradek
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from odradek.metadata.acls import Operation, PatternType, Permission, ResourceType
from odradek.metadata.image import PartitionImage
from odradek.protocol import encoded_fetch as encoding
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from odradek.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from odradek.protocol.messages.delete_topics import DeleteTopicsRequest
from odradek.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from odradek.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from odradek.server.endpoints import fetch as endpoint
from odradek.server.fetch import encoded_fetch, fetch_memories, fetch_opening, fetch_sessions, large_fetch
from odradek.server.fetch.fetch_memories import FetchMemories, FetchMemory
from odradek.server.network import dispatch
from odradek.server.partitions.transaction_marker import Marker

from tests.harness.examples import examples
from tests.server.harness.data_path import DataPath, batch_of, delete_records, on_loop, wait_until

pytestmark = pytest.mark.usefixtures("sockets")

PARTITIONS = 7
TOPICS = 2
VERSION = 17
_CONFIG = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}
_INCREMENTAL_ALTER_CONFIGS, _SET, _OF_TOPIC = 1, 0, 2


@pytest.fixture(scope="module", autouse=True)
def few_are_many() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for module in (endpoint, fetch_sessions):
            patch.setattr(module, "LARGE_FETCH", 2)
        for module in (fetch_opening, large_fetch):
            patch.setattr(module, "PLAIN_RESPONSE_ITEMS", 2)
        for module in (encoded_fetch, large_fetch):
            patch.setattr(module, "LOOKED_AT_ONCE", 2)
        patch.setattr(encoded_fetch, "LOOKED_UP_ONCE", 4)
        patch.setattr(encoding, "LEAST_OF_TOPIC", 1)
        patch.setattr(dispatch, "SLICED_FRAME_BYTES", 0)
        yield


@pytest.fixture(scope="module")
def broker() -> Iterator[odradek.Broker]:
    with odradek.Broker(config=_CONFIG) as running:
        yield running


@pytest.fixture
def path(broker: odradek.Broker) -> Iterator[DataPath]:
    found = DataPath(broker)
    yield found
    found.close()
    wait_until(lambda: not memories_of(found)._by_connection, "a connection that has ended is remembered")
    assert memories_of(found).count == 0


@pytest.fixture
def other(path: DataPath) -> Iterator[DataPath]:
    found = path.another_client()
    yield found
    found.close()


def memories_of(path: DataPath) -> FetchMemories:
    memories = path.broker.server.fetch.path.memories
    assert memories is not None
    return memories()


def memory_of(path: DataPath) -> FetchMemory:
    (found,) = memories_of(path)._by_connection.values()
    return found


def asked(path: DataPath, *topics: str, **fields: Any) -> FetchRequest:
    named = [
        FetchTopic(
            topic, path.topic_id(topic), [FetchPartition(index, -1, 0, -1, -1, 1 << 20) for index in range(PARTITIONS)]
        )
        for topic in topics
    ]
    return FetchRequest(**({"max_wait_ms": 0, "min_bytes": 1, "topics": named} | fields))


def body(path: DataPath, request: FetchRequest, version: int, *, remembers: bool = True) -> bytes:
    """Returns the bytes of a response after its correlation id."""
    most = encoding.MOST_ENCODED
    encoding.MOST_ENCODED = most if remembers else 0
    try:
        path.client.send(request, version)
        return path.client.receive_frame()[4:]
    finally:
        encoding.MOST_ENCODED = most


def remembered(path: DataPath) -> set[tuple[Any, int]]:
    return set(memory_of(path).partitions)


# ---- the same bytes, whatever happens


class Cluster:
    """Topics, the requests of their consumer, and what may happen to both."""

    def __init__(self, path: DataPath, version: int) -> None:
        self.path = path
        self.version = version
        self.topics = [path.topic(PARTITIONS) for _ in range(TOPICS)]
        self.request = asked(path, *self.topics)
        self.producers = iter(range(1, 1 << 30))
        self.open: dict[tuple[int, int], int] = {}

    def _hosted(self, topic: int, index: int) -> Any:
        return self.path.broker.server.partitions.hosted.get((self.topics[topic], index))

    def _asked(self, topic: int, index: int) -> FetchPartition | None:
        found = [one for one in self.request.topics[topic].partitions if one.partition == index]
        return found[0] if found else None

    def produce(self, topic: int, index: int) -> None:
        self.path.produce(self.topics[topic], batch_of(b"x"), index=index)

    def delete_records(self, topic: int, index: int) -> None:
        delete_records(self.path, self.topics[topic], -1, index)

    def take_role(self, topic: int, index: int, *, leads: bool) -> None:
        hosted = self._hosted(topic, index)
        here, away = hosted.role.local_id, 99
        leader = here if leads else away
        epochs = hosted.leader_epoch + 1, hosted.role.partition_epoch + 1
        replicas = (here,) if leads else (here, away)
        now_ms = time.time_ns() // 1_000_000
        on_loop(
            self.path,
            lambda: hosted.take_role(PartitionImage(replicas, replicas, leader, *epochs, ()), now_ms) and None,
        )

    def new_epoch(self, topic: int, index: int) -> None:
        self.take_role(topic, index, leads=True)

    def lose_leadership(self, topic: int, index: int) -> None:
        self.take_role(topic, index, leads=False)

    def begin_transaction(self, topic: int, index: int) -> None:
        if (topic, index) in self.open:
            return
        producer = next(self.producers)
        opened = batch_of(b"open", producer_id=producer, producer_epoch=0, base_sequence=0, transactional=True)
        hosted, now_ms = self._hosted(topic, index), time.time_ns() // 1_000_000
        if not on_loop(self.path, lambda: hosted.append(opened, now_ms, is_in_transaction=True)).error:
            self.open[topic, index] = producer

    def end_transaction(self, topic: int, index: int) -> None:
        producer = self.open.pop((topic, index), None)
        if producer is not None:
            marker = Marker(producer, 0, index % 2 == 0, 0, 1)
            hosted, now_ms = self._hosted(topic, index), time.time_ns() // 1_000_000
            on_loop(self.path, lambda: hosted.end_transaction(marker, now_ms) and None)

    def deny(self, topic: int, _: int) -> None:
        name = self.topics[topic]
        rules = [
            AclCreation(ResourceType.TOPIC, name, PatternType.LITERAL, "User:ANONYMOUS", "*", operation, permission)
            for operation, permission in ((Operation.READ, Permission.DENY), (Operation.ALL, Permission.ALLOW))
        ]
        assert [one.error_code for one in self.path.client.call(CreateAclsRequest(rules), 3).results] == [0, 0]
        wait_until(lambda: self._is_denied(name), "the rule does not hold")

    def permit(self, topic: int, _: int) -> None:
        rule = DeleteAclsFilter(
            ResourceType.TOPIC, self.topics[topic], PatternType.LITERAL, None, None, Operation.ANY, Permission.ANY
        )
        assert self.path.client.call(DeleteAclsRequest([rule]), 3).filter_results[0].error_code == 0
        wait_until(lambda: not self._is_denied(self.topics[topic]), "the rule holds after it was deleted")

    def _is_denied(self, topic: str) -> bool:
        return self.path.fetch(topic).error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED

    def configure(self, topic: int, index: int) -> None:
        config = AlterableConfig("retention.ms", _SET, str(10**9 * (1 + index)))
        resource = AlterConfigsResource(_OF_TOPIC, self.topics[topic], [config])
        response = self.path.client.call(IncrementalAlterConfigsRequest([resource]), _INCREMENTAL_ALTER_CONFIGS)
        assert response.responses[0].error_code == 0

    def delete_topic(self, topic: int, _: int) -> None:
        self.path.client.call(DeleteTopicsRequest(topic_names=[self.topics[topic]], timeout_ms=10_000), 5)
        self.topics[topic] = self.path.topic(PARTITIONS)
        if self.request.topics:
            for one in asked(self.path, self.topics[topic]).topics:
                self.request.topics.append(one)
            del self.request.topics[topic]
            self.topics.append(self.topics.pop(topic))

    # The requests.

    def move(self, topic: int, index: int) -> None:
        """Has the consumer go on at the end of a partition."""
        one, hosted = self._asked(topic, index), self._hosted(topic, index)
        if one is not None:
            one.fetch_offset = hosted.high_watermark

    def move_all(self, topic: int, _: int) -> None:
        for index in range(PARTITIONS):
            self.move(topic, index)

    def ask_elsewhere(self, topic: int, index: int) -> None:
        one = self._asked(topic, index)
        if one is not None:
            one.fetch_offset += 1

    def ask_less(self, topic: int, index: int) -> None:
        one = self._asked(topic, index)
        if one is not None:
            one.partition_max_bytes -= 1

    def ask_in_epoch(self, topic: int, index: int) -> None:
        one, hosted = self._asked(topic, index), self._hosted(topic, index)
        if one is not None:
            one.current_leader_epoch = hosted.leader_epoch
            one.last_fetched_epoch = max(-1, hosted.log.epochs.latest)

    def rotate(self, topic: int, index: int) -> None:
        partitions = self.request.topics[topic].partitions
        self.request.topics[topic].partitions = [*partitions[index:], *partitions[:index]]

    def leave_out(self, topic: int, index: int) -> None:
        kept = [one for one in self.request.topics[topic].partitions if one.partition != index]
        self.request.topics[topic].partitions = kept

    def ask_again(self, topic: int, index: int) -> None:
        if self._asked(topic, index) is None:
            self.request.topics[topic].partitions.append(FetchPartition(index, -1, 0, -1, -1, 1 << 20))

    def ask_twice(self, topic: int, index: int) -> None:
        self.request.topics[topic].partitions.append(FetchPartition(index, -1, 1, -1, -1, 1 << 20))

    def isolate(self, _: int, __: int) -> None:
        self.request.isolation_level ^= 1

    def nothing(self, _: int, __: int) -> None:
        pass


_ACTIONS = [name for name, value in vars(Cluster).items() if callable(value) and name[0] != "_" and name != "take_role"]
_steps = st.tuples(st.sampled_from(_ACTIONS), st.integers(0, TOPICS - 1), st.integers(0, PARTITIONS - 1))


@settings(max_examples=examples(60), deadline=None, suppress_health_check=list(HealthCheck))
@given(version=st.integers(5, 17), steps=st.lists(_steps, min_size=5, max_size=40))
def test_response_with_remembered_partitions_has_the_bytes_of_the_usual_one(
    version: int, steps: list[tuple[str, int, int]], broker: odradek.Broker
) -> None:
    path, consumer, plain = DataPath(broker), DataPath(broker), DataPath(broker)
    try:
        cluster = Cluster(path, version)
        for name, topic, index in steps:
            getattr(cluster, name)(topic, index)
            for _ in range(2):  # what the first one remembers is in the second one
                found = body(consumer, cluster.request, version)
                assert found == body(plain, cluster.request, version, remembers=False), name
    finally:
        for one in (path, consumer, plain):
            one.close()


@pytest.mark.parametrize("version", range(5, 18))
def test_partitions_are_remembered_from_the_second_fetch_on(version: int, path: DataPath) -> None:
    topics = [path.topic(PARTITIONS) for _ in range(2)]
    request = asked(path, *topics)
    plain = body(path, request, version, remembers=False)
    assert body(path, request, version) == plain
    assert remembered(path) == set()
    assert body(path, request, version) == plain
    names = topics if version < 13 else [path.topic_id(topic) for topic in topics]
    assert remembered(path) == {(name, index) for name in names for index in range(PARTITIONS)}
    assert memories_of(path).count == 2 * PARTITIONS
    assert body(path, request, version) == plain


def begun(path: DataPath, *topics: str, **fields: Any) -> FetchRequest:
    """Fetches until all partitions are remembered."""
    request = asked(path, *topics, **fields)
    for _ in range(2):
        body(path, request, VERSION)
    assert len(remembered(path)) == PARTITIONS * len(topics)
    return request


def test_remembered_partitions_are_not_decoded(path: DataPath, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = path.topic(PARTITIONS)
    request = begun(path, topic)
    decoded: list[bytes] = []
    original = encoding.PartitionLayout.decoded

    def noted(layout: encoding.PartitionLayout, piece: bytes) -> FetchPartition:
        decoded.append(piece)
        return original(layout, piece)

    monkeypatch.setattr(encoding.PartitionLayout, "decoded", noted)
    body(path, request, VERSION)
    assert decoded == []
    assert path.produce(topic, batch_of(b"x"), index=3).error_code == 0
    body(path, request, VERSION)
    assert len(decoded) == 1


def test_quiet_partitions_count_as_fetched_when_they_are_remembered(path: DataPath) -> None:
    topic = path.topic(PARTITIONS)
    request = begun(path, topic)
    before = path.hosted(topic, 0).counters.fetches
    body(path, request, VERSION)
    assert path.hosted(topic, 0).counters.fetches == before + PARTITIONS


# ---- waiting


def test_fetch_that_waits_ends_with_a_record_of_a_remembered_partition(path: DataPath, other: DataPath) -> None:
    topic = path.topic(PARTITIONS)
    begun(path, topic)
    request = asked(path, topic, max_wait_ms=60_000)
    number = path.client.send(request, VERSION)
    wait_until(lambda: memory_of(path).parked is not None, "it waits")
    assert all(len(path.hosted(topic, index).watchers) == 1 for index in range(PARTITIONS))
    assert other.produce(topic, batch_of(b"early"), index=4).error_code == 0
    response = path.client.receive(request, VERSION, number)
    assert [one.partition_index for one in response.responses[0].partitions if one.records] == [4]
    assert memory_of(path).parked is None


def test_fetch_waits_for_its_least_bytes_of_remembered_partitions(path: DataPath, other: DataPath) -> None:
    topic, batch = path.topic(PARTITIONS), batch_of(b"x" * 500)
    begun(path, topic)
    request = asked(path, topic, max_wait_ms=60_000, min_bytes=3 * len(batch))
    number = path.client.send(request, VERSION)
    wait_until(lambda: memory_of(path).parked is not None, "it waits")
    for index in (5, 5, 3):
        assert other.produce(topic, batch_of(b"x" * 500), index=index).error_code == 0
    response = path.client.receive(request, VERSION, number)
    sizes = {one.partition_index: len(one.records) for one in response.responses[0].partitions if one.records}
    assert sizes == {5: 2 * len(batch), 3: len(batch)}


def test_fetch_that_waits_ends_with_the_topic(path: DataPath, other: DataPath) -> None:
    topic = path.topic(PARTITIONS)
    begun(path, topic)
    request = asked(path, topic, max_wait_ms=60_000)
    number = path.client.send(request, VERSION)
    wait_until(lambda: memory_of(path).parked is not None, "it waits")
    deleted = other.client.call(DeleteTopicsRequest(topic_names=[topic], timeout_ms=10_000), 5)
    assert deleted.responses[0].error_code == 0
    response: FetchResponse = path.client.receive(request, VERSION, number)
    errors = {one.error_code for one in response.responses[0].partitions} - {0}
    assert errors and errors <= {ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.NOT_LEADER_OR_FOLLOWER}


# ---- forgetting


def test_connection_that_ends_forgets(path: DataPath, other: DataPath) -> None:
    topic = path.topic(PARTITIONS)
    begun(other, topic)
    other.close()
    wait_until(lambda: not memories_of(path)._by_connection, "it is forgotten")
    assert memories_of(path).count == 0
    assert not any(path.hosted(topic, index).watchers for index in range(PARTITIONS))


def test_connection_that_has_ended_already_remembers_nothing(path: DataPath, other: DataPath) -> None:
    topic = path.topic(PARTITIONS)
    begun(other, topic)
    connection, memories = memory_of(path).connection, memories_of(path)
    other.close()
    wait_until(lambda: not memories._by_connection, "it is forgotten")
    memory = on_loop(path, lambda: memories.begin(connection, (VERSION, False), PARTITIONS))
    memories.rest(memory)
    assert memory.is_over and not memories._by_connection and memory.deadline is None


def test_connection_forgets_when_it_makes_no_such_fetch_for_long(
    path: DataPath, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = path.topic(PARTITIONS)
    monkeypatch.setattr(fetch_memories, "FORGOTTEN_MS", 100)
    request = begun(path, topic)
    plain = body(path, request, VERSION, remembers=False)
    wait_until(lambda: not memories_of(path)._by_connection, "it is forgotten")
    assert memories_of(path).count == 0
    assert not any(path.hosted(topic, index).watchers for index in range(PARTITIONS))
    assert body(path, request, VERSION) == plain


def test_other_version_or_isolation_begins_anew(path: DataPath) -> None:
    topic = path.topic(PARTITIONS)
    request = begun(path, topic)
    body(path, request, 16)
    assert remembered(path) == set()
    assert not any(path.hosted(topic, index).watchers for index in range(PARTITIONS))
    begun(path, topic)
    request.isolation_level = 1
    body(path, request, VERSION)
    assert remembered(path) == set()


def test_no_more_partitions_than_the_limit_are_remembered(path: DataPath, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = path.topic(PARTITIONS)
    monkeypatch.setattr(memories_of(path), "limit", 3)
    request = asked(path, topic)
    plain = body(path, request, VERSION, remembers=False)
    for _ in range(3):
        assert body(path, request, VERSION) == plain
        assert len(memory_of(path).partitions) == memories_of(path).count <= 3
    assert memories_of(path).count == 3


def test_connection_that_asks_for_much_less_forgets(path: DataPath) -> None:
    topics = [path.topic(PARTITIONS) for _ in range(3)]
    begun(path, *topics)
    request = asked(path, topics[0])
    for _ in range(2):
        body(path, request, VERSION)
    assert remembered(path) == {(path.topic_id(topics[0]), index) for index in range(PARTITIONS)}


def test_partition_asked_for_in_another_way_is_remembered_once(path: DataPath) -> None:
    topic = path.topic(PARTITIONS)
    request = begun(path, topic)
    for size in range(5):
        request.topics[0].partitions[2].partition_max_bytes = 1000 + size
        body(path, request, VERSION)
    assert len(path.hosted(topic, 2).watchers) == 1
    assert memories_of(path).count == PARTITIONS
    (known,) = memory_of(path).topics.values()
    assert len(known.contents) == PARTITIONS
