"""Decoders: the header, Produce, Fetch and their responses."""

from __future__ import annotations

from struct import Struct
from typing import Any

from odradek.protocol.headers import RequestHeader
from odradek.protocol.messages import fetch, produce
from odradek.protocol.messages.leader_id_and_epoch import LeaderIdAndEpoch
from odradek.protocol.varint import Fault, varint_tail

from .tags import keep_tags, tagged

HEADER = Struct(">hhih").unpack_from
ACKS = Struct(">hiB").unpack_from
INDEX_SIZE = Struct(">iB").unpack_from
PRODUCED = Struct(">ihqqqB").unpack_from
THROTTLE = Struct(">iB").unpack_from
FETCH = Struct(">iiibiiB").unpack_from
TOPIC_ID = Struct(">16sB").unpack_from
FETCH_PARTITION = Struct(">iiqiqiB").unpack_from
FETCHED = Struct(">ihiB").unpack_from
FETCHED_PARTITION = Struct(">ihqqqB").unpack_from
ABORTED = Struct(">qqB").unpack_from
LEADER = Struct(">ii").unpack_from


def request_header(buf: Any, pos: int) -> tuple[RequestHeader, int]:
    key, version, correlation_id, size = HEADER(buf, pos)
    pos += 10
    client_id = None
    if size >= 0:
        stop = pos + size
        if stop > len(buf):
            raise Fault
        client_id = buf[pos:stop].decode("utf-8", "replace")
        pos = stop
    elif size != -1:
        raise Fault
    made = RequestHeader(key, version, correlation_id, client_id)
    tags = buf[pos]
    pos += 1
    return made, keep_tags(made, buf, pos, tags) if tags else pos


def produce_request(buf: Any, pos: int) -> tuple[produce.ProduceRequest, int]:
    end = len(buf)
    size = buf[pos]
    pos += 1
    if size > 127:
        size, pos = varint_tail(buf, pos, size)
    transactional_id = None
    if size:
        stop = pos + size - 1
        if stop > end or size > 32768:
            raise Fault
        transactional_id = buf[pos:stop].decode("utf-8", "replace")
        pos = stop
    acks, timeout_ms, count = ACKS(buf, pos)
    pos += 7
    if count > 127:
        count, pos = varint_tail(buf, pos, count)
    if not count or count > end - pos:
        raise Fault
    topics = []
    for _ in range(count - 1):
        topic, pos = produce_topic(buf, pos, end)
        topics.append(topic)
    made = produce.ProduceRequest(transactional_id, acks, timeout_ms, topics)
    tags = buf[pos]
    pos += 1
    return made, keep_tags(made, buf, pos, tags) if tags else pos


def produce_topic(buf: Any, pos: int, end: int) -> tuple[produce.TopicProduceData, int]:
    size = buf[pos]
    pos += 1
    if size > 127:
        size, pos = varint_tail(buf, pos, size)
    stop = pos + size - 1
    if not size or stop > end or size > 32768:
        raise Fault
    name = buf[pos:stop].decode("utf-8", "replace")
    count = buf[stop]
    pos = stop + 1
    if count > 127:
        count, pos = varint_tail(buf, pos, count)
    if not count or count > end - pos:
        raise Fault
    partitions = []
    for _ in range(count - 1):
        index, size = INDEX_SIZE(buf, pos)
        pos += 5
        if size > 127:
            size, pos = varint_tail(buf, pos, size)
        records = None
        if size:
            stop = pos + size - 1
            if stop > end:
                raise Fault
            records = memoryview(buf)[pos:stop]
            pos = stop
        partition = produce.PartitionProduceData(index, records)
        tags = buf[pos]
        pos += 1
        if tags:
            pos = keep_tags(partition, buf, pos, tags)
        partitions.append(partition)
    made = produce.TopicProduceData(name, bytes(16), partitions)
    tags = buf[pos]
    pos += 1
    return made, keep_tags(made, buf, pos, tags) if tags else pos


def produce_response(buf: Any, pos: int) -> tuple[produce.ProduceResponse, int]:
    end = len(buf)
    count = buf[pos]
    pos += 1
    if count > 127:
        count, pos = varint_tail(buf, pos, count)
    if not count or count > end - pos:
        raise Fault
    topics = []
    for _ in range(count - 1):
        topic, pos = produced_topic(buf, pos, end)
        topics.append(topic)
    throttle_time_ms, tags = THROTTLE(buf, pos)
    made = produce.ProduceResponse(topics, throttle_time_ms)
    pos += 5
    return made, keep_tags(made, buf, pos, tags) if tags else pos


def produced_topic(buf: Any, pos: int, end: int) -> tuple[produce.TopicProduceResponse, int]:
    size = buf[pos]
    pos += 1
    if size > 127:
        size, pos = varint_tail(buf, pos, size)
    stop = pos + size - 1
    if not size or stop > end or size > 32768:
        raise Fault
    name = buf[pos:stop].decode("utf-8", "replace")
    count = buf[stop]
    pos = stop + 1
    if count > 127:
        count, pos = varint_tail(buf, pos, count)
    if not count or count > end - pos:
        raise Fault
    partitions = []
    for _ in range(count - 1):
        partition, pos = produced_partition(buf, pos, end)
        partitions.append(partition)
    made = produce.TopicProduceResponse(name, bytes(16), partitions)
    tags = buf[pos]
    pos += 1
    return made, keep_tags(made, buf, pos, tags) if tags else pos


def produced_partition(buf: Any, pos: int, end: int) -> tuple[produce.PartitionProduceResponse, int]:
    index, error_code, base_offset, append_time, start_offset, count = PRODUCED(buf, pos)
    pos += 31
    if count > 127:
        count, pos = varint_tail(buf, pos, count)
    if not count or count > end - pos:
        raise Fault
    errors = []
    for _ in range(count - 1):
        error, pos = record_error(buf, pos, end)
        errors.append(error)
    size = buf[pos]
    pos += 1
    if size > 127:
        size, pos = varint_tail(buf, pos, size)
    text = None
    if size:
        stop = pos + size - 1
        if stop > end or size > 32768:
            raise Fault
        text = buf[pos:stop].decode("utf-8", "replace")
        pos = stop
    made = produce.PartitionProduceResponse(index, error_code, base_offset, append_time, start_offset, errors, text)
    tags = buf[pos]
    pos += 1
    if tags:
        made.unknown_tags, pos = tagged(buf, pos, tags)
        leader = made.unknown_tags.pop(0, None)
        if leader:
            made.current_leader = LeaderIdAndEpoch(*LEADER(leader))
    return made, pos


def record_error(buf: Any, pos: int, end: int) -> tuple[produce.BatchIndexAndErrorMessage, int]:
    index, size = INDEX_SIZE(buf, pos)
    pos += 5
    if size > 127:
        size, pos = varint_tail(buf, pos, size)
    text = None
    if size:
        stop = pos + size - 1
        if stop > end or size > 32768:
            raise Fault
        text = buf[pos:stop].decode("utf-8", "replace")
        pos = stop
    made = produce.BatchIndexAndErrorMessage(index, text)
    tags = buf[pos]
    pos += 1
    return made, keep_tags(made, buf, pos, tags) if tags else pos


def fetch_request(buf: Any, pos: int) -> tuple[fetch.FetchRequest, int]:
    end = len(buf)
    wait, least, most, isolation, session_id, session_epoch, count = FETCH(buf, pos)
    pos += 22
    if count > 127:
        count, pos = varint_tail(buf, pos, count)
    if not count or count > end - pos:
        raise Fault
    topics = []
    for _ in range(count - 1):
        topic, pos = fetch_topic(buf, pos, end)
        topics.append(topic)
    count = buf[pos]
    pos += 1
    if count > 127:
        count, pos = varint_tail(buf, pos, count)
    if not count or count > end - pos:
        raise Fault
    forgotten = []
    for _ in range(count - 1):
        topic_id, indexes = TOPIC_ID(buf, pos)
        pos += 17
        if indexes > 127:
            indexes, pos = varint_tail(buf, pos, indexes)
        if not indexes or (indexes - 1) * 4 > end - pos:
            raise Fault
        numbers = list(Struct(f">{indexes - 1}i").unpack_from(buf, pos))
        tags = buf[pos + 4 * len(numbers)]
        pos += 4 * len(numbers) + 1
        each = fetch.ForgottenTopic("", topic_id, numbers)
        pos = keep_tags(each, buf, pos, tags) if tags else pos
        forgotten.append(each)
    size = buf[pos]
    pos += 1
    if size > 127:
        size, pos = varint_tail(buf, pos, size)
    stop = pos + size - 1
    if not size or stop > end or size > 32768:
        raise Fault
    rack_id = buf[pos:stop].decode("utf-8", "replace")
    tags = buf[stop]
    made = fetch.FetchRequest(
        None,
        -1,
        fetch.ReplicaState(),
        wait,
        least,
        most,
        isolation,
        session_id,
        session_epoch,
        topics,
        forgotten,
        rack_id,
    )
    return made, keep_tags(made, buf, stop + 1, tags) if tags else stop + 1


def fetch_topic(buf: Any, pos: int, end: int) -> tuple[fetch.FetchTopic, int]:
    topic_id, count = TOPIC_ID(buf, pos)
    pos += 17
    if count > 127:
        count, pos = varint_tail(buf, pos, count)
    if not count or count > end - pos:
        raise Fault
    partitions = []
    for _ in range(count - 1):
        index, epoch, offset, fetched_epoch, start, most, tags = FETCH_PARTITION(buf, pos)
        pos += 33
        partition = fetch.FetchPartition(index, epoch, offset, fetched_epoch, start, most)
        if tags:
            pos = keep_tags(partition, buf, pos, tags)
        partitions.append(partition)
    made = fetch.FetchTopic("", topic_id, partitions)
    tags = buf[pos]
    pos += 1
    return made, keep_tags(made, buf, pos, tags) if tags else pos


def fetch_response(buf: Any, pos: int) -> tuple[fetch.FetchResponse, int]:
    end = len(buf)
    throttle_time_ms, error_code, session_id, count = FETCHED(buf, pos)
    pos += 11
    if count > 127:
        count, pos = varint_tail(buf, pos, count)
    if not count or count > end - pos:
        raise Fault
    topics = []
    for _ in range(count - 1):
        topic_id, indexes = TOPIC_ID(buf, pos)
        pos += 17
        if indexes > 127:
            indexes, pos = varint_tail(buf, pos, indexes)
        if not indexes or indexes > end - pos:
            raise Fault
        partitions = []
        for _ in range(indexes - 1):
            partition, pos = fetched_partition(buf, pos, end)
            partitions.append(partition)
        topic = fetch.FetchableTopicResponse("", topic_id, partitions)
        tags = buf[pos]
        pos += 1
        if tags:
            pos = keep_tags(topic, buf, pos, tags)
        topics.append(topic)
    made = fetch.FetchResponse(throttle_time_ms, error_code, session_id, topics)
    tags = buf[pos]
    pos += 1
    return made, keep_tags(made, buf, pos, tags) if tags else pos


def fetched_partition(buf: Any, pos: int, end: int) -> tuple[fetch.PartitionData, int]:
    index, error_code, high_watermark, stable_offset, start_offset, count = FETCHED_PARTITION(buf, pos)
    pos += 31
    if count > 127:
        count, pos = varint_tail(buf, pos, count)
    aborted: list[fetch.AbortedTransaction] | None = None
    if count:
        if (count - 1) * 17 > end - pos:
            raise Fault
        aborted = []
        for _ in range(count - 1):
            producer_id, first_offset, tags = ABORTED(buf, pos)
            pos += 17
            transaction = fetch.AbortedTransaction(producer_id, first_offset)
            if tags:
                pos = keep_tags(transaction, buf, pos, tags)
            aborted.append(transaction)
    replica, size = INDEX_SIZE(buf, pos)
    pos += 5
    if size > 127:
        size, pos = varint_tail(buf, pos, size)
    records = None
    if size:
        stop = pos + size - 1
        if stop > end:
            raise Fault
        records = memoryview(buf)[pos:stop]
        pos = stop
    made = fetch.PartitionData(index, error_code, high_watermark, stable_offset, start_offset)
    made.aborted_transactions = aborted
    made.preferred_read_replica = replica
    made.records = records
    tags = buf[pos]
    pos += 1
    return made, keep_tags(made, buf, pos, tags) if tags else pos
