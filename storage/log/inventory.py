"""The files of a partition's directory, after finishing what a crash has interrupted."""

from __future__ import annotations

import os
from typing import NamedTuple

from ..files.modes import FOLDER_MODE, make_folder, restrict_folder
from ..files.partition_metadata import PARTITION_METADATA
from ..files.segment_files import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    LOG_SUFFIX,
    SEGMENT_SUFFIXES,
    SNAPSHOT_SUFFIX,
    SWAP_SUFFIX,
    base_offset_of,
)
from ..files.writes import DAMAGED_SUFFIX, set_aside, unlink_if_exists
from ..segments.batches import batches_of
from ..segments.damage import FILE_NAME as DAMAGE_FILE
from .epochs import FILE_NAME as EPOCHS_FILE

_TEMPORARY_SUFFIX = ".tmp"
#: Suffixes of files that a crash leaves, or that are to be deleted.
_TRANSIENT_SUFFIXES = (_TEMPORARY_SUFFIX, DELETED_SUFFIX, CLEANED_SUFFIX, SWAP_SUFFIX)
_LASTING_SUFFIXES = frozenset((*SEGMENT_SUFFIXES, SNAPSHOT_SUFFIX))
_LASTING_NAMES = frozenset((PARTITION_METADATA, EPOCHS_FILE, DAMAGE_FILE))
#: The only entry of a partition's directory before its first record.
_WITHOUT_LOG = [(PARTITION_METADATA, False)]


class Inventory(NamedTuple):
    """All ascending. `indexed`: segments with both indexes. `orphans`: base offsets of indexes whose `.log` file is
    gone, and not because a crash came in the middle of a deletion.
    `has_damage`: whether damaged ranges are known. `has_epochs`: whether there is a file of leader epochs. `aborted`:
    segments with an index of aborted transactions.
    """

    bases: list[int]
    snapshots: list[int]
    indexed: frozenset[int] = frozenset()
    orphans: tuple[int, ...] = ()
    has_damage: bool = False
    has_epochs: bool = False
    aborted: frozenset[int] = frozenset()
    notes: tuple[str, ...] = ()


def take_inventory(path: str) -> Inventory:
    """Lists the directory, making it if it does not exist. Temporary and deleted files go; a compaction that was swapping
    its result in is completed or dropped.
    """
    try:
        entries = [(entry.name, entry.is_dir()) for entry in os.scandir(path)]
    except FileNotFoundError:
        _make_directory(path)
        return Inventory([], [])
    restrict_folder(path)
    if entries == _WITHOUT_LOG:
        return Inventory([], [])
    notes = tuple(
        _set_aside(path, name) for name, is_directory in entries if is_directory and DAMAGED_SUFFIX not in name
    )
    names = {name for name, is_directory in entries if not is_directory}
    found = _bases_by_suffix(names)
    retired = found.get(LOG_SUFFIX + DELETED_SUFFIX, set())
    if found.keys() - _LASTING_SUFFIXES and any(name.endswith(_TRANSIENT_SUFFIXES) for name in names):
        names = _finish_swaps(path, names)
        found = _bases_by_suffix(names)
    logs, offset_indexes, time_indexes, aborted = (found.get(suffix, set()) for suffix in SEGMENT_SUFFIXES)
    orphans = (offset_indexes | time_indexes | aborted) - logs
    for base in orphans:
        for suffix in SEGMENT_SUFFIXES[1:]:
            unlink_if_exists(f"{path}/{base:020d}{suffix}")
    return Inventory(
        sorted(logs),
        sorted(found.get(SNAPSHOT_SUFFIX, ())),
        frozenset(offset_indexes & time_indexes),
        tuple(sorted(orphans - retired)),
        DAMAGE_FILE in names,
        EPOCHS_FILE in names,
        frozenset(aborted),
        notes,
    )


def has_transient_files(path: str) -> bool:
    """Returns whether the next start has something to finish in a partition's directory."""
    return any(name.endswith(_TRANSIENT_SUFFIXES) for name in os.listdir(path))


def _set_aside(path: str, name: str) -> str:
    """A directory that has the place of a file."""
    kept = set_aside(f"{path}/{name}")
    return f"{path}/{name}: a directory instead of a log file; renamed to {os.path.basename(kept)}"


def _bases_by_suffix(names: set[str]) -> dict[str, set[int]]:
    """Base offsets by what follows them in the names of files; the names of other files stand with no offset."""
    found: dict[str, set[int]] = {}
    for name in names:
        digits, suffix = name[:20], name[20:]
        if suffix[:1] == "." and digits.isascii() and digits.isdigit():
            found.setdefault(suffix, set()).add(int(digits))
        elif name not in _LASTING_NAMES:
            found[name] = set()
    return found


def _make_directory(path: str) -> None:
    try:
        os.mkdir(path, FOLDER_MODE)
    except FileNotFoundError:
        make_folder(path)


def _finish_swaps(path: str, names: set[str]) -> set[str]:
    """A `.swap` file is the result of a compaction whose sources may be gone; a `.cleaned` one was not finished."""
    cleaned = [base_offset_of(name) or 0 for name in names if name.endswith(CLEANED_SUFFIX)]
    for name in sorted(names):
        stale = name.endswith(SWAP_SUFFIX) and (base_offset_of(name) or 0) >= min(cleaned, default=1 << 63)
        if stale or name.endswith((_TEMPORARY_SUFFIX, DELETED_SUFFIX, CLEANED_SUFFIX)):
            unlink_if_exists(f"{path}/{name}")
            names.discard(name)
    swaps = {name for name in names if name.endswith(SWAP_SUFFIX)}
    for swapped_log in sorted(name for name in swaps if name.endswith(LOG_SUFFIX + SWAP_SUFFIX)):
        base = base_offset_of(swapped_log)
        if base is None:
            continue
        end = _end_of(f"{path}/{swapped_log}", base)
        for name in sorted(names - swaps):
            offset = base_offset_of(name)
            if offset is not None and base <= offset < end and not name.endswith(SNAPSHOT_SUFFIX):
                unlink_if_exists(f"{path}/{name}")
                names.discard(name)
    for name in sorted(swaps):
        os.replace(f"{path}/{name}", f"{path}/{name.removesuffix(SWAP_SUFFIX)}")
        names.discard(name)
        names.add(name.removesuffix(SWAP_SUFFIX))
    return names


def _end_of(path: str, base_offset: int) -> int:
    end = base_offset
    for _, header, _ in batches_of(path, os.stat(path).st_size, verify=False):
        end = header.next_offset
    return max(end, base_offset + 1)
