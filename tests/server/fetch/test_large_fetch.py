"""Fetches of so many partitions that they take turns on the loop: they wait, wake and end as those of few partitions do."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import odradek
import pytest
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from odradek.protocol.messages.delete_topics import DeleteTopicsRequest
from odradek.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from odradek.server.endpoints import fetch as endpoint
from odradek.server.fetch import fetch_opening, fetch_session, fetch_sessions, large_fetch

from tests.server.harness.data_path import FETCH_VERSION, DataPath, batch_of, values_of

PARTITIONS = 6
LONG_MS = 60_000
AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


@pytest.fixture(autouse=True)
def few_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (endpoint, fetch_sessions):
        monkeypatch.setattr(module, "LARGE_FETCH", 2)
    for module in (fetch_opening, large_fetch):
        monkeypatch.setattr(module, "PLAIN_RESPONSE_ITEMS", 2)
    monkeypatch.setattr(fetch_session, "INSPECTED_PARTITIONS", 2)


@pytest.fixture
def other(path: DataPath) -> Iterator[DataPath]:
    """A client that produces while the first one waits."""
    found = path.another_client()
    yield found
    found.close()


def asked(path: DataPath, topic: str, **fields: Any) -> FetchRequest:
    partitions = [FetchPartition(index, -1, 0, -1, -1, 1 << 20) for index in range(PARTITIONS)]
    topics = [FetchTopic(topic, topic_id=path.topic_id(topic), partitions=partitions)]
    return FetchRequest(**({"max_wait_ms": LONG_MS, "min_bytes": 1, "topics": topics} | fields))


def partitions_of(response: Any) -> list[Any]:
    """Returns topic, index and all fields of each partition, in order."""
    found = [(topic.topic or topic.topic_id, one) for topic in response.responses for one in topic.partitions]
    return sorted(([topic, one.partition_index, one] for topic, one in found), key=lambda part: str(part[:2]))


def records(response: Any) -> dict[int, list[bytes | None]]:
    found = {one.partition_index: values_of(one) for topic in response.responses for one in topic.partitions}
    return {index: values for index, values in found.items() if values}


@pytest.mark.parametrize("session_epoch", [-1, 0], ids=["no session", "a new session"])
def test_fetch_without_records_ends_after_its_wait(path: DataPath, session_epoch: int) -> None:
    topic = path.topic(PARTITIONS)
    began = time.monotonic()
    response = path.client.call(asked(path, topic, max_wait_ms=300, session_epoch=session_epoch), FETCH_VERSION)
    assert time.monotonic() - began >= 0.3
    assert [one.partition_index for one in response.responses[0].partitions] == list(range(PARTITIONS))
    assert records(response) == {}


def test_fetch_that_waits_ends_with_the_first_record(path: DataPath, other: DataPath) -> None:
    topic = path.topic(PARTITIONS)
    request = asked(path, topic)
    number = path.client.send(request, FETCH_VERSION)
    assert other.produce(topic, batch_of(b"early"), index=4).error_code == 0
    assert records(path.client.receive(request, FETCH_VERSION, number)) == {4: [b"early"]}


@pytest.mark.usefixtures("sockets")
def test_large_session_with_few_active_partitions_is_read_in_one_go_with_an_authorizer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    started: list[large_fetch.LargeFetch] = []
    original = large_fetch.LargeFetch.start

    def start(self: large_fetch.LargeFetch) -> None:
        started.append(self)
        original(self)

    monkeypatch.setattr(large_fetch.LargeFetch, "start", start)
    config = {"authorizer.class.name": AUTHORIZER, "super.users": "User:ANONYMOUS"}
    with odradek.Broker(config=config) as broker:
        path = DataPath(broker)
        topic = path.topic(PARTITIONS)
        session_id = path.client.call(asked(path, topic, max_wait_ms=0, session_epoch=0), FETCH_VERSION).session_id
        for epoch in (1, 2, 3):
            path.produce(topic, batch_of(b"v"), index=epoch % 2)
            again = FetchRequest(max_wait_ms=LONG_MS, min_bytes=1, session_id=session_id, session_epoch=epoch)
            assert epoch % 2 in records(path.client.call(again, FETCH_VERSION))
        path.close()
    assert len(started) == 2, "the first request, and the one after it, which counts the topics"


def test_fetch_waits_until_all_partitions_together_have_enough(path: DataPath, other: DataPath) -> None:
    topic = path.topic(PARTITIONS)
    batch = batch_of(b"x" * 500)
    request = asked(path, topic, min_bytes=3 * len(batch))
    number = path.client.send(request, FETCH_VERSION)
    for index in (5, 0, 3):
        assert other.produce(topic, batch_of(b"x" * 500), index=index).error_code == 0
    assert records(path.client.receive(request, FETCH_VERSION, number)) == {i: [b"x" * 500] for i in (0, 3, 5)}


def test_fetch_with_too_little_at_its_end_returns_what_there_is(path: DataPath, other: DataPath) -> None:
    topic = path.topic(PARTITIONS)
    assert other.produce(topic, batch_of(b"little"), index=2).error_code == 0
    response = path.client.call(asked(path, topic, max_wait_ms=200, min_bytes=1 << 20), FETCH_VERSION)
    assert records(response) == {2: [b"little"]}


def test_session_of_many_partitions_returns_only_those_that_changed(path: DataPath, other: DataPath) -> None:
    topic = path.topic(PARTITIONS)
    first = path.client.call(asked(path, topic, max_wait_ms=0, session_epoch=0), FETCH_VERSION)
    assert first.session_id > 0
    request = asked(path, topic, session_id=first.session_id, session_epoch=1, topics=[])
    number = path.client.send(request, FETCH_VERSION)
    assert other.produce(topic, batch_of(b"next"), index=1).error_code == 0
    response = path.client.receive(request, FETCH_VERSION, number)
    assert [one.partition_index for one in response.responses[0].partitions] == [1]
    assert records(response) == {1: [b"next"]}


def test_session_whose_partitions_are_all_idle_sees_what_happens_to_them(path: DataPath, other: DataPath) -> None:
    topic = path.topic(PARTITIONS)
    session_id = path.client.call(asked(path, topic, max_wait_ms=0, session_epoch=0), FETCH_VERSION).session_id

    def waiting(epoch: int, *offsets: tuple[int, int]) -> tuple[FetchRequest, int]:
        partitions = [FetchPartition(index, -1, offset, -1, -1, 1 << 20) for index, offset in offsets]
        topics = [FetchTopic(topic, path.topic_id(topic), partitions)] if partitions else []
        request = asked(path, topic, session_id=session_id, session_epoch=epoch, topics=topics)
        return request, path.client.send(request, FETCH_VERSION)

    def received(request: FetchRequest, number: int) -> dict[int, tuple[int, int, int]]:
        response = path.client.receive(request, FETCH_VERSION, number)
        found = [one for each in response.responses for one in each.partitions]
        return {one.partition_index: (one.error_code, one.high_watermark, one.log_start_offset) for one in found}

    nothing = asked(path, topic, session_id=session_id, session_epoch=1, topics=[], max_wait_ms=0)
    assert path.client.call(nothing, FETCH_VERSION).responses == []
    sent = waiting(2)
    assert other.produce(topic, batch_of(b"one"), index=4).error_code == 0
    assert received(*sent) == {4: (0, 1, 0)}
    sent = waiting(3, (4, 1))
    assert other.produce(topic, batch_of(b"two"), index=2).error_code == 0
    assert received(*sent) == {2: (0, 1, 0)}
    deleted = DeleteRecordsTopic(topic, [DeleteRecordsPartition(4, 1)])
    assert other.client.call(DeleteRecordsRequest([deleted], LONG_MS), 2).topics[0].partitions[0].error_code == 0
    request, number = waiting(4, (2, 1))
    assert other.produce(topic, batch_of(b"three"), index=0).error_code == 0
    assert received(request, number) == {0: (0, 1, 0), 4: (0, 1, 1)}
    sent = waiting(5, (0, 1))
    assert (
        other.client.call(DeleteTopicsRequest(topic_names=[topic], timeout_ms=LONG_MS), 5).responses[0].error_code == 0
    )
    assert {error for error, _, _ in received(*sent).values()} == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


@pytest.mark.parametrize("isolation", [0, 1])
@pytest.mark.parametrize("version", range(4, 19))
def test_response_encoded_in_runs_is_the_same(
    version: int, isolation: int, path: DataPath, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Most partitions have nothing new; of the others, some have records, an open transaction, or an error."""
    topics = [path.topic(PARTITIONS) for _ in range(2)]
    for topic in topics:
        assert path.produce(topic, batch_of(b"one"), index=1).error_code == 0
        assert path.produce(topic, batch_of(b"two"), index=2).error_code == 0
    hosted = path.hosted(topics[1], 3)
    opened = batch_of(b"open", producer_id=9, producer_epoch=0, base_sequence=0, transactional=True)
    assert not hosted.append(opened, time.time_ns() // 1_000_000, is_in_transaction=True).error
    request = FetchRequest(
        max_wait_ms=0,
        isolation_level=isolation,
        topics=[
            FetchTopic(
                topic,
                path.topic_id(topic),
                [
                    FetchPartition(0, 0, 0, -1, -1, 1 << 20),
                    FetchPartition(1, -1, 0, -1, -1, 1 << 20),
                    FetchPartition(2, -1, 1, -1, -1, 1 << 20),
                    FetchPartition(3, -1, 1 if topic == topics[1] else 0, -1, -1, 1 << 20),
                    FetchPartition(4, 7, 0, -1, -1, 1 << 20),
                    FetchPartition(5, -1, 9, -1, -1, 1 << 20),
                    FetchPartition(PARTITIONS, -1, 0, -1, -1, 1 << 20),
                ],
            )
            for topic in topics
        ],
    )
    in_runs = path.client.call(request, version)
    monkeypatch.setattr(large_fetch, "PLAIN_RESPONSE_ITEMS", 1 << 20)
    plain = path.client.call(request, version)
    assert partitions_of(in_runs) == partitions_of(plain)
    assert len(in_runs.responses) == 2 and len(partitions_of(plain)) == 2 * (PARTITIONS + 1)


def test_partition_that_is_named_very_often_is_in_the_response_once(path: DataPath) -> None:
    topic = path.topic(PARTITIONS)
    request = asked(path, topic, max_wait_ms=0)
    request.topics[0].partitions = [FetchPartition(1, -1, 0, -1, -1, 1 << 20) for _ in range(10)]
    response = path.client.call(request, FETCH_VERSION)
    assert [one.partition_index for one in response.responses[0].partitions] == [1]


def test_quiet_partitions_count_as_fetched(path: DataPath) -> None:
    topic = path.topic(PARTITIONS)
    path.client.call(asked(path, topic, max_wait_ms=0), FETCH_VERSION)
    assert path.hosted(topic, 0).counters.fetches == PARTITIONS
