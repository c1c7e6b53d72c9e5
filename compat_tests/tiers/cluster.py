"""A cluster of nodes of both programs with one store, the state of a tiered partition in it, and changes of its replicas."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from pathlib import Path
from types import TracebackType

from odradek.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from odradek.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic

from compat_tests.broker_process import BrokerProcess
from compat_tests.cluster.mixed import EitherNode, MixedCluster
from compat_tests.java.fetch import TIERS, home
from compat_tests.recipes import eventually
from tests.server.harness.cluster_process import COMBINED

from . import tiered

#: Python writes these for an exception that was not expected.
_BUG = ("Traceback (most recent call last)", "was never retrieved", "was never awaited")
#: Lines of a log that are shown.
_SHOWN = 30


class TieredNode(EitherNode):
    """With LocalTieredStorage on its class path where it runs Apache Kafka."""

    def command(self) -> list[str]:
        command = super().command()
        if self.is_apache:
            at = command.index("-cp") + 1
            command[at] = os.pathsep.join((command[at], str(home(TIERS) / "*")))
        return command


class TieredCluster(MixedCluster):
    """At its end no log of a node has a traceback: those are bugs, whatever a store or another node does."""

    node_class = TieredNode

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        super().__exit__(kind, error, trace)
        if kind is None:
            for node in self.nodes.values():
                check_log(node)


def check_log(broker: BrokerProcess) -> None:
    """Raises AssertionError if a broker has logged a bug of its own."""
    lines = broker.log_file.read_text(errors="replace").splitlines() if broker.log_file.exists() else []
    at = next((number for number, line in enumerate(lines) if any(words in line for words in _BUG)), None)
    if at is not None:
        raise AssertionError(f"{broker.name} has logged a bug:\n" + "\n".join(lines[max(at - 2, 0) : at + _SHOWN]))


def tiered_cluster(
    directory: Path,
    store: Path,
    properties: Mapping[str, str] | None = None,
    *,
    count: int = 3,
    apache: Collection[int] = (),
    **overrides: str,
) -> TieredCluster:
    """Makes a cluster whose nodes have their store in one folder. A `with` statement starts it.

    `properties`: those of all nodes that replace the ones of `tiered.properties`. `apache`: nodes that run Apache Kafka.
    """
    made = TieredCluster(directory, [COMBINED] * count, **overrides)
    for node_id, node in made.nodes.items():
        node.properties |= {**tiered.properties(store, replication=count), **(properties or {})}
        made.node(node_id).is_apache = node_id in apache
    return made


def bootstrap(cluster: MixedCluster) -> str:
    return ",".join(node.bootstrap for node in cluster.nodes.values())


def partition_state(cluster: MixedCluster, topic: str = tiered.TOPIC) -> tuple[int, list[int], list[int]]:
    """Returns leader, replicas and ISR, as a running node has them."""
    request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)])
    for node in cluster.nodes.values():
        if node.is_running:
            try:
                (found,) = node.ask(request, 9).topics[0].partitions
            except (OSError, EOFError, ValueError):
                continue
            return found.leader_id, sorted(found.replica_nodes), sorted(found.isr_nodes)
    return -1, [], []


def await_local_start(cluster: MixedCluster, node_id: int, at_least: int, *, topic: str = tiered.TOPIC) -> int:
    return tiered.await_local_start(cluster.nodes[node_id].log_dirs[0], at_least, topic=topic)


def await_isr(cluster: MixedCluster, isr: list[int]) -> None:
    eventually(lambda: partition_state(cluster)[2] == isr, what=f"the ISR is {isr}", deadline_s=60)


def await_other_leader(cluster: MixedCluster, former: int) -> int:
    def found() -> int:
        leader = partition_state(cluster)[0]
        return 0 if leader in (former, -1) else leader

    return eventually(found, what=f"another broker than {former} leads", deadline_s=60)


def reassign(cluster: MixedCluster, replicas: list[int], *, topic: str = tiered.TOPIC) -> None:
    if partition_state(cluster, topic)[1] == sorted(replicas):
        return
    named = ReassignableTopic(topic, [ReassignablePartition(0, replicas)])
    node = next(node for node in cluster.nodes.values() if node.is_running)
    done = node.ask(AlterPartitionReassignmentsRequest(topics=[named]), 0)
    assert not done.error_code and not done.responses[0].partitions[0].error_code, done
    eventually(
        lambda: partition_state(cluster, topic)[1:] == (sorted(replicas), sorted(replicas)),
        what=f"the replicas are {replicas}",
        deadline_s=90,
    )
