"""A cluster of nodes of both programs with one store, the state of a tiered partition in it, and changes of its replicas."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from pathlib import Path

from odradek.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from odradek.protocol.messages.partitions import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)

from compat_tests.cluster.mixed import EitherNode, MixedCluster
from compat_tests.java.fetch import TIERS, home
from compat_tests.recipes import eventually
from tests.server.harness.cluster_process import COMBINED

from . import tiered


class TieredNode(EitherNode):
    """With LocalTieredStorage on its class path where it runs Apache Kafka."""

    def command(self) -> list[str]:
        command = super().command()
        if self.is_apache:
            at = command.index("-cp") + 1
            command[at] = os.pathsep.join((command[at], str(home(TIERS) / "*")))
        return command


class TieredCluster(MixedCluster):
    node_class = TieredNode


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
