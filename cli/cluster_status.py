"""The output of `odradek cluster status`: read from the first node that responds, and from the processes themselves.

Queries to the nodes of a cluster on this machine, over the listener on which its brokers meet.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Set
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ..client.peers import Peers
from ..protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    PartitionDataRequest,
    TopicDataRequest,
)
from ..protocol.messages.describe_quorum import (
    PartitionDataResponse as QuorumPartition,
)
from ..protocol.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponsePartition
from ..server.config.listeners import Endpoint
from .cluster_plan import ListenerNames, Node, Plan, properties_file
from .cluster_processes import node_pids

if TYPE_CHECKING:
    from ..protocol.schema import Message


_TIMEOUT_MS = 5000
_POLL_S = 0.05
_CLIENT_ID = "odradek-status"
_QUORUM = DescribeQuorumRequest([TopicDataRequest("__cluster_metadata", [PartitionDataRequest(0)])])


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
    from ..server.config.broker_config import BrokerConfig, read_properties

    properties = read_properties(properties_file(directory, plan.nodes[0]))
    names = ListenerNames.of(properties)
    listener = names.internal or names.clients
    if listener == "PLAINTEXT":
        return listener, lambda: Peers(_CLIENT_ID)
    from ..server.access.authentication.sasl_listeners import SaslListeners
    from ..server.access.tls.node_tls import NodeTls
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


def _endpoint(node: Node, listener: str) -> Endpoint:
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


async def _response(peers: Peers, endpoint: Endpoint, request: Message) -> Any:
    response: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    peers.send(endpoint, request, response.set_result, timeout_ms=_TIMEOUT_MS)
    return await response


def status(plan: Plan, directory: Path) -> list[str]:
    """The lines to be printed."""
    pids = node_pids(plan, directory)
    responses = responses_of(plan, directory, pids)
    missing = _missing_quorum(plan, pids)
    if missing and responses is not None:
        responses = responses._replace(quorum=None)  # a controller that was active finds out seconds later
    lines = _table(plan, pids, responses)
    if responses is not None:
        lines += _sums(responses)
    if not pids:
        lines.append("no node runs; `odradek cluster start` starts them")
    elif missing:
        lines.append(missing)
    elif responses is None or responses.quorum is None:
        lines.append("no controller is active yet, although enough controllers run")
    return lines


def _missing_quorum(plan: Plan, pids: dict[int, int]) -> str:
    """Returns why the controllers have no majority; "" when enough of them run."""
    controllers = [node for node in plan.nodes if node.controller_port]
    alive = sum(node.id in pids for node in controllers)
    needed = len(controllers) // 2 + 1
    if alive >= needed:
        return ""
    return (
        f"no quorum: {alive} of {len(controllers)} controllers run, and {needed} are needed; "
        "`odradek start` with the server.properties of a node that is down starts it"
    )


def _partitions(responses: Responses) -> list[MetadataResponsePartition]:
    return [partition for topic in responses.metadata.topics for partition in topic.partitions]


def _table(plan: Plan, pids: dict[int, int], responses: Responses | None) -> list[str]:
    serving = {broker.node_id for broker in responses.metadata.brokers} if responses is not None else set()
    partitions = _partitions(responses) if responses is not None else []
    leads = Counter(partition.leader_id for partition in partitions)
    replicas = Counter(broker for partition in partitions for broker in partition.replica_nodes)
    in_sync = Counter(broker for partition in partitions for broker in partition.isr_nodes)
    leader = responses.quorum.leader_id if responses is not None and responses.quorum is not None else None
    rows = [("NODE", "ROLES", "ADDRESS", "PID", "STATE", "LEADS", "REPLICAS", "IN SYNC")]
    for node in plan.nodes:
        roles = node.roles + (" (active)" if node.id == leader else "")
        pid = pids.get(node.id)
        state = "down" if pid is None else "serving" if node.id in serving else "fenced"
        counts = (str(counted[node.id]) for counted in (leads, replicas, in_sync))
        rows.append((str(node.id), roles, node.address, str(pid or "-"), state, *counts))  # type: ignore[arg-type]
    widths = [max(map(len, column)) for column in zip(*rows)]
    return ["  ".join(text.ljust(width) for text, width in zip(row, widths)).rstrip() for row in rows]


def _sums(responses: Responses) -> list[str]:
    partitions = _partitions(responses)
    under = sum(len(partition.isr_nodes) < len(partition.replica_nodes) for partition in partitions)
    offline = sum(partition.leader_id < 0 for partition in partitions)
    lines = [
        f"topics {len(responses.metadata.topics)}, partitions {len(partitions)}, under-replicated {under}, offline {offline}"
    ]
    quorum = responses.quorum
    if quorum is not None:
        ends = {voter.replica_id: voter.log_end_offset for voter in quorum.current_voters}
        behind = ", ".join(f"{node} {_lag(quorum.high_watermark, end)}" for node, end in sorted(ends.items()))
        lines.append(
            f"controller {quorum.leader_id} in epoch {quorum.leader_epoch}, metadata offset {quorum.high_watermark}, "
            f"lag of voters: {behind}"
        )
    return lines


def _lag(high_watermark: int, end_offset: int) -> str:
    """A leader does not know the end of a voter that has not fetched from it."""
    return str(max(0, high_watermark - end_offset)) if end_offset >= 0 else "unknown"
