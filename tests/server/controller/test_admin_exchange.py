"""Data directories that Odradek and Apache Kafka 4.3.1 open in turn, and Kafka's tools on Odradek's metadata."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from odradek.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from odradek.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from odradek.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from odradek.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from odradek.protocol.messages.metadata import MetadataRequest
from odradek.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from odradek.protocol.records.record import Record, encode_batch
from odradek.server.config.broker_config import BrokerConfig
from odradek.server.controller.formatting import format_directories
from odradek.server.controller.metadata_log import DIRECTORY_NAME
from odradek.server.controller.metadata_snapshots import list_snapshots

from compat_tests.broker_process import POLL_S, BrokerProcess
from compat_tests.java.tool import ToolHost, run_tool
from compat_tests.odradek_process import OdradekProcess
from compat_tests.oracle import ApacheKafka
from compat_tests.recipes import eventually
from compat_tests.wire import WireClient

pytestmark = [pytest.mark.oracle, pytest.mark.usefixtures("java_tools")]

#: The cluster id with which the oracle formats. It accepts no other.
CLUSTER_ID = "4L6g3nShT-eMCtK--X86sw"
TOPIC_RESOURCE = 2
DEADLINE_S = 60
NOT_LED_YET = (
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
)
DUMP = "org.apache.kafka.tools.DumpLogSegments"
SHELL = "org.apache.kafka.shell.MetadataShell"


class Admin:
    """A client with the requests that the tests send to either broker."""

    def __init__(self, broker: BrokerProcess) -> None:
        self.client = WireClient(broker.bootstrap)

    def create(self, name: str, partitions: int, **configs: str) -> None:
        said = [CreatableTopicConfig(key.replace("_", "."), value) for key, value in configs.items()]
        response = self.client.call(CreateTopicsRequest([CreatableTopic(name, partitions, 1, configs=said)]), 7)
        assert response.topics[0].error_code == 0, response

    def grow(self, name: str, count: int) -> None:
        response = self.client.call(CreatePartitionsRequest([CreatePartitionsTopic(name, count, None)], 10_000), 3)
        assert response.results[0].error_code == 0, response

    def delete(self, name: str) -> None:
        response = self.client.call(DeleteTopicsRequest([DeleteTopicState(name)], timeout_ms=10_000), 6)
        assert response.responses[0].error_code == 0, response

    def send(self, name: str, count: int) -> None:
        records = encode_batch([Record(i, 1, None, b"%d" % i) for i in range(count)])
        asked = ProduceRequest(
            None, -1, 10_000, [TopicProduceData(name, partition_data=[PartitionProduceData(0, records)])]
        )
        self.once_led(lambda: self.client.call(asked, 9).responses[0].partition_responses[0])

    def seen(self) -> dict[str, Any]:
        """Returns each topic's id, leaders, end offset of partition 0, and the configs set on it."""
        topics = self.client.call(MetadataRequest(None), 12).topics
        return {
            topic.name: (topic.topic_id, self.leaders(topic), self.end(topic.name), self.configs(topic.name))
            for topic in topics
        }

    def partition_counts(self) -> dict[str, int]:
        return {topic.name: len(topic.partitions) for topic in self.client.call(MetadataRequest(None), 12).topics}

    def leaders(self, topic: Any) -> list[int]:
        return [p.leader_id for p in sorted(topic.partitions, key=lambda p: p.partition_index)]

    def end(self, name: str) -> int:
        asked = ListOffsetsRequest(-1, 0, [ListOffsetsTopic(name, [ListOffsetsPartition(0, -1, -1)])])
        return int(self.once_led(lambda: self.client.call(asked, 5).topics[0].partitions[0]).offset)

    def once_led(self, ask: Callable[[], Any]) -> Any:
        """Retries like a client: a leader may be in Metadata shortly before the partition accepts requests."""
        deadline = time.monotonic() + DEADLINE_S
        while (partition := ask()).error_code in NOT_LED_YET:
            assert time.monotonic() < deadline, partition
            time.sleep(POLL_S)
        assert partition.error_code == 0, partition
        return partition

    def configs(self, name: str) -> dict[str, str]:
        asked = DescribeConfigsRequest([DescribeConfigsResource(TOPIC_RESOURCE, name, None)])
        return {c.name: c.value for c in self.client.call(asked, 4).results[0].configs if c.config_source == 1}

    def __enter__(self) -> Admin:
        return self

    def __exit__(self, *_: object) -> None:
        self.client.__exit__(None, None, None)


def ours_in(directory: Path, **properties: str) -> OdradekProcess:
    config = {"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": str(directory / "data")}
    format_directories(BrokerConfig(config), CLUSTER_ID, ignore_formatted=True)
    return OdradekProcess(directory, properties)


def test_kafka_goes_on_where_we_stopped_and_we_where_kafka_did(tmp_path: Path) -> None:
    with (
        ours_in(tmp_path, **{"metadata.log.max.record.bytes.between.snapshots": "2000"}) as broker,
        Admin(broker) as us,
    ):
        for number in range(12):
            us.create(f"t{number}", 2)
        us.create("orders", 3, retention_ms="1000000", cleanup_policy="compact,delete")
        us.send("t0", 25)
        us.delete("t11")
        before = us.seen()
    assert len(list_snapshots(tmp_path / "data" / DIRECTORY_NAME)) > 1
    with ApacheKafka(tmp_path) as broker, Admin(broker) as kafka:
        assert kafka.seen() == before
        kafka.create("by-kafka", 2, segment_ms="60000")
        kafka.grow("orders", 5)
        kafka.delete("t1")
        kafka.send("t0", 5)
        # Kafka responds before its broker has applied the changes.
        names = before.keys() - {"t1"} | {"by-kafka"}
        eventually(
            lambda: kafka.partition_counts().items() >= {"by-kafka": 2, "orders": 5}.items(), what="both are known"
        )
        eventually(lambda: kafka.partition_counts().keys() == names, what="t1 is gone")
        then = kafka.seen()
        assert then["t0"][2] == 30 and "t1" not in then and len(then["orders"][1]) == 5
    with ours_in(tmp_path) as broker, Admin(broker) as us:
        assert us.seen() == then
        us.create("by-us-again", 1)
        broker.kill()
    with ApacheKafka(tmp_path) as broker, Admin(broker) as kafka:
        assert kafka.seen().keys() == then.keys() | {"by-us-again"}


def test_we_open_a_directory_that_kafka_made_and_kafka_opens_it_again(tmp_path: Path) -> None:
    with ApacheKafka(tmp_path) as broker, Admin(broker) as kafka:
        kafka.create("orders", 3, max_message_bytes="2000000")
        kafka.send("orders", 7)
        before = kafka.seen()
        broker.kill()
    with ours_in(tmp_path) as broker, Admin(broker) as us:
        assert us.seen() == before
        us.send("orders", 3)
        us.create("by-us", 1)
        then = us.seen()
    with ApacheKafka(tmp_path) as broker, Admin(broker) as kafka:
        assert kafka.seen() == then and then["orders"][2] == 10


@pytest.fixture(scope="module")
def tools() -> Iterator[ToolHost]:
    with ToolHost() as host:
        yield host


def test_apaches_tools_read_our_metadata_log_and_its_snapshots(tmp_path: Path, tools: ToolHost) -> None:
    with (
        ours_in(tmp_path, **{"metadata.log.max.record.bytes.between.snapshots": "2000"}) as broker,
        Admin(broker) as us,
    ):
        for number in range(12):
            us.create(f"t{number}", 2, retention_ms="5")
        us.delete("t3")
    directory = tmp_path / "data" / DIRECTORY_NAME
    newest = directory / list_snapshots(directory)[-1].file_name
    files = [*directory.glob("*.log"), *directory.glob("*.checkpoint"), tmp_path / "data" / "bootstrap.checkpoint"]
    for file in files:
        dumped = tools.run(DUMP, "--cluster-metadata-decoder", "--files", str(file)).checked()
        assert dumped.err == "" and "isvalid: false" not in dumped.out
        assert len(re.findall(r"^\| offset: ", dumped.out, re.MULTILINE)) >= 3
    shown = eventually(lambda: shown_by_the_shell(newest, "/image/topics/byName/t0/1"), what="the shell shows t0-1")
    assert shown.startswith("PartitionRegistration(replicas=[1], directories=["), shown


def shown_by_the_shell(snapshot: Path, name: str) -> str:
    """Returns the output of the shell; empty if the shell ran the command before it had published the snapshot.

    The shell does not wait for that. It runs in its own JVM, because its threads do not end.
    """
    shown = run_tool(SHELL, "--snapshot", str(snapshot), "cat", name).checked().out
    return "" if shown.startswith(f"cat: {name}: No such file") else shown
