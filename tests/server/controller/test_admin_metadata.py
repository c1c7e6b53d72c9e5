"""Metadata and related APIs: brokers, topics and the quorum in the responses."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import odradek
import pytest
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from odradek.protocol.messages.describe_cluster import DescribeClusterRequest
from odradek.protocol.messages.describe_quorum import (
    DescribeQuorumPartitionRequest,
    DescribeQuorumRequest,
    DescribeQuorumTopicRequest,
)
from odradek.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsRequestTopic,
    TopicPartitionsCursor,
)
from odradek.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic

from compat_tests.wire import WireClient

pytestmark = pytest.mark.usefixtures("sockets")

VERSIONS = range(14)
FIRST_WITH_IDS = 12
DEADLINE_S = 60
NO_SUCH_ID = bytes(range(16))


@pytest.fixture(scope="module")
def broker() -> Iterator[odradek.Broker]:
    with odradek.Broker() as running:
        yield running


@pytest.fixture(scope="module")
def client(broker: odradek.Broker) -> Iterator[WireClient]:
    with WireClient(broker.bootstrap_servers) as connected:
        topics = [CreatableTopic("a", 2, 1), CreatableTopic("b", 5, 1), CreatableTopic("c", 1, 1)]
        made = connected.call(CreateTopicsRequest(topics), 7)
        assert [topic.error_code for topic in made.topics] == [0, 0, 0]
        yield connected


def ask(client: WireClient, version: int, *names: str, creates: bool = False, **more: Any) -> Any:
    topics = [MetadataRequestTopic(bytes(16), name) for name in names]
    return client.call(MetadataRequest(topics, allow_auto_topic_creation=creates, **more), version)


def ask_ids(client: WireClient, version: int, *ids: bytes) -> Any:
    return client.call(MetadataRequest([MetadataRequestTopic(topic_id, None) for topic_id in ids]), version)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_topic_is_shown_with_its_partitions_and_their_leader(client: WireClient, version: int) -> None:
    response = ask(client, version, "b", "a", "b")
    assert [(topic.name, topic.error_code, len(topic.partitions)) for topic in response.topics] == [
        ("b", 0, 5),
        ("a", 0, 2),
    ]
    for partition in response.topics[0].partitions:
        assert (partition.leader_id, partition.replica_nodes, partition.isr_nodes) == (1, [1], [1])
    assert [broker.node_id for broker in response.brokers] == [1]
    assert response.controller_id == (1 if version else -1)


@pytest.mark.parametrize("version", VERSIONS)
def test_null_is_every_topic_and_an_empty_list_none_but_in_version_0(client: WireClient, version: int) -> None:
    every = client.call(MetadataRequest([] if version == 0 else None), version)
    assert {"a", "b", "c"} <= {topic.name for topic in every.topics}
    if version:
        assert client.call(MetadataRequest([]), version).topics == []


@pytest.mark.parametrize("version", [v for v in VERSIONS if v >= 4])
def test_topics_that_are_not_there_are_unknown_or_illegal(client: WireClient, version: int) -> None:
    response = ask(client, version, "nobody", "not a name", "__consumer_offsets")
    assert [topic.error_code for topic in response.topics] == [3, 17, 3]
    assert [topic.is_internal for topic in response.topics] == [False, False, True]
    assert ask(client, version, "nobody").topics[0].error_code == 3, "it was not created"


@pytest.mark.parametrize("version", [0, 3, 4, 13])
def test_asking_for_a_topic_creates_it_where_both_sides_want_that(client: WireClient, version: int) -> None:
    name = f"asked-for-in-{version}"
    assert ask(client, version, name, creates=True).topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    deadline = time.monotonic() + DEADLINE_S
    while (topic := ask(client, version, name, creates=True).topics[0]).error_code:
        assert topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and time.monotonic() < deadline
    assert len(topic.partitions) == 1


def test_a_broker_that_creates_no_topics_creates_none() -> None:
    with (
        odradek.Broker(config={"auto.create.topics.enable": False}) as broker,
        WireClient(broker.bootstrap_servers) as client,
    ):
        for _ in range(3):
            assert ask(client, 13, "t", creates=True).topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert client.call(MetadataRequest(None), 13).topics == []


@pytest.mark.parametrize("version", [10, 11, 12, 13])
def test_topics_are_found_by_id_from_version_12_on(client: WireClient, version: int) -> None:
    topic_id = ask(client, 13, "a").topics[0].topic_id
    response = ask_ids(client, version, topic_id, NO_SUCH_ID, topic_id)
    if version < FIRST_WITH_IDS:
        assert {topic.error_code for topic in response.topics} == {ErrorCode.INVALID_REQUEST}
        return
    unknown, known = response.topics
    assert (unknown.error_code, unknown.name, unknown.topic_id) == (ErrorCode.UNKNOWN_TOPIC_ID, None, NO_SUCH_ID)
    assert (known.error_code, known.name, len(known.partitions)) == (0, "a", 2)


@pytest.mark.parametrize("version", [8, 10, 11, 13])
def test_authorized_operations_are_returned_on_request(client: WireClient, version: int) -> None:
    cluster = {"include_cluster_authorized_operations": True} if version <= 10 else {}
    asked = ask(client, version, "a", include_topic_authorized_operations=True, **cluster)
    assert asked.topics[0].topic_authorized_operations == 0b110111111000
    assert asked.cluster_authorized_operations == (0b1111110100000 if version <= 10 else -(2**31))
    silent = ask(client, version, "a")
    assert (silent.topics[0].topic_authorized_operations, silent.cluster_authorized_operations) == (-(2**31), -(2**31))


def test_each_listener_returns_its_own_addresses() -> None:
    listeners = "INSIDE://127.0.0.1:0,OUTSIDE://localhost:0"
    config = {
        "listeners": listeners,
        "listener.security.protocol.map": "INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT",
        "inter.broker.listener.name": "INSIDE",
    }
    with odradek.Broker(config=config) as broker:
        for address in broker.server.addresses:
            with WireClient(address) as client:
                for reported in (ask(client, 13).brokers, client.call(DescribeClusterRequest(), 2).brokers):
                    assert [f"{node.host}:{node.port}" for node in reported] == [address]


def describe(client: WireClient, *names: str, limit: int = 2000, cursor: tuple[str, int] | None = None) -> Any:
    at = TopicPartitionsCursor(*cursor) if cursor is not None else None
    return client.call(
        DescribeTopicPartitionsRequest([DescribeTopicPartitionsRequestTopic(name) for name in names], limit, at), 0
    )


def test_partitions_come_in_pages_that_a_cursor_joins(client: WireClient) -> None:
    found, cursor, pages = [], None, 0
    while True:
        page = describe(client, "c", "a", "b", limit=3, cursor=cursor)
        found += [(topic.name, part.partition_index) for topic in page.topics for part in topic.partitions]
        pages += 1
        if page.next_cursor is None:
            break
        cursor = (page.next_cursor.topic_name, page.next_cursor.partition_index)
    assert found == [*(("a", i) for i in range(2)), *(("b", i) for i in range(5)), ("c", 0)]
    assert pages == 3


def test_a_cursor_that_points_nowhere_is_an_invalid_request(client: WireClient) -> None:
    for cursor in (("b", -1), ("elsewhere", 0)):
        assert {topic.error_code for topic in describe(client, "a", "b", cursor=cursor).topics} == {
            ErrorCode.INVALID_REQUEST
        }
    assert [topic.error_code for topic in describe(client, "nobody", "not a name").topics] == [3, 17]


def test_describe_cluster_answers_on_the_right_endpoint(client: WireClient, broker: odradek.Broker) -> None:
    response = client.call(DescribeClusterRequest(include_cluster_authorized_operations=True), 2)
    assert (response.cluster_id, response.controller_id, len(response.brokers)) == (
        broker.server.node.identity.cluster_id,
        1,
        1,
    )
    assert client.call(DescribeClusterRequest(endpoint_type=2), 1).error_code == ErrorCode.MISMATCHED_ENDPOINT_TYPE
    assert client.call(DescribeClusterRequest(endpoint_type=9), 1).error_code == ErrorCode.UNSUPPORTED_ENDPOINT_TYPE


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_quorum_of_one_leads_itself(client: WireClient, version: int) -> None:
    request = DescribeQuorumRequest(
        [DescribeQuorumTopicRequest("__cluster_metadata", [DescribeQuorumPartitionRequest(0)])]
    )
    (partition,) = client.call(request, version).topics[0].partitions
    assert (partition.error_code, partition.leader_id, partition.leader_epoch) == (0, 1, 1)
    assert [voter.replica_id for voter in partition.current_voters] == [1] and partition.observers == []
    assert partition.current_voters[0].log_end_offset == partition.high_watermark > 0
    other = DescribeQuorumRequest([DescribeQuorumTopicRequest("a", [DescribeQuorumPartitionRequest(0)])])
    assert client.call(other, version).topics[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
