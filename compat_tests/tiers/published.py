"""Apache Kafka's tests of tiered storage without steps, against nodes of Odradek: `python -m compat_tests.tiers.published
[CLASS [METHOD ...]]`.

Tests and their harnesses run as Apache published them, under JUnit with Apache's clients. Two classes are replaced, those
that start brokers in the JVM (java/QuorumTestHarness.java, java/RaftClusterInvocationContext.java). Their nodes are
processes of Odradek, which this program starts and stops at their requests. It also looks up by the protocol what a test
reads in a broker's memory.
"""

from __future__ import annotations

import base64
import os
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from odradek.protocol.messages.describe_producers import DescribeProducersRequest, DescribeProducersRequestTopic
from odradek.protocol.messages.describe_transactions import DescribeTransactionsRequest
from odradek.protocol.messages.find_coordinator import FindCoordinatorRequest
from odradek.protocol.messages.init_producer_id import InitProducerIdRequest
from odradek.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from odradek.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from odradek.server.config.broker_config import BrokerConfig
from odradek.server.controller.formatting import format_directories

from compat_tests.access import connect
from compat_tests.broker_process import BrokerFailed, free_port
from compat_tests.java.fetch import ORACLE, TEST_KIT, TESTS, TIERS, classpath, home, jars, java
from compat_tests.java.program import JVM_FLAGS, compiled
from compat_tests.recipes import eventually
from tests.server.harness.cluster_process import BROKER, CLUSTER_ID, CONTROLLER, ClusterNode

from . import tiered
from .cluster import TieredCluster

TRANSACTIONS = "org.apache.kafka.tiered.storage.integration.TransactionsWithTieredStoreTest"
#: Tests of two harnesses have the name RemoteTopicCrudTest.
CLASSES = (
    TRANSACTIONS, "kafka.admin.RemoteTopicCrudTest", "org.apache.kafka.admin.RemoteTopicCrudTest",
    "kafka.server.ListOffsetsRequestWithRemoteStoreTest",
)  # fmt: skip
#: Cases that count calls of a class in Java which the broker loads.
_OF_JAVA = {"org.apache.kafka.admin.RemoteTopicCrudTest": ("testTopicDeletion",)}
_JAVA = Path(__file__).parent / "java"
#: The second one uses the first one.
HARNESSES = (_JAVA / "QuorumTestHarness.java", _JAVA / "RaftClusterInvocationContext.java")
#: The id of the controller in Apache's harness.
_CONTROLLER = 1000
_BROKERS = 3
#: The nodes have their own addresses, directories and store.
_OWN = (
    "advertised.listeners", "broker.id", "controller.", "inter.broker.listener.name", "listener", "log.dir",
    "metadata.log.dir", "node.id", "process.roles", "remote.log.metadata.manager.", "remote.log.storage.manager.",
    "rsm.config.",
)  # fmt: skip
_DEBUGGING_CONSUMER = -2
_EARLIEST, _EARLIEST_LOCAL = -2, -4
_TRANSACTION, _TOPIC = 1, 2
#: The words of a broker without a store that has a tiered topic.
_REFUSED = "has no tiered storage enabled"
#: Whether a broker has a store: the property of Kafka.
_HAS_STORE = "remote.log.storage.system.enable"
_TRANSACTION_TIMEOUT_MS = 500
_DEADLINE_S = 3600
#: Lines of a failure that are shown.
_SHOWN = 6


@dataclass(frozen=True)
class Outcome:
    """A case of the test, and the reason of its failure."""

    case: str
    failure: str | None


class HarnessCluster(TieredCluster):
    """A controller, to which the harness adds brokers with the properties of its test."""

    def __init__(self, directory: Path, transaction_version: int) -> None:
        self.transaction_version = transaction_version
        super().__init__(directory, ())
        self.controller_ports = {_CONTROLLER: free_port()}
        self.add(_CONTROLLER, CONTROLLER)

    def format(self, node: ClusterNode) -> None:
        self._format(node)

    def _format(self, node: ClusterNode) -> None:
        levels = {"transaction.version": self.transaction_version}
        format_directories(BrokerConfig(node.properties), CLUSTER_ID, ignore_formatted=True, features=levels)


class Harness:
    """The requests of the harness of one case, by their names, to one cluster."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._cases = 0
        self._cluster: HarnessCluster | None = None
        #: The properties of each node when it was made.
        self._made: dict[int, dict[str, str]] = {}

    @property
    def cluster(self) -> HarnessCluster:
        assert self._cluster is not None, "the cluster is there between begin and end"
        return self._cluster

    def begin(self, transaction_version: str, controller: str) -> str:
        self.end()
        self._cases += 1
        self._made = {}
        self._cluster = HarnessCluster(self._folder / str(self._cases), int(transaction_version))
        self._configure(self._cluster.nodes[_CONTROLLER], controller)
        self._cluster.nodes[_CONTROLLER].start()
        return "ok"

    def _configure(self, node: ClusterNode, encoded: str) -> None:
        """Gives a node the properties of the test beside those that it was made with."""
        given = _decoded(encoded)
        node.properties = dict(self._made.setdefault(node.node_id, dict(node.properties)))
        if "log.dirs" in given or "log.dir" in given:  # the test looks into them
            node.properties["log.dirs"] = given.get("log.dirs") or given["log.dir"]
            self.cluster.format(node)
        node.properties |= {key: value for key, value in given.items() if not key.startswith(_OWN)}
        if given.get(_HAS_STORE) == "true":
            node.properties |= tiered.properties(self.cluster.directory / "store", replication=_BROKERS)

    def end(self) -> str:
        ended, self._cluster = self._cluster, None
        if ended is not None:
            ended.__exit__(None, None, None)
        return "ok"

    def start(self, broker: str, encoded: str) -> str:
        """Starts a broker. Returns its port, or the last words of one that refuses its properties."""
        node_id = int(broker)
        node = self.cluster.nodes.get(node_id) or self.cluster.add(node_id, BROKER)
        self._configure(node, encoded)
        try:
            node.start()
        except BrokerFailed:
            words = node.last_words(1)
            if _REFUSED not in words:
                raise
            node.log_file.unlink()  # with the traceback of the refusal, which is no bug
            return f"refused {words}".replace("\n", " ")
        return str(node.port)

    def stop(self, broker: str) -> str:
        """Stops a broker, unless the test has done so before its end."""
        node = self.cluster.nodes[int(broker)]
        if node.is_running:
            node.stop()
        return "ok"

    def _partitions(self, broker: str, topic: str) -> list[Any]:
        node = self.cluster.nodes[int(broker)]
        if not node.is_running:
            return []
        named = MetadataRequestTopic(name=topic)
        (found,) = node.ask(MetadataRequest(topics=[named], allow_auto_topic_creation=False), 9).topics
        return sorted(found.partitions, key=lambda one: one.partition_index)

    def leaders(self, broker: str, topic: str) -> str:
        return " ".join(str(one.leader_id) for one in self._partitions(broker, topic))

    def leader_epoch(self, broker: str, topic: str, partition: str) -> str:
        return str(self._partitions(broker, topic)[int(partition)].leader_epoch)

    def starts(self, broker: str, topic: str, partition: str) -> str:
        """Returns the log start offset and the local log start offset of a replica."""
        found = []
        for timestamp in (_EARLIEST, _EARLIEST_LOCAL):
            asked = ListOffsetsTopic(topic, [ListOffsetsPartition(int(partition), -1, timestamp)])
            request = ListOffsetsRequest(replica_id=_DEBUGGING_CONSUMER, topics=[asked], timeout_ms=10_000)
            response = self.cluster.nodes[int(broker)].ask(request, 11).topics[0].partitions[0]
            found.append(-1 if response.error_code else response.offset)
        return f"{found[0]} {found[1]}"

    def configs(self, broker: str, topic: str) -> str:
        request = DescribeConfigsRequest([DescribeConfigsResource(_TOPIC, topic)])
        (found,) = self.cluster.nodes[int(broker)].ask(request, 4).results
        lines = [f"{one.name}={one.value}" for one in found.configs if one.value is not None]
        return base64.b64encode("\n".join(lines).encode()).decode()

    def producers(self, broker: str, topic: str, partition: str) -> str:
        request = DescribeProducersRequest([DescribeProducersRequestTopic(topic, [int(partition)])])
        (found,) = self.cluster.nodes[int(broker)].ask(request, 0).topics[0].partitions
        return " ".join(f"{one.producer_id}:{one.producer_epoch}" for one in found.active_producers)

    def _coordinator(self, transactional_id: str) -> ClusterNode:
        def found() -> int:
            request = FindCoordinatorRequest(key_type=_TRANSACTION, coordinator_keys=[transactional_id])
            response = self.cluster.ask_any(request, 4)
            return -1 if response is None else response.coordinators[0].node_id

        node_id = eventually(lambda: (one := found()) >= 0 and [one], what="there is a coordinator", deadline_s=60)
        return self.cluster.nodes[node_id[0]]

    def epoch(self, transactional_id: str) -> str:
        request = DescribeTransactionsRequest([transactional_id])
        (found,) = self._coordinator(transactional_id).ask(request, 0).transaction_states
        assert not found.error_code, found
        return str(found.producer_epoch)

    def raise_epoch(self, transactional_id: str, wanted: str) -> str:
        """Begins incarnations of a producer until it has this epoch."""
        request = InitProducerIdRequest(transactional_id, _TRANSACTION_TIMEOUT_MS)
        with connect(self._coordinator(transactional_id).bootstrap, timeout=10) as client:
            epoch = int(self.epoch(transactional_id))
            while epoch < int(wanted):
                response = client.call(request, 4)
                if response.error_code != ErrorCode.CONCURRENT_TRANSACTIONS:
                    assert not response.error_code, response
                    epoch = response.producer_epoch
        assert epoch == int(wanted), epoch
        return "ok"

    def requests(self) -> Mapping[str, Callable[..., str]]:
        return {
            "begin": self.begin, "end": self.end, "start": self.start, "stop": self.stop, "leaders": self.leaders,
            "leader-epoch": self.leader_epoch, "starts": self.starts, "configs": self.configs,
            "producers": self.producers, "epoch": self.epoch, "raise": self.raise_epoch,
        }  # fmt: skip

    def serve(self, listener: socket.socket) -> None:
        """Answers one connection after another until the listener is closed."""
        requests = self.requests()
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            # An interrupted test closes the connection early.
            with suppress(ConnectionError), connection, connection.makefile("rw", encoding="utf-8") as lines:
                for line in lines:
                    name, *words = line.split()
                    try:
                        response = requests[name](*words)
                    except Exception as error:  # the test fails with these words
                        response = f"error {type(error).__name__}: {error}".replace("\n", " | ")
                    lines.write(response + "\n")
                    lines.flush()


def _decoded(encoded: str) -> dict[str, str]:
    return dict(line.split("=", 1) for line in base64.b64decode(encoded).decode().splitlines())


def run(test: str, methods: Sequence[str] = ()) -> list[Outcome]:
    """Runs the cases of a test, or those of some of its methods."""
    with tempfile.TemporaryDirectory() as folder, socket.create_server(("127.0.0.1", 0)) as listener:
        harness = Harness(Path(folder))
        thread = threading.Thread(target=harness.serve, args=(listener,), name="harness", daemon=True)
        thread.start()
        try:
            return _junit(listener.getsockname()[1], test, methods, Path(folder) / "reports")
        finally:
            with suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            thread.join(60)
            harness.end()


def _junit(port: int, test: str, methods: Sequence[str], reports: Path) -> list[Outcome]:
    jars(TESTS)
    jars(TEST_KIT)
    path = os.pathsep.join((f"{home(TESTS)}/*", f"{home(TEST_KIT)}/*", f"{home(TIERS)}/*", classpath(ORACLE)))
    for source in HARNESSES:
        path = os.pathsep.join((str(compiled(source, path)), path))
    command = [
        java(), *JVM_FLAGS, f"-Dnodes={port}", "-Djunit.jupiter.extensions.autodetection.enabled=true", "-cp", path,
        "org.junit.platform.console.ConsoleLauncher", "execute", "--details=testfeed", "--disable-banner",
        f"--reports-dir={reports}", "-c", test, "-n", test,
    ]  # fmt: skip
    # A name of a method is not unique: parameters follow it.
    if methods:
        command.append(f"--include-methodname=.*#({'|'.join(methods)})(\\(.*)?")
    if test in _OF_JAVA:
        command.append(f"--exclude-methodname=.*#({'|'.join(_OF_JAVA[test])})(\\(.*)?")
    with (reports.parent / "junit.log").open("w+") as lines:
        subprocess.run(command, stdout=lines, stderr=lines, timeout=_DEADLINE_S, check=False)
        report = reports / "TEST-junit-jupiter.xml"
        if not report.exists():
            lines.seek(0)
            raise RuntimeError(lines.read())
    return [_outcome(one) for one in ElementTree.parse(report).iter("testcase")]


def _outcome(case: Any) -> Outcome:
    name = next(
        (
            line.removeprefix("display-name: ")
            for text in case.iter("system-out")
            for line in (text.text or "").splitlines()
            if line.startswith("display-name: ")
        ),
        "",
    )
    failure = next((one for one in case if one.tag in ("failure", "error", "skipped")), None)
    words = None
    if failure is not None:
        trace = [line.strip() for line in (failure.text or "").splitlines()]
        own = [line for line in trace if "kafka.api." in line or line.startswith("Caused by")]
        words = "\n    ".join([failure.get("message") or failure.tag, *own[:_SHOWN]])
    return Outcome(f"{case.get('name')} {name}".strip(), words)


def main(tests: Sequence[str] = (), methods: Sequence[str] = ()) -> int:
    """Runs tests, prints their outcomes, and returns the status of the process."""
    outcomes = [one for test in tests for one in run(test, methods)]
    for one in outcomes:
        print(f"passed {one.case}" if one.failure is None else f"FAILED {one.case}: {one.failure}", flush=True)
    passed = sum(one.failure is None for one in outcomes)
    print(f"{passed} of {len(outcomes)}")
    return int(passed != len(outcomes) or not outcomes)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:2] or CLASSES, sys.argv[2:]))
