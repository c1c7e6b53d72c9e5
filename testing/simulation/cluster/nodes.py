"""Whole nodes on simulated machines that lose their process or their power: three that are brokers and voters, and
maybe one that is only a broker. `Watch` inspects a node after each of its events: it reads the node's state, not its
responses to others.
"""

from __future__ import annotations

import asyncio
import contextlib
import zlib
from collections import deque
from collections.abc import Callable, Mapping
from random import Random
from typing import TYPE_CHECKING

from ....metadata.image import MetadataImage, PartitionImage
from ....replication.quorum.replica import QuorumReplica
from ....server.broker import BrokerServer
from ....server.config.broker_config import BrokerConfig
from ....server.controller.broker_lifecycle import RegistrationFailed
from ....server.controller.formatting import InitialVoter, format_directories
from ....server.partitions.hosted_partition import HostedPartition
from ....server.services import Services
from ..loop import OUTSIDE
from ..world import Node, Simulation
from .invariants import BOUNDARY, IN_SYNC, NO_BUG, Broken, History, Images, LogShadow, Monotonic

if TYPE_CHECKING:
    from ....server.controller.driver import QuorumDriver

# Records events in virtual time, and a hash that shows whether two runs were the same.


#: The number of lines kept for the report of a failure.
KEPT_LINES = 400


class Trace:
    """The trace of a run. `show` gets every line."""

    def __init__(self, clock: Callable[[], float], show: Callable[[str], None] | None = None) -> None:
        self._clock = clock
        self._show = show
        self._began = clock()
        self.hash = 0
        self.lines: deque[str] = deque(maxlen=KEPT_LINES)

    def say(self, who: str, what: str) -> None:
        line = f"{self._clock() - self._began:10.6f} {who:>8} {what}"
        self.hash = zlib.crc32(line.encode(), self.hash)
        self.lines.append(line)
        if self._show is not None:
            self._show(line)


CLUSTER_ID = "4L6g3nShT-eMCtK--X86sw"
#: Brokers that vote, and in some seeds one that does not.
VOTER_IDS = (1, 2, 3)
OBSERVER_ID = 4
_PROPERTIES = {
    "controller.listener.names": "CONTROLLER",
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.num.partitions": "1",
    "auto.create.topics.enable": "false",
}
#: The settings that a seed chooses from: replica lag, fetch sizes, frequency of the quorum's snapshots.
_CHOICES = {
    "replica.lag.time.max.ms": ("1500", "4000", "10000", "30000"),
    "metadata.log.max.record.bytes.between.snapshots": ("2000", "6000", "20971520"),
    "replica.fetch.wait.max.ms": ("500", "1500"),
    "broker.session.timeout.ms": ("3000", "9000"),
    "replica.high.watermark.checkpoint.interval.ms": ("700", "5000"),
    "auto.leader.rebalance.enable": ("true", "false"),
    "leader.imbalance.check.interval.seconds": ("5",),
    "controller.quorum.election.timeout.ms": ("50", "300", "1000"),
    "controller.quorum.fetch.timeout.ms": ("300", "2000"),
    "controller.quorum.election.backoff.max.ms": ("30", "1000"),
    "replica.fetch.max.bytes": ("100", "1048576"),
    "unclean.leader.election.enable": ("false",),
}


class Cluster:
    """The cluster. `nodes` by id. The code that ends a process also restarts it."""

    def __init__(self, simulation: Simulation, trace: Trace, rng: Random) -> None:
        self.simulation = simulation
        self.trace = trace
        #: The voters are named by the log (KIP-853) or by the configuration.
        self._voters_in_log = rng.random() < 0.5
        self._directory_ids = {node_id: rng.randbytes(16) for node_id in VOTER_IDS}
        chosen = {key: rng.choice(values) for key, values in _CHOICES.items()}
        self.node_ids = VOTER_IDS if rng.random() < 0.6 else (*VOTER_IDS, OBSERVER_ID)
        self.nodes = {node_id: self._node(node_id, chosen) for node_id in self.node_ids}
        self.bootstrap = [("127.0.0.1", 9090 + node_id) for node_id in self.node_ids]
        self._serving: set[int] = set()
        self._starting: dict[int, asyncio.Task[None]] = {}
        #: Machines without power.
        self._dark: set[int] = set()
        #: Called with a node before it loses its unsynced data.
        self.on_power_failure: Callable[[int], None] = lambda node_id: None
        #: Called with the failure that ended a node unexpectedly.
        self.failed: Callable[[BaseException], None] = lambda failure: None

    def _node(self, node_id: int, chosen: Mapping[str, str]) -> Node:
        listeners, votes = [f"PLAINTEXT://127.0.0.1:{9090 + node_id}"], node_id in VOTER_IDS
        if votes:
            listeners.append(f"CONTROLLER://127.0.0.1:{19090 + node_id}")
        properties = {
            **_PROPERTIES,
            **chosen,
            "node.id": str(node_id),
            "process.roles": "broker,controller" if votes else "broker",
            "listeners": ",".join(listeners),
            **self._quorum(),
        }
        node = self.simulation.node(f"n{node_id}", properties)
        config = BrokerConfig({**properties, "log.dirs": str(node.directory)})
        format_directories(config, CLUSTER_ID, initial_voters=self._initial_voters() if votes else ())
        return node

    def _quorum(self) -> dict[str, str]:
        places = {voter: f"127.0.0.1:{19090 + voter}" for voter in VOTER_IDS}
        if self._voters_in_log:
            return {"controller.quorum.bootstrap.servers": ",".join(places.values())}
        return {"controller.quorum.voters": ",".join(f"{voter}@{place}" for voter, place in places.items())}

    def _initial_voters(self) -> list[InitialVoter] | None:
        if not self._voters_in_log:
            return None
        return [InitialVoter(voter, "127.0.0.1", 19090 + voter, self._directory_ids[voter]) for voter in VOTER_IDS]

    def running(self) -> list[int]:
        return [node_id for node_id, node in self.nodes.items() if node.is_running]

    def start(self, node_id: int) -> None:
        """Begins the start of a node. It serves some time later, when there is a majority."""
        node = self.nodes[node_id]
        assert not node.is_running
        self.trace.say(node.name, "starts")
        if node_id in self._dark:
            self._dark.discard(node_id)
            self.simulation.network.mend(node.name)
            self.mended()
        self._starting[node_id] = asyncio.get_running_loop().create_task(self._start(node_id))

    async def _start(self, node_id: int) -> None:
        node = self.nodes[node_id]
        try:
            await node.start()
            self.trace.say(node.name, "serves")
            self._serving.add(node_id)
            failed, life = node.server.failed, node.life
            failed.add_done_callback(lambda _: self._failed(node, life, failed.result()))
        except RegistrationFailed:
            self.trace.say(node.name, "gives up")  # as a process would that is started again
            node.crash()
        except Exception as failure:
            self.failed(_bug(node, failure))

    def _failed(self, node: Node, life: object, failure: Exception) -> None:
        if node.life is life:
            self.failed(_bug(node, failure))

    def crash(self, node_id: int, *, power: bool = False) -> None:
        node = self.nodes[node_id]
        self.trace.say(node.name, "loses power" if power else "is killed")
        if power:
            # The machine sends nothing any more, not even connection refusals.
            self._dark.add(node_id)
            self.mended()
            self.on_power_failure(node_id)
        self._serving.discard(node_id)
        node.crash(power=power)

    def serves(self, node_id: int) -> bool:
        """Returns whether the node's start is complete and it has not ended since."""
        return node_id in self._serving

    def is_dark(self, node_id: int) -> bool:
        return node_id in self._dark

    def mended(self) -> None:
        """To be called when links are mended: machines without power stay disconnected."""
        for node_id in sorted(self._dark):
            name = self.nodes[node_id].name
            others = [other.name for other in self.nodes.values() if other.name != name]
            self.simulation.network.isolate(name, [*others, OUTSIDE])

    async def stop(self, node_id: int, deadline_s: float) -> None:
        """Stops a node. A stop that takes too long becomes a kill."""
        node = self.nodes[node_id]
        self.trace.say(node.name, "is stopped")
        life = node.life
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(asyncio.shield(node.stop()), deadline_s)
        self._serving.discard(node_id)
        if node.life is life and life is not None:
            self.crash(node_id)


def _bug(node: Node, failure: BaseException) -> Broken:
    broken = Broken(NO_BUG, f"{node.name} failed: {failure!r}")
    broken.__cause__ = failure
    return broken


#: Topic id and index.
Key = tuple[bytes, int]
_NOTHING: tuple[object, ...] = ()


class _Replica:
    """A replica on a node, of a partition or of the metadata log, as `history` shows."""

    __slots__ = ("high_watermark", "history", "seen", "shadow")

    def __init__(self, history: History) -> None:
        self.history = history
        self.shadow = LogShadow()
        self.seen = _NOTHING
        self.high_watermark = Monotonic()


class Watch:
    """Called with the name of the node whose event is over. Raises Broken."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._trace = cluster.trace
        self._disk = cluster.simulation.disk
        self._by_name = {node.name: (node_id, node) for node_id, node in cluster.nodes.items()}
        self.images = Images()
        self.histories: dict[Key, History] = {}
        self.metadata = History("metadata")
        self._metadata_replicas = {node_id: _Replica(self.metadata) for node_id in cluster.nodes}
        self.replicas: dict[int, dict[Key, _Replica]] = {node_id: {} for node_id in cluster.nodes}
        self._published: dict[int, MetadataImage] = {}
        #: By node: the epoch of its last incarnation that ended with the loss of unsynced data.
        self.lost: dict[int, int] = {}
        #: The number of events inspected.
        self.events = 0

    def __call__(self, name: str) -> None:
        found = self._by_name.get(name)
        if found is None or not found[1].is_running:
            return
        self.events += 1
        node_id, node = found
        server = node.server
        controller = None if server.services is None else server.controller.driver
        if controller is not None and controller.raft is not None:
            self._look_at_quorum(node_id, node, controller)
            if server.metadata.image is not self._published.get(node_id):
                self._look_at_image(node_id, server.metadata.image)
        if isinstance(server.services, Services):
            self._look_at_partitions(node_id, node, server)

    # ---- the quorum

    def _look_at_quorum(self, node_id: int, node: Node, controller: QuorumDriver) -> None:
        assert controller.raft is not None
        found, quorum, log = self._metadata_replicas[node_id], controller.raft.replica, controller.quorum_log.log
        seen = (
            quorum.epoch,
            quorum.is_leader,
            quorum.high_watermark,
            log.log_end_offset,
            log.log_start_offset,
            node.life,
        )
        if seen == found.seen:
            return
        self._trace.say(node.name, f"quorum {_role(quorum.is_leader, quorum.epoch)} {seen[4]}..{seen[2]}..{seen[3]}")
        found.seen = seen
        history, shadow = self.metadata, found.shadow
        if quorum.is_leader:
            history.led(quorum.epoch, node.life)
        found.high_watermark.at(node.life, quorum.high_watermark, lambda: f"metadata at {node.name}")
        kept = shadow.follow(log)
        history.written(node.name, shadow.digests[kept:])
        if history.commit(node.name, shadow, quorum.high_watermark):
            self._synced_by_majority(node.name, shadow, quorum)

    def _synced_by_majority(self, name: str, shadow: LogShadow, quorum: QuorumReplica) -> None:
        end, digest = quorum.high_watermark, shadow.digest_ending_at(quorum.high_watermark)
        having = 0
        for voter in quorum.voter_set.ids:
            other = self._metadata_replicas[voter].shadow
            having += other.digest_ending_at(end) == digest and other.is_synced(end, self._disk.synced_bytes)
        if having < quorum.voter_set.majority:
            raise Broken(
                BOUNDARY, f"metadata: {name} has high watermark {end}, but only {having} voters have synced it"
            )

    # ---- partitions

    def _look_at_partitions(self, node_id: int, node: Node, server: BrokerServer) -> None:
        replicas = self.replicas[node_id]
        for hosted in server.partitions.hosted:
            key = (hosted.topic_id, hosted.index)
            found = replicas.get(key)
            if found is None:
                found = replicas[key] = _Replica(self._history(key, hosted.name))
            role, log = hosted.role, hosted.log
            seen = (role.leader_epoch, role.is_leader, role.high_watermark, log.log_end_offset, log)
            if seen != found.seen:
                found.seen = seen
                self._look_at_partition(node_id, node, hosted, found)

    def _history(self, key: Key, name: str) -> History:
        return self.histories.setdefault(key, History(name))

    def _look_at_partition(self, node_id: int, node: Node, hosted: HostedPartition, found: _Replica) -> None:
        role, history, shadow = hosted.role, found.history, found.shadow
        end = hosted.log_end_offset
        self._trace.say(
            node.name,
            f"{hosted.name} {_role(role.is_leader, role.leader_epoch)} {role.high_watermark}..{end} {role.isr}",
        )
        was_at = shadow.end_offset
        kept = shadow.follow(hosted.log)
        history.written(node.name, shadow.digests[kept:])
        if role.is_leader:
            history.led(role.leader_epoch, node.life)
            owner = (node.life, role.leader_epoch)
            found.high_watermark.at(owner, role.high_watermark, lambda: f"{hosted.name} at {node.name}")
            if history.commit(node.name, shadow, role.high_watermark):
                self._hold_in_sync((hosted.topic_id, hosted.index), BOUNDARY)
        elif role.high_watermark > history.end_offset:
            raise Broken(
                BOUNDARY,
                f"{hosted.name}: {node.name} has high watermark {role.high_watermark}, which no leader has reached",
            )
        history.verify(node.name, shadow, role.high_watermark)
        if shadow.end_offset < was_at:
            self._hold_in_sync((hosted.topic_id, hosted.index), IN_SYNC)

    # ---- published images

    def _look_at_image(self, node_id: int, image: MetadataImage) -> None:
        before = self.images.newest
        self._published[node_id] = image
        if not self.images.published(self._cluster.nodes[node_id].name, image):
            return
        for topic in image.topics.by_name.values():
            was = before.topics.by_id.get(topic.id)
            if was is topic:
                continue
            for index, registration in topic.partitions.items():
                known = was.partitions.get(index) if was is not None else None
                if known is not registration:
                    self._trace.say("", f"{topic.name}-{index} {_registered(registration)}")
                    self._hold_in_sync((topic.id, index), IN_SYNC)

    def registration(self, key: Key) -> PartitionImage | None:
        topic = self.images.newest.topic_by_id(key[0])
        return topic.partitions.get(key[1]) if topic is not None else None

    def _hold_in_sync(self, key: Key, invariant: str) -> None:
        """Checks that all members of the controller's newest ISR, and all electable replicas, have everything
        committed.
        """
        registration, history = self.registration(key), self.histories.get(key)
        if registration is None or history is None:
            return
        for node_id in (*registration.isr, *registration.elr):
            found = self.replicas[node_id].get(key)
            if not self.has_lost(node_id):
                name = self._cluster.nodes[node_id].name
                history.hold(name, found.shadow if found is not None else None, invariant)

    def has_lost(self, node_id: int) -> bool:
        """Returns whether the ISR in the controller's state refers to the incarnation before a power loss."""
        lost = self.lost.get(node_id)
        return lost is not None and self._broker_epoch(node_id) <= lost

    def _broker_epoch(self, node_id: int) -> int:
        broker = self.images.newest.broker(node_id)
        return -1 if broker is None else broker.epoch

    def power_failed(self, node_id: int) -> None:
        """To be called before the node's files are truncated."""
        self.lost[node_id] = self._broker_epoch(node_id)
        for found in (self._metadata_replicas[node_id], *self.replicas[node_id].values()):
            found.shadow.lose(self._disk.synced_bytes)


def _role(is_leader: bool, epoch: int) -> str:
    return f"{'leads' if is_leader else 'follows'} {epoch}"


def _registered(registration: PartitionImage) -> str:
    return (
        f"leader {registration.leader} epoch {registration.leader_epoch} isr {registration.isr} elr {registration.elr} "
        f"partition epoch {registration.partition_epoch}"
    )
