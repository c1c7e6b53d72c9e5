"""The faults of a round: those of `compat_tests.faults`, cuts between clients and nodes, moves of replicas and leaders."""

from __future__ import annotations

from random import Random

from odradek.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from odradek.protocol.messages.elect_leaders import ElectLeadersRequest

from compat_tests.asking import ask_any
from compat_tests.faults.faults import FAULTS as NODE_FAULTS
from compat_tests.faults.faults import Fault
from compat_tests.faults.nodes import FaultyCluster

from .workloads import TOPICS

#: The last number of the address of all clients in the cluster's network.
CLIENTS = 254
_PREFERRED = 0


def deafen_clients(cluster: FaultyCluster, rng: Random) -> str:
    """A node gets requests, and its responses are lost."""
    node = rng.choice(list(cluster.nodes))
    cluster.network.cut(node, CLIENTS)
    return f"the responses of {node} to clients are lost"


def reassign(cluster: FaultyCluster, rng: Random) -> str:
    """Moves one replica of each partition of a topic away, and back with the next fault of this kind."""
    topic, nodes = rng.choice(list(TOPICS)), list(cluster.nodes)
    parts = [
        ReassignablePartition(partition_index=at, replicas=rng.sample(nodes, rng.choice((2, 3, 3))))
        for at in range(TOPICS[topic])
    ]
    request = AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name=topic, partitions=parts)])
    response = ask_any(cluster.bootstrap, request, 0)
    moved = response is not None and not response.error_code
    return f"the replicas of {topic} are reassigned{'' if moved else ', which failed'}"


def elect(cluster: FaultyCluster, rng: Random) -> str:
    """Elects the preferred leader of each partition."""
    ask_any(cluster.bootstrap, ElectLeadersRequest(election_type=_PREFERRED, topic_partitions=None), 2)
    return "preferred leaders are elected"


FAULTS = {
    **NODE_FAULTS,
    **{
        fault.name: fault
        for fault in (
            Fault("deaf-clients", deafen_clients),
            Fault("reassign", reassign),
            Fault("elect", elect),
        )
    },
}
