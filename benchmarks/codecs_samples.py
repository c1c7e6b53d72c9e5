"""The ten messages that a broker reads and writes most, in their usual small size.

The versions are those of current clients. Produce, Fetch and their responses are the data path; a header precedes every
request; heartbeats and commits come from every consumer all the time. The others come when a client starts or rebalances,
often from many clients at once.
"""

from __future__ import annotations

from typing import NamedTuple

from odradek.protocol.headers import RequestHeader
from odradek.protocol.messages import fetch, metadata, produce
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
from odradek.protocol.records.record import Record, encode_batch
from odradek.protocol.schema import Message


class Sample(NamedTuple):
    name: str
    version: int
    message: Message


TOPIC_ID = bytes(range(16))
BATCH = encode_batch([Record(0, 1_700_000_000_000, b"customer-17", b"v" * 1024)])


def samples() -> list[Sample]:
    return [
        Sample("RequestHeader", 2, request_header()),
        Sample("ProduceRequest", 12, produce_request()),
        Sample("ProduceResponse", 12, produce_response()),
        Sample("FetchRequest", 17, fetch_request()),
        Sample("FetchResponse", 17, fetch_response()),
        Sample("MetadataResponse", 13, metadata_response()),
        Sample("OffsetCommitRequest", 9, offset_commit_request()),
        Sample("OffsetFetchResponse", 9, offset_fetch_response()),
        Sample("JoinGroupRequest", 9, join_group_request()),
        Sample("HeartbeatRequest", 4, heartbeat_request()),
    ]


def request_header() -> Message:
    return RequestHeader(request_api_key=0, request_api_version=12, correlation_id=7, client_id="producer-orders-1")


def produce_request() -> Message:
    partition = produce.PartitionProduceData(index=2, records=BATCH)
    topic = produce.TopicProduceData(name="order-events", partition_data=[partition])
    return produce.ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[topic])


def produce_response() -> Message:
    partition = produce.PartitionProduceResponse(index=2, base_offset=1_234_567, log_start_offset=0)
    topic = produce.TopicProduceResponse(name="order-events", partition_responses=[partition])
    return produce.ProduceResponse(responses=[topic])


def fetch_request() -> Message:
    partitions = [
        fetch.FetchPartition(
            partition=index, current_leader_epoch=3, fetch_offset=99_000 + index, partition_max_bytes=1 << 20
        )
        for index in range(3)
    ]
    topic = fetch.FetchTopic(topic_id=TOPIC_ID, partitions=partitions)
    return fetch.FetchRequest(
        max_wait_ms=500,
        min_bytes=1,
        max_bytes=50 << 20,
        isolation_level=1,
        session_id=4711,
        session_epoch=12,
        topics=[topic],
    )


def fetch_response() -> Message:
    partitions = [
        fetch.PartitionData(
            partition_index=index,
            high_watermark=99_100,
            last_stable_offset=99_100,
            log_start_offset=0,
            aborted_transactions=[],
            records=BATCH,
        )
        for index in range(3)
    ]
    topic = fetch.FetchableTopicResponse(topic_id=TOPIC_ID, partitions=partitions)
    return fetch.FetchResponse(session_id=4711, responses=[topic])


def metadata_response() -> Message:
    brokers = [metadata.MetadataResponseBroker(node_id=i, host=f"broker-{i}.example", port=9092) for i in range(3)]
    topics = [
        metadata.MetadataResponseTopic(
            name=name,
            topic_id=TOPIC_ID,
            partitions=[
                metadata.MetadataResponsePartition(
                    partition_index=i, leader_id=i, leader_epoch=3, replica_nodes=[0, 1, 2], isr_nodes=[0, 1, 2]
                )
                for i in range(3)
            ],
        )
        for name in ("order-events", "revenue-per-minute")
    ]
    return metadata.MetadataResponse(
        brokers=brokers, cluster_id="M3Y0OUk2TWc2SnQ0dlpzdQ", controller_id=1, topics=topics
    )


def offset_commit_request() -> Message:
    partitions = [
        OffsetCommitRequestPartition(
            partition_index=index, committed_offset=99_000 + index, committed_leader_epoch=3, committed_metadata=""
        )
        for index in range(3)
    ]
    return OffsetCommitRequest(
        group_id="revenue",
        generation_id_or_member_epoch=5,
        member_id="consumer-revenue-1-0e7b5c9a-59d7-4a1d-9a37-8f0f2b6a2c11",
        topics=[OffsetCommitRequestTopic(name="order-events", partitions=partitions)],
    )


def offset_fetch_response() -> Message:
    partitions = [
        OffsetFetchResponsePartitions(
            partition_index=index, committed_offset=99_000 + index, committed_leader_epoch=3, metadata=""
        )
        for index in range(3)
    ]
    topic = OffsetFetchResponseTopics(name="order-events", partitions=partitions)
    return OffsetFetchResponse(groups=[OffsetFetchResponseGroup(group_id="revenue", topics=[topic])])


def join_group_request() -> Message:
    protocols = [
        JoinGroupRequestProtocol(name=name, metadata=b"\0\1\0\0\0\1\0\x0corder-events\xff\xff\xff\xff\0\0\0\0")
        for name in ("range", "cooperative-sticky")
    ]
    return JoinGroupRequest(
        group_id="revenue",
        session_timeout_ms=45_000,
        rebalance_timeout_ms=300_000,
        member_id="",
        protocol_type="consumer",
        protocols=protocols,
    )


def heartbeat_request() -> Message:
    return HeartbeatRequest(
        group_id="revenue", generation_id=5, member_id="consumer-revenue-1-0e7b5c9a-59d7-4a1d-9a37-8f0f2b6a2c11"
    )
