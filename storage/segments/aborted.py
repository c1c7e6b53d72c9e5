"""The aborted transactions of a segment: `.txnindex`, one entry for each ABORT marker in the segment (KIP-98).

An entry is a version (int16, 0) and the four numbers of `AbortedTxn` (protocol/internal/producer_snapshot.py), 34 bytes.
The file exists only where transactions were aborted, and is read as a whole.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from ..files.descriptors import open_fd
from ..files.segment_files import TXN_INDEX_SUFFIX
from ..files.writes import read_if_exists, unlink_if_exists, write_atomically

if TYPE_CHECKING:
    from ..files.partition_directory import PartitionDirectory

_ENTRY = struct.Struct(">hqqqq")
_VERSION = 0
#: Half the time that calling the class takes; fetches with read_committed read the entries.
_new_entry = tuple.__new__


class AbortedTransaction(NamedTuple):
    """`last_offset` is that of the marker; `last_stable_offset` what it was after the marker was appended."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


def _path(directory: PartitionDirectory, base_offset: int, suffix: str) -> str:
    return directory.file(base_offset, TXN_INDEX_SUFFIX + suffix)


def read_aborted(directory: PartitionDirectory, base_offset: int, suffix: str = "") -> list[AbortedTransaction]:
    """All entries of a segment, in the order of their markers."""
    content = read_if_exists(_path(directory, base_offset, suffix)) or b""
    whole = len(content) - len(content) % _ENTRY.size
    return [AbortedTransaction(*fields[1:]) for fields in _ENTRY.iter_unpack(content[:whole])]


def plausible_aborted(
    directory: PartitionDirectory, base_offset: int, next_offset: int
) -> list[AbortedTransaction] | None:
    """All entries of a segment of the offsets from `base_offset` up to `next_offset`; None where one cannot be right.

    A transaction may begin in an earlier segment. Its marker is in this one, and the markers ascend.
    """
    content = read_if_exists(_path(directory, base_offset, "")) or b""
    if len(content) % _ENTRY.size:
        return None
    entries, before = [], base_offset - 1
    for version, producer_id, first, last, stable in _ENTRY.iter_unpack(content):
        entry = _new_entry(AbortedTransaction, (producer_id, first, last, stable))
        if version != _VERSION or not before < last < next_offset or not is_plausible(entry):
            return None
        entries.append(entry)
        before = last
    return entries


def is_plausible(entry: AbortedTransaction) -> bool:
    producer_id, first, last, stable = entry
    return producer_id >= 0 and 0 <= first < last and 0 <= stable <= last + 1


def replace_aborted(directory: PartitionDirectory, base_offset: int, entries: Iterable[AbortedTransaction]) -> None:
    """Writes the index of a segment anew; without entries there is none."""
    content = b"".join(_ENTRY.pack(_VERSION, *entry) for entry in entries)
    if content:
        write_atomically(_path(directory, base_offset, ""), content, sync=False)
    else:
        remove_aborted(directory, base_offset)


def append_aborted(
    directory: PartitionDirectory, base_offset: int, entry: AbortedTransaction, suffix: str = ""
) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
    fd = open_fd(_path(directory, base_offset, suffix), flags, 0o600)
    try:
        os.write(fd, _ENTRY.pack(_VERSION, *entry))
    finally:
        os.close(fd)


def truncate_aborted(directory: PartitionDirectory, base_offset: int, offset: int) -> None:
    """Drops the entries whose markers are at `offset` or above."""
    keep = sum(entry.last_offset < offset for entry in read_aborted(directory, base_offset))
    if keep:
        os.truncate(_path(directory, base_offset, ""), keep * _ENTRY.size)
    else:
        remove_aborted(directory, base_offset)


def remove_aborted(directory: PartitionDirectory, base_offset: int) -> None:
    unlink_if_exists(_path(directory, base_offset, ""))
