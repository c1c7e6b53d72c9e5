"""The cluster's resources that requests name, and the check that the cluster serves after an attack."""

from __future__ import annotations

import itertools
import re
import time
from typing import Any

from odradek.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from odradek.protocol.messages.describe_quorum import (
    DescribeQuorumPartitionRequest,
    DescribeQuorumRequest,
    DescribeQuorumTopicRequest,
)
from odradek.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from odradek.protocol.messages.find_coordinator import FindCoordinatorRequest
from odradek.protocol.messages.init_producer_id import InitProducerIdRequest
from odradek.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from odradek.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from odradek.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from odradek.protocol.records.record import Record, encode_batch
from odradek.protocol.schema import Message

from compat_tests.wire import WireClient
from tests.hostile.attack_target import BUG_LINES, AttackTarget
from tests.hostile.fields_world import TRANSACTIONAL_ID, World

TOPIC = "fields"
#: For a cluster that is busy or has just had to elect a leader.
DEADLINE_S = 60
_POLL_S = 0.05
#: The beginning of a log record; a traceback's lines have none.
_RECORD = re.compile(r"\d{4}-\d\d-\d\d ")
_numbers = itertools.count()


def ask(address: str, request: Message, version: int) -> Any:
    with WireClient(address, timeout=DEADLINE_S) as client:
        return client.call(request, version)


def put_voters_in_the_log(room: AttackTarget) -> None:
    """Upgrades kraft.version, which puts the voters in the log: without it the leader rejects changes of voters (KIP-853).

    Retries until the voters have described themselves to a new leader.
    """
    update = FeatureUpdateKey(feature="kraft.version", max_version_level=1, upgrade_type=1)
    deadline = time.monotonic() + DEADLINE_S
    while True:
        response = ask(room.addresses[0], UpdateFeaturesRequest(feature_updates=[update], timeout_ms=30_000), 2)
        if not response.error_code:
            return
        assert time.monotonic() < deadline, response
        time.sleep(_POLL_S)


def look_at(room: AttackTarget) -> World:
    """Returns the cluster's resources. Creates the topic that fields name, if it does not exist."""
    replicas = len(room.nodes)
    ask(room.addresses[0], CreateTopicsRequest([CreatableTopic(TOPIC, 3, replicas)], timeout_ms=30_000), 7)
    leaders = _await_leaders(room.addresses[0], TOPIC)
    quorum = ask(room.addresses[0], _quorum_request(), 2).topics[0].partitions[0]
    node_ids = tuple(broker.node_id for broker in leaders.brokers)
    topic_id = leaders.topics[0].topic_id
    producer = _init_producer(room)
    return World(leaders.cluster_id, node_ids, TOPIC, topic_id, quorum.leader_id, quorum.leader_epoch, *producer)


def _init_producer(room: AttackTarget) -> tuple[int, int]:
    """Returns the id and epoch of a transactional producer; the coordinator's topic may have to be created first."""
    request = InitProducerIdRequest(transactional_id=TRANSACTIONAL_ID, transaction_timeout_ms=60_000)
    finding = FindCoordinatorRequest(key_type=1, coordinator_keys=[TRANSACTIONAL_ID])
    deadline = time.monotonic() + DEADLINE_S
    while True:
        found = ask(room.addresses[0], finding, 4).coordinators[0]
        if not found.error_code:
            response = ask(f"{found.host}:{found.port}", request, 4)
            if not response.error_code:
                return response.producer_id, response.producer_epoch
            assert time.monotonic() < deadline, response
        assert time.monotonic() < deadline, found
        time.sleep(_POLL_S)


def bugs(room: AttackTarget) -> dict[str, str]:
    """Returns each defect in the logs once: the place and type of the error, and the first lines about it."""
    found: dict[str, str] = {}
    for node in room.nodes:
        lines = node.log_file.read_text(errors="replace").splitlines()
        for number, line in enumerate(lines):
            if any(words in line for words in BUG_LINES):
                end = number + 1
                while end < len(lines) and not _RECORD.match(lines[end]):
                    end += 1
                frames = [words.strip() for words in lines[number:end] if words.startswith("  File ")]
                known_by = f"{frames[-1] if frames else line[40:120]} {lines[end - 1][:80] if frames else ''}"
                if not (line.startswith("Traceback") and number and "a bug:" in lines[number - 1]):
                    found.setdefault(known_by, "\n".join(text[:300] for text in lines[number : min(end, number + 60)]))
    return found


def check_serves(room: AttackTarget) -> list[str]:
    """Returns sentences about failures: every node creates a topic, and every broker produces and fetches."""
    found = []
    for address in room.addresses:
        name = f"good-{next(_numbers)}"
        try:
            _check_topic(address, name, len(room.nodes))
        except (AssertionError, OSError) as error:
            found.append(f"{address} does not serve a topic after the attack: {error!r}")
    return found


def _check_topic(address: str, name: str, replicas: int) -> None:
    created = ask(address, CreateTopicsRequest([CreatableTopic(name, 3, replicas)], timeout_ms=30_000), 7)
    assert created.topics[0].error_code == 0, created
    metadata = _await_leaders(address, name)
    topic = metadata.topics[0]
    addresses = {broker.node_id: f"{broker.host}:{broker.port}" for broker in metadata.brokers}
    for partition in topic.partitions:
        leader = addresses[partition.leader_id]
        _produce(leader, topic.topic_id, partition.partition_index)
        asked = FetchPartition(partition=partition.partition_index, fetch_offset=0, partition_max_bytes=1 << 20)
        request = FetchRequest(
            max_wait_ms=10_000, min_bytes=1, topics=[FetchTopic(topic_id=topic.topic_id, partitions=[asked])]
        )
        fetched = ask(leader, request, 16).responses[0].partitions[0]
        assert fetched.error_code == 0 and fetched.records, fetched


def _produce(leader: str, topic_id: bytes, index: int) -> None:
    """Produces to the leader. A new leader may not have the topic yet."""
    data = PartitionProduceData(index, encode_batch([Record(0, 1_700_000_000_000, b"k", b"v")]))
    request = ProduceRequest(
        acks=-1, timeout_ms=30_000, topic_data=[TopicProduceData(topic_id=topic_id, partition_data=[data])]
    )
    deadline = time.monotonic() + DEADLINE_S
    while True:
        response = ask(leader, request, 13).responses[0].partition_responses[0]
        if response.error_code == 0:
            return
        assert time.monotonic() < deadline, response
        time.sleep(_POLL_S)


def _await_leaders(address: str, name: str) -> Any:
    deadline = time.monotonic() + DEADLINE_S
    request = MetadataRequest(topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=False)
    while True:
        metadata = ask(address, request, 12)
        topic = metadata.topics[0]
        if topic.error_code == 0 and topic.partitions and all(p.leader_id >= 0 for p in topic.partitions):
            return metadata
        assert time.monotonic() < deadline, f"no leaders of {name}: {topic}"
        time.sleep(_POLL_S)


def _quorum_request() -> DescribeQuorumRequest:
    topic = DescribeQuorumTopicRequest(
        topic_name="__cluster_metadata", partitions=[DescribeQuorumPartitionRequest(partition_index=0)]
    )
    return DescribeQuorumRequest(topics=[topic])
