"""The lines of `odradek cluster status`: each node with its process, role and replicas, and the sums."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from ...admin.quorum import lag_behind

if TYPE_CHECKING:
    from ...protocol.messages.metadata import MetadataResponsePartition
    from ..cluster_queries import Responses
    from .plan import Plan


def status(plan: Plan, directory: Path) -> list[str]:
    """The lines of `odradek cluster status`: read from the first node that responds, and from the processes themselves."""
    from ..cluster_queries import responses_of
    from .node_processes import node_pids

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
        lags = {
            voter.replica_id: lag_behind(quorum.high_watermark, voter.log_end_offset) for voter in quorum.current_voters
        }
        # A leader does not know the end of a voter that has not fetched from it.
        behind = ", ".join(f"{node} {'unknown' if lag is None else lag}" for node, lag in sorted(lags.items()))
        lines.append(
            f"controller {quorum.leader_id} in epoch {quorum.leader_epoch}, metadata offset {quorum.high_watermark}, "
            f"lag of voters: {behind}"
        )
    return lines
