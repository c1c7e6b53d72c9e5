"""Finds damage in the data directory of a stopped node, and carries out what an operator decides about it.

Finding damage changes nothing. A decision keeps the old bytes under a `.damaged` name. `survey` reads what a damaged
metadata log still holds, without changing it: the voters, and what truncation at the damage would lose.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from ...protocol.codec import MalformedMessage
from ...protocol.internal.cluster_metadata import RemoveTopicRecord, TopicRecord
from ...protocol.records.batch import BatchHeader
from ...protocol.records.control import LeaderChangeMessage, decode_control
from ...protocol.records.errors import BatchError
from ...protocol.records.record import decode_batch
from ...protocol.uuids import uuid_to_text
from ...replication.controller.state import random_uuid
from ...replication.quorum.log import SnapshotId
from ...storage.directory import METADATA_LOG, parse_replica_directory
from ...storage.files.checkpoints import (
    CLEANER_OFFSETS,
    HIGH_WATERMARKS,
    LOG_START_OFFSETS,
    RECOVERY_POINTS,
    inspect_offsets,
)
from ...storage.files.identity import (
    META_PROPERTIES,
    CorruptPartitionMetadata,
    CorruptQuorumState,
    InvalidMetaProperties,
    MetaProperties,
    QuorumState,
    check_unused,
    read_meta_properties,
    read_quorum_state,
    read_topic_id,
    write_meta_properties,
    write_quorum_state,
)
from ...storage.files.open_files import (
    LOG_SUFFIX,
    LogDirectoryFailure,
    PartitionDirectory,
    base_offset_of,
    make_folder,
    set_aside,
)
from ...storage.log.loading import DamagedLog
from ...storage.segments.batches import DEFAULT_INDEX_INTERVAL_BYTES, WholeBatches, scan
from ...storage.segments.damage import Damage
from .metadata_log import DIRECTORY_NAME, FlushedEnd, QuorumVoters, control_batches, decode_batches, sound_snapshots


class Finding(NamedTuple):
    """Damage, in words. `decision`: the option of `odradek repair` that ends it; None where a start mends it by itself."""

    words: str
    decision: str | None = None


class MetadataEnd(NamedTuple):
    """The end of the readable part of the metadata log: the segment's file, position and offset. `lost` describes in words
    what follows.
    """

    file: Path | None
    position: int
    offset: int
    lost: str


def findings(directory: Path) -> Iterator[Finding]:
    """Yields the damage. Raises OSError, LogDirectoryFailure."""
    yield from _of_meta_properties(directory)
    for name in (RECOVERY_POINTS, LOG_START_OFFSETS, HIGH_WATERMARKS, CLEANER_OFFSETS):
        note = inspect_offsets(str(directory), name).note
        if note is not None:
            yield Finding(note)
    yield from _of_metadata(directory / DIRECTORY_NAME)
    for path in sorted(directory.iterdir()):
        replica = parse_replica_directory(str(path)) if path.is_dir() else None
        if replica is not None and not replica.suffix and replica[:2] != METADATA_LOG:
            yield from _of_partition(path)


def _of_meta_properties(directory: Path) -> Iterator[Finding]:
    try:
        properties = read_meta_properties(str(directory))
        if properties is None:
            check_unused(str(directory))
    except InvalidMetaProperties as error:
        yield Finding(str(error).partition("; ")[0], "--write-meta-properties")
        return
    if properties is None:
        yield Finding(f"{directory / META_PROPERTIES}: missing; the directory is not formatted")
        return
    for voter in survey(directory / DIRECTORY_NAME).quorum.voters:
        if voter.voter_id == properties.node_id and voter.voter_directory_id != properties.directory_id:
            yield Finding(
                f"{directory / META_PROPERTIES}: its directory.id is not {uuid_to_text(voter.voter_directory_id)}, that of "
                "the voter in the metadata log",
                "--write-meta-properties",
            )


def _of_metadata(directory: Path) -> Iterator[Finding]:
    for path, reason in sound_snapshots(directory).damaged:
        yield Finding(f"{path}: damaged ({reason})")
    end = metadata_end(directory)
    if end is not None:
        yield Finding(end.lost, "--cut-metadata")
    try:
        read_quorum_state(directory)
    except CorruptQuorumState as error:
        yield Finding(str(error), "--forget-votes")


def metadata_end(directory: Path) -> MetadataEnd | None:
    """Returns the end of a log that is damaged or lacks flushed records; None for one that is whole."""
    snapshots = sound_snapshots(directory).sound
    expected = snapshots[-1].end_offset if snapshots else 0
    offset, file, position = 0, None, 0
    for file in segments(directory):
        base, size = base_offset_of(file.name) or 0, file.stat().st_size
        found = scan(str(file), base, size, DEFAULT_INDEX_INTERVAL_BYTES, is_dense=True)
        hole = next((one for one in found.holes if one.next_offset > expected), None)
        if hole is not None:
            return MetadataEnd(
                file, hole.position, hole.first_offset, _loss(directory, file, hole.position, hole.first_offset)
            )
        offset, position = found.next_offset, found.size
    recorded = FlushedEnd(directory.parent).recorded.end_offset
    if max(recorded, expected) <= offset:
        return None
    return MetadataEnd(file, position, offset, _loss(directory, file, position, offset, recorded))


def _loss(directory: Path, file: Path | None, position: int, offset: int, recorded: int = 0) -> str:
    found = survey(directory)
    words = [f"{file or directory}: damaged at position {position}, offset {offset}"]
    if recorded:
        words.append(f"the log ended at offset {recorded}")
    topics = found.topics_from(offset)
    words.append(f"a cut there loses {found.records_from(offset)} readable records")
    if topics:
        words.append(f"{len(topics)} topics among them ({named(topics)})")
    return ", ".join(words)


def _of_partition(path: Path) -> Iterator[Finding]:
    try:
        if read_topic_id(str(path)) is None:
            yield Finding(f"{path}/partition.metadata: missing or empty; the broker rewrites it at its next start")
    except (CorruptPartitionMetadata, IsADirectoryError) as error:
        yield Finding(f"{path}/partition.metadata: {error}; the broker rewrites it at its next start")
    known = {(one.file, one.position) for one in Damage.load(PartitionDirectory(str(path)))}
    for one in Damage.load(PartitionDirectory(str(path))):
        yield Finding(
            f"{path}/{one.file}: damaged at position {one.position}, offsets {one.first_offset} to {one.next_offset - 1} "
            f"({one.reason}); readers get CORRUPT_MESSAGE"
        )
    files = [file for file in segments(path) if base_offset_of(file.name) is not None]
    for file in files:
        for words in _of_segment(file, is_last=file is files[-1], known=known):
            yield Finding(words)


def _of_segment(file: Path, *, is_last: bool, known: set[tuple[str, int]]) -> Iterator[str]:
    size = file.stat().st_size
    found: WholeBatches = scan(str(file), base_offset_of(file.name) or 0, size, DEFAULT_INDEX_INTERVAL_BYTES)
    for hole in found.holes:
        if (file.name, hole.position) not in known:
            yield (
                f"{file}: damaged at position {hole.position}, offsets {hole.first_offset} to {hole.next_offset - 1} "
                f"({hole.reason})"
            )
    if found.size < size and (file.name, found.size) not in known:
        what = (
            "an incomplete write or damage; the next start of the broker decides"
            if is_last
            else "damaged up to its end"
        )
        yield f"{file}: {what}: {size - found.size} bytes from position {found.size} on, offset {found.next_offset}"


# ---- decisions


def cut_metadata(directory: Path) -> str:
    """Truncates the metadata log at its damage. Returns a description of what was done."""
    metadata = directory / DIRECTORY_NAME
    end = metadata_end(metadata)
    if end is None:
        return f"{metadata}: nothing to cut"
    make_folder(metadata)
    kept = Path(set_aside(str(metadata)))
    shutil.copytree(kept, metadata)
    if end.file is not None:
        file = metadata / end.file.name
        file.open("r+b").truncate(end.position)
        for later in segments(metadata):
            if later.name > file.name:
                later.unlink()
    sound_snapshots(metadata).rename_damaged()
    FlushedEnd(directory).reset(SnapshotId(end.offset, 0))
    return f"{metadata}: ends at offset {end.offset} now; the old log is kept as {kept}"


def write_properties(directory: Path, cluster_id: str | None, node_id: int | None) -> str:
    """Writes meta.properties again. Raises ValueError where its content cannot be determined."""
    path = directory / META_PROPERTIES
    try:
        before = read_meta_properties(str(directory))
    except InvalidMetaProperties:
        before = None
    voters = survey(directory / DIRECTORY_NAME).quorum.voters
    node_id = node_id if node_id is not None else (before.node_id if before is not None else None)
    if node_id is None and len(voters) == 1:
        node_id = voters[0].voter_id
    cluster_id = cluster_id or (before.cluster_id if before is not None else None)
    if cluster_id is None or node_id is None:
        raise ValueError(f"{path}: no other file names the cluster and the node; give --cluster-id ID --node-id N")
    ids = [voter.voter_directory_id for voter in voters if voter.voter_id == node_id]
    directory_id = ids[0] if ids else (before.directory_id if before is not None else None)
    kept = f"; the old file is kept as {set_aside(str(path))}" if path.exists() else ""
    properties = MetaProperties(cluster_id, node_id, directory_id or random_uuid(random.SystemRandom()))
    write_meta_properties(str(directory), properties)
    return f"{path}: written for node {node_id} of cluster {cluster_id}{kept}"


def forget_votes(directory: Path) -> str:
    """Begins quorum-state again: this voter may vote a second time in an epoch in which it has voted."""
    metadata = directory / DIRECTORY_NAME
    path = metadata / "quorum-state"
    kept = f"; the old file is kept as {set_aside(str(path))}" if path.exists() else ""
    found = survey(metadata)
    write_quorum_state(metadata, QuorumState(), found.quorum.kraft_version, sorted(found.voters))
    return f"{path}: created anew{kept}"


__all__ = ["Finding", "LogDirectoryFailure", "cut_metadata", "findings", "forget_votes", "write_properties"]


# ---- what a damaged metadata log still holds

#: The maximum number of names in a message; the rest is given as a count.
MOST_NAMES = 5


@dataclass(slots=True)
class Survey:
    """The content of a metadata log. `topics`: name and offset of each record that creates a topic, in the log after
    the newest snapshot or before it.
    """

    quorum: QuorumVoters = field(default_factory=QuorumVoters)
    topics: dict[bytes, tuple[str, int]] = field(default_factory=dict)
    record_offsets: list[int] = field(default_factory=list)

    @property
    def voters(self) -> set[int]:
        return {voter.voter_id for voter in self.quorum.voters}

    def records_from(self, offset: int) -> int:
        return sum(1 for one in self.record_offsets if one >= offset)

    def topics_from(self, offset: int) -> list[str]:
        return sorted(name for name, made_at in self.topics.values() if made_at >= offset)


def survey(directory: Path) -> Survey:
    """Surveys the whole batches of all segments, including those after damage. Raises OSError."""
    found = Survey()
    for snapshot in sound_snapshots(directory).sound[-1:]:
        for batch in control_batches(directory / snapshot.file_name):
            for _ in decode_batches(batch, found.quorum):
                pass
    for path in segments(directory):
        base = base_offset_of(path.name) or 0
        scan(str(path), base, path.stat().st_size, DEFAULT_INDEX_INTERVAL_BYTES, _learner(found))
    return found


def segments(directory: Path) -> Iterator[Path]:
    yield from sorted(path for path in directory.glob(f"*{LOG_SUFFIX}") if path.is_file())


def newer_leader_changes(directory: Path) -> list[int]:
    """Returns the offsets of LeaderChange records above version 0 that no snapshot has replaced. Apache Kafka ends when
    it reads one. Raises OSError.
    """
    snapshots = sound_snapshots(directory).sound
    begin = snapshots[0].end_offset if snapshots else 0
    found: list[int] = []

    def look(header: BatchHeader, batch: memoryview) -> None:
        if not header.is_control:
            return
        try:
            controls = [(one.offset, decode_control(one.key, one.value)) for one in decode_batch(batch)]
        except (BatchError, MalformedMessage):
            return
        found.extend(
            offset
            for offset, control in controls
            if offset >= begin
            and control is not None
            and isinstance(control.message, LeaderChangeMessage)
            and control.message.version > 0
        )

    for path in segments(directory):
        scan(str(path), base_offset_of(path.name) or 0, path.stat().st_size, DEFAULT_INDEX_INTERVAL_BYTES, look)
    return found


def _learner(found: Survey):  # type: ignore[no-untyped-def]
    def learn(header: BatchHeader, batch: memoryview) -> None:
        try:
            batches = list(decode_batches(bytes(batch), found.quorum))
        except (BatchError, MalformedMessage):
            return
        for _, records in batches:
            for number, record in enumerate(records):
                offset = header.base_offset + number
                found.record_offsets.append(offset)
                if isinstance(record, TopicRecord):
                    found.topics[record.topic_id] = (record.name, offset)
                elif isinstance(record, RemoveTopicRecord):
                    found.topics.pop(record.topic_id, None)

    return learn


def loss(directory: Path, damaged: DamagedLog) -> str:
    """Describes in words what would be lost if the log ended at its first damaged byte."""
    found, first = survey(directory), damaged.ranges[0].first_offset
    lost = sum(one.next_offset - one.first_offset for one in damaged.ranges)
    behind = found.records_from(first)
    topics = found.topics_from(first)
    words = [f"{lost} offsets are damaged", f"{behind} records after them would be lost by a cut there"]
    if topics:
        words.append(f"with {len(topics)} topics ({named(topics)})")
    return ", ".join(words)


def named(names: Sequence[str]) -> str:
    rest = len(names) - MOST_NAMES
    return ", ".join(names[:MOST_NAMES]) + (f" and {rest} more" if rest > 0 else "")
