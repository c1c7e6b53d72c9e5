"""Named faults, drawn by a seed. A fault begins, lasts, and is healed; then the next is drawn."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from random import Random
from typing import NamedTuple

from .nodes import ClusterNode, FaultyCluster


class Fault(NamedTuple):
    """A fault. `begin` starts it and returns a description; `heal` ends every fault."""

    name: str
    begin: Callable[[FaultyCluster, Random], str]


def minority(cluster: FaultyCluster, rng: Random) -> list[ClusterNode]:
    """Returns some nodes, fewer than half: a cluster must survive their loss."""
    most = (len(cluster.nodes) - 1) // 2
    return rng.sample(list(cluster.nodes.values()), rng.randint(1, most))


def named(nodes: list[ClusterNode]) -> str:
    return ", ".join(str(node.node) for node in nodes)


def kill(cluster: FaultyCluster, rng: Random) -> str:
    nodes = minority(cluster, rng)
    for node in nodes:
        node.kill()
    return f"kill -9 of {named(nodes)}"


def kill_all(cluster: FaultyCluster, rng: Random) -> str:
    """Kills all processes, not machines. Acknowledged records must be in the page cache of more than one node."""
    for node in cluster.nodes.values():
        node.kill()
    return "kill -9 of all"


def stop(cluster: FaultyCluster, rng: Random) -> str:
    nodes = minority(cluster, rng)
    for node in nodes:
        node.stop()
    return f"clean stop of {named(nodes)}"


def roll(cluster: FaultyCluster, rng: Random) -> str:
    """Restarts the nodes in turn: each serves again before the next stops."""
    for node in cluster.nodes.values():
        node.stop()
        node.start()
    return "a rolling restart"


def pause(cluster: FaultyCluster, rng: Random) -> str:
    nodes = minority(cluster, rng)
    for node in nodes:
        node.pause()
    return f"SIGSTOP of {named(nodes)}"


def cut_off(cluster: FaultyCluster, rng: Random) -> str:
    """Cuts a minority off from the other nodes, in both directions; clients still reach it."""
    apart = {node.node for node in minority(cluster, rng)}
    for source, target in itertools.permutations(cluster.nodes, 2):
        if (source in apart) != (target in apart):
            cluster.network.cut(source, target)
    return f"{sorted(apart)} cut off both ways"


def cut_one_way(cluster: FaultyCluster, rng: Random) -> str:
    source, target = rng.sample(list(cluster.nodes), 2)
    cluster.network.cut(source, target)
    return f"what {source} sends to {target} is lost"


def slow(cluster: FaultyCluster, rng: Random) -> str:
    node = rng.choice(list(cluster.nodes))
    cluster.network.slow(node)
    return f"{node} sends slowly and loses what it cannot keep"


def fill(cluster: FaultyCluster, rng: Random) -> str:
    node = rng.choice(list(cluster.nodes.values()))
    node.fill_disk()
    return f"the disk of {node.node} is full"


FAULTS = {
    fault.name: fault
    for fault in (
        Fault("kill", kill),
        Fault("kill-all", kill_all),
        Fault("stop", stop),
        Fault("roll", roll),
        Fault("pause", pause),
        Fault("cut", cut_off),
        Fault("cut-one-way", cut_one_way),
        Fault("slow", slow),
        Fault("full-disk", fill),
    )
}


def heal(cluster: FaultyCluster) -> None:
    """Restores all links, frees the disks, and starts or resumes every node."""
    cluster.network.mend()
    for node in cluster.nodes.values():
        node.free_disk()
        node.go_on()
    cluster.start_all()
