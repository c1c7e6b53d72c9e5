"""Recovery of a small log in one read, after a crash: a start does it for ten thousands of logs.

`recover_small_log` checks each batch of the only segment, as `LogLoader` does from the recovery point on, and returns a
note of the log, so that it begins unopened (unopened.py). It changes nothing. It returns None for every
log that has more than that: a producer, damage, a tail that is torn, offsets left out, a file or a checkpoint that
contradicts the batches. `LogLoader` reads those, and decides.

The index files stay as they are, as those of a log that is appended to: their newest entries are in memory until the
segment is complete. Entries in them must agree with the batches.

The compiled kernel (kernel/small_log.c) reads and checks the files of most logs in one call, which leaves the interpreter
to other threads. A log that it does not accept is read here.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from ...protocol.records.batch import CONTROL_FLAG, LOG_OVERHEAD, check_crc, read_header
from ...protocol.records.errors import BatchError
from ..files.clean_replicas import CleanLog, CleanReplica, CleanSegment
from ..files.descriptors import open_fd
from ..files.modes import RIGHTS_OF_OTHERS
from ..files.partition_metadata import PARTITION_METADATA
from ..files.segment_files import INDEX_SUFFIX, LOG_SUFFIX, SNAPSHOT_SUFFIX, TIME_INDEX_SUFFIX
from ..files.writes import read_if_exists
from ..segments.index import MAX_RELATIVE_OFFSET, NO_TIMESTAMP, OffsetIndex, TimeIndex
from .epochs import FILE_NAME as EPOCHS_FILE
from .epochs import UNDEFINED_EPOCH, LeaderEpochs
from .small_log import SmallLog

if TYPE_CHECKING:
    from ...protocol.records.batch import BatchHeader
    from ..files.partition_directory import PartitionDirectory
    from .config import LogConfig
    from .small_log import SeenReplica

try:
    from odradek_kernel import read_small_log as _kernel
except ImportError:  # pip had no compiler; the kernel may be of another version in a checkout.
    _kernel = None

#: A segment of this size is read without entries of an index: some milliseconds at most.
MOST_BYTES = 64 << 10
#: The kernel counts in 64 bits.
_MOST_BASE_OFFSET = 1 << 62
_NO_TOPIC = b""
_WITHOUT_LOG = [PARTITION_METADATA]
_OTHER_NAMES = {PARTITION_METADATA, EPOCHS_FILE}


def recover_small_log(
    directory: PartitionDirectory,
    config: LogConfig,
    log_start_offset: int,
    claimed: int,
    noted: CleanReplica | None = None,
    seen: SeenReplica | None = None,
) -> CleanReplica | None:
    """Returns the note of the log, without the id of its topic; None where `LogLoader` has to read it. Raises OSError.

    `noted`: an older note of a replica whose folder is unchanged, and so has the same files. `seen`: what was read of it
    among many; no file is looked at then.
    """
    if config.remote_storage:
        return None
    if seen is not None:
        return _recover_seen(directory, seen, log_start_offset, claimed)
    if noted is not None and noted.log is not None:
        return _recover_grown(directory, noted, noted.log, log_start_offset, claimed)
    path = directory.path
    try:
        # The time is that before the folder is listed: a change meanwhile makes the note outdated.
        folder = os.stat(path)
        with os.scandir(path) as listed:
            entries = [(entry.name, entry.is_file(follow_symlinks=False)) for entry in listed]
    except FileNotFoundError:
        return None
    if folder.st_mode & RIGHTS_OF_OTHERS or not all(is_file for _, is_file in entries):
        return None
    names = [name for name, _ in entries]
    if names == _WITHOUT_LOG:
        return CleanReplica(_NO_TOPIC, folder.st_mtime_ns, False) if not (claimed or log_start_offset) else None
    digits = next((name[:20] for name in names if name.endswith(LOG_SUFFIX)), "")
    if len(digits) != 20 or not (digits.isascii() and digits.isdigit()):
        return None
    snapshots = _snapshots(names, {digits + LOG_SUFFIX, digits + INDEX_SUFFIX, digits + TIME_INDEX_SUFFIX})
    if snapshots is None or (snapshots and snapshots[0] <= int(digits)):
        return None
    epochs = LeaderEpochs.load(directory) if EPOCHS_FILE in names else LeaderEpochs(directory, are_written=False)
    note = _recovered(directory, int(digits), snapshots, epochs, log_start_offset, claimed)
    return CleanReplica(_NO_TOPIC, folder.st_mtime_ns, True, note) if note is not None else None


def _recover_seen(
    directory: PartitionDirectory, seen: SeenReplica, log_start_offset: int, claimed: int
) -> CleanReplica | None:
    note = seen.noted.log
    if note is None:
        return seen.noted if not (claimed or log_start_offset) else None
    if seen.is_whole and log_start_offset <= note.start_offset:
        return seen.noted if claimed <= note.end_offset else None
    return _recover_grown(directory, seen.noted, note, log_start_offset, claimed, seen.log)


def _recover_grown(
    directory: PartitionDirectory,
    noted: CleanReplica,
    before: CleanLog,
    log_start_offset: int,
    claimed: int,
    read: SmallLog | None = None,
) -> CleanReplica | None:
    """Recovers a log that was written to since its note: what the other files hold is in the note."""
    base_offset = before.segments[0].base_offset
    if not is_small(before):
        return None
    epochs = LeaderEpochs(directory, before.epochs, are_written=before.are_epochs_written)
    start = max(log_start_offset, before.start_offset)
    try:
        note = _recovered(directory, base_offset, before.snapshots, epochs, start, claimed, read)
    except FileNotFoundError:
        return None
    return noted._replace(log=note) if note is not None else None


def is_small(noted: CleanLog) -> bool:
    first = noted.segments[0].base_offset
    return len(noted.segments) == 1 and not (noted.snapshots and noted.snapshots[0] <= first)


def _snapshots(names: list[str], known: set[str]) -> list[int] | None:
    """Returns the offsets of the producer snapshots; None where there is another file that is not `known`."""
    found = []
    for name in names:
        if name in _OTHER_NAMES or name in known:
            continue
        digits, suffix = name[:20], name[20:]
        if suffix != SNAPSHOT_SUFFIX or not (digits.isascii() and digits.isdigit()):
            return None
        found.append(int(digits))
    return sorted(found)


def _recovered(
    directory: PartitionDirectory,
    base_offset: int,
    snapshots: list[int],
    epochs: LeaderEpochs,
    log_start_offset: int,
    claimed: int,
    read: SmallLog | None = None,
) -> CleanLog | None:
    read = read or read_in_kernel(directory, base_offset) or read_in_python(directory, base_offset)
    if read is None:
        return None
    size, modified_ns, end, newest, newest_at, starts = read
    known = max(log_start_offset, claimed, *snapshots[-1:], epochs.latest_start)
    if known > end or epochs.is_doubtful:
        return None
    for epoch, start in starts:
        epochs.assign(epoch, start)
    log_start_offset = max(log_start_offset, base_offset)
    epochs.truncate_from_end(end)
    epochs.truncate_from_start(log_start_offset)
    segment = CleanSegment(base_offset, size, modified_ns)
    return CleanLog(
        log_start_offset, end, [segment], snapshots, epochs.entries(), False, newest, newest_at,
        epochs.is_synced(end),
    )  # fmt: skip


def read_in_kernel(directory: PartitionDirectory, base_offset: int) -> SmallLog | None:
    """Returns None where `read_in_python` decides."""
    if _kernel is None or base_offset > _MOST_BASE_OFFSET:
        return None
    found = _kernel(directory.file(base_offset, LOG_SUFFIX), base_offset, MOST_BYTES)
    return SmallLog(*found) if found is not None else None


def read_in_python(directory: PartitionDirectory, base_offset: int) -> SmallLog | None:
    """Returns None unless whole batches fill the segment, and its indexes have no other entries. Raises OSError."""
    file = _read(directory.file(base_offset, LOG_SUFFIX))
    batches = _plain_batches(file[0], base_offset) if file is not None else None
    if file is None or batches is None or not _are_indexes_right(directory, base_offset, batches):
        return None
    newest, newest_at, latest = NO_TIMESTAMP, base_offset, UNDEFINED_EPOCH
    epochs: list[tuple[int, int]] = []
    for header in batches:
        if header.leader_epoch > latest:
            latest = header.leader_epoch
            epochs.append((latest, header.base_offset))
        if header.max_timestamp > newest:
            newest, newest_at = header.max_timestamp, header.base_offset + header.last_offset_delta
    end = batches[-1].next_offset if batches else base_offset
    return SmallLog(len(file[0]), file[1], end, newest, newest_at, epochs)


def _read(path: str) -> tuple[bytes, int] | None:
    """Returns the content and the time of a small file."""
    fd = open_fd(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        found = os.fstat(fd)
        if found.st_size > MOST_BYTES:
            return None
        content = os.read(fd, found.st_size + 1)
        return (content, found.st_mtime_ns) if len(content) == found.st_size else None
    finally:
        os.close(fd)


def _plain_batches(content: bytes, base_offset: int) -> list[BatchHeader] | None:
    """Returns the headers of the batches; None unless whole ones, whose offsets go on, fill the file."""
    batches = []
    position, next_offset, size = 0, base_offset, len(content)
    try:
        while position < size:
            header = read_header(content, position)
            if (
                header.base_offset != next_offset
                or header.last_offset_delta < 0
                or header.producer_id >= 0
                or header.attributes & CONTROL_FLAG
            ):
                return None
            check_crc(content, position, header)
            batches.append(header)
            position += header.length + LOG_OVERHEAD
            next_offset += header.last_offset_delta + 1
    except BatchError:
        return None
    return batches if next_offset <= base_offset + MAX_RELATIVE_OFFSET + 1 else None


def _are_indexes_right(directory: PartitionDirectory, base_offset: int, batches: list[BatchHeader]) -> bool:
    """Returns whether both index files are there, and have no entries but those that the batches could have made."""
    offset_path, time_path = (directory.file(base_offset, kind) for kind in (INDEX_SUFFIX, TIME_INDEX_SUFFIX))
    try:
        sizes = os.stat(offset_path).st_size, os.stat(time_path).st_size
        if not any(sizes):
            return True
        offset_index, time_index = (
            (read_if_exists(path) or b"") if size else b""
            for path, size in zip((offset_path, time_path), sizes, strict=True)
        )
        of_offsets = list(OffsetIndex.ENTRY.iter_unpack(offset_index))
        of_times = list(TimeIndex.ENTRY.iter_unpack(time_index))
    except (FileNotFoundError, struct.error):
        return False
    return _are_entries_right(of_offsets, of_times, base_offset, batches)


def _are_entries_right(
    of_offsets: list[tuple[int, int]], of_times: list[tuple[int, int]], base_offset: int, batches: list[BatchHeader]
) -> bool:
    newest, position = NO_TIMESTAMP, 0
    offsets: dict[tuple[int, int], int] = {}
    times: set[tuple[int, int]] = set()
    for header in batches:
        relative = header.last_offset - base_offset
        if header.max_timestamp > newest:
            newest = header.max_timestamp
            times.add((newest, relative))
        offsets[relative, position] = newest
        position += header.size
    if not (offsets.keys() >= set(of_offsets) and times.issuperset(of_times)):
        return False
    indexed = of_times[-1][0] if of_times else NO_TIMESTAMP
    # A search for the largest timestamp begins at the last entry of the one, with the last timestamp of the other.
    reaches = not of_offsets or offsets[of_offsets[-1]] <= indexed
    return reaches and _is_ascending(of_offsets) and _is_ascending(of_times)


def _is_ascending(entries: list[tuple[int, int]]) -> bool:
    return all(one[0] < following[0] for one, following in pairwise(entries))


def needs_snapshot(snapshots: Sequence[int], has_producers: bool, size: int) -> bool:
    """Returns whether a log that is closed needs a snapshot of its producers. A small one that has none does not: its
    note has that, or its batches are read fast. Apache Kafka reads nothing after a clean stop without snapshots.
    """
    return bool(snapshots) or has_producers or size > MOST_BYTES
