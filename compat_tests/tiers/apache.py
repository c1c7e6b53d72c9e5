"""Apache Kafka's own tests of tiered storage against Odradek's nodes: `python -m compat_tests.tiers.apache [TEST ...]`.

The steps of each test come from the published test jar (java/TieredSpecifications.java). The jar's harness starts Apache's
brokers in its own process; here nodes of Odradek run them: one controller, and as many brokers as the test has. A step
waits for what Apache's step waits for, by the folder of the store, the files of the brokers and the protocol. Calls of the
store are not counted: nodes of Odradek read ranges and keep indexes in another way.

Tests without steps run as they are (published.py): TransactionsWithTieredStoreTest, some 40 cases, and three of topics and
offsets.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)
from kafka import KafkaAdminClient
from kafka import TopicPartition as Place
from odradek.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from odradek.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from odradek.protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersTopic
from odradek.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from odradek.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from odradek.protocol.records.batch import iter_headers
from odradek.protocol.records.record import decode_batch
from odradek.protocol.uuids import uuid_to_text
from odradek.tiers.metadata_topic import metadata_partition
from odradek.tiers.segment_metadata import TopicIdPartition

from compat_tests.java.fetch import TIERS, home
from compat_tests.java.program import java_command
from compat_tests.recipes import eventually
from tests.server.harness.cluster_process import BROKER, CONTROLLER

from . import published, tiered
from .cluster import TieredCluster

SOURCE = Path(__file__).parent / "java" / "TieredSpecifications.java"
#: All tests of the package `org.apache.kafka.tiered.storage.integration` that have steps.
TESTS = (
    "AlterLogDirTest", "DeleteSegmentsByRetentionSizeTest", "DeleteSegmentsByRetentionTimeTest",
    "DeleteSegmentsDueToLogStartOffsetBreachTest", "DeleteTopicTest", "DisableRemoteLogOnTopicTest",
    "EnableRemoteLogOnTopicTest", "FetchFromLeaderWithCorruptedCheckpointTest", "ListOffsetsTest",
    "OffloadAndConsumeFromLeaderTest", "OffloadAndTxnConsumeFromLeaderTest", "PartitionsExpandTest",
    "ReassignReplicaExpandTest", "ReassignReplicaMoveTest", "ReassignReplicaShrinkTest", "RollAndOffloadActiveSegmentTest",
)  # fmt: skip
#: Apache's brokers are 0 and 1; here the controller is 1.
_FIRST_BROKER = 2
_DEADLINE_S = 90
#: The harness's `TieredStorageTestUtils`.
_INTERVALS = {"remote.log.manager.task.interval.ms": "500", "log.retention.check.interval.ms": "500"}
_OFFSET_SPECS = {
    "EarliestSpec": -2,
    "LatestSpec": -1,
    "MaxTimestampSpec": -3,
    "EarliestLocalSpec": -4,
    "LatestTieredSpec": -5,
}
_NO_OFFSET = -1

Step = dict[str, Any]


def specifications(tests: tuple[str, ...]) -> list[Step]:
    command = java_command(SOURCE, *tests, more_jars=(f"{home(TIERS)}/*",))
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr)
    return [json.loads(line) for line in done.stdout.splitlines()]


class TwoDirectories(TieredCluster):
    """Each broker has two log directories, as in the harness."""

    log_dirs = ("one", "two")


class Nodes:
    """The nodes of one test, and the steps of Apache's tests by their names."""

    def __init__(self, folder: Path, specification: Step) -> None:
        roles = [CONTROLLER, *[BROKER] * specification["brokers"]]
        self.store = folder / "store"
        self.cluster = TwoDirectories(folder, roles)
        count = str(specification["metadata_partitions"])
        for node in self.cluster.nodes.values():
            node.properties |= tiered.properties(self.store, replication=specification["brokers"])
            node.properties |= {"rlmm.config.remote.log.metadata.topic.num.partitions": count, **_INTERVALS}
            node.properties |= specification["properties"]
        self.produced: dict[tuple[str, int], list[tuple[str, str]]] = {}
        #: Names of all segments that were in the store, and how many deletions steps have waited for.
        self.seen: dict[tuple[str, int], set[str]] = {}
        self.deleted: dict[tuple[str, int], int] = {}

    @property
    def bootstrap(self) -> str:
        return ",".join(
            one.bootstrap for key, one in self.cluster.nodes.items() if key >= _FIRST_BROKER and one.is_running
        )

    def broker(self, apache_id: int) -> Any:
        return self.cluster.nodes[apache_id + _FIRST_BROKER]

    def any_broker(self) -> Any:
        return next(one for key, one in self.cluster.nodes.items() if key >= _FIRST_BROKER and one.is_running)

    def run(self, step: Step) -> None:
        STEPS[step["type"]](self, step)

    def state(self, topic: str, partition: int) -> tuple[int, list[int], list[int]]:
        """Returns leader, replicas and ISR, by the ids of the test."""
        response = self.any_broker().ask(MetadataRequest(topics=[MetadataRequestTopic(name=topic)]), 9)
        found = next(one for one in response.topics[0].partitions if one.partition_index == partition)
        ids = [[one - _FIRST_BROKER for one in nodes] for nodes in (found.replica_nodes, found.isr_nodes)]
        return found.leader_id - _FIRST_BROKER, *ids

    def folders(self, topic: str, partition: int, broker: int) -> list[Path]:
        return [
            one / f"{topic}-{partition}"
            for one in self.broker(broker).log_dirs
            if (one / f"{topic}-{partition}").is_dir()
        ]

    def local_start(self, topic: str, partition: int) -> set[int]:
        """Returns the first local offsets on the replicas."""
        _, replicas, _ = self.state(topic, partition)
        starts = set()
        for broker in replicas:
            bases = [int(one.stem) for folder in self.folders(topic, partition, broker) for one in folder.glob("*.log")]
            starts.add(min(bases, default=-1))
        return starts

    def stored(self, topic: str, partition: int) -> list[Path]:
        found = tiered.remote_segments(self.store, topic=topic, partition=partition)
        self.seen.setdefault((topic, partition), set()).update(one.name for one in found)
        return found


def place_of(step: Step) -> tuple[str, int]:
    found = step.get("topicPartition") or step["partition"]
    return found["topic"], found["partition"]


def await_that(holds: Callable[[], object], what: str) -> None:
    def safely() -> object:
        try:
            return holds()
        except (OSError, EOFError, StopIteration, IndexError):
            return False

    eventually(safely, what=what, deadline_s=_DEADLINE_S)


def create_topic(nodes: Nodes, step: Step) -> None:
    spec = step["spec"]
    entries = spec["maxBatchCountPerSegment"]
    given = {"index.interval.bytes": "1", "local.retention.bytes": "1", "file.delete.delay.ms": "100"}
    if entries > 0:
        given["segment.index.bytes"] = str(12 * entries)
    assignment = spec["assignment"]
    layout: dict[str, Any] = {"num_partitions": spec["partitionCount"], "replication_factor": spec["replicationFactor"]}
    if assignment:
        found = [[one + _FIRST_BROKER for one in assignment[str(index)]] for index in range(len(assignment))]
        layout = {"num_partitions": len(found), "replica_assignment": found}
    admin = AdminClient({"bootstrap.servers": nodes.bootstrap})
    (made,) = admin.create_topics([NewTopic(spec["topicName"], config=given | spec["properties"], **layout)]).values()
    made.result(30)
    for index in range(layout["num_partitions"]):
        await_that(lambda index=index: nodes.state(spec["topicName"], index)[0] >= 0, "there is a leader")  # type: ignore[misc]


def create_partitions(nodes: Nodes, step: Step) -> None:
    spec = step["spec"]
    assignment = [
        [one + _FIRST_BROKER for one in spec["assignment"][key]] for key in sorted(spec["assignment"], key=int)
    ]
    admin = AdminClient({"bootstrap.servers": nodes.bootstrap})
    wanted = NewPartitions(spec["topicName"], spec["partitionCount"], replica_assignment=assignment)
    (made,) = admin.create_partitions([wanted]).values()
    made.result(30)
    for index in range(spec["partitionCount"]):
        await_that(lambda index=index: nodes.state(spec["topicName"], index)[0] >= 0, "there is a leader")  # type: ignore[misc]


def _alter(nodes: Nodes, kind: ResourceType, name: str, step: Step) -> None:
    entries = [
        ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
        for key, value in step["configsToBeAdded"].items()
    ] + [ConfigEntry(key, None, incremental_operation=AlterConfigOpType.DELETE) for key in step["configsToBeDeleted"]]
    admin = AdminClient({"bootstrap.servers": nodes.bootstrap})
    (done,) = admin.incremental_alter_configs([ConfigResource(kind, name, incremental_configs=entries)]).values()
    done.result(30)


def update_topic_config(nodes: Nodes, step: Step) -> None:
    _alter(nodes, ResourceType.TOPIC, step["topic"], step)


def update_broker_config(nodes: Nodes, step: Step) -> None:
    _alter(nodes, ResourceType.BROKER, str(step["brokerId"] + _FIRST_BROKER), step)


def produce(nodes: Nodes, step: Step) -> None:
    topic, partition = place = place_of(step)
    records, size = step["recordsToProduce"], step["batchSize"]
    producer = Producer({"bootstrap.servers": nodes.bootstrap, "acks": "all", "linger.ms": 50})
    for first in range(0, len(records), size):
        for one in records[first : first + size]:
            at = {} if one["timestamp"] is None else {"timestamp": one["timestamp"]}
            producer.produce(topic, one["value"], key=one["key"], partition=partition, **at)
        assert producer.flush(30) == 0
    nodes.produced.setdefault(place, []).extend((one["key"], one["value"]) for one in records)
    for segment in step["offloadedSegmentSpecs"]:
        base = segment["baseOffset"]
        name = f"{base:020}-"
        await_that(
            lambda name=name: [one for one in nodes.stored(*place) if one.name.startswith(name)],  # type: ignore[misc]
            f"segment {base} of {place} is in the store",
        )
        file = next(one for one in nodes.stored(*place) if one.name.startswith(name))
        expected = [(one["key"].encode(), one["value"].encode()) for one in segment["records"]]
        # An earlier step may have produced the first ones.
        await_that(lambda: _records(file)[-len(expected) :] == expected, f"{file} ends with {expected}")  # noqa: B023
    start = step["expectedEarliestLocalOffset"]
    if start != _NO_OFFSET:
        await_that(lambda: nodes.local_start(*place) == {start}, f"{place} begins at {start} on the disks")
        nodes.stored(*place)


def _records(file: Path) -> list[tuple[bytes | None, bytes | None]]:
    content = file.read_bytes()
    found = [one for at, header in iter_headers(content) for one in decode_batch(content, at, header)]
    return [(one.key, one.value) for one in found]


def consume(nodes: Nodes, step: Step) -> None:
    topic, partition = place = place_of(step)
    count, tiered_count = step["expectedTotalCount"], step["expectedFromSecondTierCount"]
    settings = {"group.id": "g", "auto.offset.reset": "earliest", "enable.auto.commit": False}
    consumer = Consumer({"bootstrap.servers": nodes.bootstrap, **settings})
    consumer.assign([TopicPartition(topic, partition, step["fetchOffset"])])
    found: list[Any] = []

    def has_all() -> bool:
        found.extend(one for one in consumer.consume(100, 0.5) if one.error() is None)
        return len(found) >= count

    try:
        await_that(has_all, f"{count} records of {place} are read")
    finally:
        consumer.close()
    assert len(found) == count, f"{len(found)} records, not {count}"
    expected = nodes.produced[place][-count:]
    if found[0].offset() == step["fetchOffset"]:
        expected = nodes.produced[place][step["fetchOffset"] : step["fetchOffset"] + count]
    assert [(one.key().decode(), one.value().decode()) for one in found] == expected
    local = min(nodes.local_start(*place))
    from_store = sum(one.offset() < local for one in found)
    assert from_store == tiered_count, f"{from_store} records of {place} are in the store only, not {tiered_count}"


def _await_deleted(nodes: Nodes, specs: list[Step]) -> None:
    for spec in specs:
        place = place_of(spec)
        expected = nodes.deleted[place] = nodes.deleted.get(place, 0) + spec["eventCount"]

        def has_all(place: tuple[str, int] = place, expected: int = expected) -> bool:
            there = {one.name for one in nodes.stored(*place)}
            return len(nodes.seen[place] - there) >= expected

        await_that(has_all, f"{expected} segments of {place} are deleted")


def delete_records(nodes: Nodes, step: Step) -> None:
    topic, partition = place_of(step)
    admin = KafkaAdminClient(bootstrap_servers=nodes.bootstrap.split(","))
    admin.delete_records({Place(topic, partition): step["beforeOffset"]})
    admin.close()
    _await_deleted(nodes, step["deleteSegmentSpecs"])


def delete_topic(nodes: Nodes, step: Step) -> None:
    if step["shouldDelete"]:
        admin = AdminClient({"bootstrap.servers": nodes.bootstrap})
        (done,) = admin.delete_topics([step["topic"]]).values()
        done.result(30)
    _await_deleted(nodes, step["deleteSegmentSpecs"])


def expect_empty_remote_storage(nodes: Nodes, step: Step) -> None:
    place = place_of(step)
    await_that(lambda: not nodes.stored(*place), f"nothing of {place} is in the store")


def expect_list_offsets(nodes: Nodes, step: Step) -> None:
    topic, partition = place_of(step)
    spec, expected = step["spec"], step["expected"]
    timestamp = spec["timestamp"] if "timestamp" in spec else _OFFSET_SPECS[spec["type"]]
    asked = ListOffsetsTopic(topic, [ListOffsetsPartition(partition, -1, timestamp)])

    def holds() -> bool:
        leader, _, _ = nodes.state(topic, partition)
        response = nodes.broker(leader).ask(ListOffsetsRequest(replica_id=-1, topics=[asked], timeout_ms=10_000), 11)
        found = response.topics[0].partitions[0]
        return (found.error_code, found.offset, found.leader_epoch) == (0, expected["startOffset"], expected["epoch"])

    await_that(holds, f"{spec} of {topic}-{partition} is {expected}")


def reassign(nodes: Nodes, step: Step) -> None:
    topic, partition = place_of(step)
    _reassign(nodes, topic, partition, step["replicaIds"])


def _reassign(nodes: Nodes, topic: str, partition: int, replicas: list[int]) -> None:
    named = ReassignablePartition(partition, [one + _FIRST_BROKER for one in replicas])
    request = AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(topic, [named])])
    done = nodes.any_broker().ask(request, 0)
    assert not done.error_code and not done.responses[0].partitions[0].error_code, done
    await_that(
        lambda: nodes.state(topic, partition)[1] == replicas and set(nodes.state(topic, partition)[2]) == set(replicas),
        f"the replicas of {topic}-{partition} are {replicas}",
    )


def expect_leader(nodes: Nodes, step: Step) -> None:
    topic, partition = place_of(step)
    wanted = step["replicaId"]
    if step["electLeader"]:
        _, replicas, _ = nodes.state(topic, partition)
        _reassign(nodes, topic, partition, [wanted, *(one for one in replicas if one != wanted)])
        elected = ElectLeadersTopic(topic=topic, partitions=[partition])
        nodes.any_broker().ask(ElectLeadersRequest(election_type=0, topic_partitions=[elected], timeout_ms=30_000), 2)
    await_that(lambda: nodes.state(topic, partition)[0] == wanted, f"broker {wanted} leads {topic}-{partition}")


def expect_broker_in_isr(nodes: Nodes, step: Step) -> None:
    topic, partition = place_of(step)
    await_that(lambda: step["replicaId"] in nodes.state(topic, partition)[2], "the broker is in the ISR")


def alter_log_dir(nodes: Nodes, step: Step) -> None:
    topic, partition = place_of(step)
    node = nodes.broker(step["brokerId"])
    (now,) = nodes.folders(topic, partition, step["brokerId"])
    target = next(one for one in node.log_dirs if one != now.parent)
    named = AlterReplicaLogDirTopic(name=topic, partitions=[partition])
    request = AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path=str(target), topics=[named])])
    done = node.ask(request, 2)
    assert not done.results[0].partitions[0].error_code, done
    await_that(
        lambda: nodes.folders(topic, partition, step["brokerId"]) == [target / f"{topic}-{partition}"],
        "the log has moved",
    )


def stop_broker(nodes: Nodes, step: Step) -> None:
    nodes.broker(step["brokerId"]).stop()


def start_broker(nodes: Nodes, step: Step) -> None:
    nodes.broker(step["brokerId"]).start()


def bounce_broker(nodes: Nodes, step: Step) -> None:
    stop_broker(nodes, step)
    start_broker(nodes, step)


def erase_broker_storage(nodes: Nodes, step: Step) -> None:
    for folder in nodes.broker(step["brokerId"]).log_dirs:
        for name in step["filenameFilter"]:
            (folder / name).unlink(missing_ok=True)


def expect_topic_id(nodes: Nodes, step: Step) -> None:
    response = nodes.any_broker().ask(MetadataRequest(topics=[MetadataRequestTopic(name=step["topic"])]), 12)
    topic_id = uuid_to_text(response.topics[0].topic_id)
    folders = list((nodes.store / "kafka-tiered-storage").glob(f"{step['topic']}-*"))
    assert folders and all(one.name.endswith(topic_id) for one in folders), folders


def expect_epoch_checkpoint(nodes: Nodes, step: Step) -> None:
    """Apache's step looks at the leader epochs in memory: the first one begins with the log."""
    first = {"epoch": step["beginEpoch"], "startOffset": step["startOffset"]}
    expect_list_offsets(nodes, step | {"spec": {"type": "EarliestSpec"}, "expected": first})


def expect_metadata_partitions(nodes: Nodes, step: Step) -> None:
    response = nodes.any_broker().ask(MetadataRequest(topics=[MetadataRequestTopic(name=step["topic"])]), 12)
    topic = response.topics[0]
    count = int(nodes.any_broker().properties["rlmm.config.remote.log.metadata.topic.num.partitions"])
    found = {
        metadata_partition(TopicIdPartition(topic.topic_id, topic.name, one.partition_index), count)
        for one in topic.partitions
    }
    assert found == set(step["metadataPartitions"]), found


STEPS: dict[str, Callable[[Nodes, Step], None]] = {
    "AlterLogDirAction": alter_log_dir,
    "BounceBrokerAction": bounce_broker,
    "ConsumeAction": consume,
    "CreatePartitionsAction": create_partitions,
    "CreateTopicAction": create_topic,
    "DeleteRecordsAction": delete_records,
    "DeleteTopicAction": delete_topic,
    "EraseBrokerStorageAction": erase_broker_storage,
    "ExpectBrokerInISRAction": expect_broker_in_isr,
    "ExpectEmptyRemoteStorageAction": expect_empty_remote_storage,
    "ExpectLeaderAction": expect_leader,
    "ExpectLeaderEpochCheckpointAction": expect_epoch_checkpoint,
    "ExpectListOffsetsAction": expect_list_offsets,
    "ExpectTopicIdToMatchInRemoteStorageAction": expect_topic_id,
    "ExpectUserTopicMappedToMetadataPartitionsAction": expect_metadata_partitions,
    "ProduceAction": produce,
    "ReassignReplicaAction": reassign,
    "ShrinkReplicaAction": reassign,
    "StartBrokerAction": start_broker,
    "StopBrokerAction": stop_broker,
    "UpdateBrokerConfigAction": update_broker_config,
    "UpdateTopicConfigAction": update_topic_config,
}


def run(specification: Step) -> None:
    """Runs a test. Raises AssertionError at the first step that does not hold."""
    with tempfile.TemporaryDirectory() as folder:
        nodes = Nodes(Path(folder), specification)
        with nodes.cluster:
            for number, step in enumerate(specification["actions"], 1):
                try:
                    nodes.run(step)
                except Exception as error:
                    raise AssertionError(f"step {number}, {step['type']}: {error}") from error


def outcomes(names: tuple[str, ...]) -> Iterator[tuple[str, str | None]]:
    """Runs tests. Returns the name of each case and the reason of its failure."""
    if with_steps := tuple(one for one in names if one not in published.CLASSES):
        for specification in specifications(with_steps):
            try:
                run(specification)
            except AssertionError as failure:
                yield specification["test"], str(failure)
            else:
                yield specification["test"], None
    for test in published.CLASSES:
        for one in published.run(test) if test in names else ():
            yield f"{test} {one.case}", one.failure


def main() -> int:
    passed = count = 0
    for case, failure in outcomes(tuple(sys.argv[1:]) or (*TESTS, *published.CLASSES)):
        count, passed = count + 1, passed + (failure is None)
        print(f"passed {case}" if failure is None else f"FAILED {case}: {failure}", flush=True)
    print(f"{passed} of {count}")
    return int(passed != count)


if __name__ == "__main__":
    sys.exit(main())
