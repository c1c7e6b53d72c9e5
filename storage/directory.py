"""A log directory: the broker that owns it, its exclusive lock, and the partitions in it.

```
.lock                          held while the directory is in use
meta.properties                cluster, node and directory id
.kafka_cleanshutdown           the last shutdown was clean; removed as soon as the directory is used again
odradek-in-use                 see files/directory_lock.py
odradek-clean-replicas         see files/clean_replicas.py
*-offset-checkpoint            see files/checkpoints.py
<topic>-<partition>            a replica
<topic>-<partition>.<hex>-future   one that is being copied here from another log directory
<topic>-<partition>.<hex>-delete   a deleted one, whose files go in the background
<topic>-<partition>.<hex>-stray    one that the cluster does not know as this broker's; kept until an operator looks
```
"""

from __future__ import annotations

import json
import os
import re
import shutil
import threading
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from .claims import GONE, CheckpointClaims
from .files.checkpoints import (
    HIGH_WATERMARKS,
    LOG_START_OFFSETS,
    RECOVERY_POINTS,
    FoundOffsets,
    TopicPartition,
    find_offsets,
)
from .files.clean_replicas import (
    CLEAN_REPLICAS_FILE,
    QUIET_NS,
    CleanReplica,
    add_clean_replicas,
    compact_clean_replicas,
    folder_time,
    read_clean_replicas,
    write_clean_replicas,
)
from .files.directory_lock import lock
from .files.failures import LogDirectoryFailure
from .files.meta_properties import MetaProperties, read_meta_properties
from .files.modes import make_folder, restrict, restrict_folder
from .files.note_states import NoteState, compare_with_notes
from .files.open_files import OPEN_FILES, OpenFiles
from .files.partition_directory import PartitionDirectory
from .files.use_mark import USE_FILE, read_use_mark, write_use_mark
from .files.writes import read_if_exists, set_aside, unlink_if_exists, write_atomically
from .log.config import LogConfig
from .log.ends import PROVEN, UNPROVEN, Claim
from .log.log import Log
from .log.small_folders import read_grown_logs, read_small_folders
from .log.small_log import SeenReplica
from .log.unopened import UnopenedLog, find_log, opened

CLEAN_SHUTDOWN_FILE = ".kafka_cleanshutdown"
DELETE_SUFFIX = "-delete"
FUTURE_SUFFIX = "-future"
STRAY_SUFFIX = "-stray"
#: The KRaft log lies in a log directory too, and is not one of its replicas.
METADATA_LOG = ("__cluster_metadata", 0)
LONGEST_NAME = 255
#: A sync of one log takes some milliseconds on a disk; one of everything, as long as there is something to write.
_MOST_SINGLE_SYNCS = 64

#: The notes of some ten thousand replicas.
_LEAST_NOTES_BYTES = 2 << 20

_REPLICA = re.compile(
    r"(?P<topic>[a-zA-Z0-9._-]+)-(?P<partition>\d+)(?:\.(?P<id>[^.]+)(?P<suffix>-future|-delete|-stray))?"
)


class ReplicaDirectory(NamedTuple):
    """The directory of a partition. `suffix` is "", or one of the suffixes above."""

    topic: str
    partition: int
    path: str
    suffix: str


@dataclass(slots=True)
class Checkpoints:
    """The checkpoints of a log directory."""

    recovery_points: dict[TopicPartition, int] = field(default_factory=dict)
    log_start_offsets: dict[TopicPartition, int] = field(default_factory=dict)
    high_watermarks: dict[TopicPartition, int] = field(default_factory=dict)

    def has(self, key: TopicPartition) -> bool:
        return key in self.high_watermarks or key in self.recovery_points or key in self.log_start_offsets


def replica_directory_name(topic: str, partition: int, suffix: str = "") -> str:
    """A replica's directory, with a suffix made unique; a deleted topic's name is cut where the two would be too long."""
    if not suffix:
        return f"{topic}-{partition}"
    rest = f"-{partition}.{os.urandom(16).hex()}{suffix}"
    return topic[: LONGEST_NAME - len(rest)] + rest


def parse_replica_directory(path: str) -> ReplicaDirectory | None:
    """None for a name that is no partition's."""
    return _replica_directory(os.path.basename(path), path)


def _replica_directory(name: str, path: str) -> ReplicaDirectory | None:
    match = _REPLICA.fullmatch(name)
    if match is None:
        return None
    topic, partition, suffix = match.group("topic", "partition", "suffix")
    return ReplicaDirectory(topic, int(partition), path, suffix or "")


def _listed_replica(name: str, path: str, topics: dict[str, str]) -> ReplicaDirectory | None:
    """Reads a name. `topics`: the names of topics that are valid, which the replicas of a topic share."""
    topic, _, digits = name.rpartition("-")
    known = topics.get(topic)
    if known is not None and digits.isascii() and digits.isdigit():
        return ReplicaDirectory(known, int(digits), path, "")
    found = _replica_directory(name, path)
    if found is not None and not found.suffix:
        topics[found.topic] = found.topic
    return found


class LogDirectory:
    """In use from `open` to `close`, or until a LogDirectoryFailure makes the server take it offline (`fail`).

    `had_clean_shutdown` and `previous_broker_epoch` are of the shutdown before this start. `interrupted_broker_epoch`: that
    of a broker without such a shutdown whose writes all are in the files, since only its process ended; else None.
    `broker_epoch`: that of the broker that uses the directory from now on. `notes`: what was odd about the files in here
    when it was opened, a line each.
    """

    __slots__ = (
        "_clean_replicas",
        "_compact_notes_at",
        "_in_use",
        "_lock",
        "_proven",
        "_scheduled_deletions",
        "_sources",
        "broker_epoch",
        "checkpoints",
        "claims",
        "had_clean_shutdown",
        "interrupted_broker_epoch",
        "is_online",
        "keeps_notes",
        "meta_properties",
        "notes",
        "path",
        "previous_broker_epoch",
    )  # fmt: skip

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.path.abspath(path)
        self.is_online = True
        #: Whether notes of a running broker may count at the next start.
        self.keeps_notes = False
        self.meta_properties: MetaProperties | None = None
        self.had_clean_shutdown = False
        self.previous_broker_epoch = self.broker_epoch = -1
        self.interrupted_broker_epoch: int | None = None
        self.checkpoints = Checkpoints()
        #: The checkpoints as the disk has them.
        self.claims = CheckpointClaims(self.path, {})
        self.notes: list[str] = []
        #: The checkpoints whose checksum is right.
        self._proven: set[str] = set()
        #: The weights and files of claims, by recovery point, log start offset and high watermark.
        self._sources: list[tuple[int, str]] = []
        #: Those with notes that count; none once all are open.
        self._clean_replicas: dict[TopicPartition, CleanReplica] = {}
        #: The size of the file of notes from which it is compacted.
        self._compact_notes_at = _LEAST_NOTES_BYTES
        self._lock: int | None = None
        self._in_use = False
        # Directories of deleted replicas, and when their files may go.
        self._scheduled_deletions: list[tuple[int, str]] = []

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> LogDirectory:
        """Makes the directory if need be, locks it, and reads what is known of it. Formatting is the caller's.

        Raises DirectoryInUse, LogDirectoryFailure, InvalidMetaProperties.
        """
        directory = cls(path)
        try:
            make_folder(directory.path)
            directory._lock = lock(directory.path)
            try:
                directory._read()
                if directory.meta_properties is not None:  # formatted, so the folder is this program's
                    directory._restrict()
            except BaseException:
                directory.close()
                raise
        except OSError as error:
            raise LogDirectoryFailure(directory.path, "opening it", error) from error
        return directory

    def _restrict(self) -> None:
        """Takes the rights of others, which older versions and Apache Kafka give. Each log does so for its folder."""
        restrict(self.path)
        with os.scandir(self.path) as entries:
            for entry in entries:
                if not entry.is_dir(follow_symlinks=False):
                    if entry.is_file(follow_symlinks=False):
                        restrict(entry.path)
                elif "." in entry.name:  # deleted, stray, set aside
                    restrict_folder(entry.path)

    @property
    def directory_id(self) -> bytes | None:
        return self.meta_properties.directory_id if self.meta_properties is not None else None

    def _read(self) -> None:
        self.meta_properties = read_meta_properties(self.path)
        found, on_disk = self.checkpoints, dict[str, dict[TopicPartition, int]]()
        for name, offsets in (
            (RECOVERY_POINTS, found.recovery_points),
            (LOG_START_OFFSETS, found.log_start_offsets),
            (HIGH_WATERMARKS, found.high_watermarks),
        ):
            read = find_offsets(self.path, name)
            self._take(name, read, offsets)
            on_disk[name] = read.offsets
            self._sources.append((PROVEN if name in self._proven else UNPROVEN, f"{self.path}/{name}"))
        self.claims = CheckpointClaims(self.path, on_disk)
        for name in (CLEAN_SHUTDOWN_FILE, USE_FILE, CLEAN_REPLICAS_FILE):
            path = f"{self.path}/{name}"
            if os.path.isdir(path):
                self.notes.append(f"{path}: a directory, renamed to {set_aside(path)}; the logs are recovered")
        content = read_if_exists(f"{self.path}/{CLEAN_SHUTDOWN_FILE}")
        self.had_clean_shutdown = content is not None
        if not self.had_clean_shutdown:
            self.interrupted_broker_epoch = read_use_mark(self.path)
        if self.had_clean_shutdown or self.interrupted_broker_epoch is not None:
            self._clean_replicas = read_clean_replicas(self.path)
        lacks_ends = not found.recovery_points and content is not None and bool(self.replicas())
        if not lacks_ends:
            self.previous_broker_epoch = _broker_epoch_of(content)
        else:
            # Nothing tells where the logs ended, so a cut one looks whole: the controller must not count on them.
            self.notes.append(
                f"{self.path}/{RECOVERY_POINTS}: has no entries for the logs; the broker registers as after an "
                "unclean shutdown"
            )

    def _take(self, name: str, checkpoint: FoundOffsets, offsets: dict[TopicPartition, int]) -> None:
        offsets.update(checkpoint.offsets)
        if checkpoint.is_proven:
            self._proven.add(name)
        if checkpoint.note is not None:
            self.notes.append(checkpoint.note)

    def _claims(self, key: TopicPartition, *, is_replicated: bool) -> list[Claim]:
        """Returns the ends of a log by the checkpoints.

        They count for the first opening only: the next log of the name is another.

        After a crash, the recovery point of a replica does not count: others may not have had the records below it. Nor
        does a checkpoint of another program, which may cut a log before it lowers what the checkpoint claims.
        """
        found = self.checkpoints
        may_be_cut = is_replicated and not self.had_clean_shutdown
        flushed = 0 if may_be_cut else found.recovery_points.get(key, 0)
        offsets = flushed, found.log_start_offsets.get(key, 0), found.high_watermarks.get(key, 0)
        return [
            Claim(offset, weight, source)
            for offset, (weight, source) in zip(offsets, self._sources, strict=True)
            if offset and (weight == PROVEN or not may_be_cut)
        ]

    def _begin_use(self) -> None:
        """Starts the use of the directory. A crash is assumed at the next start unless `mark_clean_shutdown` ran."""
        self._in_use = True
        counts = self.had_clean_shutdown or self.interrupted_broker_epoch is not None
        try:
            # Notes that do not count now must be gone before the mark is of this boot.
            if not counts:
                unlink_if_exists(f"{self.path}/{CLEAN_REPLICAS_FILE}")
            self.keeps_notes = write_use_mark(self.path, self.broker_epoch)
            if not self.keeps_notes:
                unlink_if_exists(f"{self.path}/{CLEAN_REPLICAS_FILE}")
            unlink_if_exists(f"{self.path}/{CLEAN_SHUTDOWN_FILE}")
        except OSError as error:
            raise LogDirectoryFailure(self.path, "beginning to use it", error) from error

    def notes_of(
        self, replicas: Iterable[tuple[Log | UnopenedLog, bytes]]
    ) -> list[tuple[TopicPartition, CleanReplica]]:
        """Returns notes of closed logs, which come with their topic ids, for `mark_clean_shutdown`."""
        return [
            ((log.topic, log.partition), note)
            for log, topic_id in replicas
            if (note := _noted(log, topic_id)) is not None
        ]

    def mark_clean_shutdown(self, broker_epoch: int, noted: Sequence[tuple[TopicPartition, CleanReplica]] = ()) -> None:
        """Last of all: every log is closed and the checkpoints are written.

        It vouches for each replica in here. So all of them are opened at the start, also those that no client uses.
        """
        content = json.dumps({"version": 0, "brokerEpoch": broker_epoch}, separators=(",", ":")).encode()
        try:
            if noted:
                write_clean_replicas(self.path, noted)
            write_atomically(f"{self.path}/{CLEAN_SHUTDOWN_FILE}", content)
        except OSError as error:
            raise LogDirectoryFailure(self.path, "marking a clean shutdown", error) from error

    def note_idle(
        self, log: Log | UnopenedLog, topic_id: bytes, now_ns: int
    ) -> tuple[TopicPartition, CleanReplica] | None:
        """Returns the note of a replica that has not changed for a while, for `add_notes`; None where it has.

        `now_ns`: the time by the clock of the file system.
        """
        note = _noted(log, topic_id, now_ns - QUIET_NS)
        if note is None:
            return None
        log.noted_end = log.log_end_offset
        return (log.topic, log.partition), note

    def add_notes(self, notes: Iterable[tuple[TopicPartition, CleanReplica]]) -> None:
        """Writes notes of a running broker, which save the start after its process was killed some work. Any thread may
        call it.
        """
        try:
            if add_clean_replicas(self.path, notes) > self._compact_notes_at:
                self._compact_notes_at = 2 * compact_clean_replicas(self.path) + _LEAST_NOTES_BYTES
        except OSError as error:
            raise LogDirectoryFailure(self.path, "noting replicas", error) from error

    def close(self) -> None:
        """Lets go of the directory."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def fail(self) -> None:
        """The disk failed: nothing in here is touched again."""
        self.is_online = False
        self.close()

    # ---- replicas

    def replicas(self, ending: str = "") -> list[ReplicaDirectory]:
        """The directories of partitions in here, those with a suffix too; `__cluster_metadata-0` is not one of them.
        With an `ending`, those whose names end so.
        """
        try:
            with os.scandir(self.path) as listed:
                names = [one.name for one in listed if one.name.endswith(ending) and one.is_dir(follow_symlinks=True)]
        except OSError as error:
            raise LogDirectoryFailure(self.path, "listing it", error) from error
        topics: dict[str, str] = {}
        found = [_listed_replica(name, f"{self.path}/{name}", topics) for name in names]
        metadata_log, number = METADATA_LOG
        return [one for one in found if one is not None and (one.topic != metadata_log or one.partition != number)]

    def unchanged(self, replica: ReplicaDirectory) -> CleanReplica | None:
        """Returns the note of a replica whose folder was not changed since."""
        noted = self._clean_replicas.get((replica.topic, replica.partition))
        return noted if noted is not None and noted.modified_ns == folder_time(replica.path) else None

    def look_at(self, replicas: Sequence[tuple[ReplicaDirectory, bytes]]) -> list[SeenReplica | None]:
        """Looks at the files of many replicas, each with the id of its topic. Returns None for those whose logs `open_log`
        has to look at. Any thread may call it, and others run meanwhile.
        """
        notes = [self._clean_replicas.get(replica[:2]) for replica, _ in replicas]
        found: list[SeenReplica | None] = [None] * len(replicas)
        grown, others = [], []
        states = compare_with_notes([(one[0].path, noted) for one, noted in zip(replicas, notes, strict=True)])
        for number, (noted, state) in enumerate(zip(notes, states, strict=True)):
            if noted is not None and state is NoteState.SAME_FILES:
                found[number] = SeenReplica(noted, True)
            elif noted is not None and noted.log is not None and state is NoteState.SAME_FOLDER:
                grown.append((number, (replicas[number][0].path, noted)))
            else:
                others.append((number, (replicas[number][0].path, replicas[number][1])))
        if not self.had_clean_shutdown:
            for (number, _), seen in zip(grown, read_grown_logs([one for _, one in grown]), strict=True):
                found[number] = seen
            for (number, _), seen in zip(others, read_small_folders([one for _, one in others]), strict=True):
                found[number] = seen
        return found

    def open_seen(
        self,
        replica: ReplicaDirectory,
        config: LogConfig,
        seen: SeenReplica,
        *,
        now_ms: int,
        is_replicated: bool,
        jitter: float,
    ) -> UnopenedLog | None:
        """The log of a replica from its result of `look_at`, without another look at its files: as `open_log`. Returns None
        where `open_log` has to look at them.
        """
        topic, partition = key = replica[:2]
        if not self._in_use or replica.path != f"{self.path}/{topic}-{partition}":
            return None
        found, clean = self.checkpoints, self.had_clean_shutdown
        recovery_point = flushed = found.recovery_points.get(key, 0)
        log_start_offset = found.log_start_offsets.get(key, 0)
        if is_replicated and not clean:
            flushed = 0  # see `_claims`
        claimed = max(flushed, log_start_offset, found.high_watermarks.get(key, 0))
        folder, note = PartitionDirectory(replica.path), seen.noted
        if not seen.is_noted:
            assert not clean, "after a clean shutdown the batches are not read"
            log = UnopenedLog.recovered(folder, config, log_start_offset, recovery_point, claimed, seen=seen)
        elif note.log is not None and note.log.has_producers:
            return None  # their snapshot may be damaged
        else:
            log = UnopenedLog.of(folder, note, config, log_start_offset, recovery_point, claimed, clean=clean)
        if log is not None:
            log.begin(topic, partition, OPEN_FILES, jitter, now_ms)
        return log

    def open_log(
        self,
        topic: str,
        partition: int,
        config: LogConfig,
        *,
        now_ms: int,
        path: str | None = None,
        is_replicated: bool = False,
        noted: CleanReplica | None = None,
    ) -> Log:
        """The log of a replica in here, opened; see `find_log`."""
        log = self.find_log(
            topic, partition, config, now_ms=now_ms, path=path, is_replicated=is_replicated, noted=noted
        )
        return opened(log)

    def find_log(
        self,
        topic: str,
        partition: int,
        config: LogConfig,
        *,
        now_ms: int,
        path: str | None = None,
        is_replicated: bool = False,
        noted: CleanReplica | None = None,
        jitter: float = 0.0,
        files: OpenFiles = OPEN_FILES,
    ) -> Log | UnopenedLog:
        """The log of a replica in here, made if it does not exist; see `find_log` in
        log/unopened.py. `path`: its directory, where it has a suffix.

        `is_replicated`: the partition has other replicas. `noted`: the result of `unchanged`.
        """
        key = (topic, partition)
        current = path is None
        if not self._in_use:
            self._begin_use()
        found = self.checkpoints
        has_checkpoints = found.recovery_points or found.log_start_offsets or found.high_watermarks
        if current and not (has_checkpoints and found.has(key)):
            self.claims.begin(key)
        claims = self._claims(key, is_replicated=is_replicated) if current and has_checkpoints else []
        return find_log(
            path or f"{self.path}/{replica_directory_name(topic, partition)}",
            topic,
            partition,
            config,
            now_ms=now_ms,
            recovery_point=found.recovery_points.get(key, 0) if current else 0,
            log_start_offset=found.log_start_offsets.get(key, 0) if current else 0,
            claims=claims,
            clean=self.had_clean_shutdown,
            noted=noted,
            jitter=jitter,
            files=files,
        )

    def keep_checkpoints(self, keep: Collection[TopicPartition]) -> None:
        """The checkpoints of other replicas are outdated."""
        for offsets in (
            self.checkpoints.recovery_points,
            self.checkpoints.log_start_offsets,
            self.checkpoints.high_watermarks,
        ):
            for key in offsets.keys() - keep:
                del offsets[key]
                self.claims.limit(key, GONE)

    def forget_checkpoint(self, key: TopicPartition) -> None:
        """The replica is open, or deleted: the next one of its name is another."""
        found = self.checkpoints
        found.recovery_points.pop(key, None)
        found.log_start_offsets.pop(key, None)
        found.high_watermarks.pop(key, None)

    def forget_checkpoints(self, keep: Collection[TopicPartition] = ()) -> None:
        """Every replica is open: whatever is made from now on is new, but for those in `keep`, whose files are gone."""
        self._clean_replicas = {}
        before, self.checkpoints = self.checkpoints, Checkpoints()
        for old, new in (
            (before.recovery_points, self.checkpoints.recovery_points),
            (before.log_start_offsets, self.checkpoints.log_start_offsets),
            (before.high_watermarks, self.checkpoints.high_watermarks),
        ):
            new.update((key, offset) for key, offset in old.items() if key in keep)

    def close_logs(
        self, logs: Iterable[Log | UnopenedLog], now_ms: int, meanwhile: Callable[[], object] = lambda: None
    ) -> None:
        """Closes all logs of the directory cleanly. Many are synced at once, instead of file by file for minutes.

        `meanwhile` is called once they are closed: what it does takes no longer than the wait for the disk.
        """
        closing = list(logs)
        unflushed = sum(log.is_unflushed for log in closing)
        at_once = unflushed > _MOST_SINGLE_SYNCS
        for log in closing:
            log.close(now_ms, sync=not at_once)
        if not at_once:
            meanwhile()
            return
        syncing = threading.Thread(target=os.sync, name="sync")
        syncing.start()
        try:
            meanwhile()
        finally:
            syncing.join()

    def future_path(self, topic: str, partition: int) -> str:
        """A directory for a replica that is to be copied here."""
        return f"{self.path}/{replica_directory_name(topic, partition, FUTURE_SUFFIX)}"

    def rename(self, log: Log | UnopenedLog, suffix: str) -> str:
        """Gives a log's directory another suffix, "" for none; the log continues there. Returns the new path."""
        path = f"{self.path}/{replica_directory_name(log.topic, log.partition, suffix)}"
        log.move_to(path)
        return path

    def discard(self, log: Log | UnopenedLog, now_ms: int) -> None:
        """Deletes a replica: closed and out of the way at once, its files in the background (`delete_scheduled`)."""
        key, was_current = (log.topic, log.partition), not log.path.endswith(FUTURE_SUFFIX)
        path = self.rename(log, DELETE_SUFFIX)
        if was_current:
            self.forget_checkpoint(key)
            self.claims.limit(key, GONE)
        log.close(now_ms, clean=False)
        self.schedule_delete(path, now_ms + log.config.file_delete_delay_ms)

    def schedule_delete(self, path: str, due_ms: int) -> None:
        """Has a directory deleted from `due_ms` on: that of a deleted replica that was found at the start, too."""
        self._scheduled_deletions.append((due_ms, path))

    @property
    def has_scheduled_deletions(self) -> bool:
        return bool(self._scheduled_deletions)

    def delete_scheduled(self, now_ms: int) -> int:
        """Removes the files of deleted replicas whose time has come; how many still wait. Any thread may call it."""
        due = [path for due_ms, path in self._scheduled_deletions if due_ms <= now_ms]
        self._scheduled_deletions = [(due_ms, path) for due_ms, path in self._scheduled_deletions if due_ms > now_ms]
        for path in due:
            try:
                shutil.rmtree(path)
            except FileNotFoundError:
                continue
            except OSError as error:
                raise LogDirectoryFailure(self.path, f"deleting {path}", error) from error
        return len(self._scheduled_deletions)


def _noted(log: Log | UnopenedLog, topic_id: bytes, quiet_since_ns: int | None = None) -> CleanReplica | None:
    """Returns the note of a replica; None where it cannot be made, or its files have changed since then.

    That of a log that was not used stays as it is: the next start compares it with the folder and the files.
    """
    if isinstance(log, UnopenedLog):
        unused = log.note
        return unused if unused.topic_id == topic_id else unused._replace(topic_id=topic_id)
    modified_ns = folder_time(log.path)
    if modified_ns is None or (quiet_since_ns is not None and modified_ns > quiet_since_ns):
        return None
    if not log.has_files:
        return CleanReplica(topic_id, modified_ns, False)
    note = log.to_note(quiet_since_ns)
    return CleanReplica(topic_id, modified_ns, True, note) if note is not None or quiet_since_ns is None else None


def checkpoints_of(logs: Iterable[Log | UnopenedLog]) -> Checkpoints:
    """Returns the checkpoints of these logs, all of one directory, for `write_offsets`.

    As in Kafka a log start is noted only where the first segment's name does not say it, and always of logs with a remote
    part.
    """
    found = Checkpoints()
    for log in logs:
        key = (log.topic, log.partition)
        found.recovery_points[key] = log.recovery_point
        if log.log_start_offset > log.first_base_offset or log.config.remote_storage:
            found.log_start_offsets[key] = log.log_start_offset
    return found


def _broker_epoch_of(content: bytes | None) -> int:
    """Returns the broker epoch in `.kafka_cleanshutdown`, or -1: older brokers leave the file empty."""
    try:
        return int(json.loads(content or b"")["brokerEpoch"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return -1
