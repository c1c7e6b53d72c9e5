"""Recovery of a small log in one read, after a crash: a start does it for ten thousands of logs.

`recover_small_log` checks each batch of the only segment, as `LogLoader` does from the recovery point on, and returns a
note of the log, so that it begins as one that is not used yet (`NotedLog`). It changes nothing. It returns None for every
log that has more than that: a producer, damage, a tail that is torn, offsets left out, a file or a checkpoint that
contradicts the batches. `LogLoader` reads those, and decides.

The index files stay as they are, as those of a log that is appended to: their newest entries are in memory until the
segment is complete. Entries in them must agree with the batches.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Sequence
from itertools import pairwise

from ...protocol.records.batch import BatchHeader, check_crc, read_header
from ...protocol.records.errors import BatchError
from ..files.checkpoints import CleanLog, CleanReplica, CleanSegment
from ..files.identity import PARTITION_METADATA
from ..files.open_files import (
    INDEX_SUFFIX,
    LOG_SUFFIX,
    RIGHTS_OF_OTHERS,
    SNAPSHOT_SUFFIX,
    TIME_INDEX_SUFFIX,
    PartitionDirectory,
    open_fd,
    read_if_exists,
)
from ..segments.index import MAX_RELATIVE_OFFSET, NO_TIMESTAMP, OffsetIndex, TimeIndex
from .config import LogConfig
from .epochs import FILE_NAME as EPOCHS_FILE
from .epochs import LeaderEpochs
from .loading import Claim

#: A segment of this size is read without entries of an index: some milliseconds at most.
MOST_BYTES = 64 << 10
_NO_TOPIC = b""
_WITHOUT_LOG = [PARTITION_METADATA]
_OTHER_NAMES = {PARTITION_METADATA, EPOCHS_FILE}


def recover_small_log(
    directory: PartitionDirectory, config: LogConfig, log_start_offset: int, claims: Sequence[Claim]
) -> CleanReplica | None:
    """Returns the note of the log, without the id of its topic; None where `LogLoader` has to read it. Raises OSError."""
    path = directory.path
    if config.remote_storage:
        return None
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
        return CleanReplica(_NO_TOPIC, folder.st_mtime_ns, False) if not (claims or log_start_offset) else None
    digits = next((name[:20] for name in names if name.endswith(LOG_SUFFIX)), "")
    others = {name for name in names if name not in _OTHER_NAMES}
    others -= {digits + LOG_SUFFIX, digits + INDEX_SUFFIX, digits + TIME_INDEX_SUFFIX}
    is_plain = len(names) >= len(others) + 3 and len(digits) == 20 and digits.isascii() and digits.isdigit()
    snapshots = _snapshots(others)
    if not is_plain or snapshots is None or (snapshots and snapshots[0] <= int(digits)):
        return None
    note = _recovered(directory, int(digits), snapshots, log_start_offset, claims, has_epochs=EPOCHS_FILE in names)
    return CleanReplica(_NO_TOPIC, folder.st_mtime_ns, True, note) if note is not None else None


def _snapshots(names: set[str]) -> list[int] | None:
    """Returns the offsets of the producer snapshots; None where there is another file."""
    found = []
    for name in names:
        digits, suffix = name[:20], name[20:]
        if suffix != SNAPSHOT_SUFFIX or not (digits.isascii() and digits.isdigit()):
            return None
        found.append(int(digits))
    return sorted(found)


def _recovered(
    directory: PartitionDirectory,
    base_offset: int,
    snapshots: list[int],
    log_start_offset: int,
    claims: Sequence[Claim],
    *,
    has_epochs: bool,
) -> CleanLog | None:
    file = _read(directory.file(base_offset, LOG_SUFFIX))
    batches = _plain_batches(file[0], base_offset) if file is not None else None
    if file is None or batches is None:
        return None
    end = batches[-1][1].next_offset if batches else base_offset
    epochs = LeaderEpochs.load(directory) if has_epochs else LeaderEpochs(directory, are_written=False)
    entries = epochs.entries()
    known = [log_start_offset, *(claim.offset for claim in claims), *snapshots, *(start for _, start in entries[-1:])]
    if max(known) > end or epochs.is_doubtful:
        return None
    if not _are_indexes_right(directory, base_offset, batches):
        return None
    newest, newest_at = NO_TIMESTAMP, base_offset
    for _, header in batches:
        epochs.assign(header[2], header[0])
        if header[8] > newest:
            newest, newest_at = header[8], header.last_offset
    log_start_offset = max(log_start_offset, base_offset)
    epochs.truncate_from_end(end)
    epochs.truncate_from_start(log_start_offset)
    segment = CleanSegment(base_offset, len(file[0]), file[1])
    return CleanLog(
        log_start_offset, end, [segment], snapshots, epochs.entries(), False, newest, newest_at,
        epochs.is_synced(end),
    )  # fmt: skip


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


def _plain_batches(content: bytes, base_offset: int) -> list[tuple[int, BatchHeader]] | None:
    """Returns the positions and headers of the batches; None unless whole ones, whose offsets go on, fill the file."""
    batches = []
    position, next_offset, size = 0, base_offset, len(content)
    try:
        while position < size:
            header = read_header(content, position)
            if header[0] != next_offset or header[6] < 0 or header[9] >= 0 or header.is_control:
                return None
            check_crc(content, position, header)
            batches.append((position, header))
            position += header.size
            next_offset = header.next_offset
    except BatchError:
        return None
    return batches if next_offset <= base_offset + MAX_RELATIVE_OFFSET + 1 else None


def _are_indexes_right(directory: PartitionDirectory, base_offset: int, batches: list[tuple[int, BatchHeader]]) -> bool:
    """Returns whether both index files are there, and have no entries but those that the batches could have made."""
    offset_path, time_path = (directory.file(base_offset, kind) for kind in (INDEX_SUFFIX, TIME_INDEX_SUFFIX))
    try:
        if not os.stat(offset_path).st_size and not os.stat(time_path).st_size:
            return True
        offset_index, time_index = read_if_exists(offset_path) or b"", read_if_exists(time_path) or b""
    except FileNotFoundError:
        return False
    newest, offsets, times = NO_TIMESTAMP, {}, set()
    for position, header in batches:
        relative = header.last_offset - base_offset
        if header.max_timestamp > newest:
            newest = header.max_timestamp
            times.add((newest, relative))
        offsets[relative, position] = newest
    try:
        of_offsets = list(OffsetIndex.ENTRY.iter_unpack(offset_index))
        of_times = list(TimeIndex.ENTRY.iter_unpack(time_index))
    except struct.error:
        return False
    if not (offsets.keys() >= set(of_offsets) and times.issuperset(of_times)):
        return False
    indexed = of_times[-1][0] if of_times else NO_TIMESTAMP
    # A search for the largest timestamp begins at the last entry of the one, with the last timestamp of the other.
    reaches = not of_offsets or offsets[of_offsets[-1]] <= indexed
    return reaches and _is_ascending(of_offsets) and _is_ascending(of_times)


def _is_ascending(entries: list[tuple[int, int]]) -> bool:
    return all(one[0] < following[0] for one, following in pairwise(entries))
