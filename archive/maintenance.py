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
import pyarrow.compute as pc
import pyarrow.fs
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import ManifestEntryStatus
from pyiceberg.table import FileScanTask
from pyiceberg.table import Table as StoredTable
from pyiceberg.table.snapshots import Operation, Snapshot, ancestors_of

from .data_files import RETRIES, limits_of, replace_files, rows_of_files
from .key_columns import sorted_rows
from .keyed import keyed_of
from .rows import FIRST_MS
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
#: Bytes of files that are merged after a commit: some seconds of a core.
_MERGED_BYTES = 256 << 20
#: Manifests of a snapshot, which each commit and each query reads.
_MOST_MANIFESTS = 64
#: Rows are deleted when they are older than their life by this part of it: each file is written again few times.
_OVERDUE = 0.1
#: Rows of old files in memory, in bytes of Arrow.
_MOST_KEPT_BYTES = 512 << 20
#: Expiry rewrites the metadata and reads manifests: not for each snapshot.
_MOST_EXPIRED_KEPT = 20


@dataclass
class Maintenance:
    """`snapshots_s`: age of snapshots that expire. `orphans_s`: age of files without a snapshot that are deleted at the
    start; another program may be about to commit younger ones. `merged_bytes`: those of files that are merged after a
    commit, and more only for a single merge; a command merges all.
    """

    target_file_bytes: int = TARGET_FILE_BYTES
    snapshots_s: float = KEEP_SNAPSHOTS_S
    orphans_s: float = _DAY_S
    least_snapshots: int = _LEAST_SNAPSHOTS
    most_snapshots: int = _MOST_SNAPSHOTS
    most_expired_kept: int = _MOST_EXPIRED_KEPT
    merged_bytes: int = _MERGED_BYTES

    def run(self, table: StoredTable, properties: Mapping[str, str]) -> None:
        """Does what is due. `properties`: of the snapshots that are made."""
        if is_keyed := keyed_of(table.properties) is not None:
            self.delete_old_rows(table, properties, overdue=_OVERDUE)
        if is_keyed or has_new_files(table):  # commits of a keyed table write files again
            self.merge(table, properties, self.merged_bytes)
        if is_keyed:
            self.merge_manifests(table, properties)
        if len(self.expired(table)) > self.most_expired_kept:
            self.expire(table)

    def merge(self, table: StoredTable, properties: Mapping[str, str], most_bytes: int | None = None) -> int:
        """Merges files of about one size. Returns the number of files that are gone."""
        merged, total = 0, 0
        for group in self.mergeable(table):
            total += sum(task.file.file_size_in_bytes for task in group)
            if most_bytes is not None and merged and total > most_bytes:
                break
            self._merge_group(table, group, properties)
            merged += len(group)
        return merged

    def merge_manifests(self, table: StoredTable, properties: Mapping[str, str]) -> None:
        """Makes a snapshot with few manifests: PyIceberg's overwrites keep each one, also those of files that are gone."""
        snapshot = table.current_snapshot()
        if snapshot is not None and len(snapshot.manifests(table.io)) > _MOST_MANIFESTS:
            table.metadata.properties[RETRIES] = "0"
            transaction = table.transaction()
            with transaction.update_snapshot(snapshot_properties=dict(properties)).merge_append():
                pass
            transaction.commit_transaction()

    def delete_old_rows(self, table: StoredTable, properties: Mapping[str, str], overdue: float = 0.0) -> int:
        """Deletes rows of a keyed table that are older than its rows live. Returns their number.

        `overdue`: a file is written again when its oldest row has this part of the life behind it.
        """
        keyed = keyed_of(table.properties)
        if keyed is None or keyed.row_ttl_s is None:
            return 0
        now_us, ttl_us = int(time.time() * 1e6), int(keyed.row_ttl_s * 1e6)
        if ttl_us > now_us - FIRST_MS * 1000:
            return 0  # no timestamp is so old
        before = pa.scalar(now_us - ttl_us, pa.timestamp("us", tz="UTC"))
        old: list[FileScanTask] = []
        left: list[pa.Table] = []
        deleted = 0
        for task in table.scan().plan_files():
            limits = limits_of(table, task.file, "timestamp")
            if limits is None or limits[0] >= now_us - int(ttl_us * (1 + overdue)):
                continue
            old.append(task)
            if limits[1] < before.value:
                deleted += task.file.record_count
                continue
            rows = rows_of_files(table, [task])
            kept = rows.filter(pc.fill_null(pc.greater_equal(rows.column("timestamp"), before), True))
            deleted += rows.num_rows - kept.num_rows
            left.append(kept)
            if sum(one.nbytes for one in left) > _MOST_KEPT_BYTES:
                break  # the others are due in the next run
        if old:
            kept = pa.concat_tables(left) if left else rows_of_files(table, [])
            replace_files(table, old, sorted_rows(kept, keyed.sorted_by), properties)
        return deleted

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
        keyed = keyed_of(table.properties)
        rows = sorted_rows(pa.concat_tables(parts), () if keyed is None else keyed.sorted_by)
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
