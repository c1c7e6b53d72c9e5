"""The partitions hosted here: made, given their roles and removed as the published metadata says.

The first `apply` opens every replica that the log directories hold. What the metadata does not know as this broker's
is put aside under a `-stray` name, never deleted; what is named `-delete` goes in the background. From then on each
delta is followed: new replicas go to the log directory that the metadata names, or to the one with the fewest
partitions.

A log directory that fails takes its partitions offline (KAFKA_STORAGE_ERROR); the others go on.
"""

from __future__ import annotations

import logging
import os
import random
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from ...metadata.image import EMPTY_IMAGE, NO_LEADER, TOPIC_RESOURCE, MetadataImage, PartitionImage, TopicImage
from ...replication.isr import UNKNOWN_BROKER_EPOCH, IsrProposal
from ...replication.partition import Partition
from ...storage.directory import DELETE_SUFFIX, LogDirectory, replica_directory_name
from ...storage.files.checkpoints import TopicPartition
from ...storage.files.open_files import LogDirectoryFailure, check_room
from ...storage.files.partition_metadata import write_topic_id
from ...storage.log.config import LogConfig
from ...storage.log.log import Log
from ..runtime.internal_topics import INTERNAL_TOPICS
from ..runtime.sliced_work import SlicedWork
from .batch_validation import AppendRules, append_rules
from .cordoning import cordoned_directories
from .directory_reports import DirectoryReports
from .hosted_partition import HostedPartition
from .online_directories import write_checkpoints
from .replicas_on_disk import gone_replicas, is_ours, rename_stray, report_opening
from .unmade_partitions import UnmadePartitions

if TYPE_CHECKING:
    from ...metadata.delta import MetadataDelta
    from ..node import Node
    from .replica import Replica

log = logging.getLogger("odradek.partitions")


class _Changed(NamedTuple):
    """A topic with those of its partitions that are new or other."""

    name: str
    id: bytes
    partitions: Mapping[int, PartitionImage]


class TopicSettings(NamedTuple):
    """What a topic's configuration means for its partitions; shared by them."""

    log_config: LogConfig
    rules: AppendRules


class Partitions:
    """By topic and index, and by topic id and index."""

    def __init__(self, broker: Node, directories: list[LogDirectory]) -> None:
        self._broker = broker
        self._node_id = broker.node_id
        self._metrics = broker.metrics
        self.directories = directories
        self._by_name: dict[tuple[str, int], HostedPartition] = {}
        self._by_id: dict[tuple[bytes, int], HostedPartition] = {}
        self._settings: dict[str, TopicSettings] = {}
        self._lag_time_max_ms: int = broker.config.get("replica.lag.time.max.ms")
        self._loaded = False
        self._replicas_in: Counter[LogDirectory] = Counter()
        #: Tells the controller in which directory a replica is.
        self.report = DirectoryReports(broker).add
        #: By the name of the partition, and by its id: bound methods, since every request comes here.
        self.get = self._by_name.get
        self.get_by_id = self._by_id.get
        #: Tried again until there is room for them.
        self.unmade = UnmadePartitions(broker, self._apply_partition)
        #: Of all topics, after a default of theirs has changed.
        self._reconfiguring = SlicedWork(self._reconfiguring_failed)
        broker.config.subscribe(self._broker_config_changed)

    def __iter__(self) -> Iterator[HostedPartition]:
        return iter(list(self._by_name.values()))

    def __len__(self) -> int:
        return len(self._by_name)

    def in_directory(self, directory: LogDirectory) -> list[HostedPartition]:
        return [partition for partition in self._by_name.values() if partition.directory is directory]

    # ---- following the metadata

    def steps(self, delta: MetadataDelta, image: MetadataImage) -> Iterator[None]:
        """`image` is what `delta` led to, and is published behind the last step. What the internal topics have changed is in
        that one, since more has to change with it.
        """
        self._replicas_in.clear()
        if not self._loaded:
            yield from self._load(image)
            self._loaded = True
            topics = [_Changed(topic.name, topic.id, topic.partitions) for topic in image.topics.by_name.values()]
        else:
            topics = [_Changed(one.before.name, id_, one.changed) for id_, one in delta.topics.changed.items()]
        for is_last in (False, True):
            for step in self._change(image, delta.topics.deleted.values(), topics, internal=is_last):
                if not is_last:
                    yield step
        for resource_type, name in delta.configs:
            if resource_type == TOPIC_RESOURCE and name in self._settings:
                self._reconfigure(image, name)

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
        """First what is to be led here: others wait for that."""
        for leads in (True, False):
            for index, registration in topic.partitions.items():
                if (registration.leader == self._node_id) is leads:
                    self._apply_contained(image, topic, index, registration)
                    yield

    def _apply_contained(self, image: MetadataImage, topic: _Changed, index: int, registration: PartitionImage) -> None:
        """If one partition cannot follow the metadata, the others still do. At the start it is a reason not to start."""
        try:
            self._apply_partition(image, topic.name, topic.id, index, registration)
        except Exception:
            if self._broker.image is EMPTY_IMAGE:
                raise
            log.exception("a bug: %s-%d does not follow the metadata", topic.name, index)

    def _apply_partition(
        self, image: MetadataImage, topic: str, topic_id: bytes, index: int, registration: PartitionImage
    ) -> None:
        hosted = self._by_name.get((topic, index))
        if self._node_id not in registration.replicas:
            if hosted is not None:
                self._remove(hosted)
            return
        if hosted is None:
            hosted = self._create(image, topic, topic_id, index, registration)
            if hosted is None:
                return
        if registration.leader == self._node_id and not self._is_registered(image):
            registration = registration._replace(leader=NO_LEADER)
        self._give_role(hosted, registration)

    def _is_registered(self, image: MetadataImage) -> bool:
        """What the metadata says of this broker before its own registration, it says of its life before a crash: that one
        led, and what it had may be lost. Nothing is led, and nothing written, in an epoch of its.
        """
        own = image.broker(self._node_id)
        return own is not None and own.epoch == self._broker.controller.broker_epoch

    def _give_role(self, hosted: HostedPartition, registration: PartitionImage) -> None:
        changed = hosted.take_role(registration, self._broker.now_ms())
        if changed and len(registration.replicas) > 1:
            self._broker.replication().follow(hosted)
        if hosted.log.damage:
            self._broker.healer.wants(hosted)

    def _propose(self, replica: Replica, proposal: IsrProposal) -> None:
        self._broker.replication().isr_changes.propose(replica, proposal)

    def _may_join(self, broker_id: int, broker_epoch: int) -> bool:
        """Whether a broker may be in sync: alive, and the process that fetches is the one that is registered (KIP-903)."""
        found = self._broker.image.broker(broker_id)
        return found is not None and found.is_active and broker_epoch in (UNKNOWN_BROKER_EPOCH, found.epoch)

    def _delete_topic(self, name: str, indexes: Iterable[int]) -> Iterator[None]:
        for index in indexes:
            hosted = self._by_name.get((name, index))
            if hosted is not None:
                self._remove(hosted)
                yield
        self._settings.pop(name, None)
        self._metrics.drop_topic(name)

    def _remove(self, hosted: HostedPartition) -> None:
        """The replica is no longer this broker's."""
        del self._by_name[hosted.topic, hosted.index]
        self._by_id.pop((hosted.topic_id, hosted.index), None)
        hosted.is_removed = True
        hosted.role.is_leader = False
        hosted.wake_all()
        if not hosted.offline:
            try:
                hosted.directory.discard(hosted.log, self._broker.now_ms())
            except LogDirectoryFailure as failure:
                self.directory_failed(failure)

    # ---- replicas on disk

    def _load(self, image: MetadataImage) -> Iterator[None]:
        for directory in self.directories:
            try:
                yield from self._load_directory(directory, image)
            except LogDirectoryFailure as failure:
                self.directory_failed(failure)

    def _load_directory(self, directory: LogDirectory, image: MetadataImage) -> Iterator[None]:
        for note in directory.notes:
            log.warning(note)
        high_watermarks = directory.checkpoints.high_watermarks
        replicas = directory.replicas()
        began_s, opened = time.monotonic(), 0
        for replica in replicas:
            if replica.suffix == DELETE_SUFFIX:
                directory.schedule_delete(replica.path, self._broker.now_ms())
            elif not replica.suffix:
                key = (replica.topic, replica.partition)
                if is_ours(directory, replica, image, self._node_id) and key not in self._by_name:
                    self._open(directory, image, *key, high_watermarks.get(key, 0))
                    opened += 1
                else:
                    rename_stray(directory, replica)
                yield
        how = "a clean stop" if directory.had_clean_shutdown else "a stop that was not clean"
        if opened:
            took_ms = (time.monotonic() - began_s) * 1000
            log.info("%s: %d logs opened after %s in %.0f ms", directory.path, opened, how, took_ms)
        directory.forget_checkpoints(gone_replicas(directory, replicas, image, self._node_id))

    def _create(
        self, image: MetadataImage, topic: str, topic_id: bytes, index: int, registration: PartitionImage
    ) -> HostedPartition | None:
        directory = self._directory_for(registration)
        if directory is None:
            words = f"no log directory is online for {topic}-{index}"
            self._broker.lines.log(log, logging.ERROR, "", "no log directory", words)
            return None
        path = f"{directory.path}/{replica_directory_name(topic, index)}"
        is_new = not os.path.lexists(path)
        try:
            check_room(directory.path)
            hosted = self._open(directory, image, topic, index, 0)
            write_topic_id(hosted.log.path, topic_id, sync=False)
        except (LogDirectoryFailure, OSError) as error:
            if not isinstance(error, LogDirectoryFailure):
                error = LogDirectoryFailure(directory.path, f"creating {topic}-{index}", error)
            self._not_made((topic, index), topic_id, error, path if is_new else None)
            return None
        self.unmade.made(topic, index)
        if directory.directory_id != registration.directory(self._node_id):
            self.report(hosted)
        return hosted

    def _not_made(
        self, key: tuple[str, int], topic_id: bytes, failure: LogDirectoryFailure, new_path: str | None
    ) -> None:
        """For want of room or of a descriptor nothing is offline: the partition is tried again."""
        hosted = self._by_name.pop(key, None)
        self._by_id.pop((topic_id, key[1]), None)
        if not (failure.is_full or failure.is_shortage):
            self.directory_failed(failure)
            return
        self.unmade.add(key, failure, hosted.log if hosted is not None else None, new_path)

    def _directory_for(self, registration: PartitionImage) -> LogDirectory | None:
        """The one that the metadata names, else that with the fewest partitions; a cordoned one for want of others."""
        online = [directory for directory in self.directories if directory.is_online]
        named = registration.directory(self._node_id)
        for directory in online:
            if directory.directory_id == named:
                return directory
        cordoned = cordoned_directories(self._broker.config, self.directories)
        counts = self._counted()
        found = min([d for d in online if d not in cordoned] or online, key=counts.__getitem__, default=None)
        if found is not None:
            counts[found] += 1
        return found

    def _counted(self) -> Counter[LogDirectory]:
        """How many replicas are in each directory; counted once for all that come with one image."""
        if not self._replicas_in:
            self._replicas_in.update(hosted.directory for hosted in self._by_name.values())
        return self._replicas_in

    def _open(
        self, directory: LogDirectory, image: MetadataImage, topic: str, index: int, high_watermark: int
    ) -> HostedPartition:
        settings = self._settings.get(topic) or self._read_settings(image, topic)
        now_ms = self._broker.now_ms()
        opened: Log = directory.open_log(
            topic,
            index,
            settings.log_config,
            now_ms=now_ms,
            is_replicated=len(image.topics.by_name[topic].partitions[index].replicas) > 1,
            jitter=random.random(),
        )
        report_opening(opened)
        end = opened.log_end_offset
        role = Partition(self._node_id, end, max(opened.log_start_offset, min(high_watermark, end)))
        topic_id = image.topics.by_name[topic].id
        counters = self._metrics.topic(topic)
        hosted = HostedPartition(
            topic_id, opened, role, directory, settings.rules, counters, self._broker.pools, self.directory_failed
        )
        hosted.on_proposal = self._propose
        hosted.on_damage = self._broker.scrubber.met
        role.may_join, role.lag_time_max_ms = self._may_join, self._lag_time_max_ms
        self._by_name[topic, index] = hosted
        self._by_id[topic_id, index] = hosted
        return hosted

    def directory_failed(self, failure: LogDirectoryFailure) -> None:
        """Its partitions answer KAFKA_STORAGE_ERROR from now on; without any directory left the broker cannot go on."""
        if failure.is_shortage:
            words = f"a request failed for want of a descriptor: {failure}"
            self._broker.lines.log(log, logging.ERROR, "", "shortage", words)
            return
        for directory in self.directories:
            if directory.path == failure.directory and directory.is_online:
                log.error("log directory %s is offline: %s", directory.path, failure)
                directory.fail()
                for hosted in self.in_directory(directory):
                    hosted.offline = True
                    hosted.wake_all()
        self._broker.log_directory_failed(failure)

    # ---- settings

    def _read_settings(self, image: MetadataImage, topic: str) -> TopicSettings:
        config = self._broker.config
        overrides = dict(image.config(TOPIC_RESOURCE, topic))
        log_config = config.topic_log_config(overrides)
        validation = config.get("odradek.produce.validation")
        settings = TopicSettings(log_config, append_rules(config.topic_values(overrides), log_config, validation))
        self._settings[topic] = settings
        return settings

    def _reconfigure(self, image: MetadataImage, topic: str) -> None:
        settings = self._read_settings(image, topic)
        found = image.topic(topic)
        for index in found.partitions if found is not None else ():
            hosted = self._by_name.get((topic, index))
            if hosted is not None:
                hosted.log.config, hosted.rules = settings
                hosted.settle()

    def _broker_config_changed(self, names: frozenset[str]) -> None:
        """Defaults of topics are keys of the broker. Every topic is told in slices, once more if they change meanwhile."""
        if any(name.startswith(_TOPIC_DEFAULTS) for name in names):
            self._reconfiguring.stop()
            self._reconfiguring.begin(self._reconfigured_topics(), lambda: None)

    def _reconfigured_topics(self) -> Iterator[None]:
        for topic in list(self._settings):
            if topic in self._settings:
                self._reconfigure(self._broker.image, topic)
            yield

    def _reconfiguring_failed(self, failure: Exception) -> None:
        log.error("a bug: topics do not follow a changed default", exc_info=failure)

    # ---- shutdown

    def close(self, broker_epoch: int) -> None:
        """Closes every log and says in each directory that the shutdown was clean."""
        self._reconfiguring.stop()
        self.unmade.stop()
        for directory in self.directories:
            if directory.is_online:
                try:
                    self._close_directory(directory, broker_epoch)
                except LogDirectoryFailure as failure:
                    log.error("closing %s: %s", directory.path, failure)
                directory.close()

    def _close_directory(self, directory: LogDirectory, broker_epoch: int) -> None:
        hosted = self.in_directory(directory)
        for partition in hosted:
            partition.role.is_leader = False  # nothing is written any more, whatever a thread still has of it
        directory.close_logs((partition.log for partition in hosted), self._broker.now_ms())
        if self._loaded:
            write_checkpoints(directory, [partition.log for partition in hosted], self.high_watermarks(directory))
            directory.mark_clean_shutdown(broker_epoch)

    def high_watermarks(self, directory: LogDirectory) -> dict[TopicPartition, int]:
        return {(p.topic, p.index): p.role.high_watermark for p in self.in_directory(directory)}


_TOPIC_DEFAULTS = (
    "log.", "message.", "compression.", "min.insync.replicas", "max.decompressed.message.bytes",
    "producer.id.expiration.ms",
)  # fmt: skip
