"""Encoders: pieces in a list, joined at the end."""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct

from odradek.protocol.headers import RequestHeader
from odradek.protocol.messages import fetch, metadata, produce
from odradek.protocol.messages.heartbeat import HeartbeatRequest
from odradek.protocol.messages.join_group import JoinGroupRequest
from odradek.protocol.messages.offset_commit import OffsetCommitRequest
from odradek.protocol.messages.offset_fetch import OffsetFetchResponse
from odradek.protocol.schema import Message
from odradek.protocol.varint import encode_varint

HEADER = Struct(">hhih").pack
SHORT_INT = Struct(">hi").pack
INT = Struct(">i").pack
TWO_INTS = Struct(">ii").pack
PRODUCED = Struct(">ihqqq").pack
FETCH = Struct(">iiibii").pack
FETCH_PARTITION = Struct(">iiqiqix").pack
FETCHED = Struct(">ihi").pack
FETCHED_PARTITION = Struct(">ihqqq").pack
ABORTED = Struct(">qqx").pack
PARTITION = Struct(">hiii").pack
SHORT = Struct(">h").pack
SHORT_TAGS = Struct(">hx").pack
INT_TAGS = Struct(">ix").pack
COMMITTED = Struct(">iqi").pack
INTS = [Struct(f">{count}i").pack for count in range(17)]
BYTE = [bytes((value,)) for value in range(128)]

Write = Callable[[bytes], None]


def varint(value: int) -> bytes:
    return BYTE[value] if value < 128 else encode_varint(value)


def no_tags(write: Write, message: Message) -> None:
    if message.unknown_tags:
        raise NotImplementedError("tags are not written by hand")
    write(b"\0")


def text(write: Write, value: str) -> None:
    data = value.encode()
    size = len(data) + 1
    if size > 32768:
        raise ValueError("text too long for the wire")
    write(BYTE[size] if size < 128 else encode_varint(size))
    write(data)


def nullable_text(write: Write, value: str | None) -> None:
    if value is None:
        write(b"\0")
    else:
        text(write, value)


def ints(write: Write, values: list[int]) -> None:
    count = len(values)
    write(varint(count + 1))
    write(INTS[count](*values) if count < 17 else Struct(f">{count}i").pack(*values))


def request_header(message: RequestHeader) -> bytes:
    name = message.client_id
    data = b"" if name is None else name.encode()
    size = -1 if name is None else len(data)
    if message.unknown_tags:
        raise NotImplementedError("tags are not written by hand")
    head = HEADER(message.request_api_key, message.request_api_version, message.correlation_id, size)
    return head + data + b"\0"


def produce_request(message: produce.ProduceRequest) -> bytes:
    parts: list[bytes] = []
    write = parts.append
    nullable_text(write, message.transactional_id)
    write(SHORT_INT(message.acks, message.timeout_ms))
    write(varint(len(message.topic_data) + 1))
    for topic in message.topic_data:
        text(write, topic.name)
        write(varint(len(topic.partition_data) + 1))
        for partition in topic.partition_data:
            records = partition.records
            write(INT(partition.index))
            if records is None:
                write(b"\0")
            else:
                write(varint(len(records) + 1))
                write(records)  # type: ignore[arg-type]
            no_tags(write, partition)
        no_tags(write, topic)
    no_tags(write, message)
    return b"".join(parts)


def produce_response(message: produce.ProduceResponse) -> bytes:
    parts: list[bytes] = []
    write = parts.append
    write(varint(len(message.responses) + 1))
    for topic in message.responses:
        text(write, topic.name)
        write(varint(len(topic.partition_responses) + 1))
        for each in topic.partition_responses:
            write(
                PRODUCED(each.index, each.error_code, each.base_offset, each.log_append_time_ms, each.log_start_offset)
            )
            write(varint(len(each.record_errors) + 1))
            for error in each.record_errors:
                write(INT(error.batch_index))
                nullable_text(write, error.batch_index_error_message)
                no_tags(write, error)
            nullable_text(write, each.error_message)
            no_tags(write, each)
        no_tags(write, topic)
    write(INT(message.throttle_time_ms))
    no_tags(write, message)
    return b"".join(parts)


def fetch_request(message: fetch.FetchRequest) -> bytes:
    parts: list[bytes] = []
    write = parts.append
    write(
        FETCH(
            message.max_wait_ms,
            message.min_bytes,
            message.max_bytes,
            message.isolation_level,
            message.session_id,
            message.session_epoch,
        )
    )
    write(varint(len(message.topics) + 1))
    for topic in message.topics:
        write(topic.topic_id)
        write(varint(len(topic.partitions) + 1))
        for each in topic.partitions:
            if each.unknown_tags:
                raise NotImplementedError("tags are not written by hand")
            write(
                FETCH_PARTITION(
                    each.partition,
                    each.current_leader_epoch,
                    each.fetch_offset,
                    each.last_fetched_epoch,
                    each.log_start_offset,
                    each.partition_max_bytes,
                )
            )
        no_tags(write, topic)
    write(varint(len(message.forgotten_topics_data) + 1))
    for gone in message.forgotten_topics_data:
        write(gone.topic_id)
        ints(write, gone.partitions)
        no_tags(write, gone)
    text(write, message.rack_id)
    no_tags(write, message)
    return b"".join(parts)


def fetch_response(message: fetch.FetchResponse) -> bytes:
    parts: list[bytes] = []
    write = parts.append
    write(FETCHED(message.throttle_time_ms, message.error_code, message.session_id))
    write(varint(len(message.responses) + 1))
    for topic in message.responses:
        write(topic.topic_id)
        write(varint(len(topic.partitions) + 1))
        for each in topic.partitions:
            fetched_partition(write, each)
        no_tags(write, topic)
    no_tags(write, message)
    return b"".join(parts)


def fetched_partition(write: Write, each: fetch.PartitionData) -> None:
    write(
        FETCHED_PARTITION(
            each.partition_index, each.error_code, each.high_watermark, each.last_stable_offset, each.log_start_offset
        )
    )
    aborted = each.aborted_transactions
    if aborted is None:
        write(b"\0")
    else:
        write(varint(len(aborted) + 1))
        for transaction in aborted:
            write(ABORTED(transaction.producer_id, transaction.first_offset))
    write(INT(each.preferred_read_replica))
    records = each.records
    if records is None:
        write(b"\0")
    else:
        write(varint(len(records) + 1))
        write(records)  # type: ignore[arg-type]
    no_tags(write, each)


def metadata_response(message: metadata.MetadataResponse) -> bytes:
    parts: list[bytes] = []
    write = parts.append
    write(INT(message.throttle_time_ms))
    write(varint(len(message.brokers) + 1))
    for broker in message.brokers:
        write(INT(broker.node_id))
        text(write, broker.host)
        write(INT(broker.port))
        nullable_text(write, broker.rack)
        no_tags(write, broker)
    nullable_text(write, message.cluster_id)
    write(INT(message.controller_id))
    write(varint(len(message.topics) + 1))
    for topic in message.topics:
        write(SHORT(topic.error_code))
        nullable_text(write, topic.name)
        write(topic.topic_id)
        write(b"\1" if topic.is_internal else b"\0")
        write(varint(len(topic.partitions) + 1))
        for each in topic.partitions:
            write(PARTITION(each.error_code, each.partition_index, each.leader_id, each.leader_epoch))
            ints(write, each.replica_nodes)
            ints(write, each.isr_nodes)
            ints(write, each.offline_replicas)
            no_tags(write, each)
        write(INT(topic.topic_authorized_operations))
        no_tags(write, topic)
    write(SHORT(message.error_code))
    no_tags(write, message)
    return b"".join(parts)


def offset_commit_request(message: OffsetCommitRequest) -> bytes:
    parts: list[bytes] = []
    write = parts.append
    text(write, message.group_id)
    write(INT(message.generation_id_or_member_epoch))
    text(write, message.member_id)
    nullable_text(write, message.group_instance_id)
    write(varint(len(message.topics) + 1))
    for topic in message.topics:
        text(write, topic.name)
        write(varint(len(topic.partitions) + 1))
        for each in topic.partitions:
            write(COMMITTED(each.partition_index, each.committed_offset, each.committed_leader_epoch))
            nullable_text(write, each.committed_metadata)
            no_tags(write, each)
        no_tags(write, topic)
    no_tags(write, message)
    return b"".join(parts)


def offset_fetch_response(message: OffsetFetchResponse) -> bytes:
    parts: list[bytes] = []
    write = parts.append
    write(INT(message.throttle_time_ms))
    write(varint(len(message.groups) + 1))
    for group in message.groups:
        text(write, group.group_id)
        write(varint(len(group.topics) + 1))
        for topic in group.topics:
            text(write, topic.name)
            write(varint(len(topic.partitions) + 1))
            for each in topic.partitions:
                write(COMMITTED(each.partition_index, each.committed_offset, each.committed_leader_epoch))
                nullable_text(write, each.metadata)
                if each.unknown_tags:
                    raise NotImplementedError("tags are not written by hand")
                write(SHORT_TAGS(each.error_code))
            no_tags(write, topic)
        write(SHORT(group.error_code))
        no_tags(write, group)
    no_tags(write, message)
    return b"".join(parts)


def join_group_request(message: JoinGroupRequest) -> bytes:
    parts: list[bytes] = []
    write = parts.append
    text(write, message.group_id)
    write(TWO_INTS(message.session_timeout_ms, message.rebalance_timeout_ms))
    text(write, message.member_id)
    nullable_text(write, message.group_instance_id)
    text(write, message.protocol_type)
    write(varint(len(message.protocols) + 1))
    for protocol in message.protocols:
        text(write, protocol.name)
        write(varint(len(protocol.metadata) + 1))
        write(protocol.metadata)
        no_tags(write, protocol)
    nullable_text(write, message.reason)
    no_tags(write, message)
    return b"".join(parts)


def heartbeat_request(message: HeartbeatRequest) -> bytes:
    parts: list[bytes] = []
    write = parts.append
    text(write, message.group_id)
    write(INT(message.generation_id))
    text(write, message.member_id)
    nullable_text(write, message.group_instance_id)
    no_tags(write, message)
    return b"".join(parts)
