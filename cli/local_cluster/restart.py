"""`odradek cluster restart`: the restart of nodes one by one.

The next node is stopped when every node serves, the quorum has a leader, and no
partition lacks a replica in sync. Clients that write with acks=all and read lose nothing, and a new version is in place
when the last node is back. Nodes that are down are started. A node without data (a new disk) is formatted when the others
are whole: they have all records, and a majority of the quorum.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from ...client.wording import counted
from ...storage.files.meta_properties import META_PROPERTIES
from .node_files import format_node, log_dirs, name_log_dirs
from .node_processes import ClusterFailed, end, node_pids
from .plan import Plan, PlannedNode
from .processes import START_TIMEOUT_S, first_line, last_words, started_node

#: A node that was down for long has much to fetch.
WHOLE_TIMEOUT_S = 600
_WHOLE_POLL_S = 0.2

Say = Callable[[str], None]


def restart(plan: Plan, directory: Path, nodes: list[PlannedNode], say: Say) -> None:
    """Restarts the nodes in this order. Raises ClusterFailed; the remaining nodes keep running."""
    for node in nodes:
        pid = node_pids(plan, directory).get(node.id)
        if pid is not None:
            _await_whole(plan, directory, f"node {node.id} is not stopped")
            say(f"stopping node {node.id} (process {pid})")
            if not end({pid}):
                raise ClusterFailed(f"node {node.id} (process {pid}) has not stopped in time")
        name_log_dirs(directory, node)
        if pid is None and not _is_formatted(directory, node):
            # Without its log and its vote, a node may not be one of those that form a majority.
            _await_whole(plan, directory, f"node {node.id} has no data and is not started")
            say(f"node {node.id} has no data: it fetches everything from the others")
            format_node(plan, directory, node)
        process = started_node(directory, node)
        _await_line(process, directory, node)
        say(f"node {node.id} serves (process {process.pid})")
    _await_whole(plan, directory, "all nodes are started")


def _is_formatted(directory: Path, node: PlannedNode) -> bool:
    return any((Path(one) / META_PROPERTIES).exists() for one in log_dirs(directory, node).split(","))


def _await_line(process: subprocess.Popen[bytes], directory: Path, node: PlannedNode) -> None:
    line = first_line(process, START_TIMEOUT_S)
    if line is None:
        raise ClusterFailed(f"node {node.id} did not serve in {START_TIMEOUT_S} s")
    if not line:
        raise ClusterFailed(f"node {node.id} ended before it served: {last_words(directory, node)}")


def _await_whole(plan: Plan, directory: Path, words: str) -> None:
    deadline = time.monotonic() + WHOLE_TIMEOUT_S
    while lacks := _lacks(plan, directory):
        if time.monotonic() > deadline:
            raise ClusterFailed(f"{words}, and after {WHOLE_TIMEOUT_S} s {lacks}; see `odradek cluster status`")
        time.sleep(_WHOLE_POLL_S)


def _lacks(plan: Plan, directory: Path) -> str:
    """Returns why no further node may stop; "" when one may."""
    from ..cluster_queries import responses_of

    pids = node_pids(plan, directory)
    responses = responses_of(plan, directory, pids)
    if responses is None or responses.quorum is None:
        return "the quorum has no leader"
    fenced = pids.keys() - {broker.node_id for broker in responses.metadata.brokers}
    if fenced:
        return f"node {', '.join(map(str, sorted(fenced)))} does not serve"
    partitions = [partition for topic in responses.metadata.topics for partition in topic.partitions]
    under = sum(len(partition.isr_nodes) < len(partition.replica_nodes) for partition in partitions)
    down = {node.id for node in plan.nodes} - pids.keys()
    if under and not down:
        return f"{counted(under, 'partition')} under-replicated"
    missing = [one for one in partitions if set(one.replica_nodes) - set(one.isr_nodes) - down]
    return f"{counted(len(missing), 'partition')} under-replicated" if missing else ""
