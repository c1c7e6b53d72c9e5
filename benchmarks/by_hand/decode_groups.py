"""Decoders: metadata and groups."""

from __future__ import annotations

from struct import Struct
from typing import Any

from odradek.protocol.messages import metadata
from odradek.protocol.messages.heartbeat import HeartbeatRequest
from odradek.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from odradek.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from odradek.protocol.messages.offset_fetch import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from odradek.protocol.varint import Fault, varint_tail

from .tags import keep_tags

INT_COUNT = Struct(">iB").unpack_from
INT_SHORT = Struct(">hB").unpack_from
TWO_INTS_COUNT = Struct(">iiB").unpack_from
PARTITION = Struct(">hiiiB").unpack_from
TOPIC = Struct(">16s?B").unpack_from
COMMITTED = Struct(">iqiB").unpack_from
INTS = [Struct(f">{count}i").unpack_from for count in range(17)]


def metadata_response(buf: Any, pos: int) -> tuple[metadata.MetadataResponse, int]:
    end = len(buf)
    throttle_time_ms, count = INT_COUNT(buf, pos)
    pos += 5
    if count > 127:
        count, pos = varint_tail(buf, pos, count)
    if not count or count > end - pos:
        raise Fault
    brokers = []
    for _ in range(count - 1):
        broker, pos = metadata_broker(buf, pos, end)
        brokers.append(broker)
    size = buf[pos]
    pos += 1
    if size > 127:
        size, pos = varint_tail(buf, pos, size)
    cluster_id = None
    if size:
        stop = pos + size - 1
        if stop > end or size > 32768:
            raise Fault
        cluster_id = buf[pos:stop].decode("utf-8", "replace")
        pos = stop
    controller_id, count = INT_COUNT(buf, pos)
    pos += 5
    if count > 127:
        count, pos = varint_tail(buf, pos, count)
    if not count or count > end - pos:
        raise Fault
    topics = []
    for _ in range(count - 1):
        topic, pos = metadata_topic(buf, pos, end)
        topics.append(topic)
    error_code, tags = INT_SHORT(buf, pos)
    pos += 3
    made = metadata.MetadataResponse(
        throttle_time_ms, brokers, cluster_id, controller_id, topics, -2147483648, error_code
    )
    return made, keep_tags(made, buf, pos, tags) if tags else pos


def metadata_broker(buf: Any, pos: int, end: int) -> tuple[metadata.MetadataResponseBroker, int]:
    node_id, size = INT_COUNT(buf, pos)
    pos += 5
    if size > 127:
        size, pos = varint_tail(buf, pos, size)
    stop = pos + size - 1
    if not size or stop > end or size > 32768:
        raise Fault
    host = buf[pos:stop].decode("utf-8", "replace")
    port, size = INT_COUNT(buf, stop)
    pos = stop + 5
    if size > 127:
        size, pos = varint_tail(buf, pos, size)
    rack = None
    if size:
        stop = pos + size - 1
        if stop > end or size > 32768:
            raise Fault
        rack = buf[pos:stop].decode("utf-8", "replace")
        pos = stop
    made = metadata.MetadataResponseBroker(node_id, host, port, rack)
    tags = buf[pos]
    pos += 1
    return made, keep_tags(made, buf, pos, tags) if tags else pos


def metadata_topic(buf: Any, pos: int, end: int) -> tuple[metadata.MetadataResponseTopic, int]:
    error_code, size = INT_SHORT(buf, pos)
    pos += 3
    if size > 127:
        size, pos = varint_tail(buf, pos, size)
    name = None
    if size:
        stop = pos + size - 1
        if stop > end or size > 32768:
            raise Fault
        name = buf[pos:stop].decode("utf-8", "replace")
        pos = stop
    topic_id, is_internal, count = TOPIC(buf, pos)
    pos += 18
    if count > 127:
        count, pos = varint_tail(buf, pos, count)
    if not count or count > end - pos:
        raise Fault
    partitions = []
    for _ in range(count - 1):
        partition, pos = metadata_partition(buf, pos, end)
        partitions.append(partition)
    operations, tags = INT_COUNT(buf, pos)
    pos += 5
    made = metadata.MetadataResponseTopic(error_code, name, topic_id, is_internal, partitions, operations)
    return made, keep_tags(made, buf, pos, tags) if tags else pos


def metadata_partition(buf: Any, pos: int, end: int) -> tuple[metadata.MetadataResponsePartition, int]:
    error_code, index, leader_id, leader_epoch, count = PARTITION(buf, pos)
    pos += 15
    if count > 127:
        count, pos = varint_tail(buf, pos, count)
    if not count or (count - 1) * 4 > end - pos:
        raise Fault
    replicas = list(INTS[count - 1](buf, pos)) if count < 18 else list(Struct(f">{count - 1}i").unpack_from(buf, pos))
    pos += 4 * (count - 1)
    count = buf[pos]
    pos += 1
    if count > 127:
        count, pos = varint_tail(buf, pos, count)
    if not count or (count - 1) * 4 > end - pos:
        raise Fault
    isr = list(INTS[count - 1](buf, pos)) if count < 18 else list(Struct(f">{count - 1}i").unpack_from(buf, pos))
    pos += 4 * (count - 1)
    count = buf[pos]
    pos += 1
    if count > 127:
        count, pos = varint_tail(buf, pos, count)
    if not count or (count - 1) * 4 > end - pos:
        raise Fault
    offline = list(INTS[count - 1](buf, pos)) if count < 18 else list(Struct(f">{count - 1}i").unpack_from(buf, pos))
    pos += 4 * (count - 1)
    made = metadata.MetadataResponsePartition(error_code, index, leader_id, leader_epoch, replicas, isr, offline)
    tags = buf[pos]
    pos += 1
    return made, keep_tags(made, buf, pos, tags) if tags else pos


def text(buf: Any, pos: int, end: int) -> tuple[str, int]:
    size = buf[pos]
    pos += 1
    if size > 127:
        size, pos = varint_tail(buf, pos, size)
    stop = pos + size - 1
    if not size or stop > end or size > 32768:
        raise Fault
    return buf[pos:stop].decode("utf-8", "replace"), stop


def nullable_text(buf: Any, pos: int, end: int) -> tuple[str | None, int]:
    return text(buf, pos, end) if buf[pos] else (None, pos + 1)


def offset_commit_request(buf: Any, pos: int) -> tuple[OffsetCommitRequest, int]:
    end = len(buf)
    size = buf[pos]
    pos += 1
    if size > 127:
        size, pos = varint_tail(buf, pos, size)
    stop = pos + size - 1
    if not size or stop > end or size > 32768:
        raise Fault
    group_id = buf[pos:stop].decode("utf-8", "replace")
    generation_id, size = INT_COUNT(buf, stop)
    pos = stop + 5
    if size > 127:
        size, pos = varint_tail(buf, pos, size)
    stop = pos + size - 1
    if not size or stop > end or size > 32768:
        raise Fault
    member_id = buf[pos:stop].decode("utf-8", "replace")
    instance_id, pos = nullable_text(buf, stop, end)
    count = buf[pos]
    pos += 1
    if count > 127:
        count, pos = varint_tail(buf, pos, count)
    if not count or count > end - pos:
        raise Fault
    topics = []
    for _ in range(count - 1):
        topic, pos = commit_topic(buf, pos, end)
        topics.append(topic)
    made = OffsetCommitRequest(group_id, generation_id, member_id, instance_id, -1, topics)
    tags = buf[pos]
    pos += 1
    return made, keep_tags(made, buf, pos, tags) if tags else pos


def commit_topic(buf: Any, pos: int, end: int) -> tuple[OffsetCommitRequestTopic, int]:
    name, pos = text(buf, pos, end)
    count = buf[pos]
    pos += 1
    if count > 127:
        count, pos = varint_tail(buf, pos, count)
    if not count or count > end - pos:
        raise Fault
    partitions = []
    for _ in range(count - 1):
        index, offset, epoch, size = COMMITTED(buf, pos)
        pos += 17
        if size > 127:
            size, pos = varint_tail(buf, pos, size)
        note = None
        if size:
            stop = pos + size - 1
            if stop > end or size > 32768:
                raise Fault
            note = buf[pos:stop].decode("utf-8", "replace")
            pos = stop
        partition = OffsetCommitRequestPartition(index, offset, epoch, note)
        tags = buf[pos]
        pos += 1
        if tags:
            pos = keep_tags(partition, buf, pos, tags)
        partitions.append(partition)
    made = OffsetCommitRequestTopic(name, bytes(16), partitions)
    tags = buf[pos]
    pos += 1
    return made, keep_tags(made, buf, pos, tags) if tags else pos


def offset_fetch_response(buf: Any, pos: int) -> tuple[OffsetFetchResponse, int]:
    end = len(buf)
    throttle_time_ms, count = INT_COUNT(buf, pos)
    pos += 5
    if count > 127:
        count, pos = varint_tail(buf, pos, count)
    if not count or count > end - pos:
        raise Fault
    groups = []
    for _ in range(count - 1):
        group_id, pos = text(buf, pos, end)
        size = buf[pos]
        pos += 1
        if size > 127:
            size, pos = varint_tail(buf, pos, size)
        if not size or size > end - pos:
            raise Fault
        topics = []
        for _ in range(size - 1):
            topic, pos = fetched_topic(buf, pos, end)
            topics.append(topic)
        error_code, tags = INT_SHORT(buf, pos)
        pos += 3
        group = OffsetFetchResponseGroup(group_id, topics, error_code)
        if tags:
            pos = keep_tags(group, buf, pos, tags)
        groups.append(group)
    made = OffsetFetchResponse(throttle_time_ms, [], 0, groups)
    tags = buf[pos]
    pos += 1
    return made, keep_tags(made, buf, pos, tags) if tags else pos


def fetched_topic(buf: Any, pos: int, end: int) -> tuple[OffsetFetchResponseTopics, int]:
    name, pos = text(buf, pos, end)
    count = buf[pos]
    pos += 1
    if count > 127:
        count, pos = varint_tail(buf, pos, count)
    if not count or count > end - pos:
        raise Fault
    partitions = []
    for _ in range(count - 1):
        index, offset, epoch, size = COMMITTED(buf, pos)
        pos += 17
        if size > 127:
            size, pos = varint_tail(buf, pos, size)
        note = None
        if size:
            stop = pos + size - 1
            if stop > end or size > 32768:
                raise Fault
            note = buf[pos:stop].decode("utf-8", "replace")
            pos = stop
        error_code, tags = INT_SHORT(buf, pos)
        pos += 3
        partition = OffsetFetchResponsePartitions(index, offset, epoch, note, error_code)
        if tags:
            pos = keep_tags(partition, buf, pos, tags)
        partitions.append(partition)
    made = OffsetFetchResponseTopics(name, bytes(16), partitions)
    tags = buf[pos]
    pos += 1
    return made, keep_tags(made, buf, pos, tags) if tags else pos


def join_group_request(buf: Any, pos: int) -> tuple[JoinGroupRequest, int]:
    end = len(buf)
    group_id, pos = text(buf, pos, end)
    session_timeout_ms, rebalance_timeout_ms, size = TWO_INTS_COUNT(buf, pos)
    pos += 9
    if size > 127:
        size, pos = varint_tail(buf, pos, size)
    stop = pos + size - 1
    if not size or stop > end or size > 32768:
        raise Fault
    member_id = buf[pos:stop].decode("utf-8", "replace")
    instance_id, pos = nullable_text(buf, stop, end)
    protocol_type, pos = text(buf, pos, end)
    count = buf[pos]
    pos += 1
    if count > 127:
        count, pos = varint_tail(buf, pos, count)
    if not count or count > end - pos:
        raise Fault
    protocols = []
    for _ in range(count - 1):
        name, pos = text(buf, pos, end)
        size = buf[pos]
        pos += 1
        if size > 127:
            size, pos = varint_tail(buf, pos, size)
        stop = pos + size - 1
        if not size or stop > end:
            raise Fault
        protocol = JoinGroupRequestProtocol(name, bytes(buf[pos:stop]))
        tags = buf[stop]
        pos = stop + 1
        if tags:
            pos = keep_tags(protocol, buf, pos, tags)
        protocols.append(protocol)
    reason, pos = nullable_text(buf, pos, end)
    made = JoinGroupRequest(
        group_id, session_timeout_ms, rebalance_timeout_ms, member_id, instance_id, protocol_type, protocols, reason
    )
    tags = buf[pos]
    pos += 1
    return made, keep_tags(made, buf, pos, tags) if tags else pos


def heartbeat_request(buf: Any, pos: int) -> tuple[HeartbeatRequest, int]:
    end = len(buf)
    size = buf[pos]
    pos += 1
    if size > 127:
        size, pos = varint_tail(buf, pos, size)
    stop = pos + size - 1
    if not size or stop > end or size > 32768:
        raise Fault
    group_id = buf[pos:stop].decode("utf-8", "replace")
    generation_id, size = INT_COUNT(buf, stop)
    pos = stop + 5
    if size > 127:
        size, pos = varint_tail(buf, pos, size)
    stop = pos + size - 1
    if not size or stop > end or size > 32768:
        raise Fault
    member_id = buf[pos:stop].decode("utf-8", "replace")
    instance_id, pos = nullable_text(buf, stop, end)
    made = HeartbeatRequest(group_id, generation_id, member_id, instance_id)
    tags = buf[pos]
    pos += 1
    return made, keep_tags(made, buf, pos, tags) if tags else pos
