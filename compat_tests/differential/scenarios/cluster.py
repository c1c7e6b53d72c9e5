"""Scenarios about the cluster: DescribeCluster, DescribeQuorum, UpdateFeatures, UnregisterBroker; FindCoordinator,
InitProducerId, DescribeProducers, OffsetForLeaderEpoch; elections and reassignments; log directories."""

from __future__ import annotations

from typing import Any

from ..scenario import Step, ask, batch, prepare, scenario
from ..setup_steps import produce, produced, topic

#: The metadata.version of a new cluster of Apache Kafka 4.3 and of Odradek.
LEVEL = 30
#: Feature upgrade kinds.
UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3


def coordinator(*keys: str, kind: int = 0) -> Step:
    return ask("FindCoordinator", key=keys[0] if keys else "", key_type=kind, coordinator_keys=list(keys))


def epoch_end(epoch: int, *, name: str = "$t", partition: int = 0, current: int = -1) -> Step:
    wanted = {"partition": partition, "current_leader_epoch": current, "leader_epoch": epoch}
    return ask("OffsetForLeaderEpoch", replica_id=-1, topics=[{"topic": name, "partitions": [wanted]}])


def elect(kind: int, *partitions: int, name: str = "$t") -> Step:
    wanted = [{"topic": name, "partitions": list(partitions)}] if partitions else None
    return ask("ElectLeaders", election_type=kind, topic_partitions=wanted, timeout_ms=10_000)


def reassign(replicas: list[int] | None, *, name: str = "$t", partition: int = 0, **more: Any) -> Step:
    wanted = {"partition_index": partition, "replicas": replicas}
    return ask(
        "AlterPartitionReassignments", topics=[{"name": name, "partitions": [wanted]}], timeout_ms=10_000, **more
    )


def reassignments(name: str, *partitions: int) -> Step:
    return ask(
        "ListPartitionReassignments", timeout_ms=10_000, topics=[{"name": name, "partition_indexes": list(partitions)}]
    )


def feature(name: str, level: int, kind: int = UPGRADE, *, validate_only: bool = False) -> Step:
    update = {"feature": name, "max_version_level": level, "upgrade_type": kind, "allow_downgrade": kind != UPGRADE}
    return ask("UpdateFeatures", timeout_ms=10_000, feature_updates=[update], validate_only=validate_only)


def quorum(*partitions: int, name: str = "__cluster_metadata") -> Step:
    return ask(
        "DescribeQuorum", topics=[{"topic_name": name, "partitions": [{"partition_index": n} for n in partitions]}]
    )


def log_dirs(topics: list[dict[str, Any]] | None) -> Step:
    return ask("DescribeLogDirs", topics=topics)


def producers(*partitions: int, name: str = "$t") -> Step:
    return ask("DescribeProducers", topics=[{"name": name, "partition_indexes": list(partitions)}])


_INIT = prepare("InitProducerId", transactional_id=None, transaction_timeout_ms=60_000, keep={"pid": "producer_id"})

SCENARIOS = [
    scenario("DescribeCluster", "the brokers", ask("DescribeCluster")),
    scenario(
        "DescribeCluster", "authorized operations", ask("DescribeCluster", include_cluster_authorized_operations=True)
    ),
    scenario(
        "DescribeCluster",
        "endpoints of controllers are not asked for at a broker",
        ask("DescribeCluster", endpoint_type=2),
        ask("DescribeCluster", endpoint_type=9),
        versions="1+",
    ),
    scenario(
        "DescribeCluster", "fenced brokers too", ask("DescribeCluster", include_fenced_brokers=True), versions="2+"
    ),
    scenario("FindCoordinator", "of a group", coordinator("g")),
    scenario("FindCoordinator", "of several groups", coordinator("g1", "g2", "g1"), versions="4+"),
    scenario("FindCoordinator", "of none", coordinator(), versions="4+"),
    scenario("FindCoordinator", "of a group without a name", coordinator("")),
    scenario(
        "FindCoordinator", "kinds that do not exist", coordinator("g", kind=7), coordinator("g", kind=-1), versions="1+"
    ),
    scenario(
        "FindCoordinator",
        "of a share partition by a bad key",
        coordinator("g", kind=2),
        coordinator("g:x:y", kind=2),
        versions="1+",
    ),
    scenario(
        "InitProducerId",
        "a producer without transactions",
        ask("InitProducerId", transactional_id=None, transaction_timeout_ms=60_000),
    ),
    scenario(
        "InitProducerId",
        "each is given another id",
        ask("InitProducerId", transactional_id=None, transaction_timeout_ms=60_000),
        ask("InitProducerId", transactional_id=None, transaction_timeout_ms=0),
    ),
    scenario(
        "InitProducerId",
        "an empty transactional id",
        ask("InitProducerId", transactional_id="", transaction_timeout_ms=60_000),
    ),
    scenario(
        "InitProducerId",
        "an id that the producer had",
        ask("InitProducerId", transactional_id=None, transaction_timeout_ms=60_000, producer_id=5, producer_epoch=1),
        versions="3+",
    ),
    scenario(
        "InitProducerId",
        "an id without an epoch",
        ask("InitProducerId", transactional_id=None, transaction_timeout_ms=60_000, producer_id=5),
        ask("InitProducerId", transactional_id=None, transaction_timeout_ms=60_000, producer_epoch=5),
        versions="3+",
    ),
    scenario(
        "OffsetForLeaderEpoch",
        "of the present epoch",
        topic(),
        produced(b"a", b"b"),
        epoch_end(0),
        epoch_end(0, current=0),
    ),
    scenario("OffsetForLeaderEpoch", "of an empty log", topic(), epoch_end(0)),
    scenario(
        "OffsetForLeaderEpoch",
        "of epochs that never were",
        topic(),
        produced(b"a"),
        epoch_end(5),
        epoch_end(-1),
        epoch_end(-2),
    ),
    scenario("OffsetForLeaderEpoch", "by a client that is behind or ahead", topic(), epoch_end(0, current=3)),
    scenario(
        "OffsetForLeaderEpoch", "of what is not there", topic(), epoch_end(0, partition=4), epoch_end(0, name="$none")
    ),
    scenario("DescribeProducers", "none", topic(), producers(0)),
    scenario(
        "DescribeProducers",
        "an idempotent one",
        topic(),
        _INIT,
        prepare("Produce", **produce(batch(b"a", b"b", producer_id="@pid", producer_epoch=0, base_sequence=0))),
        producers(0),
    ),
    scenario(
        "DescribeProducers",
        "of what is not there",
        topic(),
        producers(3),
        producers(0, name="$none"),
        producers(0, name="a b"),
    ),
    scenario("DescribeQuorum", "partitions that have no quorum", quorum(1), quorum(0, name="x")),
    scenario("DescribeQuorum", "the quorum of the metadata log", quorum(0)),
    scenario("DescribeQuorum", "nothing", ask("DescribeQuorum", topics=[])),
    scenario("UpdateFeatures", "features that are not known", feature("no.such.feature", 1)),
    scenario(
        "UpdateFeatures",
        "levels that are not supported",
        feature("metadata.version", 9999),
        feature("metadata.version", 0, SAFE_DOWNGRADE),
        feature("group.version", 99),
    ),
    scenario(
        "UpdateFeatures",
        "the level that it has",
        feature("metadata.version", LEVEL),
        feature("metadata.version", LEVEL, validate_only=True),
    ),
    scenario(
        "UpdateFeatures",
        "a lower level without leave to downgrade",
        feature("metadata.version", LEVEL - 1, validate_only=True),
    ),
    scenario(
        "UpdateFeatures", "kinds of upgrade that do not exist", feature("metadata.version", LEVEL, 7), versions="1+"
    ),
    scenario(
        "UpdateFeatures",
        "the same feature twice and none",
        ask(
            "UpdateFeatures",
            timeout_ms=1000,
            feature_updates=[{"feature": "metadata.version", "max_version_level": LEVEL}] * 2,
        ),
        ask("UpdateFeatures", timeout_ms=1000, feature_updates=[]),
    ),
    scenario(
        "UnregisterBroker",
        "one that is not there",
        ask("UnregisterBroker", broker_id=77),
        ask("UnregisterBroker", broker_id=-1),
    ),
    scenario(
        "UnregisterController",
        "one that is not there, and at a level that lacks this API",
        ask("UnregisterController", controller_id=77),
        ask("UnregisterController", controller_id=-1),
    ),
    scenario("ElectLeaders", "the preferred leader leads already", topic(partitions=2), elect(0, 0, 1)),
    scenario("ElectLeaders", "an unclean election is not needed", topic(), elect(1, 0), versions="1+"),
    scenario("ElectLeaders", "kinds of elections that do not exist", topic(), elect(5, 0), versions="1+"),
    scenario("ElectLeaders", "of what is not there", topic(), elect(0, 6), elect(0, 0, name="$none")),
    scenario(
        "ElectLeaders", "no partitions", ask("ElectLeaders", election_type=0, topic_partitions=[], timeout_ms=1000)
    ),
    scenario("AlterPartitionReassignments", "to where it is", topic(), reassign([0]), reassignments("$t", 0)),
    scenario("AlterPartitionReassignments", "one to be cancelled that is not under way", topic(), reassign(None)),
    scenario(
        "AlterPartitionReassignments",
        "to brokers that are not there",
        topic(),
        reassign([5]),
        reassign([0, 9]),
        reassign([-1]),
    ),
    scenario("AlterPartitionReassignments", "to none or twice to one", topic(), reassign([]), reassign([0, 0])),
    scenario(
        "AlterPartitionReassignments",
        "of what is not there",
        topic(),
        reassign([0], partition=7),
        reassign([0], name="$none"),
        reassign(None, name="$none"),
    ),
    scenario(
        "AlterPartitionReassignments",
        "without leave to change the number of replicas",
        topic(),
        reassign([0], allow_replication_factor_change=False),
        versions="1+",
    ),
    scenario("AlterPartitionReassignments", "nothing", ask("AlterPartitionReassignments", topics=[], timeout_ms=1000)),
    scenario(
        "ListPartitionReassignments",
        "none under way",
        topic(),
        reassignments("$t", 0),
        ask("ListPartitionReassignments", topics=None, timeout_ms=1000),
        ask("ListPartitionReassignments", topics=[], timeout_ms=1000),
    ),
    scenario(
        "ListPartitionReassignments", "of what is not there", topic(), reassignments("$t", 9), reassignments("$none", 0)
    ),
    scenario(
        "DescribeLogDirs",
        "one topic",
        topic(partitions=2),
        produced(b"x" * 100),
        log_dirs([{"topic": "$t", "partitions": [0, 1]}]),
    ),
    scenario(
        "DescribeLogDirs",
        "one partition of a topic",
        topic(partitions=2),
        log_dirs([{"topic": "$t", "partitions": [1]}]),
    ),
    scenario(
        "DescribeLogDirs",
        "what is not there",
        topic(),
        log_dirs([{"topic": "$none", "partitions": [0]}]),
        log_dirs([{"topic": "$t", "partitions": [5]}]),
        log_dirs([]),
    ),
    scenario(
        "AlterReplicaLogDirs",
        "a directory that is not there",
        topic(),
        ask(
            "AlterReplicaLogDirs", dirs=[{"path": "/no/such/directory", "topics": [{"name": "$t", "partitions": [0]}]}]
        ),
    ),
    scenario(
        "AlterReplicaLogDirs",
        "a path that is not absolute",
        topic(),
        ask("AlterReplicaLogDirs", dirs=[{"path": "x", "topics": [{"name": "$t", "partitions": [0]}]}]),
    ),
    scenario(
        "AlterReplicaLogDirs",
        "to where it is",
        topic(),
        prepare("DescribeLogDirs", topics=[{"topic": "$t", "partitions": [0]}], keep={"dir": "results.0.log_dir"}),
        ask(
            "AlterReplicaLogDirs",
            dirs=[
                {"path": "@dir", "topics": [{"name": "$t", "partitions": [0, 9]}, {"name": "$none", "partitions": [0]}]}
            ],
        ),
    ),
    scenario("AlterReplicaLogDirs", "nothing", ask("AlterReplicaLogDirs", dirs=[])),
]
