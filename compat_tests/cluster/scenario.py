"""A scenario: a cluster, clients that send orders to it and read them, and the checks between the steps and at the end."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from odradek.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from odradek.protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersTopic

from tests.server.harness.cluster_process import Cluster

from .orders import TOPIC, Excused, Found, Sender, anomalies, read_all, writers_of
from .readers import Reader
from .spark_client import SparkQuery

#: Orders that every client sends between two steps.
_MORE_ORDERS = 20
_PREFERRED = 0
#: The node that shall be the active controller is not always the first of the possible successors of a stopped one.
_MOST_STOPS = 10
#: Time for Spark's query, in scenarios that have it: its start, and a batch beside all the others.
_SPARK_S = 180


@dataclass
class Scenario:
    cluster: Cluster
    senders: list[Sender]
    readers: list[Reader]
    query: SparkQuery | None = None
    #: The records of each partition, once all clients have ended.
    found: Found = field(default_factory=dict)
    #: Whether a leader may be Apache Kafka.
    has_apache: bool = False
    excused: Excused = field(default_factory=Excused)

    def begin(self) -> None:
        for client in (*self.senders, *self.readers):
            client.start()

    def leaders(self) -> dict[int, int]:
        return {index: partition.leader_id for index, partition in self.cluster.partitions(TOPIC).items()}

    def controller(self) -> int:
        found: int = self.cluster.until(lambda: max(0, self.cluster.controller()), "there is a controller")
        return found

    def goes_on(self) -> None:
        """Waits until every sender has more orders acknowledged, and every group reads on."""
        before = [len(sender.acknowledged) for sender in self.senders]
        for sender, count in zip(self.senders, before):
            self.cluster.until(
                lambda sender=sender, count=count: len(sender.acknowledged) > count + _MORE_ORDERS,
                lambda sender=sender: f"orders of {sender.client} are acknowledged ({sender.state()})",
            )
        newest = [sender.acknowledged[-1] for sender in self.senders]
        for reader in self.readers:
            self.cluster.until(
                lambda reader=reader: all(reader.seen[order] for order in newest),
                lambda reader=reader: f"they are {reader.name} ({reader.state()})",
            )

    def query_goes_on(self) -> None:
        """Waits for a batch of Spark. Not in every step: Spark's AdminClient may wait a minute after a broker vanishes."""
        query = self.query
        assert query is not None
        batches = query.batches
        self.cluster.until(
            lambda: query.batches > batches + 1,
            lambda: f"Spark has begun a batch and committed it ({query.batches} batches so far)\n{query.last_words()}",
            _SPARK_S,
        )

    def is_whole(self, replicas: int = 3) -> None:
        """Starts the killed nodes, and waits until all replicas have caught up."""
        for node in self.cluster.nodes.values():
            if not node.is_running:
                node.begin()
        for node in self.cluster.nodes.values():
            node.await_serving()
        self.cluster.until(
            lambda: {len(p.isr_nodes) for p in self.cluster.partitions(TOPIC).values()} == {replicas}, "all in sync"
        )

    def reassign(self, replicas: dict[int, list[int]]) -> None:
        partitions = [ReassignablePartition(index, brokers) for index, brokers in replicas.items()]
        request = AlterPartitionReassignmentsRequest(
            timeout_ms=30_000, topics=[ReassignableTopic(TOPIC, partitions)], allow_replication_factor_change=True
        )
        response = self.cluster.ask_any(request, 1)
        errors = {p.error_code for t in response.responses for p in t.partitions}
        assert response.error_code == 0 and errors == {0}, response
        self.cluster.until(
            lambda: (
                {
                    index: set(partition.isr_nodes)
                    for index, partition in self.cluster.partitions(TOPIC).items()
                    if index in replicas and set(partition.isr_nodes) == set(partition.replica_nodes)
                }
                == {index: set(brokers) for index, brokers in replicas.items()}
            ),
            "the replicas are where they shall be, in sync",
        )

    def elect_preferred(self, index: int) -> None:
        partitions = [ElectLeadersTopic(TOPIC, [index])]
        request = ElectLeadersRequest(_PREFERRED, topic_partitions=partitions, timeout_ms=30_000)
        partition = self.cluster.partitions(TOPIC)[index]

        def is_elected() -> bool:
            """Asks until it is elected: the controller may have fenced it for a moment, or may just move."""
            self.cluster.ask_any(request, 2)
            return {self.leaders()[index]} == set(partition.replica_nodes[:1])

        self.cluster.until(is_elected, "the preferred replica leads")

    def hand_controller_to(self, node_id: int) -> None:
        """Restarts the active controller until it is this node."""
        for _ in range(_MOST_STOPS):
            active = self.controller()
            if active == node_id:
                return
            assert self.cluster.nodes[active].stop() == 0
            self.cluster.until(lambda active=active: self.cluster.controller() not in (active, -1), "another is active")
            self.is_whole()
        raise AssertionError(f"node {node_id} was not elected in {_MOST_STOPS} elections")

    @property
    def counts(self) -> Counter[str]:
        """Counts the records of each order in the topic."""
        return Counter(order for orders in self.found.values() for _, order in orders)

    def ends(self) -> None:
        """Checks that every order is there once and in order, and that every group has seen all of them."""
        for sender in self.senders:
            sender.end()
        acknowledged = {order for sender in self.senders for order in sender.acknowledged}
        unproven = set().union(*(sender.without_offset for sender in self.senders)) if self.has_apache else set()
        self.found = read_all(self.cluster.bootstrap, len(acknowledged - unproven))
        writers = writers_of([one for node in self.cluster.nodes.values() for one in node.log_dirs], len(self.found))
        if self.has_apache:
            self.excused = Excused.of(self.found, self.senders, writers)
        reported = anomalies(self.found, self.senders, writers, self.excused)
        assert not reported, f"{len(reported)} anomalies:\n" + "\n".join(map(str, reported[:40]))
        there = sum(map(len, self.found.values())) - len(self.excused.again)
        assert there + len(self.excused.lost) == len(acknowledged) == sum(sender.sent for sender in self.senders)
        acknowledged -= self.excused.lost
        for reader in self.readers:
            self.cluster.until(
                lambda reader=reader: acknowledged <= reader.seen.keys(),
                lambda reader=reader: f"all is {reader.name} ({reader.state()})",
            )
            reader.end()
            assert reader.failed == []
