"""The replicas that a start finds on the disk: their owner, and the findings when their logs were opened.

A directory is another topic's only when its `partition.metadata` can be read and has another topic id. A file that cannot be
read is written again: the cluster's metadata has the id of the topic with a replica of this name here.
"""

from __future__ import annotations

import logging
import os
import random
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from ...metadata.image import MetadataImage, TopicPartition
from ...protocol.uuids import uuid_to_text
from ...replication.isr import UNKNOWN_BROKER_EPOCH, IsrProposal
from ...replication.partition import Partition
from ...storage.directory import STRAY_SUFFIX, LogDirectory, ReplicaDirectory, replica_directory_name
from ...storage.files.checkpoints import TopicPartition as CheckpointKey
from ...storage.files.clean_replicas import CleanReplica
from ...storage.files.identity import (
    PARTITION_METADATA,
    CorruptPartitionMetadata,
    is_damaged_copy,
    read_topic_id,
    write_topic_id,
)
from ...storage.files.open_files import LogDirectoryFailure, check_room, set_aside
from ...storage.log.log import Log
from .hosted_partition import HostedPartition

if TYPE_CHECKING:
    from ...metadata.image import PartitionImage
    from ...protocol.records.errors import BatchError
    from ...storage.log.config import LogConfig
    from ..runtime.clock import Clock
    from ..runtime.counters import Metrics
    from ..runtime.log_lines import RepeatedLines
    from ..runtime.metadata_cache import MetadataCache
    from ..runtime.thread_pools import ThreadPools
    from .directories import DirectoryReports
    from .hosted_partition import Replica
    from .partitions import Partitions, ReplicaPlacement
    from .topic_settings import SettingsByTopic


log = logging.getLogger("odradek.partitions")

#: Damaged ranges of one log that a start names; the metrics count the others.
MOST_NAMED_RANGES = 10


def is_ours(
    directory: LogDirectory,
    replica: ReplicaDirectory,
    image: MetadataImage,
    node_id: int,
    noted: CleanReplica | None = None,
) -> bool:
    """Returns whether a directory holds a replica that this broker has. Raises LogDirectoryFailure.

    `noted`: what the last shutdown has noted of it.
    """
    topic = image.topic(replica.topic)
    registration = topic.partitions.get(replica.partition) if topic is not None else None
    if topic is None or registration is None or node_id not in registration.replicas:
        return False
    if noted is not None and noted.topic_id == topic.id:
        return True
    try:
        return _has_topic_id(replica.path, topic.id)
    except OSError as error:
        raise LogDirectoryFailure(directory.path, f"reading {replica.path}/{PARTITION_METADATA}", error) from error


def _has_topic_id(path: str, topic_id: bytes) -> bool:
    name = f"{path}/{PARTITION_METADATA}"
    try:
        found = read_topic_id(path)
        if found is not None and not is_damaged_copy(found, topic_id):
            return found == topic_id
        reason = "missing or empty" if found is None else f"has the topic id {uuid_to_text(found)}"
    except CorruptPartitionMetadata as error:
        reason = str(error)
    except IsADirectoryError:
        reason = f"a directory, renamed to {set_aside(name)}"
    log.warning("%s: %s; rewritten with the topic id %s", name, reason, uuid_to_text(topic_id))
    write_topic_id(path, topic_id)
    return True


def gone_replicas(
    directory: LogDirectory, replicas: Iterable[ReplicaDirectory], image: MetadataImage, node_id: int
) -> list[CheckpointKey]:
    """Returns the replicas that have records by the checkpoints, belong here by the metadata, and are not on the disk."""
    there = {(replica.topic, replica.partition) for replica in replicas}
    gone = []
    for key, offset in directory.checkpoints.high_watermarks.items():
        topic = image.topic(key[0])
        registration = topic.partitions.get(key[1]) if topic is not None else None
        if (
            offset
            and key not in there
            and registration is not None
            and node_id in registration.replicas
            and registration.directory(node_id) == directory.directory_id
        ):
            log.error("%s/%s-%d is missing: its records up to offset %d are lost", directory.path, *key, offset)
            gone.append(key)
    return gone


def rename_stray(directory: LogDirectory, replica: ReplicaDirectory) -> None:
    """Renames a directory that is not this broker's, so that nothing reads it. Raises LogDirectoryFailure."""
    stray = f"{directory.path}/{replica_directory_name(replica.topic, replica.partition, STRAY_SUFFIX)}"
    log.warning("%s is no longer assigned to this broker: renamed to %s", replica.path, stray)
    try:
        os.rename(replica.path, stray)  # noqa: PTH104
    except OSError as error:
        raise LogDirectoryFailure(directory.path, f"renaming {replica.path}", error) from error


def report_opening(opened: Log) -> None:
    """Logs what was rebuilt, cut and found damaged, and saves the damaged ranges in the partition's directory."""
    for note in opened.opening_notes:
        log.warning(note)
    if opened.recovered_bytes:
        log.warning("%s: %d bytes after the last complete batch were cut off", opened.path, opened.recovered_bytes)
    name = f"{opened.topic}-{opened.partition}"
    for number, one in enumerate(opened.damage):
        if number == MOST_NAMED_RANGES:
            log.error("%s: %d more damaged ranges", name, len(opened.damage) - MOST_NAMED_RANGES)
            break
        log.error(
            "%s is damaged: offsets %d to %d cannot be read: %s/%s, %d bytes at position %d: %s",
            name, one.first_offset, one.next_offset - 1, opened.path, one.file, one.size, one.position, one.reason,
        )  # fmt: skip
    try:
        opened.damage.save()
    except OSError as error:
        # They are found again at the next start, or by a reader.
        log.warning("%s: the list of damaged ranges could not be saved: %s", name, error)


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

    def host(self, directory: LogDirectory, image: MetadataImage, opened: Log, high_watermark: int) -> HostedPartition:
        """Adds the replica that has the log."""
        topic, end = opened.topic, opened.log_end_offset
        settings, topic_id = self._settings.of(image, topic), image.topics.by_name[topic].id
        opened.config = settings.log_config  # it may have changed while a thread opened the log
        role = Partition(self._node_id, end, max(opened.local_log_start_offset, min(high_watermark, end)))
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
