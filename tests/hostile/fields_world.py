"""The base requests whose fields are changed: each field has a value that leads far into its handler.

A valid request must not harm the cluster here, or the test that follows would prove nothing. Requests never unregister,
register, stop or elect a node of the cluster. They delete or grow only topics that do not exist, and name no broker's
configuration and no feature of the cluster.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from odradek.protocol.apis import APIS, Api
from odradek.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from odradek.protocol.records.record import Record, encode_batch
from odradek.protocol.schema import UUID, ArrayOf, Field, Message, Scalar

from tests.hostile.fields_encoding import body_of

#: An id of no node of the cluster.
STRANGER = 999
TIMEOUT_MS = 50
TRANSACTIONAL_ID = "fields-transaction"
#: A consumer's subscription to the topic "fields", as a member of a classic group sends it.
SUBSCRIPTION = b"\0\1\0\0\0\1\0\6fields\xff\xff\xff\xff\0\0\0\0"
#: Requests whose response waits for another event, or for a time in the request.
WAITING = {
    "Fetch": ("max_wait_ms",),
    "ShareFetch": ("max_wait_ms",),
    "JoinGroup": ("rebalance_timeout_ms", "session_timeout_ms"),
    "Produce": ("timeout_ms",),
    "SyncGroup": (),
    "DeleteRecords": ("timeout_ms",),
    "AddRaftVoter": ("timeout_ms",),
}
#: Fields that name a node of the quorum, in requests that would remove or replace that node.
_NODES = {
    "UnregisterBroker": "broker_id",
    "UnregisterController": "controller_id",
    "RemoveRaftVoter": "voter_id",
    "UpdateRaftVoter": "voter_id",
    "ControllerRegistration": "controller_id",
    "BrokerRegistration": "broker_id",
}


@dataclass(frozen=True)
class World:
    cluster_id: str
    node_ids: tuple[int, ...]
    topic: str
    topic_id: bytes
    #: The quorum's.
    leader_id: int
    epoch: int
    #: The transactional id's.
    producer_id: int = 0
    producer_epoch: int = 0


def is_destructive(api: Api, request: Any, world: World) -> bool:
    """Returns whether the request removes or replaces a node; a quorum believes that, as Kafka's does."""
    field = _NODES.get(api.name)
    return field is not None and getattr(request, field) in world.node_ids


#: Values of requests that succeed: most handlers reject a request with every field set.
_LEAN: dict[str, dict[str, Any]] = {
    "ConsumerGroupHeartbeat": {
        "group_id": "fields-consumers",
        "instance_id": None,
        "server_assignor": "uniform",
        "subscribed_topic_regex": None,
        "topic_partitions": [],
    },
    "CreateTopics": {"name": "fields-created", "assignments": [], "configs": []},
    "CreatePartitions": {"assignments": None},
    "Fetch": {"forgotten_topics_data": [], "session_epoch": -1},
    "InitProducerId": {"transactional_id": None, "producer_id": -1, "producer_epoch": -1},
    "JoinGroup": {"group_instance_id": None, "member_id": "", "metadata": SUBSCRIPTION},
    "ListOffsets": {"timestamp": -1, "current_leader_epoch": -1},
    "OffsetCommit": {
        "generation_id_or_member_epoch": -1,
        "member_id": "",
        "group_instance_id": None,
        "group_id": "fields-simple",
    },
    "Produce": {"transactional_id": None},
    "ShareAcknowledge": {"group_id": "fields-sharers"},
    "ShareFetch": {"group_id": "fields-sharers", "forgotten_topics_data": [], "acknowledgement_batches": []},
    "ShareGroupHeartbeat": {"group_id": "fields-sharers", "member_id": "fields-member_id"},
    "StreamsGroupHeartbeat": {
        "group_id": "fields-streams",
        "instance_id": None,
        "active_tasks": [],
        "standby_tasks": [],
        "warmup_tasks": [],
        "copartition_groups": [],
        "repartition_sink_topics": [],
        "repartition_source_topics": [],
        "state_changelog_topics": [],
        "source_topic_regex": [],
        "user_endpoint": None,
        "task_offsets": None,
        "task_end_offsets": None,
        "client_tags": [],
    },
    "TxnOffsetCommit": {"generation_id": -1, "member_id": "", "group_instance_id": None},
}


def base_request(api: Api, version: int, world: World, *, lean: bool = False) -> Any:
    """Returns a base request. `lean`: as a well-behaved client would send it."""
    request = _filled(api, api.request, version, world)
    if lean:
        _make_lean(request, _LEAN.get(api.name, {}), version)
    if api.name == "Envelope":
        inner = CreateTopicsRequest([CreatableTopic("../x", 1, 1)], timeout_ms=TIMEOUT_MS)
        request.request_data = body_of(inner, 7)
        request.client_host_address = bytes((127, 0, 0, 1))
        request.request_principal = b"\0\0\x05User\x02a\0\0"
    return request


def _make_lean(message: Any, values: dict[str, Any], version: int) -> None:
    for field in type(message).SCHEMA.fields:
        if version not in field.versions:
            continue
        value = getattr(message, field.name)
        if field.name in values and (values[field.name] is not None or version in field.nullable):
            setattr(message, field.name, values[field.name])
        elif isinstance(value, list):
            for item in value:
                if isinstance(item, Message):
                    _make_lean(item, values, version)
        elif isinstance(value, Message):
            _make_lean(value, values, version)


def _filled(api: Api, cls: type[Message], version: int, world: World) -> Any:
    made: Any = cls()
    for field in cls.SCHEMA.fields:
        if version not in field.versions:
            continue
        if isinstance(field.type, ArrayOf):
            element = field.type.element
            value = _filled(api, element, version, world) if isinstance(element, type) else None
            setattr(made, field.name, [value if value is not None else _scalar(api, field, element, world)])
        elif isinstance(field.type, Scalar):
            setattr(made, field.name, _scalar(api, field, field.type, world))
        else:
            setattr(made, field.name, _filled(api, field.type, version, world))
    return made


def _scalar(api: Api, field: Field, kind: Any, world: World) -> Any:
    name = field.name
    by_name = _own(api, world).get(name, _common(world).get(name))
    if by_name is not None and isinstance(by_name, type(kind.zero)):
        return by_name
    if kind.name == "string":
        return _text(api, name, world)
    if kind.name == "records":
        return encode_batch([Record(0, 1_700_000_000_000, b"k", b"v")])
    if kind.name == "bytes":
        return b"\0\1\0\0\0\0\0\0\0\0"
    if kind == UUID:
        return world.topic_id if "topic" in name else bytes(16)
    if name.endswith("timeout_ms"):
        return TIMEOUT_MS
    return kind.zero


def _text(api: Api, name: str, world: World) -> str:
    if name in ("topic", "topics", "topic_name", "topic_names", "name", "resource_name"):
        return world.topic
    return f"fields-{name}"


def _common(world: World) -> dict[str, Any]:
    return {
        "acks": 1,
        "broker_id": STRANGER,
        "cluster_id": world.cluster_id,
        "controller_id": STRANGER,
        "group_id": "fields-group",
        "leader_epoch": world.epoch,
        "current_leader_epoch": world.epoch,
        "replica_epoch": world.epoch,
        "leader_id": world.leader_id,
        "max_bytes": 1 << 20,
        "partition_max_bytes": 1 << 20,
        "max_wait_ms": 1,
        "max_records": 10,
        "partition_limit": 10,
        "response_partition_limit": 10,
        "producer_id": world.producer_id,
        "producer_epoch": world.producer_epoch,
        "transactional_id": TRANSACTIONAL_ID,
        "transactional_ids": TRANSACTIONAL_ID,
        "v3_and_below_producer_id": world.producer_id,
        "v3_and_below_producer_epoch": world.producer_epoch,
        "v3_and_below_transactional_id": TRANSACTIONAL_ID,
        "protocol_type": "consumer",
        "resource_type": 2,
        "session_timeout_ms": 6_000,
        "rebalance_timeout_ms": TIMEOUT_MS,
        "voter_id": STRANGER,
        "replica_id": -1,
        "validate_only": False,
        "validate_topology": False,
    }


def _own(api: Api, world: World) -> dict[str, Any]:
    """Returns the values that only this API has."""
    missing = "no-such-topic"
    return {
        "AlterConfigs": {"name": "retention.ms", "value": "1000000"},
        "IncrementalAlterConfigs": {"name": "retention.ms", "value": "1000000"},
        "CreateTopics": {"name": "fields/created", "num_partitions": 1, "replication_factor": 1},
        "DeleteTopics": {"topic_names": missing, "name": missing, "topic_id": b"\1" * 16},
        "DeleteRecords": {"name": missing},
        "AlterPartitionReassignments": {"replicas": world.node_ids[0]},
        "AlterReplicaLogDirs": {"path": "/nowhere"},
        "AlterPartition": {"topic_id": b"\1" * 16},
        "BeginQuorumEpoch": {"topic_name": "__cluster_metadata", "voter_id": -1},
        "EndQuorumEpoch": {"topic_name": "__cluster_metadata", "leader_epoch": max(0, world.epoch - 1)},
        "FetchSnapshot": {"name": "__cluster_metadata"},
        "FindCoordinator": {"key": "fields-group", "coordinator_keys": "fields-group"},
        "UpdateFeatures": {"feature": "no.such.feature"},
        "Vote": {"topic_name": "__cluster_metadata", "voter_id": -1, "replica_id": STRANGER},
        "DescribeQuorum": {"topic_name": "__cluster_metadata"},
        "UpdateRaftVoter": {"name": "CONTROLLER", "host": "127.0.0.1"},
        "AddRaftVoter": {"name": "CONTROLLER", "host": "127.0.0.1", "voter_directory_id": b"\5" * 16},
    }.get(api.name, {})


def versions(api: Api) -> range:
    return range(api.versions.low, api.latest_stable_version + 1)


def apis_of(listener: str) -> list[Api]:
    """Returns the APIs for that kind of listener; the broker closes the connection for those that it does not serve."""
    return [api for api in APIS.values() if listener in api.listeners]
