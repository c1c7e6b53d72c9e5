"""The output of `odradek cluster status`: read from the first node that answers, and from the processes themselves."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from ..protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    PartitionDataRequest,
    TopicDataRequest,
)
from ..protocol.messages.metadata import MetadataRequest
from ..server.network.endpoint import Endpoint
from ..server.peers.peers import Peers
from .cluster_plan import ListenerNames, Plan, properties_file
from .cluster_processes import node_pids

_TIMEOUT_MS = 5000
_CLIENT_ID = "odradek-status"
_QUORUM = DescribeQuorumRequest([TopicDataRequest("__cluster_metadata", [PartitionDataRequest(0)])])


class Answers(NamedTuple):
    """The responses of one node. `quorum` is the metadata log's partition as its leader describes it, None without a
    leader.
    """

    metadata: Any
    quorum: Any


def status(plan: Plan, directory: Path) -> list[str]:
    """The lines to be printed."""
    pids = node_pids(plan, directory)
    answers = answers_of(plan, directory, pids)
    missing = _missing_quorum(plan, pids)
    if missing and answers is not None:
        answers = answers._replace(quorum=None)  # a controller that was active finds out seconds later
    lines = _table(plan, pids, answers)
    if answers is not None:
        lines += _sums(answers)
    if not pids:
        lines.append("no node runs; `odradek cluster start` starts them")
    elif missing:
        lines.append(missing)
    elif answers is None or answers.quorum is None:
        lines.append("no controller leads yet, though enough of them run")
    return lines


def answers_of(plan: Plan, directory: Path, pids: dict[int, int]) -> Answers | None:
    """The answers of the first of the running nodes that answers. Raises InvalidConfig, OSError."""
    return asyncio.run(_ask(plan, pids, *_connections(plan, directory))) if pids else None


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
    from ..server.runtime.metadata_cache import MetadataCache
    from ..server.security.authentication.sasl_listeners import SaslListeners
    from ..server.security.tls.node_tls import NodeTls

    logging.getLogger("odradek.config").setLevel(logging.ERROR)  # each node's log has its own warnings
    config = BrokerConfig(properties)
    sasl, tls = SaslListeners(config, MetadataCache()), NodeTls(config)
    sasl.check()
    return listener, lambda: Peers(_CLIENT_ID, sasl.login, tls.connection_arguments)


async def _ask(plan: Plan, pids: dict[int, int], listener: str, connect: Callable[[], Peers]) -> Answers | None:
    """The answers of the first node that runs and answers: another program may have the port of one that is down."""
    peers = connect()
    try:
        for node in plan.nodes:
            if node.id not in pids:
                continue
            host, port = _host_port(node.address)
            endpoint = Endpoint(listener, host, node.internal_port or port)
            metadata = await _answer(peers, endpoint, MetadataRequest(topics=None))
            if metadata is not None and metadata.cluster_id == plan.cluster_id:
                return Answers(metadata, _described(await _answer(peers, endpoint, _QUORUM)))
        return None
    finally:
        peers.close()


def _described(quorum: Any) -> Any:
    """The one partition of an answer; None where it has none, or an error in its place."""
    if quorum is None or quorum.error_code:
        return None
    partitions = [partition for topic in quorum.topics for partition in topic.partitions]
    return partitions[0] if partitions and not partitions[0].error_code and partitions[0].leader_id >= 0 else None


def _host_port(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host, int(port)


async def _answer(peers: Peers, endpoint: Endpoint, request: Any) -> Any:
    answered: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    peers.send(endpoint, request, answered.set_result, timeout_ms=_TIMEOUT_MS)
    return await answered


def _partitions(answers: Answers) -> list[Any]:
    return [partition for topic in answers.metadata.topics for partition in topic.partitions]


def _table(plan: Plan, pids: dict[int, int], answers: Answers | None) -> list[str]:
    serving = {broker.node_id for broker in answers.metadata.brokers} if answers is not None else set()
    partitions = _partitions(answers) if answers is not None else []
    leads = Counter(partition.leader_id for partition in partitions)
    replicas = Counter(broker for partition in partitions for broker in partition.replica_nodes)
    in_sync = Counter(broker for partition in partitions for broker in partition.isr_nodes)
    leader = answers.quorum.leader_id if answers is not None and answers.quorum is not None else None
    rows = [("NODE", "ROLES", "ADDRESS", "PID", "STATE", "LEADS", "REPLICAS", "IN SYNC")]
    for node in plan.nodes:
        roles = node.roles + (" (active)" if node.id == leader else "")
        pid = pids.get(node.id)
        state = "down" if pid is None else "serving" if node.id in serving else "fenced"
        counts = (str(counted[node.id]) for counted in (leads, replicas, in_sync))
        rows.append((str(node.id), roles, node.address, str(pid or "-"), state, *counts))  # type: ignore[arg-type]
    widths = [max(map(len, column)) for column in zip(*rows)]
    return ["  ".join(text.ljust(width) for text, width in zip(row, widths)).rstrip() for row in rows]


def _sums(answers: Answers) -> list[str]:
    partitions = _partitions(answers)
    under = sum(len(partition.isr_nodes) < len(partition.replica_nodes) for partition in partitions)
    offline = sum(partition.leader_id < 0 for partition in partitions)
    lines = [
        f"topics {len(answers.metadata.topics)}, partitions {len(partitions)}, under-replicated {under}, offline {offline}"
    ]
    quorum = answers.quorum
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
