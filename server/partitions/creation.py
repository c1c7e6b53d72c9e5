"""Makes the replicas of this broker: opens those that a start finds on the disk, and creates new ones.

- `ReplicaOpening`: opens logs of existing replicas; `ReplicaCreation` creates new ones.
- `ReplicaLoading`: has a start open the replicas that it finds, some at once and the others on a thread.
- `SettingsByTopic`: the settings of topics as their partitions obey them; `Reconfiguration` applies their changes.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from itertools import chain, groupby, islice
from typing import TYPE_CHECKING, Any, NamedTuple

from ...metadata.image import (
    EMPTY_IMAGE,
    INTERNAL_TOPICS,
    TOPIC_RESOURCE,
    MetadataImage,
    PartitionImage,
    TopicPartition,
)
from ...replication.partition import UNKNOWN_BROKER_EPOCH, IsrProposal, Partition
from ...storage.directory import (
    DELETE_SUFFIX,
    FUTURE_SUFFIX,
    LogDirectory,
    ReplicaDirectory,
    replica_directory_name,
)
from ...storage.files.checkpoints import CleanReplica
from ...storage.files.identity import (
    write_topic_id,
)
from ...storage.files.open_files import LogDirectoryFailure, check_room
from ...storage.log.config import LogConfig
from ...storage.log.log import Log
from ...storage.log.small_logs import SeenReplica
from ..runtime.gc_policy import GC_PAUSES
from ..runtime.sliced_work import SlicedWork
from ..runtime.subsystem import MetadataCache
from .batch_validation import AppendRules, append_rules
from .hosted_partition import HostedPartition, Replica
from .partitions import gone_replicas, is_ours, rename_stray, report_opening

if TYPE_CHECKING:
    from ...protocol.records.errors import BatchError
    from ...storage.log.config import LogConfig
    from ..config.broker_config import BrokerConfig
    from ..runtime.clock import Clock
    from ..runtime.counters import Metrics
    from ..runtime.log_lines import RepeatedLines
    from ..runtime.thread_pools import ThreadPool, ThreadPools
    from .partitions import DirectoryReports, Partitions, ReplicaPlacement


log = logging.getLogger("odradek.partitions")

# ---- opening
#
# The opening of replicas' logs.


class IsrRules(NamedTuple):
    """The rules of leaders here for their ISRs. `propose` hands a change to the controller."""

    metadata: MetadataCache
    lag_time_max_ms: int
    propose: Callable[[Replica, IsrProposal], None]

    def may_join(self, broker_id: int, broker_epoch: int) -> bool:
        """Returns whether a broker may be in sync: it is active, and the process that fetches is the registered one
        (KIP-903).
        """
        found = self.metadata.image.broker(broker_id)
        return found is not None and found.is_active and broker_epoch in (UNKNOWN_BROKER_EPOCH, found.epoch)


class ReplicaOpening:
    """Opens logs, and adds their replicas to the partitions.

    `on_damage` is called for each read that meets damaged records.
    """

    def __init__(
        self,
        node_id: int,
        clock: Clock,
        metrics: Metrics,
        pools: ThreadPools,
        settings: SettingsByTopic,
        partitions: Partitions,
        isr_rules: IsrRules,
        on_damage: Callable[[Any, BatchError], None],
    ) -> None:
        self._node_id = node_id
        self._clock = clock
        self._metrics = metrics
        self._pools = pools
        self._settings = settings
        self._partitions = partitions
        self._isr_rules = isr_rules
        self._on_damage = on_damage

    def open(self, directory: LogDirectory, image: MetadataImage, topic: str, index: int) -> HostedPartition:
        """Opens the log of a new replica. Raises LogDirectoryFailure."""
        opened = self.read(directory, image, topic, index, self.log_config(image, topic))
        report_opening(opened)
        return self.host(directory, image, opened, 0)

    def log_config(self, image: MetadataImage, topic: str) -> LogConfig:
        return self._settings.of(image, topic).log_config

    def read(
        self,
        directory: LogDirectory,
        image: MetadataImage,
        topic: str,
        index: int,
        config: LogConfig,
        noted: CleanReplica | None = None,
    ) -> Log:
        """Opens a log. `noted`: see LogDirectory.open_log. Any thread may call it. Raises LogDirectoryFailure."""
        return directory.open_log(
            topic,
            index,
            config,
            now_ms=self._clock.now_ms(),
            is_replicated=len(image.topics.by_name[topic].partitions[index].replicas) > 1,
            noted=noted,
            jitter=random.random(),
        )

    def open_seen(
        self,
        directory: LogDirectory,
        image: MetadataImage,
        replica: ReplicaDirectory,
        seen: SeenReplica,
        *,
        is_replicated: bool,
    ) -> Log | None:
        """Opens a log by its result of `LogDirectory.look_at`; None where `read` has to look at its files."""
        config, now_ms = self.log_config(image, replica.topic), self._clock.now_ms()
        return directory.open_seen(
            replica, config, seen, now_ms=now_ms, is_replicated=is_replicated, jitter=random.random()
        )

    def host(self, directory: LogDirectory, image: MetadataImage, opened: Log, high_watermark: int) -> HostedPartition:
        """Adds the replica that has the log."""
        topic, end = opened.topic, opened.log_end_offset
        settings, topic_id = self._settings.of(image, topic), image.topics.by_name[topic].id
        opened.config = settings.log_config  # it may have changed while a thread opened the log
        known = end if high_watermark >= end else max(opened.local_log_start_offset, high_watermark)
        role = Partition(self._node_id, end, known)
        counters, failed = self._metrics.topic(topic), self._partitions.directory_failed
        hosted = HostedPartition(topic_id, opened, role, directory, settings.rules, counters, self._pools, failed)
        hosted.on_proposal = self._isr_rules.propose
        hosted.on_damage = self._on_damage
        role.may_join, role.lag_time_max_ms = self._isr_rules.may_join, self._isr_rules.lag_time_max_ms
        self._partitions.add(hosted)
        return hosted

    def forget_topic(self, name: str) -> None:
        """Drops what is kept of a topic that was deleted."""
        self._settings.forget(name)
        self._metrics.drop_topic(name)


# ---- creation


class ReplicaCreation:
    """Creates new replicas."""

    def __init__(
        self,
        node_id: int,
        clock: Clock,
        lines: RepeatedLines,
        partitions: Partitions,
        opening: ReplicaOpening,
        placement: ReplicaPlacement,
        reports: DirectoryReports,
    ) -> None:
        self._node_id = node_id
        self._clock = clock
        self._lines = lines
        self._partitions = partitions
        self._opening = opening
        self._placement = placement
        self._reports = reports

    def begin_image(self) -> None:
        """Prepares for the replicas that come with another image."""
        self._placement.begin()

    def forget_topic(self, name: str) -> None:
        self._opening.forget_topic(name)

    def create(
        self, image: MetadataImage, topic: str, topic_id: bytes, index: int, registration: PartitionImage
    ) -> HostedPartition | None:
        """Returns None where no directory is online, or the partition has to wait for room."""
        directory = self._placement.directory_for(registration)
        if directory is None:
            words = f"no log directory is online for {topic}-{index}"
            self._lines.log(log, logging.ERROR, "", "no log directory", words)
            return None
        path = f"{directory.path}/{replica_directory_name(topic, index)}"
        is_new = not os.path.lexists(path)
        try:
            check_room(directory.path)
            hosted = self._opening.open(directory, image, topic, index)
            write_topic_id(hosted.log.path, topic_id, sync=False)
        except (LogDirectoryFailure, OSError) as error:
            if not isinstance(error, LogDirectoryFailure):
                error = LogDirectoryFailure(directory.path, f"creating {topic}-{index}", error)
            self._not_made((topic, index), error, path if is_new else None)
            return None
        self._partitions.pending.made(topic, index)
        if directory.directory_id != registration.directory(self._node_id):
            self._reports.add(hosted)
        return hosted

    def _not_made(self, key: TopicPartition, failure: LogDirectoryFailure, new_path: str | None) -> None:
        """Handles a failed creation. A shortage of room or of descriptors takes no directory offline: the partition is
        tried again.
        """
        hosted = self._partitions.get(key)
        if hosted is not None:
            self._partitions.drop(hosted)
        if not (failure.is_full or failure.is_shortage):
            self._partitions.directory_failed(failure)
            return
        self._partitions.pending.add(key, failure, hosted.log if hosted is not None else None, new_path)


# ---- settings of topics

#: Topics whose logs have no remote part, whatever their configuration (KIP-405).
NEVER_TIERED = INTERNAL_TOPICS | {"__remote_log_metadata"}


class TopicSettings(NamedTuple):
    """A topic's configuration as its partitions use it; shared by them."""

    log_config: LogConfig
    rules: AppendRules


class SettingsByTopic:
    """The settings of all topics with partitions here. Topics that override nothing share one object."""

    def __init__(self, config: BrokerConfig) -> None:
        self._config = config
        self._by_topic: dict[str, TopicSettings] = {}
        self._defaults = self._made({})

    def __contains__(self, topic: object) -> bool:
        return topic in self._by_topic

    def topics(self) -> list[str]:
        return list(self._by_topic)

    def of(self, image: MetadataImage, topic: str) -> TopicSettings:
        if topic not in self._by_topic:
            self.refresh(image, topic)
        return self._by_topic[topic]

    def refresh(self, image: MetadataImage, topic: str) -> bool:
        """Reads the settings of a topic. Returns whether they differ from the ones before."""
        overrides = image.config(TOPIC_RESOURCE, topic)
        settings = self._made(dict(overrides)) if overrides else self._defaults
        if settings.log_config.remote_storage and (settings.log_config.compact or topic in NEVER_TIERED):
            settings = settings._replace(log_config=replace(settings.log_config, remote_storage=False))
        before = self._by_topic.get(topic)
        self._by_topic[topic] = settings
        return settings != before

    def refresh_defaults(self) -> bool:
        """Reads the broker's defaults for topics. Returns whether they differ from the ones before."""
        before, self._defaults = self._defaults, self._made({})
        return self._defaults != before

    def forget(self, topic: str) -> None:
        self._by_topic.pop(topic, None)

    def _made(self, overrides: dict[str, str]) -> TopicSettings:
        config = self._config
        log_config = config.topic_log_config(overrides)
        validation = config.get("odradek.produce.validation")
        return TopicSettings(log_config, append_rules(config.topic_values(overrides), log_config, validation))


class Reconfiguration:
    """Hands changed settings to the partitions: at once for a topic, in slices for a default of many topics."""

    def __init__(
        self, config: BrokerConfig, metadata: MetadataCache, settings: SettingsByTopic, partitions: Partitions
    ) -> None:
        self._metadata = metadata
        self._settings = settings
        self._partitions = partitions
        self._slices = SlicedWork(self._failed)
        #: Topics some of whose partitions have not got the settings that the topic has.
        self._unfinished: set[str] = set()
        config.subscribe(self._broker_config_changed)

    def topic_changed(self, image: MetadataImage, topic: str) -> None:
        """Handles a change of the topic's own configuration."""
        if topic in self._settings:
            for _ in self._reconfigure(image, topic):
                pass

    def stop(self) -> None:
        self._slices.stop()

    def _broker_config_changed(self, _: frozenset[str]) -> None:
        """Reconfigures the topics that inherit a changed default. A change meanwhile begins anew."""
        if self._settings.refresh_defaults():
            self._slices.stop()
            self._slices.begin(self._reconfigure_all(), lambda: None)

    def _reconfigure_all(self) -> Iterator[None]:
        topics = self._settings.topics()
        self._unfinished.intersection_update(topics)
        for topic in topics:
            if topic in self._settings:
                yield from self._reconfigure(self._metadata.image, topic)
            yield

    def _reconfigure(self, image: MetadataImage, topic: str) -> Iterator[None]:
        if not self._settings.refresh(image, topic) and topic not in self._unfinished:
            return  # it overrides every default that changed
        self._unfinished.add(topic)
        found = image.topic(topic)
        for index in found.partitions if found is not None else ():
            hosted = self._partitions.get((topic, index))
            if hosted is not None:
                hosted.log.config, hosted.rules = self._settings.of(image, topic)
                hosted.refresh_append_state()
                yield
        self._unfinished.discard(topic)

    def _failed(self, failure: Exception) -> None:
        log.error("a bug: applying a changed default to topics failed", exc_info=failure)


# ---- loading
#
# The opening of the replicas that a start finds in the log directories.
#
# A node among others opens all of them with its first image: other brokers lead meanwhile. A single node has no others, and
# ten thousand logs take a second. So it opens the internal topics' replicas, whose coordinators start with the first image,
# and `OPENED_AT_FIRST` of the others; then it serves, and a thread opens the rest. Until a replica is opened, requests for
# it get NOT_LEADER_OR_FOLLOWER, which clients retry, and it is opened before those that no request has named.
#
# Images that come meanwhile leave out the replicas that are not open: each takes its role from the newest image when it is.
# So nothing is made in the place of one, and a topic that was deleted meanwhile is removed when its replica is opened.


#: Replicas that are opened before a single node serves: some tenths of a second.
OPENED_AT_FIRST = 1000
#: A thread opens so many at a time, or as many as it can in this time: the loop then gives them their roles, 5 ms for all.
OPENED_AT_A_TIME = 200
LEAST_AT_A_TIME = 25
OPENING_S = 0.02
#: One thread opens the logs: two that share the interpreter take twice the CPU. While it has read one for so long, another
#: opens those behind it.
LARGE_LOG_S = 0.1
#: Nothing is collected while a start makes replicas, or for so long where their logs have to be read.
LONGEST_GC_PAUSE_S = 10
#: From one try to the next while no descriptor is left.
SHORTAGE_S = 0.5
#: The background task's name in logs, metrics and health.
TASK = "opening of replicas"


class Found(NamedTuple):
    """A replica's folder."""

    directory: LogDirectory
    replica: ReplicaDirectory
    #: The topic and the partition.
    key: TopicPartition


class Opened(NamedTuple):
    """`log`: None for a folder that is not a replica of this broker."""

    found: Found
    log: Log | None


class Looks(NamedTuple):
    """Results of `LogDirectory.look_at`, and the time that they took."""

    seen: list[SeenReplica | None]
    took_s: float


class Batch(NamedTuple):
    """Folders to open, and what a thread sees of those that are `found`. `others`: those that were looked at before."""

    keys: list[TopicPartition]
    found: list[Found]
    others: list[Found]
    looks: asyncio.Future[Looks]


#: A topic that the metadata does not have.
_NO_TOPIC_ID = bytes(16)


def _look_at(found: list[Found], topic_ids: dict[str, bytes]) -> Looks:
    """Looks at the files of replicas. Any thread may call it."""
    seen: list[SeenReplica | None] = []
    began_s = time.monotonic()
    for directory, group in groupby(found, key=lambda one: one.directory):
        seen += directory.look_at([(one.replica, topic_ids.get(one.key[0], _NO_TOPIC_ID)) for one in group])
    return Looks(seen, time.monotonic() - began_s)


class _Progress:
    """The opened logs of a directory, for the broker's log."""

    def __init__(self, gone: list[TopicPartition]) -> None:
        self.gone = gone
        self.began_s = time.monotonic()
        self.opened = 0


class ReplicaLoading:
    """Opens replicas. `apply` gives a partition its role, or makes it, by an image. `is_alone` returns whether no other node
    takes part in the quorum.
    """

    def __init__(
        self,
        node_id: int,
        clock: Clock,
        partitions: Partitions,
        opening: ReplicaOpening,
        disk: ThreadPool,
        broker_epoch: Callable[[], int],
        is_alone: Callable[[], bool],
    ) -> None:
        self._node_id = node_id
        self._clock = clock
        self._partitions = partitions
        self._opening = opening
        self._disk = disk
        self._broker_epoch = broker_epoch
        self._is_alone = is_alone
        self.apply: Callable[[MetadataImage, TopicPartition], object] = lambda image, key: None
        #: Whether the first image has come.
        self.has_begun = False
        #: The image that decides which replicas are this broker's, and the newest one that the partitions have followed.
        self._first = self._newest = EMPTY_IMAGE
        self._waiting: dict[TopicPartition, list[Found]] = {}
        #: Those of the waiting ones that requests have named.
        self._wanted: dict[TopicPartition, None] = {}
        #: Those of them that a thread opens.
        self._in_work: set[TopicPartition] = set()
        #: The size of the next batch: twice that of the one before, unless a look at its files took `LARGE_LOG_S`.
        self._at_a_time = LEAST_AT_A_TIME
        #: Those that a look among many was not enough for, and that a thread has not come to yet.
        self._looked_at: set[TopicPartition] = set()
        #: The batch after the one that is being opened: a thread looks at its files meanwhile.
        self._ahead: Batch | None = None
        #: The number of times that the first thread has opened some.
        self._batches = 0
        self._progress: dict[LogDirectory, _Progress] = {}
        self._task: asyncio.Task[None] | None = None
        #: The pause of the garbage collector, while many replicas are made.
        self._gc_pause = ExitStack()
        self._is_stopped = False
        #: Set while no image is being followed.
        self._may_apply = asyncio.Event()
        self._may_apply.set()

    # ---- at the first image

    def load(self, image: MetadataImage) -> Iterator[None]:
        """Opens the replicas that the log directories hold, or those that a single node needs at first."""
        self.has_begun = True
        self._first = self._newest = image
        at_first, later = self._found(image)
        for one in at_first:
            if not one.directory.is_online:
                continue
            try:
                self._take(self._open(one, self._config(one.key[0])))
            except LogDirectoryFailure as failure:
                self._partitions.directory_failed(failure)
            yield
        for one in later:
            self._waiting.setdefault(one.key, []).append(one)
        if self._waiting:
            log.info("%d logs are opened while the node serves", len(later))
            self._task = asyncio.get_running_loop().create_task(self._load_waiting())
        else:
            self._end()

    def _found(self, image: MetadataImage) -> tuple[list[Found], list[Found]]:
        """Returns the replicas to open at first, and those to open later."""
        internal: list[Found] = []
        others: list[Found] = []
        may_wait = self._is_alone() and len(image.cluster.brokers) == 1
        for directory in self._partitions.directories:
            for replica in self._list(directory, image):
                if replica.suffix == DELETE_SUFFIX:
                    directory.schedule_delete(replica.path, self._clock.now_ms())
                elif replica.suffix == FUTURE_SUFFIX:
                    may_wait = False  # moves are resumed when the replicas that move are there
                elif not replica.suffix:
                    key = replica.topic, replica.partition
                    (internal if key[0] in INTERNAL_TOPICS else others).append(Found(directory, replica, key))
        count = OPENED_AT_FIRST if may_wait else len(others)
        return internal + others[:count], others[count:]

    def _list(self, directory: LogDirectory, image: MetadataImage) -> list[ReplicaDirectory]:
        for note in directory.notes:
            log.warning(note)
        directory.broker_epoch = self._broker_epoch()
        replicas: list[ReplicaDirectory] = []
        try:
            replicas = directory.replicas()
        except LogDirectoryFailure as failure:
            self._partitions.directory_failed(failure)
        gone = gone_replicas(directory, replicas, image, self._node_id)
        self._progress[directory] = _Progress(gone)
        # A new partition may have the name of one that was here long ago.
        directory.keep_checkpoints({(one.topic, one.partition) for one in replicas}.union(gone))
        return replicas

    # ---- one replica

    def _config(self, topic: str) -> LogConfig | None:
        """Returns the configuration of a topic's logs; None where the newest image has no such topic."""
        return self._opening.log_config(self._newest, topic) if self._newest.topic(topic) is not None else None

    def _open(self, found: Found, config: LogConfig | None) -> Opened:
        """Opens a log. Any thread may call it. Raises LogDirectoryFailure."""
        directory, replica, key = found
        noted = directory.unchanged(replica)
        is_first = self._partitions.get(key) is None
        if not is_first or not is_ours(directory, replica, self._first, self._node_id, noted):
            return Opened(found, None)
        return Opened(found, self._opening.read(directory, self._first, *key, config or LogConfig(), noted))

    def _take(self, opened: Opened) -> None:
        """Adds the replica, if it still is one of this broker. Raises LogDirectoryFailure."""
        directory, replica, key = opened.found
        image = self._newest
        topic = image.topic(key[0])
        high_watermark = directory.checkpoints.high_watermarks.get(key, 0)
        directory.forget_checkpoint(key)
        if opened.log is None or self._partitions.get(key) is not None:
            rename_stray(directory, replica)
            return
        if opened.log.unused_note is None:
            report_opening(opened.log)
        registration = topic.partitions.get(key[1]) if topic is not None else None
        is_current = topic is not None and topic.id == self._first.topics.by_name[key[0]].id
        if not is_current or registration is None or self._node_id not in registration.replicas:
            directory.discard(opened.log, self._clock.now_ms())
            return
        self._opening.host(directory, image, opened.log, high_watermark)
        self._progress[directory].opened += 1

    # ---- later

    def want(self, key: TopicPartition) -> None:
        """Opens a replica that waits before others, since a request has named it."""
        if key in self._waiting:
            self._wanted[key] = None

    @property
    def waiting(self) -> Mapping[TopicPartition, object]:
        """Returns the replicas that are not open yet."""
        return self._waiting

    @contextmanager
    def paused(self, image: MetadataImage) -> Iterator[None]:
        """Gives no replica a role while the others follow `image`, which leaves out those that wait."""
        self._may_apply.clear()
        try:
            yield
        finally:
            self._newest = image
            self._may_apply.set()

    async def _load_waiting(self) -> None:
        self._gc_pause.enter_context(GC_PAUSES.pause(freeze=True))
        end_of_pause = asyncio.get_running_loop().call_later(LONGEST_GC_PAUSE_S, self._gc_pause.close)
        try:
            await self._load_all_waiting()
        finally:
            end_of_pause.cancel()
            self._gc_pause.close()
            if self._ahead is not None:
                await asyncio.wait([self._ahead.looks])
        # After a failure those that wait stay without a leader, and the next stop is not a clean one.
        if not self._waiting and not self._is_stopped:
            self._end()

    async def _load_all_waiting(self) -> None:
        first = asyncio.ensure_future(self._load_some_and_more())
        while not first.done():
            before = self._batches
            await asyncio.wait([first], timeout=LARGE_LOG_S)
            await self._load_some_and_more(beside=before)
        await self._load_some_and_more()  # after a failure of the first one

    async def _load_some_and_more(self, beside: int | None = None) -> None:
        """`beside`: the number of batches; as long as it is that, the first thread reads one log."""
        while beside in (None, self._batches) and (batch := self._begin()):
            try:
                await self._load_some(batch)
            except Exception as failure:
                self._partitions.background.failed(TASK, failure)
                return
            self._in_work.difference_update(batch.keys)
            self._batches += beside is None

    def _begin(self) -> Batch | None:
        """Returns the replicas to open now. A thread looks at their files."""
        if self._ahead is not None:
            batch, self._ahead = self._ahead, None
            return batch
        keys = self._next()
        if not keys:
            return None
        found = [one for key in keys if key not in self._looked_at for one in self._waiting[key]]
        others = [one for key in keys if key in self._looked_at for one in self._waiting[key]]
        topics = [self._newest.topic(name) for name in {key[0] for key in keys}]
        topic_ids = {topic.name: topic.id for topic in topics if topic is not None}
        return Batch(keys, found, others, asyncio.ensure_future(self._disk.run(_look_at, found, topic_ids)))

    def _next(self) -> list[TopicPartition]:
        """Returns the replicas to open now, first those that requests have named."""
        if self._is_stopped:
            return []
        wanted, self._wanted = self._wanted, {}
        waiting = chain((key for key in wanted if key in self._waiting), self._waiting)
        self._at_a_time = min(self._at_a_time, OPENED_AT_A_TIME)
        keys = list(dict.fromkeys(islice((key for key in waiting if key not in self._in_work), self._at_a_time)))
        self._in_work.update(keys)
        return keys

    async def _load_some(self, batch: Batch) -> None:
        looks = await batch.looks
        self._at_a_time = LEAST_AT_A_TIME if looks.took_s > LARGE_LOG_S else self._at_a_time * 2
        await self._may_apply.wait()
        if self._ahead is None:
            self._ahead = self._begin()
        others = batch.others
        if self._is_stopped:
            return
        for found, seen in zip(batch.found, looks.seen, strict=True):
            if seen is None or not self._take_seen(found, seen):
                others.append(found)
        if others:
            self._looked_at.update(one.key for one in others)
            await self._load_others(others)
            self._looked_at.intersection_update(self._waiting)
        else:
            await asyncio.sleep(0)  # others have their turn
        if not all(directory.is_online for directory in self._partitions.directories):
            for found in [one for key in batch.keys for one in self._waiting.get(key, ())]:
                if not found.directory.is_online:
                    self._leave(found)

    def _take_seen(self, found: Found, seen: SeenReplica) -> bool:
        """Opens a log that a thread has looked at. Returns False where one has to look at more of its files."""
        directory, replica, key = found
        topic = self._newest.topic(key[0])
        registration = topic.partitions.get(key[1]) if topic is not None else None
        if (
            topic is None
            or registration is None
            or self._node_id not in registration.replicas
            or seen.noted.topic_id != topic.id
            or not directory.is_online
            or self._partitions.get(key) is not None
        ):
            return False
        is_replicated = len(registration.replicas) > 1
        opened = self._opening.open_seen(directory, self._newest, replica, seen, is_replicated=is_replicated)
        if opened is None:
            return False
        high_watermark = directory.checkpoints.high_watermarks.get(key, 0)
        directory.forget_checkpoint(key)
        self._opening.host(directory, self._newest, opened, high_watermark)
        self._progress[directory].opened += 1
        self._leave(found)
        return True

    async def _load_others(self, wanted: list[Found]) -> None:
        """Opens logs whose files a thread has to look at."""
        configs = {topic: self._config(topic) for topic in {found.key[0] for found in wanted}}
        asked = [(found, configs[found.key[0]]) for found in wanted]
        opened, failures = await self._disk.run(self._open_some, asked)
        await self._may_apply.wait()
        if self._is_stopped:
            return
        for failure in failures:
            self._partitions.directory_failed(failure)
        if any(failure.is_shortage for failure in failures):
            await asyncio.sleep(SHORTAGE_S)
        for one in opened:
            if one.found.directory.is_online:
                try:
                    self._take(one)
                except LogDirectoryFailure as failure:
                    self._partitions.directory_failed(failure)
                self._leave(one.found)

    def _open_some(
        self, wanted: list[tuple[Found, LogConfig | None]]
    ) -> tuple[list[Opened], list[LogDirectoryFailure]]:
        """Opens some of the logs, on a thread."""
        opened, failures, until = [], [], time.monotonic() + OPENING_S
        for one, config in wanted:
            try:
                if one.directory.is_online:
                    opened.append(self._open(one, config))
            except LogDirectoryFailure as failure:
                failures.append(failure)
                break
            if self._is_stopped or time.monotonic() > until:
                break
        return opened, failures

    def _leave(self, found: Found) -> None:
        """Ends the wait of a folder; the partition has its role afterwards, or is made if the folder was not its replica."""
        folders = self._waiting[found.key]
        folders.remove(found)
        if not folders:
            del self._waiting[found.key]
            self.apply(self._newest, found.key)

    def _end(self) -> None:
        for directory, progress in self._progress.items():
            how = "a clean shutdown" if directory.had_clean_shutdown else "an unclean shutdown"
            if progress.opened:
                took_ms = (time.monotonic() - progress.began_s) * 1000
                log.info("%s: %d logs opened after %s in %.0f ms", directory.path, progress.opened, how, took_ms)
            directory.forget_checkpoints(progress.gone)
        self._progress, self._first = {}, EMPTY_IMAGE
        self._partitions.are_loaded = True

    async def stop(self) -> None:
        """Opens no more replicas. The stop is not a clean one then, and the next start opens them."""
        self._is_stopped = True
        self._may_apply.set()
        if self._task is not None:
            await self._task
