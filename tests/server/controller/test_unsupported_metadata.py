"""Nodes end before they touch a log when the cluster uses what they have not implemented."""

from __future__ import annotations

import hashlib
import time
from pathlib import Path

import pytest
from odradek.metadata.image import TOPIC_RESOURCE
from odradek.protocol.errors import ErrorCode
from odradek.protocol.internal.cluster_metadata import ConfigRecord
from odradek.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from odradek.protocol.messages.metadata import MetadataRequest
from odradek.server.config.broker_config import BrokerConfig
from odradek.server.controller.metadata_log import DIRECTORY_NAME, QuorumLog

from compat_tests.broker_process import BrokerFailed, free_port
from compat_tests.cli.commands import odradek_command
from compat_tests.cluster.mixed import MixedCluster
from compat_tests.odradek_process import OdradekProcess
from compat_tests.recipes import make_topic
from tests.server.harness.cluster_process import BROKER, CLUSTER_ID, COMBINED, CONTROLLER, Cluster, ClusterNode

pytestmark = pytest.mark.usefixtures("processes")

TOPIC = "tiered"
#: Leader epochs of which only the last is of the local part of the log.
EPOCHS = "0\n3\n0 0\n4 100\n7 200\n"


def files(directory: Path) -> dict[str, str]:
    """Returns the files outside the metadata log, with a digest of each."""
    return {
        str(path.relative_to(directory)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(directory.rglob("*"))
        if path.is_file() and DIRECTORY_NAME not in path.parts
    }


def make_tiered(directory: Path, topic: str) -> None:
    """Appends to the metadata log of a stopped node what a controller with tiered storage would."""
    now_ms = int(time.time() * 1000)
    log = QuorumLog(directory / DIRECTORY_NAME, BrokerConfig({}), now_ms)
    record = ConfigRecord(resource_type=TOPIC_RESOURCE, resource_name=topic, name="remote.storage.enable", value="true")
    log.append([record], log.end.epoch, now_ms, 30, True)
    log.close(now_ms)


def test_start_with_a_tiered_topic_fails_and_leaves_its_files_alone(tmp_path: Path) -> None:
    broker = OdradekProcess(tmp_path)
    with broker:
        make_topic(broker.bootstrap, TOPIC)
    (broker.data_dir / f"{TOPIC}-0" / "leader-epoch-checkpoint").write_text(EPOCHS)
    make_tiered(broker.data_dir, TOPIC)
    before = files(broker.data_dir)
    with pytest.raises(BrokerFailed, match=f"topic {TOPIC} has remote.storage.enable=true"):
        broker.start()
    assert files(broker.data_dir) == before


def test_start_with_tiered_storage_and_no_store_fails(tmp_path: Path) -> None:
    done = odradek_command(
        "start", "--data-dir", str(tmp_path / "data"), "--override", "remote.log.storage.system.enable=true"
    )
    assert done.status == 2
    assert "remote.log.storage.manager.class.name names the store" in done.err
    assert not (tmp_path / "data").exists()


@pytest.mark.oracle
def test_broker_leaves_a_cluster_that_gets_a_tiered_topic_and_cannot_join_it(java_tools: None, tmp_path: Path) -> None:
    cluster = MixedCluster(tmp_path, [CONTROLLER, BROKER])
    cluster.node(1).is_apache = True
    cluster.nodes[1].properties["remote.log.storage.system.enable"] = "true"
    controller, broker = cluster.nodes[1], cluster.nodes[2]
    # A mere controller has no listener for clients, so the wait is for the broker.
    controller.begin()
    try:
        broker.start()
        topic = CreatableTopic(
            TOPIC, num_partitions=1, replication_factor=1,
            configs=[CreatableTopicConfig(name="remote.storage.enable", value="true")],
        )  # fmt: skip
        made = broker.ask(CreateTopicsRequest(topics=[topic], timeout_ms=1_000), 7)
        assert made.topics[0].error_code in (ErrorCode.NONE, ErrorCode.REQUEST_TIMED_OUT), made
    except (OSError, EOFError):
        pass  # the broker ended before it could respond
    try:
        assert broker.process is not None and broker.process.wait(60) == 1
        assert f"topic {TOPIC} has remote.storage.enable=true" in broker.last_words()
        assert not (broker.data_dir / f"{TOPIC}-0").exists()
        broker.log_file.unlink()
        with pytest.raises(BrokerFailed, match=f"topic {TOPIC} has remote.storage.enable=true"):
            broker.start()
    finally:
        controller.kill()


class OlderNode(ClusterNode):
    """A node that has not implemented share.version 2."""

    def command(self) -> list[str]:
        *_, _verbose, file = super().command()
        program = (
            "from odradek.cli.main import main\n"
            "from odradek.metadata.features import FEATURES\n"
            "FEATURES['share.version'] = FEATURES['share.version']._replace(built=1)\n"
            f"raise SystemExit(main(['start', {file!r}]))\n"
        )
        return [*self.python, "-c", program]


class ClusterOfLevelTwo(Cluster):
    """Node 1 is the only voter of a cluster with share.version 2; other nodes are observers of its quorum."""

    def _format(self, node: ClusterNode) -> None:
        del node.properties["controller.quorum.voters"]
        node.properties["controller.quorum.bootstrap.servers"] = f"127.0.0.1:{self.controller_ports[1]}"
        file = self.directory / f"format-{node.node_id}.properties"
        file.write_text("".join(f"{key}={value}\n" for key, value in node.properties.items()))
        voters = "--standalone" if node.node_id == 1 else "--no-initial-controllers"
        words = ("-t", CLUSTER_ID, "--feature", "share.version=2", voters)
        assert odradek_command("format", str(file), *words).status == 0


@pytest.mark.parametrize("role", [BROKER, COMBINED, CONTROLLER])
def test_node_ends_when_the_cluster_has_a_level_that_it_does_not_support(role: str, tmp_path: Path) -> None:
    with ClusterOfLevelTwo(tmp_path, [COMBINED]) as cluster:
        cluster.controller_ports[2] = free_port()
        cluster.node_class = OlderNode
        node = cluster.add(2, role)
        node.begin()
        assert node.process is not None and node.process.wait(60) == 1
        words = "share.version is finalized at level 2; this broker supports levels up to 1"
        assert words in node.last_words()
        assert 2 not in {broker.node_id for broker in cluster.ask_any(MetadataRequest(topics=[]), 9).brokers}
