"""Snapshots of the metadata on the disk (KIP-630).

A snapshot is the file `<end offset>-<epoch>.checkpoint` (KIP-630). It replaces all records below its end offset;
its epoch is that of the last such record. It begins with a control batch (header, KRaft version, voters), continues
with the records of an image, and ends with another control batch (footer). A file is written as `.part`, is renamed
when it is complete, and never changes again.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from ...metadata.delta import MetadataDelta
from ...metadata.image import MetadataImage
from ...metadata.snapshot import image_records
from ...protocol.codec import MalformedMessage
from ...protocol.internal.control_records import (
    KRaftVersionRecord,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    VotersRecord,
)
from ...protocol.records.batch import HEADER_BYTES, check_crc, read_header
from ...protocol.records.control import ControlRecord, ControlType, decode_control, encode_control_batch
from ...protocol.records.errors import BatchError, CorruptBatch
from ...protocol.records.record import decode_batch
from ...protocol.schema import Message
from ...storage.files.descriptors import open_fd, open_for_reading
from ...storage.files.writes import naming, set_aside, sync_directory, write_fully
from ..runtime.sliced_work import Steps
from .metadata_batches import decode_batches, decode_one_by_one, encode_in_batches
from .quorum_voters import QuorumVoters

log = logging.getLogger("odradek.quorum")
SUFFIX = ".checkpoint"
_PART_SUFFIX = ".checkpoint.part"
_DELETED_SUFFIX = ".checkpoint.deleted"
_NAME = re.compile(r"(\d{20})-(\d{10})\.checkpoint")
#: Snapshots are never written again; their permissions show it.
READ_ONLY = 0o400


class SnapshotId(NamedTuple):
    end_offset: int
    epoch: int

    @property
    def file_name(self) -> str:
        return f"{self.end_offset:020d}-{self.epoch:010d}{SUFFIX}"


class LoadedSnapshot(NamedTuple):
    """A loaded snapshot. `delta` leads from the empty image to the snapshot's content."""

    delta: MetadataDelta
    quorum: QuorumVoters


def list_snapshots(directory: Path) -> list[SnapshotId]:
    """Lists the snapshots in the directory, oldest first."""
    found = (_NAME.fullmatch(path.name) for path in directory.iterdir())
    return sorted(SnapshotId(int(match[1]), int(match[2])) for match in found if match)


class SoundSnapshots(NamedTuple):
    """The snapshots of a directory. `sound`: oldest first; the newest has been read completely. `damaged`: newer ones
    that are incomplete, with the reason.
    """

    sound: list[SnapshotId]
    damaged: list[tuple[Path, str]]

    def rename_damaged(self) -> None:
        """Renames the damaged snapshots. To be called when the node continues without them."""
        for path, reason in self.damaged:
            if not path.exists():
                continue  # a directory, which opening the log has already renamed
            log.error("%s: damaged (%s); renamed to %s", path, reason, Path(set_aside(str(path))).name)


def sound_snapshots(directory: Path) -> SoundSnapshots:
    sound = list_snapshots(directory) if directory.is_dir() else []
    damaged: list[tuple[Path, str]] = []
    while sound:
        path = directory / sound[-1].file_name
        try:
            check_snapshot(path)
            break
        except (BatchError, MalformedMessage, IsADirectoryError) as error:
            damaged.append((path, str(error)))
            sound.pop()
    return SoundSnapshots(sound, damaged)


def check_snapshot(path: Path) -> None:
    """Reads the snapshot completely. Raises BatchError, MalformedMessage, and OSError where the disk fails."""
    footers = 0
    for batch in iter_batches(path):
        header = read_header(batch)
        check_crc(batch, 0, header)
        if header.is_control:
            types = (decode_control(record.key, record.value) for record in decode_batch(batch, 0, header))
            footers += sum(one is not None and one.type is ControlType.SNAPSHOT_FOOTER for one in types)
    if footers != 1:
        raise CorruptBatch("it does not end with a footer")


def delete_partial_snapshots(directory: Path) -> None:
    """Deletes incomplete snapshots that a crash left behind while they were being written or removed."""
    for path in directory.iterdir():
        if path.name.endswith((_PART_SUFFIX, _DELETED_SUFFIX)):
            path.unlink()


def read_snapshot(path: Path) -> Steps[LoadedSnapshot]:
    """Loads a snapshot, one step per record. Raises OSError, and CorruptBatch, InvalidBatch or MalformedMessage for a
    damaged file.
    """
    loaded = LoadedSnapshot(MetadataDelta(), QuorumVoters())
    for batch in iter_batches(path):
        for record in decode_one_by_one(batch, loaded.quorum):
            loaded.delta.replay(record)
            yield
        # Apply in parts: otherwise the image of a large cluster would be created in one long step at the end.
        loaded.delta.topics.apply()
    return loaded


def iter_batches(path: Path) -> Iterator[bytes]:
    """Yields the batches of a snapshot file one at a time; the last one may be truncated. Raises as `read_snapshot`."""
    with open_for_reading(path) as file:
        left = os.fstat(file.fileno()).st_size
        while head := file.read(HEADER_BYTES):
            left -= len(head)
            size = min(read_header(head).size - len(head), left)
            left -= size
            yield head + file.read(size)


def control_batches(path: Path) -> Iterator[bytes]:
    """Yields the control batches of a snapshot file. The other batches are skipped unread."""
    with open_for_reading(path) as file:
        while head := file.read(HEADER_BYTES):
            header = read_header(head)
            if header.is_control:
                yield head + file.read(header.size - len(head))
            else:
                file.seek(header.size - len(head), os.SEEK_CUR)


def last_contained_timestamp_ms(path: Path) -> int:
    """Returns the timestamp of the last record that a snapshot contains. Reads only the head of the file."""
    quorum = QuorumVoters()
    for _ in decode_batches(next(iter_batches(path), b""), quorum):
        pass
    return quorum.last_contained_timestamp_ms


def read_records(path: Path) -> list[Message]:
    """Returns the metadata records of a snapshot file in file order, for `bootstrap.checkpoint`."""
    return [record for batch in decode_batches(path.read_bytes(), QuorumVoters()) for record in batch.records]


def encode_snapshot(
    records: Iterable[Message], metadata_version: int, epoch: int, quorum: QuorumVoters, now_ms: int
) -> Iterator[bytes]:
    """Yields the batches of a snapshot. `quorum.last_contained_timestamp_ms` goes into its header."""
    head = _head(quorum)
    yield encode_control_batch(head, base_offset=0, timestamp=now_ms, leader_epoch=epoch)
    offset = len(head)
    for batch in encode_in_batches(records, offset, epoch, now_ms, metadata_version):
        yield batch
        offset = read_header(batch).next_offset
    foot = [ControlRecord(ControlType.SNAPSHOT_FOOTER, SnapshotFooterRecord(version=0))]
    yield encode_control_batch(foot, base_offset=offset, timestamp=now_ms, leader_epoch=epoch)


def _head(quorum: QuorumVoters) -> list[ControlRecord]:
    header = SnapshotHeaderRecord(version=0, last_contained_log_timestamp=quorum.last_contained_timestamp_ms)
    return [ControlRecord(ControlType.SNAPSHOT_HEADER, header), *quorum_records(quorum)]


def quorum_records(quorum: QuorumVoters) -> Sequence[ControlRecord]:
    """Returns the control records for the quorum; none in KRaft version 0, where the configuration names the voters."""
    if quorum.kraft_version == 0:
        return ()
    version = KRaftVersionRecord(version=0, kraft_version=quorum.kraft_version)
    voters = VotersRecord(version=0, voters=quorum.voters)
    return (ControlRecord(ControlType.KRAFT_VERSION, version), ControlRecord(ControlType.KRAFT_VOTERS, voters))


def write_image_snapshot(directory: Path, image: MetadataImage, quorum: QuorumVoters, now_ms: int) -> SnapshotId:
    """Writes the snapshot of everything up to the image's offset. Blocks until it is on the disk; may be called from
    any thread. Raises OSError.
    """
    snapshot = SnapshotId(image.offset + 1, image.epoch)
    said = QuorumVoters(quorum.kraft_version, quorum.voters, image.last_append_timestamp_ms)
    batches = encode_snapshot(image_records(image), image.features.metadata_version, image.epoch, said, now_ms)
    write_snapshot_file(directory / snapshot.file_name, batches)
    return snapshot


def write_snapshot_file(path: Path, batches: Iterable[bytes]) -> None:
    partial = partial_path(path)
    partial.unlink(missing_ok=True)
    fd = open_fd(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        position = 0
        with naming(str(path)):
            for batch in batches:
                write_fully(fd, batch, position)
                position += len(batch)
            os.fchmod(fd, READ_ONLY)
            os.fsync(fd)
    except BaseException:
        partial.unlink(missing_ok=True)  # the next attempt has another name
        raise
    finally:
        os.close(fd)
    partial.replace(path)
    sync_directory(str(path.parent))


def partial_path(path: Path) -> Path:
    """Returns the path of a snapshot while it is incomplete."""
    return path.with_name(path.name.removesuffix(SUFFIX) + _PART_SUFFIX)
