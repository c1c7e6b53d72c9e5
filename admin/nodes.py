"""Brokers of a cluster, its id, and the controller that they name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..protocol.messages.describe_cluster import DescribeClusterRequest
from ..protocol.messages.metadata import MetadataRequest
from .errors import NoSuchNode, NotSupported, check
from .session import Admin


@dataclass(frozen=True, slots=True)
class Broker:
    """`is_fenced`: the controller has ended its session. Brokers before Apache Kafka 4.0 do not list those."""

    broker_id: int
    host: str
    port: int
    rack: str | None
    is_fenced: bool = False


@dataclass(frozen=True, slots=True)
class ClusterDescription:
    cluster_id: str
    controller_id: int
    brokers: list[Broker]

    @property
    def running(self) -> list[int]:
        """The ids of the brokers that are not fenced."""
        return [one.broker_id for one in self.brokers if not one.is_fenced]


def describe_cluster(admin: Admin) -> ClusterDescription:
    return admin.repeated(lambda: _described(admin))


def _described(admin: Admin) -> ClusterDescription:
    try:
        found = admin.ask(DescribeClusterRequest(include_fenced_brokers=True))
    except NotSupported:  # before Apache Kafka 2.8
        metadata = admin.ask(MetadataRequest(topics=[]))
        brokers = [Broker(node.node_id, node.host, node.port, node.rack) for node in metadata.brokers]
        return ClusterDescription(metadata.cluster_id or "", metadata.controller_id, brokers)
    check("cluster", found.error_code, found.error_message)
    brokers = [Broker(one.broker_id, one.host, one.port, one.rack, one.is_fenced) for one in found.brokers]
    return ClusterDescription(found.cluster_id, found.controller_id, brokers)


def check_running(admin: Admin, nodes: Sequence[int]) -> None:
    """Raises NoSuchNode for a node that a user names and that the metadata of now does not have."""
    known = admin.repeated(lambda: nodes_or_running(admin, None)) if nodes else ()
    missing = sorted(set(nodes) - set(known))
    if missing:
        ids = ", ".join(map(str, sorted(known)))
        raise NoSuchNode(f"no broker {missing[0]} runs in the cluster: those that run are {ids or 'none'}")


def nodes_or_running(admin: Admin, nodes: Sequence[int] | None) -> Sequence[int]:
    """These nodes; for None those in the metadata of now, which has no fenced ones."""
    if nodes is not None:
        return nodes
    return [one.node_id for one in admin.ask(MetadataRequest(topics=[])).brokers]
