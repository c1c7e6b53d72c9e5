"""Fetch: the records returned, size limits, the time of the response, and sessions."""

from __future__ import annotations

import errno
import os
import time
from typing import Any

import pytest
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from odradek.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, ForgottenTopic
from odradek.server.partitions import parked_fetch, sendable_records
from odradek.storage.files.page_cache import pread_nowait

from tests.server.harness.data_path import DataPath, batch_of, delete_records, fetch_request, values_of, wait_until

# ---- records


@pytest.mark.parametrize("version", range(4, 19))
def test_every_version_reads_what_was_written(path: DataPath, version: int) -> None:
    topic = path.topic()
    path.produce(topic, batch_of(b"a", b"b"))
    if version < 13:
        data = path.fetch(topic, version=version)
    else:
        topics = [FetchTopic(topic_id=path.topic_id(topic), partitions=[FetchPartition(0, -1, 0, -1, -1, 1 << 20)])]
        data = path.fetch(topic, version=version, topics=topics)
    assert values_of(data) == [b"a", b"b"]
    assert (data.high_watermark, data.last_stable_offset) == (2, 2)
    assert data.log_start_offset == (0 if version >= 5 else -1)
    assert data.preferred_read_replica == -1


def test_a_fetch_from_inside_a_batch_gives_the_whole_batch(path: DataPath) -> None:
    topic = path.topic()
    path.produce(topic, batch_of(b"a", b"b", b"c"))
    assert values_of(path.fetch(topic, 1)) == [b"a", b"b", b"c"]


def test_the_end_of_the_log_is_empty_and_beyond_it_is_out_of_range(path: DataPath) -> None:
    topic = path.topic()
    path.produce(topic, batch_of(b"a"))
    at_end = path.fetch(topic, 1)
    assert (at_end.error_code, values_of(at_end)) == (0, [])
    for offset in (2, -1):
        beyond = path.fetch(topic, offset)
        assert ErrorCode(beyond.error_code) is ErrorCode.OFFSET_OUT_OF_RANGE
        assert (beyond.high_watermark, beyond.log_start_offset) == (-1, -1)


def test_below_the_start_of_the_log_is_out_of_range(path: DataPath) -> None:
    topic = path.topic()
    path.produce(topic, batch_of(b"a", b"b"))
    path.produce(topic, batch_of(b"c"))
    assert delete_records(path, topic, 2) == (0, 2)
    assert path.fetch(topic, 1).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert values_of(path.fetch(topic, 2)) == [b"c"]
    assert path.fetch(topic, 2).log_start_offset == 2


@pytest.mark.parametrize(
    ("epoch", "error"), [(-1, 0), (0, 0), (7, ErrorCode.UNKNOWN_LEADER_EPOCH), (-2, ErrorCode.FENCED_LEADER_EPOCH)]
)
def test_the_epoch_that_the_client_believes_in_is_checked(path: DataPath, epoch: int, error: int) -> None:
    topic = path.topic()
    assert path.fetch(topic, epoch=epoch).error_code == error


def test_unknown_partitions_return_errors(path: DataPath) -> None:
    topic = path.topic()
    assert path.fetch("nowhere").error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert path.fetch(topic, index=5).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    unknown = [FetchTopic(topic_id=b"y" * 16, partitions=[FetchPartition(0, partition_max_bytes=10)])]
    assert path.fetch("", version=13, topics=unknown).error_code == ErrorCode.UNKNOWN_TOPIC_ID


def test_aborted_transactions_are_empty_for_read_committed_and_null_for_read_uncommitted(path: DataPath) -> None:
    topic = path.topic()
    path.produce(topic, batch_of(b"a"))
    assert path.fetch(topic).aborted_transactions is None
    committed = path.fetch(topic, isolation_level=1)
    assert (committed.aborted_transactions, values_of(committed)) == ([], [b"a"])


def test_fetcher_with_diverging_log_gets_diverging_epoch(path: DataPath) -> None:
    topic = path.topic()
    path.produce(topic, batch_of(b"a", b"b"))
    same = path.fetch(topic, 2, last_epoch=0)
    assert (same.error_code, same.diverging_epoch.epoch) == (0, -1)
    beyond = path.fetch(topic, 3, last_epoch=0)
    assert (beyond.diverging_epoch.epoch, beyond.diverging_epoch.end_offset) == (0, 2)
    assert path.fetch(topic, 2, last_epoch=9).error_code == ErrorCode.OFFSET_OUT_OF_RANGE


# ---- size limits


def sized(path: DataPath, count: int = 5, size: int = 10_000) -> tuple[str, int]:
    """Creates a topic of `count` batches. Returns its name and the size of each batch."""
    topic = path.topic()
    for number in range(count):
        path.produce(topic, batch_of(bytes([number]) * size))
    return topic, len(batch_of(bytes(size)))


def test_only_whole_batches_within_the_partitions_limit_are_given(path: DataPath) -> None:
    topic, one = sized(path)
    for limit, count in ((one, 1), (2 * one, 2), (3 * one - 1, 2), (1 << 20, 5)):
        assert len(values_of(path.fetch(topic, max_bytes=limit))) == count


def test_the_first_batch_is_given_whole_however_large(path: DataPath) -> None:
    topic, one = sized(path)
    for fields in ({"max_bytes": 1}, {"max_bytes": 1, "min_bytes": 0}):
        assert len(path.fetch(topic, **fields).records or b"") == one


def test_the_requests_limit_holds_over_all_partitions_and_the_first_with_data_gets_on(path: DataPath) -> None:
    topic = path.topic(partitions=3)
    for index in range(3):
        for _ in range(3):
            path.produce(topic, batch_of(bytes(10_000)), index=index)
    one = len(batch_of(bytes(10_000)))
    asked = [FetchPartition(index, -1, 0, -1, -1, 1 << 20) for index in range(3)]
    for limit, sizes in ((1, [1, 0, 0]), (4 * one, [3, 1, 0]), (7 * one, [3, 3, 1]), (1 << 20, [3, 3, 3])):
        request = FetchRequest(max_wait_ms=0, max_bytes=limit, topics=[FetchTopic(topic, partitions=asked)])
        (found,) = path.client.call(request, 12).responses
        assert [len(data.records) // one for data in found.partitions] == sizes


@pytest.mark.parametrize("size", [1_000, 60_000, 70_000, 500_000])
def test_small_responses_are_copied_and_large_ones_sent_from_the_file_with_the_same_bytes(
    path: DataPath, size: int
) -> None:
    topic = path.topic(partitions=2)
    sent = [os.urandom(size) for _ in range(4)]
    for index in (0, 1):
        for value in sent:
            path.produce(topic, batch_of(value), index=index)
    asked = [FetchPartition(index, -1, 0, -1, -1, 10_000_000) for index in (0, 1)]
    request = FetchRequest(max_wait_ms=0, topics=[FetchTopic(topic, partitions=asked)])
    for _ in range(3):
        (found,) = path.client.call(request, 12).responses
        assert [values_of(data) for data in found.partitions] == [sent, sent]


def test_segments_are_read_one_after_the_other(path: DataPath) -> None:
    topic = path.topic(segment_bytes="1048576")
    for number in range(8):
        path.produce(topic, batch_of(bytes([number]) * 300_000))
    assert len(path.hosted(topic).log.segments) > 1
    offset, values = 0, []
    while offset < 8:
        found = values_of(path.fetch(topic, offset, max_bytes=10_000_000))
        values += found
        offset += len(found)
    assert [value[0] for value in values if value] == list(range(8))


# ---- waits


def waiting(path: DataPath, topic: str, offset: int = 0, **fields: Any) -> tuple[FetchRequest, int]:
    """Sends a fetch that must wait. Returns once it waits."""
    request = fetch_request(topic, offset, **({"max_wait_ms": 20_000} | fields))
    number = path.client.send(request, 12)
    wait_until(lambda: path.hosted(topic).watchers, "the fetch does not wait")
    return request, number


def respond(path: DataPath, sent: tuple[FetchRequest, int]) -> FetchResponse:
    response: FetchResponse = path.client.receive(sent[0], 12, sent[1])
    return response


def test_a_fetch_waits_for_the_first_record(path: DataPath) -> None:
    topic = path.topic()
    sent = waiting(path, topic)
    path.another_client().produce(topic, batch_of(b"at last"))
    assert values_of(respond(path, sent).responses[0].partitions[0]) == [b"at last"]
    assert not path.hosted(topic).watchers


def test_a_fetch_that_gets_nothing_is_answered_at_its_deadline(path: DataPath) -> None:
    topic = path.topic()
    began = time.monotonic()
    data = path.client.call(fetch_request(topic, max_wait_ms=300), 12).responses[0].partitions[0]
    assert (data.error_code, values_of(data)) == (0, [])
    assert time.monotonic() - began >= 0.3
    assert not path.hosted(topic).watchers


def test_a_fetch_waits_until_it_has_its_minimum(path: DataPath) -> None:
    topic = path.topic()
    one = len(batch_of(b"v"))
    sent = waiting(path, topic, min_bytes=3 * one)
    other = path.another_client()
    for _ in range(2):
        other.produce(topic, batch_of(b"v"))
        assert path.hosted(topic).watchers
    other.produce(topic, batch_of(b"v"))
    assert values_of(respond(path, sent).responses[0].partitions[0]) == [b"v"] * 3


def test_existing_bytes_count_towards_min_bytes(path: DataPath) -> None:
    topic = path.topic()
    path.produce(topic, batch_of(b"v"))
    sent = waiting(path, topic, min_bytes=2 * len(batch_of(b"v")))
    path.another_client().produce(topic, batch_of(b"w"))
    assert values_of(respond(path, sent).responses[0].partitions[0]) == [b"v", b"w"]


def test_produce_to_several_partitions_completes_fetch_once(path: DataPath) -> None:
    from odradek.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

    topic = path.topic(partitions=3)
    asked = [FetchPartition(index, -1, 0, -1, -1, 1 << 20) for index in range(3)]
    sent = waiting(path, topic, topics=[FetchTopic(topic, partitions=asked)])
    data = [PartitionProduceData(index, batch_of(b"v")) for index in range(3)]
    path.another_client().client.call(ProduceRequest(acks=1, topic_data=[TopicProduceData(topic, b"", data)]), 9)
    assert [values_of(one) for one in respond(path, sent).responses[0].partitions] == [[b"v"]] * 3


def test_error_of_one_partition_ends_the_wait(path: DataPath) -> None:
    topic = path.topic()
    asked = [FetchPartition(index, -1, 0, -1, -1, 1 << 20) for index in (0, 9)]
    request = FetchRequest(max_wait_ms=20_000, min_bytes=1, topics=[FetchTopic(topic, partitions=asked)])
    (found,) = path.client.call(request, 12).responses
    assert [data.error_code for data in found.partitions] == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


def test_deleting_the_topic_ends_the_wait(path: DataPath) -> None:
    topic = path.topic()
    sent = waiting(path, topic)
    request = DeleteTopicsRequest(topics=[DeleteTopicState(topic)], timeout_ms=10_000)
    path.another_client().client.call(request, 6)
    data = respond(path, sent).responses[0].partitions[0]
    assert data.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_deleting_the_records_that_are_waited_behind_ends_the_wait(path: DataPath) -> None:
    topic = path.topic()
    path.produce(topic, batch_of(b"v"))
    sent = waiting(path, topic, 0, min_bytes=10_000)
    assert delete_records(path.another_client(), topic, -1) == (0, 1)
    assert respond(path, sent).responses[0].partitions[0].error_code == ErrorCode.OFFSET_OUT_OF_RANGE


# ---- bytes that are not in the page cache


def test_cold_bytes_are_read_by_a_thread_and_then_answered(path: DataPath, monkeypatch: pytest.MonkeyPatch) -> None:
    topic, _ = sized(path, count=20, size=20_000)
    calls = 0

    def cold_at_first(fd: int, size: int, position: int) -> bytes | bytearray:
        nonlocal calls
        calls += 1
        if calls in (1, 3):
            raise BlockingIOError(errno.EAGAIN, "not in the page cache")
        return pread_nowait(fd, size, position)

    monkeypatch.setattr(sendable_records, "pread_nowait", cold_at_first)
    monkeypatch.setattr(parked_fetch, "pread_nowait", cold_at_first)
    assert len(values_of(path.fetch(topic, 3))) == 17
    assert calls > 3


def test_bytes_that_stay_cold_are_waited_for_in_the_end(path: DataPath, monkeypatch: pytest.MonkeyPatch) -> None:
    topic, _ = sized(path, count=20, size=20_000)

    def always_cold(fd: int, size: int, position: int) -> bytes:
        raise BlockingIOError(errno.EAGAIN, "not in the page cache")

    monkeypatch.setattr(sendable_records, "pread_nowait", always_cold)
    monkeypatch.setattr(parked_fetch, "pread_nowait", always_cold)
    assert len(values_of(path.fetch(topic, 3))) == 17


# ---- sessions


def in_session(path: DataPath, session_id: int, epoch: int, *topics: FetchTopic, **fields: Any) -> FetchResponse:
    request = FetchRequest(
        max_wait_ms=fields.pop("max_wait_ms", 0),
        min_bytes=1,
        session_id=session_id,
        session_epoch=epoch,
        topics=list(topics),
        **fields,
    )
    response: FetchResponse = path.client.call(request, fields.get("version", 12))
    return response


def both(topic: str, offset: int = 0) -> FetchTopic:
    return FetchTopic(topic, partitions=[FetchPartition(index, -1, offset, -1, -1, 1 << 20) for index in (0, 1)])


def reported(response: FetchResponse) -> dict[int, list[bytes | None]]:
    assert response.error_code == 0, ErrorCode(response.error_code).name
    return {data.partition_index: values_of(data) for topic in response.responses for data in topic.partitions}


def test_session_reports_a_partition_again_after_its_error(path: DataPath) -> None:
    """The client dropped the high watermark with the error; the partition has no newer one."""
    topic = path.topic(partitions=2)
    for index in (0, 1):
        path.produce(topic, batch_of(b"v"), index=index)
    session = in_session(path, 0, 0, both(topic, 1)).session_id
    assert reported(in_session(path, session, 1)) == {}
    hosted = path.hosted(topic)
    hosted.offline = True
    (failed,) = in_session(path, session, 2).responses[0].partitions
    assert (failed.partition_index, failed.error_code) == (0, ErrorCode.KAFKA_STORAGE_ERROR)
    hosted.offline = False
    (again,) = in_session(path, session, 3).responses[0].partitions
    assert (again.partition_index, again.error_code, again.high_watermark) == (0, 0, 1)
    assert reported(in_session(path, session, 4)) == {}


def test_session_returns_only_changed_partitions(path: DataPath) -> None:
    topic = path.topic(partitions=2)
    first = in_session(path, 0, 0, both(topic))
    session = first.session_id
    assert session > 0
    assert reported(first) == {0: [], 1: []}
    assert reported(in_session(path, session, 1)) == {}
    path.produce(topic, batch_of(b"v"), index=1)
    assert reported(in_session(path, session, 2)) == {1: [b"v"]}
    moved = FetchTopic(topic, partitions=[FetchPartition(1, -1, 1, -1, -1, 1 << 20)])
    assert reported(in_session(path, session, 3, moved)) == {}
    path.produce(topic, batch_of(b"w"), index=0)
    assert reported(in_session(path, session, 4)) == {0: [b"w"]}


def test_a_session_waits_like_any_fetch(path: DataPath) -> None:
    topic = path.topic(partitions=2)
    session = in_session(path, 0, 0, both(topic)).session_id
    request = FetchRequest(max_wait_ms=20_000, min_bytes=1, session_id=session, session_epoch=1)
    number = path.client.send(request, 12)
    wait_until(lambda: path.hosted(topic, 1).watchers)
    path.another_client().produce(topic, batch_of(b"v"), index=1)
    assert reported(path.client.receive(request, 12, number)) == {1: [b"v"]}


def test_partitions_join_and_leave_a_session(path: DataPath) -> None:
    topic = path.topic(partitions=2)
    for index in (0, 1):
        path.produce(topic, batch_of(b"v"), index=index)
    only = FetchTopic(topic, partitions=[FetchPartition(0, -1, 0, -1, -1, 1 << 20)])
    first = in_session(path, 0, 0, only)
    assert reported(first) == {0: [b"v"]}
    joined = FetchTopic(topic, partitions=[FetchPartition(1, -1, 0, -1, -1, 1 << 20)])
    assert reported(in_session(path, first.session_id, 1, joined)) == {0: [b"v"], 1: [b"v"]}
    left = [ForgottenTopic(topic, partitions=[0])]
    assert reported(in_session(path, first.session_id, 2, forgotten_topics_data=left)) == {1: [b"v"]}


def test_the_partition_that_gave_data_comes_last_the_next_time(path: DataPath) -> None:
    topic = path.topic(partitions=2)
    for index in (0, 1):
        path.produce(topic, batch_of(bytes(5000)), index=index)
    session = in_session(path, 0, 0, both(topic, 1)).session_id
    back = both(topic, 0)
    order = [next(iter(reported(in_session(path, session, 1, back, max_bytes=6000))))]
    order.append(
        next(index for index, values in reported(in_session(path, session, 2, max_bytes=6000)).items() if values)
    )
    order.append(
        next(index for index, values in reported(in_session(path, session, 3, max_bytes=6000)).items() if values)
    )
    assert order == [0, 1, 0]


def test_wrong_sessions_epochs_and_forms_are_errors_of_the_whole_request(path: DataPath) -> None:
    topic = path.topic(partitions=2)
    session = in_session(path, 0, 0, both(topic)).session_id
    assert in_session(path, session + 1, 1).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert in_session(path, session, 7).error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    request = FetchRequest(session_id=session, session_epoch=1)
    assert path.client.call(request, 13).error_code == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
    ended = in_session(path, session, -1, both(topic))
    assert (ended.error_code, ended.session_id) == (0, 0)
    assert in_session(path, session, 1).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_sessions_by_id_get_an_error_for_a_deleted_topic(path: DataPath) -> None:
    topic = path.topic()
    asked = FetchTopic(topic_id=path.topic_id(topic), partitions=[FetchPartition(0, -1, 0, -1, -1, 1 << 20)])
    first = FetchRequest(max_wait_ms=0, session_id=0, session_epoch=0, topics=[asked])
    session = path.client.call(first, 13).session_id
    path.client.call(DeleteTopicsRequest(topics=[DeleteTopicState(topic)], timeout_ms=10_000), 6)
    again = FetchRequest(max_wait_ms=20_000, min_bytes=1, session_id=session, session_epoch=1)
    (found,) = path.client.call(again, 13).responses
    assert found.partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID
