"""Queries to the nodes of a cluster on this machine, over the listener on which its brokers meet."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Set
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ..client.peers import Peers
from ..protocol.messages.describe_quorum import (
    DescribeQuorumPartitionRequest,
    DescribeQuorumRequest,
    DescribeQuorumTopicRequest,
)
from ..protocol.messages.metadata import MetadataRequest
from ..server.config.endpoint import Endpoint
from .local_cluster.node_files import properties_file
from .local_cluster.plan import ListenerNames, Plan, PlannedNode

if TYPE_CHECKING:
    from ..protocol.messages.describe_quorum import DescribeQuorumPartitionResponse as QuorumPartition
    from ..protocol.messages.describe_quorum import DescribeQuorumResponse
    from ..protocol.messages.metadata import MetadataResponse
    from ..protocol.schema import Request, ResponseT


_TIMEOUT_MS = 5000
_POLL_S = 0.05
_CLIENT_ID = "odradek-status"
_QUORUM = DescribeQuorumRequest([DescribeQuorumTopicRequest("__cluster_metadata", [DescribeQuorumPartitionRequest(0)])])


class Responses(NamedTuple):
    """The responses of one node. `quorum` is the metadata log's partition as its leader describes it, None without a
    leader.
    """

    metadata: MetadataResponse
    quorum: QuorumPartition | None


def responses_of(plan: Plan, directory: Path, pids: dict[int, int]) -> Responses | None:
    """The responses of the first of the running nodes that responds. Raises InvalidConfig, OSError."""
    return asyncio.run(_ask(plan, pids, *_connections(plan, directory))) if pids else None


def _connections(plan: Plan, directory: Path) -> tuple[str, Callable[[], Peers]]:
    """Returns the listener on which the brokers meet, and how this command connects to it: as they do. Raises InvalidConfig,
    OSError.
    """
    from ..client.properties_file import read_properties
    from ..server.config.broker_config import BrokerConfig

    properties = read_properties(properties_file(directory, plan.nodes[0]))
    names = ListenerNames.of(properties)
    listener = names.internal or names.clients
    if listener == "PLAINTEXT":
        return listener, lambda: Peers(_CLIENT_ID)
    from ..server.access.authentication.sasl_listeners import SaslListeners
    from ..server.access.node_tls import NodeTls
    from ..server.runtime.metadata_cache import MetadataCache

    logging.getLogger("odradek.config").setLevel(logging.ERROR)  # each node's log has its own warnings
    config = BrokerConfig(properties)
    sasl, tls = SaslListeners(config, MetadataCache()), NodeTls(config)
    sasl.check()
    return listener, lambda: Peers(_CLIENT_ID, sasl.login, tls.connection_arguments)


async def _ask(plan: Plan, pids: dict[int, int], listener: str, connect: Callable[[], Peers]) -> Responses | None:
    """The responses of the first node that runs and responds: another program may have the port of one that is down."""
    peers = connect()
    try:
        for node in plan.nodes:
            if node.id not in pids:
                continue
            endpoint = _endpoint(node, listener)
            metadata: MetadataResponse | None = await _response(peers, endpoint, MetadataRequest(topics=None))
            if metadata is not None and metadata.cluster_id == plan.cluster_id:
                return Responses(metadata, _described(await _response(peers, endpoint, _QUORUM)))
        return None
    finally:
        peers.close()


def await_mutual_metadata(plan: Plan, directory: Path, running: Callable[[], Set[int]], timeout_s: float) -> Set[int]:
    """Waits until the metadata of each running node lists all of them. Returns the nodes whose metadata does not after
    `timeout_s`. A node whose listener refuses this command does not count. Raises InvalidConfig, OSError.

    `running`: the ids of the nodes that run; empty to stop waiting.
    """
    return asyncio.run(_await_mutual_metadata(plan, running, timeout_s, *_connections(plan, directory)))


async def _await_mutual_metadata(
    plan: Plan, running: Callable[[], Set[int]], timeout_s: float, listener: str, connect: Callable[[], Peers]
) -> Set[int]:
    peers, loop = connect(), asyncio.get_running_loop()
    deadline = loop.time() + timeout_s
    try:
        while True:
            lacking = set()
            for node in plan.nodes:
                if node.id in running():
                    request = MetadataRequest(topics=[])
                    metadata: MetadataResponse | None = await _response(peers, _endpoint(node, listener), request)
                    listed = running() if metadata is None else {broker.node_id for broker in metadata.brokers}
                    if running() - listed:
                        lacking.add(node.id)
            if not lacking or loop.time() > deadline:
                return lacking
            await asyncio.sleep(_POLL_S)
    finally:
        peers.close()


def _endpoint(node: PlannedNode, listener: str) -> Endpoint:
    host, port = _host_port(node.address)
    return Endpoint(listener, host, node.internal_port or port)


def _described(quorum: DescribeQuorumResponse | None) -> QuorumPartition | None:
    """The one partition of a response; None where it has none, or an error in its place."""
    if quorum is None or quorum.error_code:
        return None
    partitions = [partition for topic in quorum.topics for partition in topic.partitions]
    return partitions[0] if partitions and not partitions[0].error_code and partitions[0].leader_id >= 0 else None


def _host_port(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host, int(port)


async def _response(peers: Peers, endpoint: Endpoint, request: Request[ResponseT]) -> ResponseT | None:
    response: asyncio.Future[ResponseT | None] = asyncio.get_running_loop().create_future()
    peers.send(endpoint, request, response.set_result, timeout_ms=_TIMEOUT_MS)
    return await response
