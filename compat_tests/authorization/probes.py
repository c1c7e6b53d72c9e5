"""Requests about a topic, a group or a transactional id, whose responses show the permissions of their sender."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from odradek.metadata.acls import ResourceType
from odradek.protocol.records.record import Record, encode_batch

from compat_tests.differential.scenario import Given, Subscribed

TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP
TRANSACTIONAL_ID = ResourceType.TRANSACTIONAL_ID
_ID = "AAAAAAAAAAAAAAAAAAAAAA"
_TIME_MS = 1_700_000_000_000


@dataclass(frozen=True)
class Target:
    """The resources that a request names."""

    topic: str
    topic_id: bytes
    group: str
    transactional_id: str


@dataclass(frozen=True)
class Probe:
    """A request about resources. `kinds`: those that vary. `version`: None for the highest that both brokers have."""

    api: str
    kinds: tuple[ResourceType, ...]
    fields: Callable[[Target], dict[str, Any]]
    version: int | None = None
    label: str = ""
    #: Whether only denials are compared, since the brokers answer permitted clients differently.
    only_denials: bool = False

    def __str__(self) -> str:
        version = "" if self.version is None else f" v{self.version}"
        return f"{self.api}{version}{self.label and ': '}{self.label}"


def _batch(*, transactional: bool = False) -> bytes:
    records = [Record(0, _TIME_MS, b"k", b"v", [])]
    if transactional:
        return encode_batch(records, producer_id=4711, producer_epoch=0, base_sequence=0, transactional=True)
    return encode_batch(records)


def _produced(t: Target, *, transactional: bool = False, by_id: bool = False) -> dict[str, Any]:
    data = {"index": 0, "records": _batch(transactional=transactional)}
    topic = {"topic_id": t.topic_id} if by_id else {"name": t.topic}
    return {
        "transactional_id": t.transactional_id if transactional else None,
        "acks": 1,
        "timeout_ms": 5000,
        "topic_data": [{**topic, "partition_data": [data]}],
    }


def _fetched(t: Target, *, by_id: bool = False) -> dict[str, Any]:
    topic = {"topic_id": t.topic_id} if by_id else {"topic": t.topic}
    asked = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1, "current_leader_epoch": -1}
    return {
        "max_wait_ms": 0, "min_bytes": 0, "max_bytes": 1, "session_epoch": -1,
        "topics": [{**topic, "partitions": [asked]}],
    }  # fmt: skip


def _committed(t: Target, *, by_id: bool = False) -> dict[str, Any]:
    topic = {"topic_id": t.topic_id} if by_id else {"name": t.topic}
    partition = {"partition_index": 0, "committed_offset": 3, "committed_metadata": ""}
    return {
        "group_id": t.group, "generation_id_or_member_epoch": -1, "member_id": "",
        "topics": [{**topic, "partitions": [partition]}],
    }  # fmt: skip


def offsets(t: Target, *, by_id: bool = False, every: bool = False) -> dict[str, Any]:
    topic = {"topic_id": t.topic_id} if by_id else {"name": t.topic}
    topics = None if every else [{**topic, "partition_indexes": [0]}]
    return {"groups": [{"group_id": t.group, "topics": topics}]}


def _transactional_offsets(t: Target) -> dict[str, Any]:
    partition = {"partition_index": 0, "committed_offset": 3, "committed_metadata": ""}
    return {
        "transactional_id": t.transactional_id, "group_id": t.group, "producer_id": 4711, "producer_epoch": 0,
        "topics": [{"name": t.topic, "partitions": [partition]}],
    }  # fmt: skip


def _consumer(t: Target) -> dict[str, Any]:
    return {
        "group_id": t.group, "member_id": "no-such-member", "member_epoch": 7, "rebalance_timeout_ms": 30_000,
        "subscribed_topic_names": [t.topic],
    }  # fmt: skip


def _share(t: Target) -> dict[str, Any]:
    return {
        "group_id": t.group, "member_id": "no-such-member", "member_epoch": 7, "subscribed_topic_names": [t.topic],
    }  # fmt: skip


def _streams(t: Target) -> dict[str, Any]:
    subtopology = {"subtopology_id": "0", "source_topics": [t.topic]}
    return {
        "group_id": t.group, "member_id": _ID, "member_epoch": 7, "endpoint_information_epoch": 0,
        "topology": {"epoch": 0, "subtopologies": [subtopology]},
    }  # fmt: skip


def _joined(t: Target) -> dict[str, Any]:
    protocols = [{"name": "range", "metadata": Subscribed(t.topic).build(0, str)}]
    return {
        "group_id": t.group, "session_timeout_ms": 10_000, "rebalance_timeout_ms": 10_000, "member_id": "nobody",
        "protocol_type": "consumer", "protocols": protocols,
    }  # fmt: skip


def _synced(t: Target) -> dict[str, Any]:
    return {
        "group_id": t.group, "generation_id": 7, "member_id": "nobody", "protocol_type": "consumer",
        "protocol_name": "range",
        "assignments": [{"member_id": "nobody", "assignment": Given((0,), t.topic).build(0, str)}],
    }  # fmt: skip


def _topic_partition(t: Target, **more: Any) -> dict[str, Any]:
    return {"topics": [{"name": t.topic, "partitions": [{"partition_index": 0, **more}]}]}


def configs(kind: int, name: str) -> dict[str, Any]:
    return {"resources": [{"resource_type": kind, "resource_name": name, "configuration_keys": ["retention.ms"]}]}


def altered(kind: int, name: str, key: str, value: str) -> dict[str, Any]:
    change = {"name": key, "config_operation": 0, "value": value}
    return {"resources": [{"resource_type": kind, "resource_name": name, "configs": [change]}], "validate_only": True}


def replaced(kind: int, name: str, key: str, value: str) -> dict[str, Any]:
    resource = {"resource_type": kind, "resource_name": name, "configs": [{"name": key, "value": value}]}
    return {"resources": [resource], "validate_only": True}


def created(t: Target) -> dict[str, Any]:
    topic = {"name": t.topic, "num_partitions": 1, "replication_factor": 1}
    return {"topics": [topic], "timeout_ms": 5000, "validate_only": True}


def _share_topics(t: Target, **partition: Any) -> dict[str, Any]:
    return {"topics": [{"topic_id": t.topic_id, "partitions": [{"partition_index": 0, **partition}]}]}


_ACKNOWLEDGED = {"acknowledgement_batches": [{"first_offset": 0, "last_offset": 0, "acknowledge_types": [1]}]}
_MEMBER = {"member_id": "B" * 22}
_COMPLETE = {"max_wait_ms": 0, "min_bytes": 0, "max_bytes": 1000, "max_records": 1, "batch_size": 1}


def metadata(*topics: dict[str, Any], creates: bool = False) -> dict[str, Any]:
    return {
        "topics": list(topics) or None,
        "allow_auto_topic_creation": creates,
        "include_topic_authorized_operations": True,
        "include_cluster_authorized_operations": True,
    }


ON_TOPICS = [
    Probe("Produce", (TOPIC,), _produced, 12),
    Probe("Produce", (TOPIC,), lambda t: _produced(t, by_id=True), 13),
    Probe("Fetch", (TOPIC,), _fetched, 12),
    Probe("Fetch", (TOPIC,), lambda t: _fetched(t, by_id=True)),
    Probe("ListOffsets", (TOPIC,), lambda t: {"replica_id": -1, **_topic_partition(t, timestamp=-2)}),
    Probe("Metadata", (TOPIC,), lambda t: metadata({"name": t.topic}), 9),
    Probe("Metadata", (TOPIC,), lambda t: metadata({"name": t.topic}), 13),
    Probe("Metadata", (TOPIC,), lambda t: metadata({"topic_id": t.topic_id, "name": None}), 13, "by id"),
    Probe("DescribeTopicPartitions", (TOPIC,), lambda t: {"topics": [{"name": t.topic}]}),
    Probe("OffsetForLeaderEpoch", (TOPIC,), lambda t: {
        "replica_id": -1,
        "topics": [{"topic": t.topic, "partitions": [{"partition": 0, "current_leader_epoch": -1, "leader_epoch": 0}]}],
    }),
    Probe("OffsetCommit", (TOPIC,), _committed, 9),
    Probe("OffsetCommit", (TOPIC,), lambda t: _committed(t, by_id=True), 10),
    Probe("OffsetFetch", (TOPIC,), offsets, 9),
    Probe("OffsetFetch", (TOPIC,), lambda t: offsets(t, by_id=True), 10),
    Probe("OffsetDelete", (TOPIC,), lambda t: {"group_id": t.group, **_topic_partition(t)}),
    Probe("TxnOffsetCommit", (TOPIC,), _transactional_offsets, 4),
    Probe("AddPartitionsToTxn", (TOPIC,), lambda t: {
        "v3_and_below_transactional_id": t.transactional_id, "v3_and_below_producer_id": 4711,
        "v3_and_below_producer_epoch": 0, "v3_and_below_topics": [{"name": t.topic, "partitions": [0]}],
    }, 3),
    Probe("DescribeProducers", (TOPIC,), lambda t: {"topics": [{"name": t.topic, "partition_indexes": [7]}]}),
    Probe("DescribeConfigs", (TOPIC,), lambda t: configs(2, t.topic)),
    Probe("IncrementalAlterConfigs", (TOPIC,), lambda t: altered(2, t.topic, "retention.ms", "77")),
    Probe("AlterConfigs", (TOPIC,), lambda t: replaced(2, t.topic, "retention.ms", "77")),
    Probe("CreateTopics", (TOPIC,), created),
    Probe("CreateTopics", (TOPIC,), created, 4),
    Probe("CreatePartitions", (TOPIC,), lambda t: {
        "topics": [{"name": t.topic, "count": 3, "assignments": None}], "timeout_ms": 5000, "validate_only": True,
    }),
    Probe("ConsumerGroupHeartbeat", (TOPIC,), _consumer),
    Probe("ShareGroupHeartbeat", (TOPIC,), _share),
    Probe("StreamsGroupHeartbeat", (TOPIC,), _streams),
    Probe("AlterShareGroupOffsets", (TOPIC,), lambda t: {
        "group_id": t.group,
        "topics": [{"topic_name": t.topic, "partitions": [{"partition_index": 0, "start_offset": 0}]}],
    }),
    Probe("DeleteShareGroupOffsets", (TOPIC,), lambda t: {"group_id": t.group, "topics": [{"topic_name": t.topic}]}),
    Probe("DescribeShareGroupOffsets", (TOPIC,), lambda t: {
        "groups": [{"group_id": t.group, "topics": [{"topic_name": t.topic, "partitions": [0]}]}],
    }, 0),
    Probe("ShareFetch", (TOPIC,), lambda t: {
        "group_id": t.group, "share_session_epoch": 0, **_MEMBER, **_COMPLETE, **_share_topics(t),
    }, only_denials=True),
    Probe("DeleteRecords", (TOPIC,), lambda t: {**_topic_partition(t, offset=0), "timeout_ms": 5000}),
]  # fmt: skip
#: Run last, since they delete the topics.
DESTRUCTIVE = [
    Probe("DeleteTopics", (TOPIC,), lambda t: {"topic_names": [t.topic], "timeout_ms": 5000}, 5),
    Probe("DeleteTopics", (TOPIC,), lambda t: {"topics": [{"topic_id": t.topic_id}], "timeout_ms": 5000}, 6, "by id"),
]
#: Requests about topics that do not exist.
ON_ABSENT_TOPICS = [
    *(probe for probe in ON_TOPICS if probe.api not in ("ShareFetch", "CreatePartitions")),
    Probe("CreatePartitions", (TOPIC,), lambda t: {
        "topics": [{"name": t.topic, "count": 3, "assignments": None}], "timeout_ms": 5000, "validate_only": True,
    }),
    Probe("DeleteTopics", (TOPIC,), lambda t: {"topic_names": [t.topic], "timeout_ms": 5000}, 5),
    Probe("Metadata", (TOPIC,), lambda t: metadata({"name": t.topic}, creates=True), 13, "with creation"),
]  # fmt: skip

ON_GROUPS = [
    Probe("FindCoordinator", (GROUP,), lambda t: {"key_type": 0, "coordinator_keys": [t.group]}),
    Probe("FindCoordinator", (GROUP,), lambda t: {"key_type": 0, "key": t.group}, 3),
    Probe("JoinGroup", (GROUP,), _joined),
    Probe("JoinGroup", (GROUP,), _joined, 3),
    Probe("SyncGroup", (GROUP,), _synced),
    Probe("Heartbeat", (GROUP,), lambda t: {"group_id": t.group, "generation_id": 7, "member_id": "nobody"}),
    Probe("LeaveGroup", (GROUP,), lambda t: {"group_id": t.group, "members": [{"member_id": "nobody"}]}),
    Probe("LeaveGroup", (GROUP,), lambda t: {"group_id": t.group, "member_id": "nobody"}, 2),
    Probe("OffsetCommit", (GROUP,), _committed, 9),
    Probe("OffsetFetch", (GROUP,), offsets, 9),
    Probe("OffsetFetch", (GROUP,), lambda t: offsets(t, every=True), 9, "all topics"),
    *(
        Probe("OffsetFetch", (GROUP,), lambda t: {
            "group_id": t.group, "topics": [{"name": t.topic, "partition_indexes": [0]}],
        }, version)
        for version in (1, 7)
    ),
    Probe("OffsetDelete", (GROUP,), lambda t: {"group_id": t.group, **_topic_partition(t)}),
    Probe("DescribeGroups", (GROUP,), lambda t: {"groups": [t.group], "include_authorized_operations": True}),
    Probe("DescribeGroups", (GROUP,), lambda t: {"groups": [t.group], "include_authorized_operations": True}, 5),
    Probe("DeleteGroups", (GROUP,), lambda t: {"groups_names": [t.group]}),
    Probe("ConsumerGroupHeartbeat", (GROUP,), _consumer),
    Probe("ConsumerGroupDescribe", (GROUP,), lambda t: {
        "group_ids": [t.group], "include_authorized_operations": True,
    }),
    Probe("ShareGroupHeartbeat", (GROUP,), _share),
    Probe("ShareGroupDescribe", (GROUP,), lambda t: {"group_ids": [t.group], "include_authorized_operations": True}),
    Probe("StreamsGroupHeartbeat", (GROUP,), _streams),
    Probe("StreamsGroupDescribe", (GROUP,), lambda t: {"group_ids": [t.group], "include_authorized_operations": True}),
    Probe("TxnOffsetCommit", (GROUP,), _transactional_offsets, 4),
    Probe("AddOffsetsToTxn", (GROUP,), lambda t: {
        "transactional_id": t.transactional_id, "producer_id": 4711, "producer_epoch": 0, "group_id": t.group,
    }),
    Probe("DescribeConfigs", (GROUP,), lambda t: configs(32, t.group)),
    Probe("IncrementalAlterConfigs", (GROUP,), lambda t: altered(32, t.group, "consumer.session.timeout.ms", "50000")),
    Probe("AlterConfigs", (GROUP,), lambda t: replaced(32, t.group, "consumer.session.timeout.ms", "50000")),
    Probe("ShareFetch", (GROUP,), lambda t: {
        "group_id": t.group, "share_session_epoch": 0, **_MEMBER, **_COMPLETE, **_share_topics(t),
    }, only_denials=True),
    Probe("ShareAcknowledge", (GROUP,), lambda t: {
        "group_id": t.group, "share_session_epoch": 3, **_MEMBER, **_share_topics(t, **_ACKNOWLEDGED),
    }),
    Probe("DescribeShareGroupOffsets", (GROUP,), lambda t: {
        "groups": [{"group_id": t.group, "topics": [{"topic_name": t.topic, "partitions": [0]}]}],
    }, 0),
    Probe("AlterShareGroupOffsets", (GROUP,), lambda t: {
        "group_id": t.group,
        "topics": [{"topic_name": t.topic, "partitions": [{"partition_index": 0, "start_offset": 0}]}],
    }),
    Probe("DeleteShareGroupOffsets", (GROUP,), lambda t: {"group_id": t.group, "topics": [{"topic_name": t.topic}]}),
]  # fmt: skip

ON_TRANSACTIONAL_IDS = [
    Probe("FindCoordinator", (TRANSACTIONAL_ID,), lambda t: {"key_type": 1, "coordinator_keys": [t.transactional_id]}),
    Probe("FindCoordinator", (TRANSACTIONAL_ID,), lambda t: {"key_type": 1, "key": t.transactional_id}, 2),
    Probe("InitProducerId", (TRANSACTIONAL_ID,), lambda t: {
        "transactional_id": t.transactional_id, "transaction_timeout_ms": 60_000, "producer_id": 999_999_999,
        "producer_epoch": 3,
    }, 4),
    Probe("AddPartitionsToTxn", (TRANSACTIONAL_ID,), lambda t: {
        "v3_and_below_transactional_id": t.transactional_id, "v3_and_below_producer_id": 4711,
        "v3_and_below_producer_epoch": 0, "v3_and_below_topics": [{"name": t.topic, "partitions": [0]}],
    }, 3),
    Probe("AddOffsetsToTxn", (TRANSACTIONAL_ID,), lambda t: {
        "transactional_id": t.transactional_id, "producer_id": 4711, "producer_epoch": 0, "group_id": t.group,
    }),
    Probe("EndTxn", (TRANSACTIONAL_ID,), lambda t: {
        "transactional_id": t.transactional_id, "producer_id": 4711, "producer_epoch": 0, "committed": True,
    }),
    Probe("TxnOffsetCommit", (TRANSACTIONAL_ID,), _transactional_offsets, 4),
    Probe("DescribeTransactions", (TRANSACTIONAL_ID,), lambda t: {"transactional_ids": [t.transactional_id]}),
    Probe("Produce", (TRANSACTIONAL_ID,), lambda t: _produced(t, transactional=True), 11),
]  # fmt: skip
