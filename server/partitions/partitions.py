"""The partitions hosted here, and the log directories that they are in.

- `open_directories`, `write_checkpoints`: the log directories of a broker as a whole. Those that fail to open are
  left out while another is there.
- `is_ours`, `gone_replicas`, `report_opening`: the owners of the directories on the disk, and the findings when their
  logs were opened.
- `DirectoryReports`: reports the directories of replicas to the controller.
- `cordoned_directories`, `ReplicaPlacement`: the choice of a directory for a new replica.
- `PendingPartitions`: partitions that wait for room.
- `Partitions`: the partitions. A log directory that fails takes its partitions offline (KAFKA_STORAGE_ERROR); the
  others go on.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence, ValuesView
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from ...metadata.image import MetadataImage, PartitionImage, TopicIdPartition, TopicPartition
from ...protocol.errors import ErrorCode
from ...protocol.schema import Message, ResponseCallback
from ...protocol.uuids import uuid_to_text
from ...storage.directory import (
    STRAY_SUFFIX,
    LogDirectory,
    ReplicaDirectory,
    checkpoints_of,
    replica_directory_name,
)
from ...storage.files.checkpoints import (
    HIGH_WATERMARKS,
    LOG_START_OFFSETS,
    RECOVERY_POINTS,
    CleanReplica,
    write_offsets,
)
from ...storage.files.identity import (
    PARTITION_METADATA,
    CorruptPartitionMetadata,
    encode_partition_metadata,
    is_damaged_copy,
    read_topic_id,
    write_topic_id,
)
from ...storage.files.open_files import LogDirectoryFailure, read_if_exists, set_aside
from ...storage.log.log import Log
from ..runtime.counters import BackgroundTasks
from ..runtime.gc_policy import GC_PAUSES

if TYPE_CHECKING:
    from ..config.broker_config import BrokerConfig
    from ..runtime.clock import Clock
    from ..runtime.log_lines import RepeatedLines
    from ..runtime.subsystem import MetadataCache
    from .hosted_partition import HostedPartition
    from .remote_port import RemotePort


# ---- log directories

directories_log = logging.getLogger("odradek.broker")


def open_directories(paths: Iterable[str], opened: list[LogDirectory]) -> None:
    """Appends the directories that can be opened, as in Kafka. Raises LogDirectoryFailure when none can.

    The owner of the list closes them, also when this raises.
    """
    failures: list[LogDirectoryFailure] = []
    for path in paths:
        try:
            opened.append(LogDirectory.open(path))
        except LogDirectoryFailure as failure:
            directories_log.error("log directory %s is offline: %s", path, failure)
            failures.append(failure)
    if not opened:
        raise failures[0]


def write_checkpoints(directory: LogDirectory, logs: Sequence[Log], high_watermarks: dict[TopicPartition, int]) -> None:
    """Writes the checkpoints of all logs of a directory at a clean stop. Raises LogDirectoryFailure."""
    found = checkpoints_of(logs)
    write_offsets(directory.path, RECOVERY_POINTS, found.recovery_points)
    write_offsets(directory.path, LOG_START_OFFSETS, found.log_start_offsets)
    write_offsets(directory.path, HIGH_WATERMARKS, high_watermarks)


log = logging.getLogger("odradek.partitions")

# ---- replicas found on the disk
#
# A directory is another topic's only when its `partition.metadata` can be read and has another topic id. A file that
# cannot be read is written again: the cluster's metadata has the id of the topic with a replica of this name here.

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
        if read_if_exists(name) == encode_partition_metadata(topic_id):
            return True
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
) -> list[TopicPartition]:
    """Returns the replicas that have records by the checkpoints, belong here by the metadata, and are not on the disk."""
    there = {(replica.topic, replica.partition) for replica in replicas}
    gone = []
    for key, offset in directory.checkpoints.high_watermarks.items():
        if key in there:
            continue
        topic = image.topic(key[0])
        registration = topic.partitions.get(key[1]) if topic is not None else None
        if (
            offset
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


# ---- reports to the controller
#
# Reports the log directories of replicas to the controller where the metadata has none or another one (KIP-858).


_ASSIGN_VERSION = 0


class Controller(Protocol):
    """The controller that replicas' directories are reported to: this node's own, or the active one through it."""

    @property
    def broker_epoch(self) -> int:
        """The epoch of this broker's registration."""

    @property
    def is_alone(self) -> bool:
        """Whether no other node has taken part in the quorum."""

    def submit(self, request: Message, version: int, reply: ResponseCallback, /) -> None:
        """Has the active controller handle the request. `reply` is called with the response."""


class DirectoryReports:
    """The reports that are to be sent."""

    def __init__(self, node_id: int, controller: Controller) -> None:
        self._node_id = node_id
        self._controller = controller
        #: (topic id, index) -> the replica's directory.
        self._to_report: dict[TopicIdPartition, LogDirectory] = {}

    def add(self, hosted: HostedPartition) -> None:
        """Adds a report. It is sent when this image is published, together with the others of the image."""
        if not self._to_report:
            asyncio.get_running_loop().call_soon(self._send)
        self._to_report[hosted.topic_id, hosted.index] = hosted.directory

    def _send(self) -> None:
        from ...protocol.messages.log_dirs import (  # for a broker with several directories
            AssignReplicasToDirsRequest,
            DirectoryDataRequest,
            PartitionDataRequest,
            TopicDataRequest,
        )

        controller = self._controller
        directories: dict[bytes, dict[bytes, TopicDataRequest]] = {}
        for (topic_id, index), directory in self._to_report.items():
            if directory.directory_id is not None:
                topics = directories.setdefault(directory.directory_id, {})
                topic = topics.setdefault(topic_id, TopicDataRequest(topic_id))
                topic.partitions.append(PartitionDataRequest(index))
        self._to_report = {}
        request = AssignReplicasToDirsRequest(
            self._node_id,
            controller.broker_epoch,
            [DirectoryDataRequest(name, list(topics.values())) for name, topics in directories.items()],
        )
        controller.submit(request, _ASSIGN_VERSION, _check_reported)


def _check_reported(response: Message) -> None:
    from ...protocol.messages.log_dirs import AssignReplicasToDirsResponse

    assert isinstance(response, AssignReplicasToDirsResponse)
    if response.error_code:
        log.error(
            "the controller rejected the assignment of replicas to log directories: %s",
            ErrorCode(response.error_code).name,
        )


# ---- cordoned directories
#
# Log directories that accept no new replicas (`cordoned.log.dirs`, KIP-1066).
#
# Existing replicas stay. The controller places no new replicas on a broker whose directories are all cordoned. It
# learns this from heartbeats; a changed configuration sends one immediately (`controller/driver.py`).


CORDONED_KEY = "cordoned.log.dirs"


def cordoned_directories(config: BrokerConfig, directories: Sequence[LogDirectory]) -> list[LogDirectory]:
    """Returns those of `directories` that the configuration names, by path or by "*"."""
    named = config.get(CORDONED_KEY) or ()
    paths = {os.path.abspath(name) for name in named}  # noqa: PTH100  (as LogDirectory has its path)
    return [directory for directory in directories if "*" in named or directory.path in paths]


def cordoned_ids(config: BrokerConfig, directories: Sequence[LogDirectory]) -> list[bytes]:
    """Returns the ids of the cordoned directories that could be read."""
    return [d.directory_id for d in cordoned_directories(config, directories) if d.directory_id is not None]


# ---- placement
#
# The choice of a log directory for a new replica.


class ReplicaPlacement:
    """Counts the replicas in each directory once for all that come with one image; `begin` starts anew."""

    def __init__(self, node_id: int, config: BrokerConfig, partitions: Partitions) -> None:
        self._node_id = node_id
        self._config = config
        self._partitions = partitions
        self._replicas_in: Counter[LogDirectory] = Counter()

    def begin(self) -> None:
        self._replicas_in.clear()

    def directory_for(self, registration: PartitionImage) -> LogDirectory | None:
        """Returns the directory that the metadata names, or else the one with the fewest partitions. A cordoned one is
        chosen only where no other is online.
        """
        directories = self._partitions.directories
        online = [directory for directory in directories if directory.is_online]
        named = registration.directory(self._node_id)
        for directory in online:
            if directory.directory_id == named:
                return directory
        cordoned = cordoned_directories(self._config, directories)
        counts = self._counted()
        found = min([d for d in online if d not in cordoned] or online, key=counts.__getitem__, default=None)
        if found is not None:
            counts[found] += 1
        return found

    def _counted(self) -> Counter[LogDirectory]:
        if not self._replicas_in:
            self._replicas_in.update(hosted.directory for hosted in self._partitions.values())
        return self._replicas_in


# ---- pending partitions
#
# Partitions that belong here and could not be made: the disk has no room for them, or the process no descriptor.
#
# The stored data may be whole when there is no room for more: the log directory stays online. Such a partition
# answers KAFKA_STORAGE_ERROR, a coordinator that lives in it COORDINATOR_NOT_AVAILABLE, and it is tried again until
# the metadata gives it to others.


#: From one try to the next: a person who makes room does not wait long, and a try is a few system calls.
RETRY_S = 2.0
#: Partitions that are made in one turn of the loop; the others in the next ones.
MOST_IN_A_TURN = 20


class Make(Protocol):
    """Makes one partition, and gives it its role. `registration`: that of the partition in the image."""

    def __call__(
        self, image: MetadataImage, topic: str, topic_id: bytes, index: int, registration: PartitionImage, /
    ) -> None: ...


def _not_yet(image: MetadataImage, topic: str, topic_id: bytes, index: int, registration: PartitionImage, /) -> None:
    raise AssertionError(f"nothing makes {topic}-{index}")


class PendingPartitions:
    """The partitions that wait for room."""

    def __init__(self, node_id: int, clock: Clock, metadata: MetadataCache, lines: RepeatedLines) -> None:
        self._node_id = node_id
        self._clock = clock
        self._metadata = metadata
        self._lines = lines
        #: Set once, by the part that makes partitions.
        self.make: Make = _not_yet
        #: Called with the image after some were made: coordinators may live in them.
        self.on_made: list[Callable[[MetadataImage], object]] = []
        #: By topic and index, in the order in which they are tried.
        self._waiting: dict[TopicPartition, None] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._is_paused = False

    def __contains__(self, key: object) -> bool:
        return key in self._waiting

    def __len__(self) -> int:
        return len(self._waiting)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Makes nothing while another image is applied in slices: the published one may be outdated."""
        self._is_paused = True
        try:
            yield
        finally:
            self._is_paused = False

    def add(self, key: TopicPartition, failure: LogDirectoryFailure, made: Log | None, new_path: str | None) -> None:
        """Adds a partition, and removes what its creation left behind, since others need the room. Older files stay."""
        if made is not None:
            made.close(self._clock.now_ms(), clean=False)
        if new_path is not None:
            self._remove(new_path)
        words = f"{key[0]}-{key[1]} cannot be created yet; creation is retried: {failure}"
        self._lines.log(log, logging.ERROR, "", ("pending", failure.directory), words)
        self._waiting.pop(key, None)
        self._waiting[key] = None
        self._plan(RETRY_S)

    def made(self, topic: str, index: int) -> None:
        self._waiting.pop((topic, index), None)

    def stop(self) -> None:
        self._waiting.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _remove(self, path: str) -> None:
        """Removes a directory, or leaves it for the next try."""
        try:
            shutil.rmtree(path)
        except FileNotFoundError:
            return
        except OSError as error:
            self._lines.log(
                log, logging.WARNING, "", "undo", f"{path} cannot be removed yet; removal is retried: {error}"
            )

    def _plan(self, delay_s: float) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(delay_s, self._try_again)

    def _try_again(self) -> None:
        self._timer = None
        if self._is_paused:
            self._plan(RETRY_S)
            return
        image, count, has_room = self._metadata.image, 0, True
        for key in list(self._waiting)[:MOST_IN_A_TURN]:
            topic = image.topic(key[0])
            registration = topic.partitions.get(key[1]) if topic is not None else None
            if topic is None or registration is None or self._node_id not in registration.replicas:
                del self._waiting[key]
                continue
            self.make(image, topic.name, topic.id, key[1], registration)
            has_room = key not in self._waiting
            if not has_room:
                break
            count += 1
        if count:
            log.info("%d delayed partitions were created; %d still wait for disk space", count, len(self._waiting))
            for function in self.on_made:
                function(image)
        if self._waiting:
            self._plan(0 if has_room else RETRY_S)


# ---- partitions


def _ignore(key: TopicPartition) -> None:
    """Before the first image nothing is opened."""


class Partitions:
    """By topic and index, and by topic id and index.

    `pending`: the partitions that are tried again until there is room for them. `on_directory_failed` is called after a
    directory has failed: without any, the broker cannot go on.
    """

    def __init__(
        self,
        directories: list[LogDirectory],
        pending: PendingPartitions,
        clock: Clock,
        lines: RepeatedLines,
        on_directory_failed: Callable[[LogDirectoryFailure], object],
    ) -> None:
        self.directories = directories
        self.pending = pending
        self._clock = clock
        self._lines = lines
        self._on_directory_failed = on_directory_failed
        self._by_name: dict[TopicPartition, HostedPartition] = {}
        self._by_id: dict[TopicIdPartition, HostedPartition] = {}
        #: Takes failures of background work on partitions.
        self.background = BackgroundTasks()
        #: Tiered storage; None where it is not enabled.
        self.remote: RemotePort | None = None
        #: True when the replicas in the directories have been opened.
        self.are_loaded = False
        #: Called with a partition of this broker that a request has named, and that may not be open yet.
        self.want: Callable[[TopicPartition], object] = _ignore
        #: By the name of the partition, and by its id: bound methods, since every request comes here.
        self.get = self._by_name.get
        self.get_by_id = self._by_id.get

    def __iter__(self) -> Iterator[HostedPartition]:
        return iter(list(self._by_name.values()))

    def __len__(self) -> int:
        return len(self._by_name)

    def values(self) -> ValuesView[HostedPartition]:
        """Returns a view of all partitions, without a copy."""
        return self._by_name.values()

    def in_directory(self, directory: LogDirectory) -> list[HostedPartition]:
        return [partition for partition in self._by_name.values() if partition.directory is directory]

    def replicas_on_disk(self, suffix: str) -> Iterator[ReplicaDirectory]:
        """Yields the replicas of one kind in the directories that are online."""
        for directory in self.directories:
            if directory.is_online:
                yield from directory.replicas(suffix)

    def high_watermarks(self, directory: LogDirectory) -> dict[TopicPartition, int]:
        return {(p.topic, p.index): p.role.high_watermark for p in self.in_directory(directory)}

    # ---- changes

    def add(self, hosted: HostedPartition) -> None:
        self._by_name[hosted.topic, hosted.index] = hosted
        self._by_id[hosted.topic_id, hosted.index] = hosted

    def drop(self, hosted: HostedPartition) -> None:
        """Forgets a replica, without a change of its own."""
        del self._by_name[hosted.topic, hosted.index]
        self._by_id.pop((hosted.topic_id, hosted.index), None)

    def remove(self, hosted: HostedPartition) -> None:
        """Removes a replica that is no longer this broker's. Its files go in the background."""
        self.drop(hosted)
        hosted.is_removed = True
        hosted.role.is_leader = False
        hosted.wake_all()
        if not hosted.offline:
            try:
                hosted.directory.discard(hosted.log, self._clock.now_ms())
            except LogDirectoryFailure as failure:
                self.directory_failed(failure)

    def directory_failed(self, failure: LogDirectoryFailure) -> None:
        """Takes a directory offline: its partitions answer KAFKA_STORAGE_ERROR from now on."""
        if failure.is_shortage:
            words = f"a request failed because no file descriptor was left: {failure}"
            self._lines.log(log, logging.ERROR, "", "shortage", words)
            return
        for directory in self.directories:
            if directory.path == failure.directory and directory.is_online:
                log.error("log directory %s is offline: %s", directory.path, failure)
                directory.fail()
                for hosted in self.in_directory(directory):
                    hosted.offline = True
                    hosted.wake_all()
        self._on_directory_failed(failure)

    # ---- shutdown

    def close(self, broker_epoch: int, *, clean: bool = True) -> None:
        """Closes every log, and marks in each directory that the shutdown was clean. Without `clean` nothing is flushed,
        noted or marked, as in a process that is killed.
        """
        self.pending.stop()
        with GC_PAUSES.pause():
            for directory in self.directories:
                if directory.is_online:
                    try:
                        self._close_directory(directory, broker_epoch, clean=clean)
                    except LogDirectoryFailure as failure:
                        log.error("closing %s: %s", directory.path, failure)
                    directory.close()

    def _close_directory(self, directory: LogDirectory, broker_epoch: int, *, clean: bool) -> None:
        hosted = self.in_directory(directory)
        for partition in hosted:
            partition.role.is_leader = False  # nothing is written any more, whatever a thread still has of it
            partition.refresh_append_state()
        if not clean:
            for partition in hosted:
                partition.log.close(self._clock.now_ms(), clean=False)
            return
        logs, noted = [partition.log for partition in hosted], list[tuple[TopicPartition, CleanReplica]]()

        def note() -> None:
            if self.are_loaded:
                noted.extend(directory.notes_of((one.log, one.topic_id) for one in hosted))

        directory.close_logs(logs, self._clock.now_ms(), note)
        if self.are_loaded:
            write_checkpoints(directory, logs, self.high_watermarks(directory))
            directory.mark_clean_shutdown(broker_epoch, noted)
