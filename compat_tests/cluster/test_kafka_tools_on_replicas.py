"""Apache Kafka's tools that inspect the nodes of a cluster: replicas compared, logs dumped, metadata shown."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from crc32c import crc32c
from odradek.server.controller.metadata_log import DIRECTORY_NAME
from odradek.server.controller.metadata_snapshots import list_snapshots

from compat_tests.java.program import java_command
from compat_tests.java.tool import ToolHost, run_tool
from compat_tests.recipes import eventually
from tests.server.harness.cluster_process import COMBINED, Cluster, ClusterNode

pytestmark = pytest.mark.usefixtures("java_tools")

TOPIC, ALTERED = "compared", "altered"
RECORDS = 300
_VERIFICATION = "org.apache.kafka.tools.ReplicaVerificationTool"
_DUMP = "org.apache.kafka.tools.DumpLogSegments"
_SHELL = "org.apache.kafka.shell.MetadataShell"
_DEADLINE_S = 90
#: Positions in a batch: its length, its checksum, and the first byte that the checksum covers.
_LENGTH, _CHECKSUM, _CHECKED = 8, 17, 21


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    directory = tmp_path_factory.mktemp("replicas")
    with Cluster(directory, [COMBINED] * 3, metadata_log_max_record_bytes_between_snapshots="2000") as cluster:
        cluster.create_topic(TOPIC, [[1, 2, 3], [2, 3, 1], [3, 1, 2]])
        cluster.create_topic(ALTERED, [[1, 2, 3]])
        for number in range(12):
            cluster.create_topic(f"t{number}", [[1, 2], [2, 3]])
        producer = Producer({"bootstrap.servers": cluster.bootstrap, "enable.idempotence": True})
        for number in range(RECORDS):
            for topic in (TOPIC, ALTERED):
                producer.produce(topic, b"v%d" % number, b"k%d" % number)
        assert producer.flush(_DEADLINE_S) == 0
        yield cluster


def verified(cluster: Cluster, topic: str, until: str, directory: Path) -> str:
    """Returns the output of the verification of replicas up to `until`. It does not end, so it gets a JVM of its own."""
    report = directory / f"{topic}.txt"
    options = ["--broker-list", cluster.bootstrap, "--topics-include", topic, "--time", "-2"]
    often = ["--report-interval-ms", "100", "--max-wait-ms", "100"]
    command = java_command(_VERIFICATION, *options, *often)
    with report.open("w") as out, subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT) as process:
        try:
            eventually(lambda: re.search(until, report.read_text()), what=until, deadline_s=_DEADLINE_S)
        finally:
            process.kill()
    return report.read_text()


def test_the_replicas_of_every_partition_are_equal_up_to_the_high_watermark(cluster: Cluster, tmp_path: Path) -> None:
    """The tool reports the largest lag of all partitions: it must be 0."""
    whole = rf"max lag is 0 for partition {TOPIC}-\d at offset [1-9]\d* among 3 partitions"
    report = verified(cluster, TOPIC, whole, tmp_path)
    assert "unmatched" not in report and "doesn't match" not in report


def test_a_replica_that_was_altered_is_found(cluster: Cluster, tmp_path: Path) -> None:
    node = cluster.nodes[3]
    assert node.stop() == 0
    alter_first_batch(node.data_dir / f"{ALTERED}-0" / f"{0:020d}.log")
    node.start()
    cluster.until(lambda: len(cluster.partitions(ALTERED)[0].isr_nodes) == 3, "it is in sync")
    report = verified(cluster, ALTERED, "has unmatched checksum", tmp_path)
    assert re.search(rf"partition {ALTERED}-0 has unmatched checksum at offset \d+; .*replica 3's checksum", report)


def alter_first_batch(log: Path) -> None:
    """Changes the last byte of the last value, and the checksum to match: only a comparison of replicas finds it."""
    data = bytearray(log.read_bytes())
    end = _LENGTH + 4 + int.from_bytes(data[_LENGTH : _LENGTH + 4], "big")
    data[end - 2] ^= 1  # the last byte is the number of headers
    data[_CHECKSUM:_CHECKED] = crc32c(bytes(data[_CHECKED:end])).to_bytes(4, "big")
    log.write_bytes(data)


def test_the_metadata_log_and_the_snapshots_of_every_node_are_dumped(cluster: Cluster) -> None:
    with ToolHost() as tools:
        for node in cluster.nodes.values():
            directory = node.data_dir / DIRECTORY_NAME
            logs, snapshots = sorted(directory.glob("*.log")), sorted(directory.glob("*-*.checkpoint"))
            assert logs and snapshots
            files = ",".join(str(file) for file in (*logs, *snapshots))
            dumped = tools.run(_DUMP, "--cluster-metadata-decoder", "--files", files).checked()
            assert "isvalid: false" not in dumped.out and "Could not decode" not in dumped.out
            assert '"type":"REGISTER_BROKER_RECORD"' in dumped.out and '"type":"PARTITION_RECORD"' in dumped.out
            assert "SnapshotHeader" in dumped.out and "LeaderChange" in dumped.out


def test_the_metadata_shell_shows_a_snapshot(cluster: Cluster) -> None:
    node = cluster.nodes[2]
    assert node.stop() == 0  # the shell needs exclusive use of the directory
    snapshot = newest_snapshot(node)
    found = shown(snapshot, f"/image/topics/byName/{TOPIC}/2\n", "find", "/image")
    assert "/image/cluster/brokers/3\n" in found and "/image/features/metadataVersion\n" in found
    partition = shown(snapshot, "PartitionRegistration(", "cat", f"/image/topics/byName/{TOPIC}/2")
    assert partition.startswith("PartitionRegistration(replicas=[3, 1, 2], directories=["), partition
    node.start()


def newest_snapshot(node: ClusterNode) -> Path:
    directory = node.data_dir / DIRECTORY_NAME
    return directory / list_snapshots(directory)[-1].file_name


def shown(snapshot: Path, wanted: str, *command: str) -> str:
    """Returns the output of the shell. Runs it again until `wanted` is in it: 4.3.1 runs the command before it has
    published what it read. Uses a new JVM: the shell leaves threads behind.
    """
    said: list[str] = []

    def is_shown() -> bool:
        said[:] = [run_tool(_SHELL, "--snapshot", str(snapshot), *command).checked().out]
        return wanted in said[0]

    eventually(is_shown, what=f"{wanted} is shown", deadline_s=_DEADLINE_S)
    return said[0]
