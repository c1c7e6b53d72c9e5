"""Leaders and coordinators that move or die, on Odradek and on Apache Kafka.

`python -m compat_tests.faults.moves_beside_apache` prints the reactions of five clients, with differences. Each side is a
cluster of two brokers. A client's request waits in a proxy while the leader or the coordinator that it is meant for moves to
the other broker or is killed; then the request continues, or its connection breaks. So the client gets the broker's own
error, or none. Odradek's faults are those of `odradek.Cluster`: `move_leader` and `kill`.
"""

from __future__ import annotations

import argparse
import logging
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import odradek
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from odradek.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from odradek.protocol.messages.delete_groups import DeleteGroupsRequest
from odradek.protocol.messages.delete_topics import DeleteTopicsRequest
from odradek.protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersTopic
from odradek.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from odradek.protocol.records.record import Record
from odradek.protocol.schema import Message
from odradek.testing.sending import send

from compat_tests.batches import leader_of, read_batches
from compat_tests.cluster.mixed import MixedCluster
from compat_tests.faults.beside_apache import Reaction
from compat_tests.faults.fault_proxy import FaultProxy, ProxyFault, Strikes
from compat_tests.recipes import eventually
from compat_tests.wire import WireClient
from tests.server.harness.cluster_process import BROKER, COMBINED
from tests.testing.clients.python_clients import LAST
from tests.testing.fault_table import NAMES, Client, Recovery, all_clients, consume_through

_TOPIC, _GROUP, _OFFSETS = "orders", "billing", "__consumer_offsets"
#: Broker 1 has the only controller, so broker 2 leads what moves or dies.
_STAYS, _MOVES = 1, 2
#: Heartbeats wait from the response to this request on: librdkafka 2.16 never repeats an OffsetFetch that fails with
#: NOT_COORDINATOR. With both brokers it then consumes nothing any more.
_BEFORE_HEARTBEAT = "OffsetFetch"
_PREFERRED = 0
_TIMEOUT_MS = 30_000
_GONE = (ErrorCode.NONE, ErrorCode.GROUP_ID_NOT_FOUND)
_BOTH_SIDES = {
    "auto.create.topics.enable": "false",
    "broker.heartbeat.interval.ms": "200",
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "2",
}


@dataclass(frozen=True)
class Move:
    """A move. `struck`: the API of the waiting request. `counted`: the API whose requests are counted, up to `most`, as the
    number of retries until the metadata is new depends on timing.
    """

    name: str
    struck: str
    counted: str
    most: int
    topic: str = _TOPIC
    kills: bool = False

    @property
    def consumes(self) -> bool:
        return self.struck != "Produce"

    def __str__(self) -> str:
        return f"{'consumer' if self.consumes else 'producer'}, {self.name}"


#: So that kills are noticed soon. On a loaded machine a broker that runs may lose its leadership after so short a time.
_SHORT_SESSIONS = {"broker.session.timeout.ms": "1500"}


#: Those with a kill wait for a restart each.
MOVES = (
    Move("leader moves", "Produce", "Produce", 2),
    Move("leader moves", "Fetch", "Fetch", 2),
    Move("coordinator moves", "Heartbeat", "FindCoordinator", 2, _OFFSETS),
    Move("leader is killed", "Produce", "Produce", 2, kills=True),
    Move("leader is killed", "Fetch", "Fetch", 2, kills=True),
    Move("coordinator is killed", "Heartbeat", "FindCoordinator", 2, _OFFSETS, kills=True),
)


class ClusterSide:
    """A cluster of two brokers behind proxies. A subclass moves leaders and kills broker 2."""

    name = ""

    def __init__(self, direct: str, stack: ExitStack) -> None:
        #: The brokers' own addresses.
        self.direct = direct
        self.strikes = Strikes()
        routes: dict[str, str] = {}
        proxies = []
        for address in direct.split(","):
            proxy = stack.enter_context(FaultProxy(self.strikes, routes))
            proxy.target, routes[address] = address, proxy.address
            proxies.append(proxy)
        #: The address for clients: broker 1, which stays.
        self.address = proxies[0].address

    def reaction(self, move: Move, client: Client, name: str) -> Reaction:
        """Runs a client against a move, and returns its reaction."""
        self.renew(move)
        if move.consumes:
            self.send(b"order 1")
        self.strikes.clear()
        after = _BEFORE_HEARTBEAT if move.struck == "Heartbeat" else ""
        fault = ProxyFault("drop" if move.kills else "first", api=move.struck, after=after)
        self.strikes.strike(fault, lambda: self.kill() if move.kills else self.move(move.topic, _STAYS))
        outcome = self._consume(move, client, name, fault) if move.consumes else client.produce(self.address)
        requests = min(move.most, self.strikes.asked(name, move.counted))
        if not move.consumes:
            self.send(LAST)  # with acks=all: the records before it are below the high watermark then
        records = sum(len(found) for _, found in read_batches(self.direct, _TOPIC, 0))
        if move.kills:
            self.start()
        return Reaction(outcome, fault.count, requests, records)

    def _consume(self, move: Move, client: Client, name: str, fault: ProxyFault) -> str:
        recovery = Recovery(
            move.counted, move.most, lambda: fault.count > 0, self.strikes.end_fault, lambda: self.send(LAST)
        )
        return consume_through(client, self.address, lambda api: self.strikes.asked(name, api), recovery)

    def warm_up(self, clients: Mapping[str, Client]) -> None:
        """Has the cluster create its offsets topic, and all clients join the group: a JVM is slow at first."""
        with WireClient(self.direct.split(",")[0]) as wire:
            _create(wire, _OFFSETS, {"cleanup.policy": "compact"})
        for name, client in clients.items():
            self.renew(MOVES[0])
            self.send(LAST)
            assert client.consume(self.address) == "ok", name

    def renew(self, move: Move) -> None:
        """Makes the topic and the group new, and broker 2 lead what moves."""
        self._await_leader(_OFFSETS, None)
        offsets_leader = _MOVES if move.topic == _OFFSETS else _STAYS
        self.move(_OFFSETS, offsets_leader)
        self._delete_group()
        with WireClient(self.direct.split(",")[0]) as wire:
            deleted = wire.call(DeleteTopicsRequest(topic_names=[_TOPIC], timeout_ms=_TIMEOUT_MS), 5).responses[0]
            assert deleted.error_code in (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), deleted
            topic_id = _create(wire, _TOPIC, {})
        self._await_leader(_TOPIC, _MOVES, topic_id)

    def _delete_group(self) -> None:
        def is_gone() -> bool:
            with WireClient(leader_of(self.direct, _OFFSETS, 0)) as wire:
                response = wire.call(DeleteGroupsRequest(groups_names=[_GROUP]), 2)
            return response.results[0].error_code in _GONE

        eventually(is_gone, what="the group has neither members nor name")

    def send(self, value: bytes) -> None:
        """Sends a record. Apache Kafka names a leader in Metadata before that broker leads."""
        eventually(partial(self._has_sent, value), what=f"the leader of {_TOPIC} accepts a record")

    def _has_sent(self, value: bytes) -> bool:
        now_ms = int(time.time() * 1000)  # retention deletes older ones
        record = Record(timestamp=now_ms, key=None, value=value, headers=[])
        try:
            send(leader_of(self.direct, _TOPIC, 0), _TOPIC, 0, [record])
        except RuntimeError as rejected:
            if ErrorCode.NOT_LEADER_OR_FOLLOWER.name not in str(rejected):
                raise
            return False
        return True

    def _await_leader(self, topic: str, leader: int | None, topic_id: bytes | None = None) -> None:
        """Waits until both brokers know the leader (None: any) and two replicas in sync. `topic_id`: that of a new topic, as
        a broker may still know a deleted one of that name.
        """
        for address in self.direct.split(","):
            is_led = partial(_leads, address, topic, leader, 2, topic_id)
            eventually(is_led, what=f"{leader} leads {topic} on {address}")

    def move(self, topic: str, to: int) -> None:
        """Moves the leader of partition 0, and returns when both brokers know it."""
        raise NotImplementedError

    def kill(self) -> None:
        """Kills broker 2, and returns when broker 1 leads."""
        raise NotImplementedError

    def start(self) -> None:
        raise NotImplementedError


def _create(wire: WireClient, name: str, configs: Mapping[str, str]) -> bytes:
    """Creates a topic with one partition, which broker 2 leads. Returns its id."""
    replicas = [CreatableReplicaAssignment(0, [_MOVES, _STAYS])]
    settings = [CreatableTopicConfig(name=key, value=value) for key, value in configs.items()]
    topic = CreatableTopic(name=name, num_partitions=-1, replication_factor=-1, assignments=replicas, configs=settings)
    made = wire.call(CreateTopicsRequest(topics=[topic], timeout_ms=_TIMEOUT_MS), 7).topics[0]
    assert made.error_code == ErrorCode.NONE, made
    topic_id: bytes = made.topic_id
    return topic_id


def _leads(address: str, topic: str, leader: int | None, in_sync: int, topic_id: bytes | None = None) -> bool:
    request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
    with WireClient(address) as wire:
        found: Any = wire.call(request, 12).topics[0]
    if found.error_code or not found.partitions or topic_id not in (None, found.topic_id):
        return False
    (partition,) = found.partitions
    return leader in (None, partition.leader_id) and len(partition.isr_nodes) >= in_sync and not partition.error_code


class OdradekCluster(ClusterSide):
    name = "Odradek"

    def __init__(self, cluster: odradek.Cluster, stack: ExitStack) -> None:
        super().__init__(cluster.bootstrap_servers, stack)
        self._cluster = cluster

    def move(self, topic: str, to: int) -> None:
        self._cluster.move_leader(topic, to=to)

    def kill(self) -> None:
        self._cluster.kill(_MOVES)

    def start(self) -> None:
        self._cluster.restart(_MOVES)


class ApacheCluster(ClusterSide):
    name = "Apache Kafka"

    def __init__(self, cluster: MixedCluster, stack: ExitStack) -> None:
        super().__init__(cluster.bootstrap, stack)
        self._cluster = cluster

    def move(self, topic: str, to: int) -> None:
        replicas = [to, _STAYS + _MOVES - to]
        parts = [ReassignablePartition(partition_index=0, replicas=replicas)]
        topics = [ReassignableTopic(name=topic, partitions=parts)]
        self._ask(AlterPartitionReassignmentsRequest(timeout_ms=_TIMEOUT_MS, topics=topics), 0)
        election = [ElectLeadersTopic(topic=topic, partitions=[0])]
        self._ask(ElectLeadersRequest(_PREFERRED, election, _TIMEOUT_MS), 2)
        self._await_leader(topic, to)

    def _ask(self, request: Message, version: int) -> None:
        with WireClient(self._cluster.nodes[_STAYS].bootstrap) as wire:
            response = wire.call(request, version)
        assert response.error_code == ErrorCode.NONE, response

    def kill(self) -> None:
        node = self._cluster.nodes[_MOVES]
        node.kill()
        stays = self._cluster.nodes[_STAYS].bootstrap
        for topic in (_TOPIC, _OFFSETS):
            eventually(partial(_leads, stays, topic, _STAYS, 1), what=f"broker 1 leads {topic}")

    def start(self) -> None:
        self._cluster.nodes[_MOVES].start()


@contextmanager
def both_clusters(
    directory: Path, configs: Mapping[str, str] | None = None
) -> Iterator[tuple[ClusterSide, ClusterSide]]:
    """Starts both clusters. `configs`: further ones of all brokers."""
    config = {**_BOTH_SIDES, **(configs or {})}
    with ExitStack() as stack:
        theirs = MixedCluster(
            directory,
            [COMBINED, BROKER],
            **{key.replace(".", "_"): value for key, value in config.items()},
        )
        for node_id in theirs.nodes:
            theirs.node(node_id).is_apache = True
        stack.enter_context(theirs)
        mine = stack.enter_context(odradek.Cluster(brokers=2, config=config))
        yield OdradekCluster(mine, stack), ApacheCluster(theirs, stack)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m compat_tests.faults.moves_beside_apache", description=__doc__)
    parser.add_argument("--client", action="append", choices=NAMES, help="of these clients only")
    parser.add_argument("--case", action="append", choices=[str(move) for move in MOVES], help="these moves only")
    parser.add_argument("--rounds", type=int, default=1)
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)  # aiokafka reports each attempt to connect to a killed broker
    names, moves = options.client or NAMES, [move for move in MOVES if str(move) in (options.case or map(str, MOVES))]
    different = 0
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        sides = stack.enter_context(both_clusters(Path(folder), _SHORT_SESSIONS))
        clients = stack.enter_context(all_clients())
        for side in sides:
            side.warm_up(clients)
        for move in moves * options.rounds:
            for name in names:
                here, there = (side.reaction(move, clients[name], name) for side in sides)
                assert here.struck and there.struck, f"{move}, {name}: no request waited"
                different += here != there
                shown = f"{here}" if here == there else f"ODRADEK {here}; APACHE {there}"
                print(f"{move!s:36} {name:13} {shown}", flush=True)
    print(f"{options.rounds * len(moves) * len(names)} reactions, {different} differ")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
