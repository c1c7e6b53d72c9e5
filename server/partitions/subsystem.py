"""The partitions that this broker hosts, as one subsystem: their replicas' logs, and the roles that the metadata gives them.

The work that a change of a partition begins (following a leader, healing) is that of the replicas' subsystem, which itself
works on the partitions: it comes in by the port `ReplicaWork`. `RoleAssignment` makes replicas leaders or followers.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Protocol

from ...metadata.image import EMPTY_IMAGE, INTERNAL_TOPICS, NO_LEADER, TOPIC_RESOURCE, TopicPartition
from ..runtime.counters import BackgroundTasks
from ..runtime.subsystem import MetadataCache, Stop, Subsystem, stop_each
from .creation import IsrRules, Reconfiguration, ReplicaCreation, ReplicaLoading, ReplicaOpening, SettingsByTopic
from .partitions import Controller, DirectoryReports, Partitions, PendingPartitions, ReplicaPlacement

if TYPE_CHECKING:
    from ...metadata.delta import MetadataDelta, Part
    from ...metadata.image import MetadataImage, PartitionImage, TopicImage
    from ...protocol.records.errors import BatchError
    from ...replication.partition import IsrProposal
    from ...storage.directory import LogDirectory
    from ...storage.files.open_files import LogDirectoryFailure
    from ..config.broker_config import BrokerConfig
    from ..runtime.clock import Clock
    from ..runtime.counters import Metrics
    from ..runtime.log_lines import RepeatedLines
    from ..runtime.subsystem import MetadataCache
    from ..runtime.thread_pools import ThreadPools
    from .hosted_partition import HostedPartition, Replica


# ---- roles of replicas


class RoleAssignment:
    """Gives replicas their roles.

    `broker_epoch` returns the epoch of this broker's registration. `follow` is called with each replicated partition
    whose leader or epoch changed, `heal` with each one that has damaged records.
    """

    def __init__(
        self,
        node_id: int,
        clock: Clock,
        broker_epoch: Callable[[], int],
        follow: Callable[[HostedPartition], object],
        heal: Callable[[HostedPartition], object],
    ) -> None:
        self._node_id = node_id
        self._clock = clock
        self._broker_epoch = broker_epoch
        self._follow = follow
        self._heal = heal

    def assign(self, image: MetadataImage, hosted: HostedPartition, registration: PartitionImage) -> None:
        if registration.leader == self._node_id and not self._is_registered(image):
            registration = registration._replace(leader=NO_LEADER)
        changed = hosted.take_role(registration, self._clock.now_ms())
        if changed and len(registration.replicas) > 1:
            self._follow(hosted)
        if hosted.log.damage:
            self._heal(hosted)

    def _is_registered(self, image: MetadataImage) -> bool:
        """Returns False while the metadata still describes this broker's life before a crash. The broker led then, and
        may have lost records: it leads nothing, and writes nothing, in an epoch of that life.
        """
        own = image.broker(self._node_id)
        return own is not None and own.epoch == self._broker_epoch()


# Partitions follow the metadata: the published image decides which are made, their roles and which are removed.
#
# The first image opens the replicas that the log directories hold (`creation.py`). A replica that the metadata does not know
# as this broker's is put aside under a `-stray` name, never deleted; files named `-delete` go in the background. From then
# on each delta is followed: new replicas go to the log directory that the metadata names, or to the one with the fewest
# partitions.


log = logging.getLogger("odradek.partitions")


class _Changed(NamedTuple):
    """A topic with those of its partitions that are new or changed."""

    name: str
    id: bytes
    partitions: Mapping[int, PartitionImage]


class PartitionChanges:
    """Applies deltas of the metadata to the partitions here."""

    def __init__(
        self,
        node_id: int,
        metadata: MetadataCache,
        partitions: Partitions,
        creation: ReplicaCreation,
        loading: ReplicaLoading,
        roles: RoleAssignment,
        reconfiguration: Reconfiguration,
    ) -> None:
        self._node_id = node_id
        self._metadata = metadata
        self._partitions = partitions
        self._creation = creation
        self._loading = loading
        self._roles = roles
        self._reconfiguration = reconfiguration
        partitions.pending.make = self._apply_partition
        loading.apply = self._apply_loaded

    def steps(self, delta: MetadataDelta, image: MetadataImage) -> Iterator[None]:
        """Applies `delta`, which led to `image`, in steps; `image` is published after the last one. The changes of
        internal topics are in that last step, since their coordinators have to change with them.
        """
        with self._partitions.pending.paused(), self._loading.paused(image):
            yield from self._steps(delta, image)

    def stop(self) -> None:
        self._reconfiguration.stop()

    def _steps(self, delta: MetadataDelta, image: MetadataImage) -> Iterator[None]:
        self._creation.begin_image()
        if not self._loading.has_begun:
            yield from self._loading.load(image)
            topics = [_Changed(topic.name, topic.id, topic.partitions) for topic in image.topics.by_name.values()]
        else:
            topics = [_Changed(one.before.name, id_, one.changed) for id_, one in delta.topics.changed.items()]
        for is_last in (False, True):
            for step in self._change(image, delta.topics.deleted.values(), topics, internal=is_last):
                if not is_last:
                    yield step
        for resource_type, name in delta.configs:
            if resource_type == TOPIC_RESOURCE:
                self._reconfiguration.topic_changed(image, name)

    def _change(
        self, image: MetadataImage, deleted: Iterable[TopicImage], changed: Iterable[_Changed], *, internal: bool
    ) -> Iterator[None]:
        for gone in deleted:
            if (gone.name in INTERNAL_TOPICS) is internal:
                yield from self._delete_topic(gone.name, gone.partitions)
        for topic in changed:
            if (topic.name in INTERNAL_TOPICS) is internal:
                yield from self._apply_topic(image, topic)

    def _apply_topic(self, image: MetadataImage, topic: _Changed) -> Iterator[None]:
        """Applies the partitions led here first, since others wait for them. Those that a start opens later are passed
        over, all of a topic in one step.
        """
        passed_over, node_id, name = False, self._node_id, topic.name
        waiting, get = self._loading.waiting, self._partitions.get
        for leads in (True, False):
            for index, registration in topic.partitions.items():
                if (registration.leader == node_id) is not leads:
                    continue
                if waiting and (name, index) in waiting and get((name, index)) is None:
                    passed_over = True
                    continue
                self._apply_contained(image, topic, index, registration)
                yield
        if passed_over:
            yield

    def _apply_contained(
        self, image: MetadataImage, topic: _Changed | TopicImage, index: int, registration: PartitionImage
    ) -> None:
        """If one partition cannot follow the metadata, the others still do. At the start it is a reason not to start."""
        try:
            self._apply_partition(image, topic.name, topic.id, index, registration)
        except Exception:
            if self._metadata.image is EMPTY_IMAGE:
                raise
            log.exception("a bug: applying the metadata to %s-%d failed", topic.name, index)

    def _apply_loaded(self, image: MetadataImage, key: TopicPartition) -> None:
        """Gives a replica that a start has opened late its role."""
        topic = image.topic(key[0])
        registration = topic.partitions.get(key[1]) if topic is not None else None
        if topic is not None and registration is not None:
            self._apply_contained(image, topic, key[1], registration)

    def _apply_partition(
        self, image: MetadataImage, topic: str, topic_id: bytes, index: int, registration: PartitionImage
    ) -> None:
        hosted = self._partitions.get((topic, index))
        if self._node_id not in registration.replicas:
            if hosted is not None:
                self._partitions.remove(hosted)
            return
        if hosted is None and (topic, index) in self._loading.waiting:
            return
        if hosted is None:
            hosted = self._creation.create(image, topic, topic_id, index, registration)
            if hosted is None:
                return
        self._roles.assign(image, hosted, registration)

    def _delete_topic(self, name: str, indexes: Iterable[int]) -> Iterator[None]:
        for index in indexes:
            hosted = self._partitions.get((name, index))
            if hosted is not None:
                self._partitions.remove(hosted)
                yield
        self._creation.forget_topic(name)


class ReplicaWork(Protocol):
    """The work on replicas that changes of partitions begin."""

    def follow(self, hosted: HostedPartition) -> None:
        """Follows the leader of a replicated partition, after it or its epoch has changed."""

    def propose(self, replica: Replica, proposal: IsrProposal) -> None:
        """Has the controller change the ISR of a partition that is led here."""

    def heal(self, hosted: HostedPartition) -> None:
        """Heals a partition that has damaged records."""

    def damage_met(self, hosted: HostedPartition, damage: BatchError) -> None:
        """Takes up damaged records that a read has met."""


class PartitionsSubsystem(Subsystem):
    """The partitions by their names, and what opens, changes and reports them.

    `halt` ends a node that has no log directory any more.
    """

    name = "partitions"
    interest: Set[Part] = frozenset({"topics", "cluster", "configs"})

    def __init__(
        self,
        config: BrokerConfig,
        clock: Clock,
        metadata: MetadataCache,
        metrics: Metrics,
        lines: RepeatedLines,
        pools: ThreadPools,
        background: BackgroundTasks,
        directories: list[LogDirectory],
        halt: Callable[[Exception], object],
    ) -> None:
        self._config = config
        self._clock = clock
        self._metadata = metadata
        self._metrics = metrics
        self._lines = lines
        self._pools = pools
        self._directories = directories
        self._halt = halt
        pending = PendingPartitions(config.node_id, clock, metadata, lines)
        self.hosted = Partitions(directories, pending, clock, lines, self._directory_failed)
        self.hosted.background = background
        self._controller: Controller | None = None
        self._changes: PartitionChanges | None = None
        self._loading: ReplicaLoading | None = None

    def connect(self, controller: Controller, reports: DirectoryReports, work: ReplicaWork) -> None:
        """Fills the ports, before the first image. `reports` go to the controller."""
        self._controller = controller
        node_id = self._config.node_id
        settings = SettingsByTopic(self._config)
        opening = ReplicaOpening(
            node_id,
            self._clock,
            self._metrics,
            self._pools,
            settings,
            self.hosted,
            IsrRules(self._metadata, self._config.get("replica.lag.time.max.ms"), work.propose),
            work.damage_met,
        )
        placement = ReplicaPlacement(node_id, self._config, self.hosted)
        creation = ReplicaCreation(node_id, self._clock, self._lines, self.hosted, opening, placement, reports)
        loading = self._loading = ReplicaLoading(
            node_id,
            self._clock,
            self.hosted,
            opening,
            self._pools.disk,
            self._broker_epoch,
            lambda: controller.is_alone,
        )
        self.hosted.want = loading.want
        roles = RoleAssignment(node_id, self._clock, self._broker_epoch, work.follow, work.heal)
        reconfiguration = Reconfiguration(self._config, self._metadata, settings, self.hosted)
        self._changes = PartitionChanges(
            node_id, self._metadata, self.hosted, creation, loading, roles, reconfiguration
        )

    def publish(self, delta: MetadataDelta, image: MetadataImage) -> Iterator[None]:
        """Makes and removes replicas, and gives them their roles."""
        assert self._changes is not None, "the work on replicas is not connected"
        return self._changes.steps(delta, image)

    async def stop(self) -> None:
        """Closes the logs: the next start scans nothing, unless the stop stands for a kill."""
        close = partial(self.hosted.close, self._broker_epoch(), clean=self.stops_cleanly)
        stops: list[Stop] = [self._changes.stop] if self._changes is not None else []
        if self._loading is not None:
            stops.append(self._loading.stop)
        await stop_each((*stops, close))

    def _broker_epoch(self) -> int:
        return -1 if self._controller is None else self._controller.broker_epoch

    def _directory_failed(self, failure: LogDirectoryFailure) -> None:
        """One of the directories is offline; without any, the broker cannot go on."""
        if not any(directory.is_online for directory in self._directories):
            self._halt(failure)
