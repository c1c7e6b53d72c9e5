"""Inspection of a node after each of its events: it reads the node's state, not its responses to others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .... import buggify
from ....server.partitions.replica_check import check_replica
from ....server.services import Services
from .invariants import BOUNDARY, CONSISTENT, IN_SYNC, Broken, History, Images, Monotonic
from .shadow import LogShadow

if TYPE_CHECKING:
    from ....metadata.image import MetadataImage, PartitionImage
    from ....replication.quorum.replica import QuorumReplica
    from ....server.broker import BrokerServer
    from ....server.controller.driver import QuorumDriver
    from ....server.partitions.hosted_partition import HostedPartition
    from ..world import Node
    from .nodes import SimulatedCluster

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

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster
        self._trace = cluster.trace
        self._disk = cluster.simulation.disk
        self._by_name = {node.name: (node_id, node) for node_id, node in cluster.nodes.items()}
        self.images = Images()
        self.histories: dict[Key, History] = {}
        self.metadata = History("metadata")
        self._metadata_replicas = {node_id: _Replica(self.metadata) for node_id in cluster.nodes}
        self.replicas: dict[int, dict[Key, _Replica]] = {node_id: {} for node_id in cluster.nodes}
        #: By node: the states of its partitions after its last event.
        self._states: dict[int, list[object]] = {node_id: [] for node_id in cluster.nodes}
        self._published: dict[int, MetadataImage] = {}
        #: By node: the epoch of its last incarnation that ended with the loss of unsynced data.
        self.lost: dict[int, int] = {}
        #: The number of events inspected.
        self.events = 0

    def __call__(self, name: str) -> None:
        # The points are the brokers': reads of an observer are whole, and draw nothing.
        points, buggify.active = buggify.active, None
        try:
            self._look(name)
        finally:
            buggify.active = points

    def _look(self, name: str) -> None:
        found = self._by_name.get(name)
        if found is None or not found[1].is_running:
            return
        self.events += 1
        node_id, node = found
        server = node.server
        controller = None if server.services is None else server.controller.driver
        if controller is not None and controller.raft is not None:
            self._look_at_quorum(node_id, node, controller)
            if server.node.metadata.image is not self._published.get(node_id):
                self._look_at_image(node_id, server.node.metadata.image)
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
        offsets = f"{log.log_start_offset}..{quorum.high_watermark}..{log.log_end_offset}"
        self._trace.say(node.name, f"quorum {_role(quorum.is_leader, quorum.epoch)} {offsets}")
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
        # Most events change no partition: one comparison for all is a third of the work.
        states: list[object] = []
        for hosted in server.partitions.hosted.values():
            role, log = hosted.role, hosted.log
            states += (log, role.leader_epoch, role.is_leader, role.high_watermark, log.log_end_offset)
        if states == self._states[node_id]:
            return
        replicas = self.replicas[node_id]
        for hosted in server.partitions.hosted:
            key = (hosted.topic_id, hosted.index)
            found = replicas.get(key)
            if found is None:
                found = replicas[key] = _Replica(self._history(key, hosted.name))
            role, log = hosted.role, hosted.log
            seen = (role.leader_epoch, role.is_leader, role.high_watermark, log.log_end_offset, log)
            if seen != found.seen:
                self._check(node, hosted)
                found.seen = seen
                self._look_at_partition(node_id, node, hosted, found)
        self._states[node_id] = states

    def _check(self, node: Node, hosted: HostedPartition) -> None:
        try:
            check_replica(hosted)
        except AssertionError as failure:
            raise Broken(CONSISTENT, f"{node.name}: {failure}") from failure

    def _history(self, key: Key, name: str) -> History:
        return self.histories.setdefault(key, History(name))

    def _look_at_partition(self, node_id: int, node: Node, hosted: HostedPartition, replica: _Replica) -> None:
        role, history, shadow = hosted.role, replica.history, replica.shadow
        end = hosted.log_end_offset
        self._trace.say(
            node.name,
            f"{hosted.name} {_role(role.is_leader, role.leader_epoch)} {role.high_watermark}..{end} {role.isr}",
        )
        was_at = shadow.end_offset
        kept = shadow.follow(hosted.open_log())
        history.written(node.name, shadow.digests[kept:])
        if role.is_leader:
            history.led(role.leader_epoch, node.life)
            owner = (node.life, role.leader_epoch)
            replica.high_watermark.at(owner, role.high_watermark, lambda: f"{hosted.name} at {node.name}")
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
