"""Requests about the cluster, whose responses show the permissions of their sender."""

from __future__ import annotations

from typing import Any

from odradek.metadata.acls import ResourceType

from compat_tests.authorization.probes import Probe, configs, created, metadata, replaced

CLUSTER = ResourceType.CLUSTER
_ZERO = bytes(16)


def state(**partition: Any) -> dict[str, Any]:
    return {"group_id": "g", "topics": [{"topic_id": _ZERO, "partitions": [{"partition": 0, **partition}]}]}


_NOTHING_NAMED = {"topics": []}
_ANY_RULE = {
    "resource_type_filter": 2, "resource_name_filter": "no-such-rule", "pattern_type_filter": 3, "principal_filter": None,
    "host_filter": None, "operation": 1, "permission_type": 1,
}  # fmt: skip
_BAD_RULE = {
    "resource_type": 4, "resource_name": "not-the-cluster", "resource_pattern_type": 3, "principal": "User:x",
    "host": "*", "operation": 3, "permission_type": 3,
}  # fmt: skip

ON_CLUSTER = [
    Probe("CreateAcls", (CLUSTER,), lambda t: {"creations": [_BAD_RULE]}),
    Probe("DescribeAcls", (CLUSTER,), lambda t: _ANY_RULE),
    Probe("DeleteAcls", (CLUSTER,), lambda t: {"filters": [_ANY_RULE]}),
    Probe("AlterPartitionReassignments", (CLUSTER,), lambda t: {"timeout_ms": 5000, "topics": [
        {"name": t.topic, "partitions": [{"partition_index": 7, "replicas": [0]}]},
    ]}),
    Probe("ListPartitionReassignments", (CLUSTER,), lambda t: {"timeout_ms": 5000, "topics": None}),
    Probe("ElectLeaders", (CLUSTER,), lambda t: {
        "election_type": 0, "topic_partitions": [{"topic": t.topic, "partitions": [0]}], "timeout_ms": 5000,
    }),
    Probe("UpdateFeatures", (CLUSTER,), lambda t: {"timeout_ms": 5000, "validate_only": True, "feature_updates": [
        {"feature": "no.such.feature", "max_version_level": 1, "upgrade_type": 1},
    ]}),
    Probe("UnregisterBroker", (CLUSTER,), lambda t: {"broker_id": 77}),
    Probe("AlterClientQuotas", (CLUSTER,), lambda t: {"validate_only": True, "entries": [
        {"entity": [{"entity_type": "user", "entity_name": "x"}],
         "ops": [{"key": "producer_byte_rate", "value": 1000.0, "remove": False}]},
    ]}),
    Probe("DescribeClientQuotas", (CLUSTER,), lambda t: {"components": [], "strict": False}),
    Probe("DescribeUserScramCredentials", (CLUSTER,), lambda t: {"users": [{"name": "x"}]}),
    Probe("AlterUserScramCredentials", (CLUSTER,), lambda t: {"deletions": [{"name": "x", "mechanism": 1}]}),
    Probe("DescribeLogDirs", (CLUSTER,), lambda t: {"topics": []}),
    Probe("AlterReplicaLogDirs", (CLUSTER,), lambda t: {"dirs": [
        {"path": "/no/such/directory", "topics": [{"name": t.topic, "partitions": [0]}]},
    ]}),
    Probe("WriteTxnMarkers", (CLUSTER,), lambda t: {"markers": [{
        "producer_id": 4711, "producer_epoch": 0, "transaction_result": False, "coordinator_epoch": 0,
        "topics": [{"name": "no-such-topic", "partition_indexes": [0]}],
    }]}),
    Probe("DescribeCluster", (CLUSTER,), lambda t: {"include_cluster_authorized_operations": True}),
    Probe("Metadata", (CLUSTER,), lambda t: metadata({"name": t.topic}), 9),
    Probe("InitProducerId", (CLUSTER,), lambda t: {"transactional_id": None, "transaction_timeout_ms": 60_000}),
    Probe("ListGroups", (CLUSTER,), lambda t: {}),
    Probe("ListTransactions", (CLUSTER,), lambda t: {}),
    Probe("CreateTopics", (CLUSTER,), created),
    Probe("DeleteTopics", (CLUSTER,), lambda t: {"topics": [{"name": "no-such-topic"}], "timeout_ms": 5000}),
    Probe("DescribeConfigs", (CLUSTER,), lambda t: {"resources": [
        {"resource_type": kind, "resource_name": "0", "configuration_keys": ["num.partitions"]} for kind in (4, 8)
    ]}),
    Probe("DescribeConfigs", (CLUSTER,), lambda t: configs(16, "some"), None, "client metrics"),
    Probe("IncrementalAlterConfigs", (CLUSTER,), lambda t: {"validate_only": True, "resources": [
        {"resource_type": 4, "resource_name": "", "configs": [
            {"name": "log.cleaner.threads", "config_operation": 0, "value": "1"},
        ]},
        {"resource_type": 8, "resource_name": "0", "configs": [{"name": "root", "config_operation": 0, "value": "INFO"}]},
        {"resource_type": 16, "resource_name": "s", "configs": [
            {"name": "interval.ms", "config_operation": 0, "value": "5000"},
        ]},
    ]}),
    Probe("AlterConfigs", (CLUSTER,), lambda t: replaced(4, "", "log.cleaner.threads", "1")),
    Probe("ListConfigResources", (CLUSTER,), lambda t: {"resource_types": [16]}),
    Probe("OffsetForLeaderEpoch", (CLUSTER,), lambda t: {"replica_id": -1, "topics": [
        {"topic": "no-such-topic", "partitions": [{"partition": 0, "current_leader_epoch": -1, "leader_epoch": 0}]},
    ]}),
    Probe("DescribeQuorum", (CLUSTER,), lambda t: {
        "topics": [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}],
    }),
    Probe("AddRaftVoter", (CLUSTER,), lambda t: {
        "cluster_id": "not-this-one", "timeout_ms": 1000, "voter_id": 9, "voter_directory_id": bytes(15) + b"\x07",
        "listeners": [],
    }),
    Probe("RemoveRaftVoter", (CLUSTER,), lambda t: {
        "cluster_id": "not-this-one", "voter_id": 9, "voter_directory_id": bytes(15) + b"\x07",
    }),
    Probe("FindCoordinator", (CLUSTER,), lambda t: {"key_type": 2, "coordinator_keys": ["not-a-key"]}),
    Probe("AddPartitionsToTxn", (CLUSTER,), lambda t: {"transactions": [{
        "transactional_id": "x", "producer_id": 4711, "producer_epoch": 0, "verify_only": True,
        "topics": [{"name": "no-such-topic", "partitions": [0]}],
    }]}),
    Probe("InitializeShareGroupState", (CLUSTER,), lambda t: state(state_epoch=0, start_offset=0)),
    Probe("ReadShareGroupState", (CLUSTER,), lambda t: state(leader_epoch=0)),
    Probe("ReadShareGroupStateSummary", (CLUSTER,), lambda t: state(leader_epoch=0)),
    Probe("WriteShareGroupState", (CLUSTER,), lambda t: state(state_epoch=0, leader_epoch=0, start_offset=0)),
    Probe("DeleteShareGroupState", (CLUSTER,), lambda t: state()),
]  # fmt: skip
