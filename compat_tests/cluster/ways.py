"""The ways in which nodes change from Apache Kafka to Odradek and back. A step acts and returns its name."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from random import Random

from odradek.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from odradek.protocol.messages.describe_quorum import (
    DescribeQuorumPartitionRequest,
    DescribeQuorumRequest,
    DescribeQuorumTopicRequest,
)
from odradek.protocol.messages.metadata import MetadataRequest
from odradek.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest
from odradek.protocol.messages.unregister_broker import UnregisterBrokerRequest
from odradek.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest

from tests.server.harness.cluster_process import BROKER, CLUSTER_ID, COMBINED, CONTROLLER

from .mixed import DynamicMixedCluster, MixedCluster
from .scenario import Scenario

Step = Callable[[], str]

KILLS = 12
_UPGRADE = 1
#: Longest time for a reassignment of thousands of partitions, and for a controller to catch up.
_MOVE_S = 600


def in_place(plays: Scenario, *, roll: bool = False, rounds: int = 1, upgrades: bool = False) -> Iterator[Step]:
    """Each node changes on its directories; with `roll` Apache Kafka restarts as itself, for comparison.

    `upgrades`: static voters become dynamic ones once the first node has changed.
    """
    for apache in ((True,) if roll else (False, True)) * rounds:
        for node in tuple(plays.cluster.nodes):
            yield functools.partial(_become, mixed(plays), node, apache=apache)
            if upgrades:
                upgrades = False
                yield functools.partial(raise_kraft_version, mixed(plays))


#: (node that leaves, node that joins, whether it runs Apache Kafka).
Change = tuple[int, int, bool]
ALL_CHANGES = tuple((new - 3, new, new > 6) for new in range(4, 10))


def by_new_ids(plays: Scenario, changes: Iterable[Change] = ALL_CHANGES) -> Iterator[Step]:
    """New nodes join as brokers and controllers, take over all partitions, and the former nodes leave; then back."""
    cluster = dynamic(plays)
    for old, new, apache in changes:
        yield functools.partial(_join, cluster, new, COMBINED, apache=apache)
        yield functools.partial(_move_partitions, cluster, old, new)
        yield functools.partial(_leave, cluster, old)


def controllers(plays: Scenario) -> Iterator[Step]:
    """Three controllers of Odradek join, and the three of Apache Kafka leave; then back. The brokers stay.

    They restart in between: a broker of Apache Kafka that has lost the leader asks only the addresses of its
    `controller.quorum.bootstrap.servers`, not the voters of its log.
    """
    cluster = dynamic(plays)
    brokers = tuple(id for id, node in cluster.nodes.items() if node.is_broker)
    for first, apache in ((7, False), (10, True)):
        for new in range(first, first + 3):
            yield functools.partial(_join, cluster, new, CONTROLLER, apache=apache)
        for broker in brokers:
            yield functools.partial(_restart, cluster, broker)
        for old in range(first - 3, first):
            yield functools.partial(_leave, cluster, old)


def kills(plays: Scenario, seed: int, count: int = KILLS) -> Iterator[Step]:
    """Kills the active controller and the leader of a partition in turn; each restart draws the program.

    Both programs stay in the cluster: one node of one, and two of the other.
    """
    rng = Random(seed)
    for number in range(count):
        yield functools.partial(_kill, plays, number, rng)


def mixed(plays: Scenario) -> MixedCluster:
    assert isinstance(plays.cluster, MixedCluster)
    return plays.cluster


def dynamic(plays: Scenario) -> DynamicMixedCluster:
    assert isinstance(plays.cluster, DynamicMixedCluster), "members change with dynamic voters only"
    return plays.cluster


# ---- steps


def _become(cluster: MixedCluster, node: int, *, apache: bool) -> str:
    cluster.node(node).becomes(apache=apache)
    return f"node {node} becomes {_program(apache)}"


def _restart(cluster: MixedCluster, node: int) -> str:
    cluster.node(node).becomes(apache=cluster.node(node).is_apache)
    return f"broker {node} ({_program(cluster.node(node).is_apache)}) restarts with the addresses of all controllers"


def raise_kraft_version(cluster: MixedCluster) -> str:
    """Raises kraft.version to 1: the voters move from the properties into the log (KIP-853)."""
    update = FeatureUpdateKey("kraft.version", 1, upgrade_type=_UPGRADE)
    request = UpdateFeaturesRequest(timeout_ms=30_000, feature_updates=[update])
    cluster.until(lambda: _accepted(cluster.ask_any(request, 2)), "kraft.version is raised")
    cluster.until(lambda: (found := voters(cluster)) and all(map(any, found.values())), "the log has the voters")
    return "kraft.version rises to 1"


def _kill(plays: Scenario, number: int, rng: Random) -> str:
    cluster = mixed(plays)
    what, victim = "active controller", plays.controller()
    if number % 2:
        what, victim = "leader", plays.leaders()[number % 3]
    node = cluster.node(victim)
    was = node.is_apache
    node.kill()
    cluster.until(lambda: {victim, -1}.isdisjoint(plays.leaders().values()), "others lead")
    cluster.until(lambda: cluster.controller() not in (victim, -1), "another controller is active")
    plays.goes_on()
    others = {other.is_apache for id in cluster.nodes if (other := cluster.node(id)) is not node}
    node.is_apache = rng.choice((False, True)) if len(others) == 2 else not others.pop()
    return f"kill -9 of the {what} {victim} ({_program(was)}), which comes back as {_program(node.is_apache)}"


def _join(cluster: DynamicMixedCluster, id: int, role: str, *, apache: bool) -> str:
    node = cluster.add_node(id, role, apache=apache)
    node.start_deadline_s = node.stop_deadline_s = _MOVE_S
    node.start()
    if role != BROKER:
        cluster.until(lambda: id in voters(cluster), f"{id} is a voter", _MOVE_S)
    return f"node {id} joins as {_program(apache)}"


def _leave(cluster: DynamicMixedCluster, id: int) -> str:
    node = cluster.node(id)
    cluster.until(lambda: cluster.controller() >= 0, "there is a controller")
    directory = voters(cluster)[id]
    assert node.stop() == 0 or node.is_apache
    cluster.until(lambda: cluster.controller() not in (id, -1), "another controller is active")
    request = RemoveRaftVoterRequest(cluster_id=CLUSTER_ID, voter_id=id, voter_directory_id=directory)
    cluster.until(lambda: _removed(cluster, id, request), f"{id} is no voter")
    if node.is_broker:
        cluster.until(lambda: _accepted(cluster.ask_any(UnregisterBrokerRequest(id), 0)), f"{id} is unregistered")
    cluster.forget(id)
    return f"node {id} leaves"


def _removed(cluster: DynamicMixedCluster, id: int, request: RemoveRaftVoterRequest) -> bool:
    if id in voters(cluster):
        cluster.ask_any(request, 0)
    found = voters(cluster)
    return bool(found) and id not in found


def _accepted(response: object) -> bool:
    return getattr(response, "error_code", -1) == 0


def voters(cluster: MixedCluster) -> dict[int, bytes]:
    """Returns the directory ids of the voters, by node id; none when no broker names the leader."""
    request = DescribeQuorumRequest(
        [DescribeQuorumTopicRequest("__cluster_metadata", [DescribeQuorumPartitionRequest(0)])]
    )
    response = cluster.ask_any(request, 2)
    if response is None or response.error_code or response.topics[0].partitions[0].error_code:
        return {}
    return {one.replica_id: one.replica_directory_id for one in response.topics[0].partitions[0].current_voters}


def _move_partitions(cluster: DynamicMixedCluster, old: int, new: int) -> str:
    """Moves every replica of one broker to another one, those of internal topics too."""
    moved = [
        ReassignableTopic(
            topic.name,  # type: ignore[attr-defined]
            [
                ReassignablePartition(part.partition_index, _without(cluster, part.replica_nodes, old, new))
                for part in topic.partitions  # type: ignore[attr-defined]
                if old in part.replica_nodes
            ],
        )
        for topic in described(cluster)
    ]
    request = AlterPartitionReassignmentsRequest(timeout_ms=60_000, topics=[one for one in moved if one.partitions])
    response = cluster.ask_any(request, 1)
    wrong = [part for topic in response.responses for part in topic.partitions if part.error_code]
    assert response.error_code == 0 and not wrong, (response.error_code, wrong[:3])
    cluster.until(lambda: _has_moved(cluster, old), f"the replicas of {old} are at {new}", _MOVE_S)
    return f"{sum(len(one.partitions) for one in moved)} replicas move from {old} to {new}"


def _without(cluster: DynamicMixedCluster, replicas: list[int], old: int, new: int) -> list[int]:
    """Returns the replicas with `new` in the place of `old`; with another broker if the partition was created on `new`."""
    spare = (
        new if new not in replicas else next(node.node_id for node in cluster.running() if node.node_id not in replicas)
    )
    return [spare if replica == old else replica for replica in replicas]


def _has_moved(cluster: DynamicMixedCluster, old: int) -> bool:
    found = [part for topic in described(cluster) for part in topic.partitions]  # type: ignore[attr-defined]
    return bool(found) and all(
        old not in part.replica_nodes and set(part.isr_nodes) == set(part.replica_nodes) for part in found
    )


def described(cluster: MixedCluster) -> list[object]:
    response = cluster.ask_any(MetadataRequest(topics=None, allow_auto_topic_creation=False), 9)
    return [] if response is None else [topic for topic in response.topics if not topic.error_code]


def _program(apache: bool) -> str:
    return "Apache Kafka" if apache else "Odradek"
