"""Damage in the data directory of a stopped node."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from ...protocol.uuids import uuid_to_text
from ...storage.directory import METADATA_LOG, ReplicaDirectory, parse_replica_directory
from ...storage.files.checkpoints import (
    CLEANER_OFFSETS,
    HIGH_WATERMARKS,
    LOG_START_OFFSETS,
    RECOVERY_POINTS,
    inspect_offsets,
)
from ...storage.files.meta_properties import META_PROPERTIES, InvalidMetaProperties, check_unused, read_meta_properties
from ...storage.files.partition_directory import PartitionDirectory
from ...storage.files.partition_metadata import CorruptPartitionMetadata, read_topic_id
from ...storage.files.quorum_state import CorruptQuorumState, read_quorum_state
from ...storage.files.segment_files import base_offset_of
from ...storage.repair.segment_faults import SegmentFault, partition_faults, segment_names
from ...storage.segments.batches import DEFAULT_INDEX_INTERVAL_BYTES, scan
from ...storage.segments.damage import Damage
from .flushed_end import FlushedEnd
from .metadata_log import DIRECTORY_NAME
from .metadata_snapshots import sound_snapshots
from .metadata_survey import named, segments, survey


class Finding(NamedTuple):
    """Damage, in words. `decision`: the option of `odradek repair` that ends it; None where a start mends it by itself.

    `skip`: the options of `odradek log skip` that replace a poisoned batch.
    """

    words: str
    decision: str | None = None
    skip: str | None = None


class MetadataEnd(NamedTuple):
    """The end of the readable part of the metadata log: the segment's file, position and offset. `lost` describes in words
    what follows.
    """

    file: Path | None
    position: int
    offset: int
    lost: str


def findings(directory: Path, *, reads_records: bool = False) -> Iterator[Finding]:
    """Yields the damage; with `reads_records` poisoned batches, too. Raises OSError, LogDirectoryFailure."""
    yield from _of_meta_properties(directory)
    for name in (RECOVERY_POINTS, LOG_START_OFFSETS, HIGH_WATERMARKS, CLEANER_OFFSETS):
        note = inspect_offsets(str(directory), name).note
        if note is not None:
            yield Finding(note)
    yield from _of_metadata(directory / DIRECTORY_NAME)
    for path in sorted(directory.iterdir()):
        replica = parse_replica_directory(str(path)) if path.is_dir() else None
        if replica is not None and not replica.suffix and replica[:2] != METADATA_LOG:
            yield from _of_partition(path, replica, reads_records=reads_records)


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


def _of_partition(path: Path, replica: ReplicaDirectory, *, reads_records: bool) -> Iterator[Finding]:
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
    last = max(segment_names(str(path)), default="")
    for fault in partition_faults(str(path), reads_records=reads_records):
        if fault.header is not None:
            yield Finding(
                f"{path}/{fault.file}: poisoned batch at position {fault.position}, offsets {fault.first_offset} to "
                f"{fault.next_offset - 1} ({fault.reason}); consumers stop there",
                skip=f"--topic {replica.topic} --partition {replica.partition} "
                f"--offsets {fault.first_offset}-{fault.next_offset - 1}",
            )
        elif (fault.file, fault.position) not in known:
            yield Finding(f"{path}/{fault.file}: {_of_damage(fault, is_last=fault.file == last)}")


def _of_damage(fault: SegmentFault, *, is_last: bool) -> str:
    if not fault.is_tail:
        offsets = f"{fault.first_offset} to {fault.next_offset - 1}"
        return f"damaged at position {fault.position}, offsets {offsets} ({fault.reason})"
    what = "an incomplete write or damage; the next start of the broker decides" if is_last else "damaged up to its end"
    return f"{what}: {fault.size} bytes from position {fault.position} on, offset {fault.first_offset}"
