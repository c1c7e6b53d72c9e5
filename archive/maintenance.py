"""Maintenance of Iceberg tables: small files are merged, old snapshots expire, files without a snapshot are deleted.

What is due follows from the metadata of the table, so many short processes do what one long one does.
Every snapshot that is made here has the offsets of its parent, so the newest one always has them. PyIceberg's
expiry removes snapshots from the metadata only; the files that no other snapshot has are deleted here.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from urllib.parse import urlparse

import pyarrow as pa
import pyarrow.fs
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import ManifestEntryStatus
from pyiceberg.table import FileScanTask
from pyiceberg.table import Table as StoredTable
from pyiceberg.table.snapshots import Operation, Snapshot, ancestors_of

from .data_files import replace_files, rows_of_files
from .store import FILES_TO_MERGE, TARGET_FILE_BYTES, bounded_tables, groups_to_merge

_DAY_S = 86_400
_ADDED_FILES = "added-data-files"
_FEWEST_MERGED = 2
#: The default of Iceberg (history.expire.max-snapshot-age-ms): five days.
KEEP_SNAPSHOTS_S = 5 * 86_400.0
#: Snapshots for readers that have begun: with fewer, a query could find its files gone.
_LEAST_SNAPSHOTS = 5
#: Snapshots that are all kept. Of older ones the last of each hour is: PyIceberg copies the metadata a dozen times in each
#: commit, which takes some milliseconds for each snapshot.
_MOST_SNAPSHOTS = 200
_THINNED_MS = 3_600_000
#: Expiry rewrites the metadata and reads manifests: not for each snapshot.
_MOST_EXPIRED_KEPT = 20


@dataclass
class Maintenance:
    """`snapshots_s`: age of snapshots that expire. `orphans_s`: age of files without a snapshot that are deleted at the
    start; another program may be about to commit younger ones.
    """

    target_file_bytes: int = TARGET_FILE_BYTES
    snapshots_s: float = KEEP_SNAPSHOTS_S
    orphans_s: float = _DAY_S
    least_snapshots: int = _LEAST_SNAPSHOTS
    most_snapshots: int = _MOST_SNAPSHOTS
    most_expired_kept: int = _MOST_EXPIRED_KEPT

    def run(self, table: StoredTable, properties: Mapping[str, str]) -> None:
        """Does what is due. `properties`: of the snapshots that are made."""
        if has_new_files(table):
            self.merge(table, properties)
        if len(self.expired(table)) > self.most_expired_kept:
            self.expire(table)

    def merge(self, table: StoredTable, properties: Mapping[str, str]) -> int:
        """Merges files of about one size. Returns the number of files that are gone."""
        groups = self.mergeable(table)
        for group in groups:
            self._merge_group(table, group, properties)
        return sum(map(len, groups))

    def mergeable(self, table: StoredTable) -> list[list[FileScanTask]]:
        tasks = [
            task
            for task in table.scan().plan_files()
            if not task.delete_files and task.file.spec_id == table.spec().spec_id
        ]
        sized = ((repr(task.file.partition), task.file.file_size_in_bytes, task) for task in tasks)
        return groups_to_merge(sized, self.target_file_bytes)

    def _merge_group(self, table: StoredTable, group: Sequence[FileScanTask], properties: Mapping[str, str]) -> None:
        parts = bounded_tables(rows_of_files(table, [task]) for task in group)
        if len(parts) < _FEWEST_MERGED:
            return
        rows = pa.concat_tables(parts).sort_by([("partition", "ascending"), ("offset", "ascending")])
        replace_files(table, group[: len(parts)], rows, properties)

    def expire(self, table: StoredTable) -> int:
        """Removes snapshots that are due, and their files. Returns their number."""
        expired = self.expired(table)
        if not expired:
            return 0
        ids = {one.snapshot_id for one in expired}
        retained = [one for one in table.snapshots() if one.snapshot_id not in ids]
        unused = _unused_files(table, expired, retained)
        table.maintenance.expire_snapshots().by_ids(sorted(ids)).commit()
        for path in unused:
            with suppress(OSError):
                table.io.delete(path)
        return len(expired)

    def expired(self, table: StoredTable) -> list[Snapshot]:
        """Snapshots that are due: old ones of the main branch, without a tag or another branch, and crowded ones."""
        kept: set[int] = set()
        for name, ref in table.refs().items():
            ancestors = list(ancestors_of(table.snapshot_by_id(ref.snapshot_id), table.metadata))
            of_branch = ancestors[: self.least_snapshots] if name == "main" else ancestors
            kept |= {one.snapshot_id for one in of_branch}
        before_ms = (time.time() - self.snapshots_s) * 1000
        found, hour = [], -1
        newest_first = sorted(table.snapshots(), key=lambda one: one.timestamp_ms, reverse=True)
        for number, one in enumerate(newest_first):
            is_crowded = number >= self.most_snapshots and one.timestamp_ms // _THINNED_MS == hour
            hour = one.timestamp_ms // _THINNED_MS
            if one.snapshot_id not in kept and (is_crowded or one.timestamp_ms < before_ms):
                found.append(one)
        return found

    def remove_orphans(self, table: StoredTable) -> int:
        """Deletes old files in the table's folders that no snapshot has, where the file system can list them.

        Returns their number.
        """
        io, deleted = table.io, 0
        if not isinstance(io, PyArrowFileIO):
            return deleted
        place = urlparse(table.location())
        system = io.fs_by_scheme(place.scheme or "file", place.netloc or None)
        root = f"{place.netloc}{place.path}"
        before_s = time.time() - self.orphans_s
        listing = system.get_file_info(pyarrow.fs.FileSelector(root, allow_not_found=True, recursive=True))
        old = [
            one.path for one in listing if one.is_file and one.mtime is not None and one.mtime.timestamp() < before_s
        ]
        if old:
            known = {_path_of(name) for name in _all_files(table)}
            for path in old:
                if path not in known:
                    with suppress(OSError):
                        system.delete_file(path)
                        deleted += 1
        return deleted


def has_new_files(table: StoredTable) -> bool:
    """Returns whether commits have added as many files as are merged, since the last commit that replaced files."""
    added = 0
    for snapshot in ancestors_of(table.current_snapshot(), table.metadata):
        summary = snapshot.summary
        if summary is None or summary.operation is not Operation.APPEND or added >= FILES_TO_MERGE:
            break
        added += int(summary.get(_ADDED_FILES) or 0)
    return added >= FILES_TO_MERGE


def _path_of(location: str) -> str:
    place = urlparse(location)
    return f"{place.netloc}{place.path}" if place.scheme else location


def _all_files(table: StoredTable) -> Iterable[str]:
    """Each file that the table's metadata names: of data, of manifests, of older metadata."""
    yield table.metadata_location
    yield from (one.metadata_file for one in table.metadata.metadata_log)
    yield from (one.statistics_path for one in table.metadata.statistics)
    for snapshot in table.snapshots():
        yield snapshot.manifest_list
        for manifest in snapshot.manifests(table.io):
            yield manifest.manifest_path
    yield from _data_files(table, table.snapshots())


def _manifests(table: StoredTable, snapshots: Sequence[Snapshot]) -> dict[str, object]:
    return {one.manifest_path: one for snapshot in snapshots for one in snapshot.manifests(table.io)}


def _data_files(table: StoredTable, snapshots: Sequence[Snapshot]) -> set[str]:
    found = set()
    for manifest in _manifests(table, snapshots).values():
        for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True):  # type: ignore[attr-defined]
            found.add(entry.data_file.file_path)
    return found


def _unused_files(table: StoredTable, expired: Sequence[Snapshot], retained: Sequence[Snapshot]) -> list[str]:
    """Files of expired snapshots that no retained one has."""
    kept, old = _manifests(table, retained), _manifests(table, expired)
    gone = [path for path in old if path not in kept]
    files = {
        entry.data_file.file_path
        for path in gone
        for entry in old[path].fetch_manifest_entry(table.io, discard_deleted=False)  # type: ignore[attr-defined]
        if entry.status != ManifestEntryStatus.DELETED
    }
    deleted = {
        entry.data_file.file_path
        for manifest in kept.values()
        for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=False)  # type: ignore[attr-defined]
        if entry.status == ManifestEntryStatus.DELETED
    }
    unused = (files | deleted) - _data_files(table, retained) if files or deleted else set()
    return [*unused, *gone, *(one.manifest_list for one in expired)]
