"""Topics as plain Parquet files, with a manifest that is the commit.

A topic's folder has `data`, `dead_letters` and `manifest.json`: the offsets, the schema and the files with their ranges. A
commit writes files as NAME.staged, then the manifest by an atomic rename, and then renames the files. The next start
finishes the renames for files of the manifest, and deletes all other files. So a reader of `data/**/*.parquet` never gets a
row of a commit that did not come; one that needs exactly the rows of a commit reads the files of the manifest.
"""

from __future__ import annotations

import base64
import json
import os
import re
import uuid
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from ..admin.table_owner import Owner
from ..client.reasons import reason_of
from .column_types import merged
from .ownership import check_owner, checked_name, stored_owner, table_name
from .rows import DEAD_LETTER_SCHEMA
from .store import (
    ROW_GROUP_ROWS,
    TARGET_FILE_BYTES,
    ArchiveError,
    Covered,
    FileRange,
    ForeignTable,
    NoSuchTable,
    PartitionBy,
    RowRules,
    bounded_tables,
    groups_to_merge,
    locked,
    partitioned,
)

MANIFEST = "manifest.json"
_DATA, _DEAD_LETTERS = "data", "dead_letters"
_STAGED = ".staged"
#: Names of files that a process here has written; all others are left alone.
_OWN_FILE = re.compile(r"[0-9a-f]{32}\.parquet(\.staged)?")
_VERSION = 1
#: Members of a manifest that are its offsets.
_COVERED = ("topic", "topic_id", "offsets", "starts")
_FEWEST_MERGED = 2
#: The name that engines give a partition of null.
_NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__"
_FORMATS = {PartitionBy.hour: "%Y-%m-%d-%H", PartitionBy.day: "%Y-%m-%d", PartitionBy.month: "%Y-%m"}


@dataclass(frozen=True)
class _File:
    """`path`: relative to the topic's folder. The ranges of partitions and offsets include both ends."""

    path: str
    rows: int
    bytes: int
    partitions: tuple[int, int]
    offsets: tuple[int, int]


@dataclass
class _Manifest:
    owner: Owner
    covered: Covered
    schema: pa.Schema
    files: list[_File] = field(default_factory=list)
    dead_letter_files: list[_File] = field(default_factory=list)

    def text(self) -> str:
        made = {
            "version": _VERSION,
            "owner": json.loads(self.owner.text()),
            **json.loads(self.covered.text()),
            "columns": {one.name: str(one.type) for one in self.schema},
            "arrow_schema": base64.b64encode(self.schema.serialize()).decode(),
            "files": [asdict(one) for one in self.files],
            "dead_letter_files": [asdict(one) for one in self.dead_letter_files],
        }
        return json.dumps(made, indent=1)

    @classmethod
    def read(cls, path: Path) -> _Manifest | None:
        """Raises ArchiveError for a manifest of another version, or a damaged one."""
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
            if found["version"] != _VERSION:
                raise ArchiveError(f"{path} is of version {found['version']}; this release reads version {_VERSION}")
            schema = pa.ipc.read_schema(pa.BufferReader(base64.b64decode(found["arrow_schema"])))
            covered = Covered.from_text(json.dumps({name: found[name] for name in _COVERED if name in found}))
            owner = Owner(covered.topic, topic_id=covered.topic_id)
            if "owner" in found:  # earlier releases have none
                owner = stored_owner(json.dumps(found["owner"]))
            return cls(owner, covered, schema, _files_of(found["files"]), _files_of(found["dead_letter_files"]))
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError, pa.ArrowInvalid) as error:
            raise ArchiveError(f"{path} is damaged: {reason_of(error)}") from None


def _files_of(entries: Iterable[dict[str, Any]]) -> list[_File]:
    return [
        _File(one["path"], one["rows"], one["bytes"], tuple(one["partitions"]), tuple(one["offsets"]))
        for one in entries
    ]


class ParquetTable:
    """A topic's folder of Parquet files (store.Table). One process at a time writes it, which a lock ensures."""

    rules: RowRules | None = None

    def __init__(
        self,
        folder: str | Path,
        owner: Owner,
        *,
        name: str | None = None,
        partition_by: PartitionBy = PartitionBy.day,
        target_file_bytes: int = TARGET_FILE_BYTES,
    ) -> None:
        """Raises ArchiveError for a folder with another owner, and where another process writes it."""
        self._folder = Path(folder).resolve() / checked_name(table_name(owner.topic) if name is None else name)
        self._owner = owner
        self._partition_by = partition_by
        self._target_file_bytes = target_file_bytes
        self._staged: list[_File] = []
        self._staged_dead: list[_File] = []
        self._schema: pa.Schema | None = None
        self._is_restarted = False
        self._lock = locked(self._folder / ".lock")
        try:
            self._manifest = self._owned_manifest()
            for one in (_DATA, _DEAD_LETTERS):
                (self._folder / one).mkdir(exist_ok=True)
            self._recover()
        except BaseException:
            self._lock.close()
            raise

    def _owned_manifest(self) -> _Manifest | None:
        """Raises ArchiveError for a manifest with another owner, and for a folder of another program."""
        found = _Manifest.read(self._folder / MANIFEST)
        if found is not None:
            check_owner(self._owner, found.owner, str(self._folder))
            self._owner = self._owner.known_with(found.owner)
            return found
        foreign = next((one for one in self._files_on_disk() if not _OWN_FILE.fullmatch(one.name)), None)
        if foreign is not None:
            raise ForeignTable(
                f"{foreign} is not of `odradek archive`: --table {self._owner.topic}=NAME takes another folder"
            )
        return None

    def _files_on_disk(self) -> Iterator[Path]:
        for place in (_DATA, _DEAD_LETTERS):
            yield from (one for one in (self._folder / place).rglob("*") if one.is_file())

    @property
    def name(self) -> str:
        return str(self._folder)

    @property
    def covered(self) -> Covered | None:
        return None if self._manifest is None else self._manifest.covered

    @property
    def schema(self) -> pa.Schema | None:
        return self._schema or (None if self._manifest is None else self._manifest.schema)

    @property
    def record_count(self) -> int:
        return 0 if self._manifest is None else sum(one.rows for one in _all_files(self._manifest))

    def _recover(self) -> None:
        """Finishes the renames of the last commit, and deletes files of commits that did not come."""
        known = set() if self._manifest is None else {one.path for one in _all_files(self._manifest)}
        for path in list(self._files_on_disk()):
            name = str(path.relative_to(self._folder))
            if name.endswith(_STAGED) and name.removesuffix(_STAGED) in known:
                path.rename(path.with_suffix(""))
            elif name not in known and _OWN_FILE.fullmatch(path.name):
                path.unlink()

    # ---- writing

    def evolve(self, schema: pa.Schema) -> None:
        old = self.schema
        self._schema = schema if old is None else pa.schema(list(merged(pa.struct(list(old)), pa.struct(list(schema)))))

    def restart(self, schema: pa.Schema) -> None:
        self._schema, self._is_restarted = schema, True

    def write(self, rows: pa.Table, dead_letter_records: pa.Table) -> None:
        self._staged += self._written(_DATA, rows)
        self._staged_dead += self._written(_DEAD_LETTERS, dead_letter_records)

    def _written(self, place: str, rows: pa.Table) -> Iterator[_File]:
        for start, part in partitioned(rows, self._partition_by):
            if not part.num_rows:
                continue
            folder = place
            if self._partition_by is not PartitionBy.none:
                value = _NULL_PARTITION if start is None else start.strftime(_FORMATS[self._partition_by])
                folder = f"{place}/timestamp_{self._partition_by.value}={value}"
            name = f"{folder}/{uuid.uuid4().hex}.parquet"
            path = self._folder / f"{name}{_STAGED}"
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("wb") as file:
                pq.write_table(part, file, compression="zstd", row_group_size=ROW_GROUP_ROWS)
                file.flush()
                os.fsync(file.fileno())
            yield _File(name, part.num_rows, path.stat().st_size, _range(part, "partition"), _range(part, "offset"))

    def commit(self, covered: Covered) -> None:
        assert self.schema is not None
        old = self._manifest or _Manifest(self._owner, covered, self.schema)
        if self._is_restarted:
            old = _Manifest(self._owner, covered, self.schema)
        files, dead = [*old.files, *self._staged], [*old.dead_letter_files, *self._staged_dead]
        self._replace(_Manifest(self._owner, covered, self.schema, files, dead))
        self._publish([*self._staged, *self._staged_dead])
        self._staged, self._staged_dead = [], []
        if self._is_restarted:
            self._is_restarted = False
            self._recover()

    def _replace(self, manifest: _Manifest) -> None:
        beside = self._folder / f"{MANIFEST}.new"
        with beside.open("w", encoding="utf-8") as file:
            file.write(manifest.text())
            file.flush()
            os.fsync(file.fileno())
        beside.rename(self._folder / MANIFEST)
        _sync_folder(self._folder)
        self._manifest = manifest

    def _publish(self, files: Iterable[_File]) -> None:
        for one in files:
            path = self._folder / one.path
            path.with_name(f"{path.name}{_STAGED}").rename(path)

    def abandon(self) -> None:
        # An error of a commit may have come after its rename: the manifest on the disk decides.
        self._staged, self._staged_dead = [], []
        self._schema, self._is_restarted = None, False
        self._manifest = _Manifest.read(self._folder / MANIFEST)
        self._recover()

    # ---- maintenance

    def maintain(self, most_bytes: int | None = None) -> None:
        """Merges small files. A reader that has listed the old ones may find them gone.

        `most_bytes`: of files that are merged, and more only for a single merge; None merges all that is due.
        """
        if self._manifest is None or self._staged or self._staged_dead:
            return
        manifest, total, is_first = self._manifest, 0, True
        for place, files, schema in (
            (_DATA, manifest.files, manifest.schema),
            (_DEAD_LETTERS, manifest.dead_letter_files, DEAD_LETTER_SCHEMA),
        ):
            sized = ((Path(one.path).parent, one.bytes, one) for one in list(files))
            for group in groups_to_merge(sized, self._target_file_bytes):
                total += sum(one.bytes for one in group)
                if most_bytes is not None and not is_first and total > most_bytes:
                    return
                self._merge(place, group, schema)
                is_first = False

    def _merge(self, place: str, group: list[_File], schema: pa.Schema) -> None:
        assert self._manifest is not None
        paths = [str(self._folder / one.path) for one in group]
        parts = bounded_tables(ds.dataset(path, schema=schema, format="parquet").to_table() for path in paths)
        if len(parts) < _FEWEST_MERGED:
            return
        group, paths = group[: len(parts)], paths[: len(parts)]
        rows = pa.concat_tables(parts).sort_by([("partition", "ascending"), ("offset", "ascending")])
        made = list(self._written(place, rows))
        old = self._manifest
        files, dead = list(old.files), list(old.dead_letter_files)
        changed = files if place == _DATA else dead
        changed[:] = [one for one in changed if one not in group] + made
        self._replace(_Manifest(self._owner, old.covered, old.schema, files, dead))
        self._publish(made)
        for path in paths:
            with suppress(FileNotFoundError):
                Path(path).unlink()

    def close(self) -> None:
        self.abandon()
        self._lock.close()


class ParquetSource:
    """The files of a manifest that are read back (store.Source)."""

    def __init__(self, folder: str | Path, *, dead_letters: bool = False) -> None:
        """Raises NoSuchTable where the folder has no manifest."""
        self._folder = Path(folder).absolute()
        self._has_dead_letters = dead_letters
        self.name = f"{self._folder}/{_DEAD_LETTERS}" if dead_letters else str(self._folder)
        self.id = self.name
        self._load()

    def _load(self) -> None:
        manifest = _Manifest.read(self._folder / MANIFEST)
        if manifest is None:
            raise NoSuchTable(f"{self._folder} has no {MANIFEST}")
        self.owner, self.covered = manifest.owner, manifest.covered
        self._files = manifest.dead_letter_files if self._has_dead_letters else manifest.files
        self.schema: pa.Schema = DEAD_LETTER_SCHEMA if self._has_dead_letters else manifest.schema

    @property
    def files(self) -> list[_File]:
        return list(self._files)

    @property
    def partition_by(self) -> PartitionBy:
        """The unit of the newest file's folder; that of a new table where there is no file."""
        if not self._files:
            return PartitionBy.day
        _, found, unit = Path(self._files[-1].path).parts[1].partition("timestamp_")
        return PartitionBy(unit.partition("=")[0]) if found else PartitionBy.none

    def ranges(self) -> list[FileRange]:
        return [FileRange(one.path, one.partitions, one.offsets, one.rows) for one in self._files]

    def open(self, range_: FileRange) -> IO[bytes]:
        """The file of a range, open. Raises FileNotFoundError where an archiver has merged it meanwhile."""
        path = self._folder / range_.path
        with suppress(FileNotFoundError):
            return path.open("rb")
        return path.with_name(f"{path.name}{_STAGED}").open("rb")

    def read(self, partition: int, first_offset: int, next_offset: int) -> pa.Table:
        try:
            return self._read(partition, first_offset, next_offset)
        except FileNotFoundError:  # an archiver has merged files meanwhile
            self._load()
            return self._read(partition, first_offset, next_offset)

    def _read(self, partition: int, first_offset: int, next_offset: int) -> pa.Table:
        paths = [str(self._path(one)) for one in self._files if _overlaps(one, partition, first_offset, next_offset)]
        offset = ds.field("offset")
        within = (ds.field("partition") == partition) & (offset >= first_offset) & (offset < next_offset)
        if not paths:
            return self.schema.empty_table()
        return ds.dataset(paths, schema=self.schema, format="parquet").to_table(filter=within)

    def _path(self, file: _File) -> Path:
        path = self._folder / file.path
        staged = path.with_name(f"{path.name}{_STAGED}")
        return staged if not path.exists() and staged.exists() else path


def _overlaps(file: _File, partition: int, first_offset: int, next_offset: int) -> bool:
    is_inside = file.partitions[0] <= partition <= file.partitions[1]
    return is_inside and file.offsets[0] < next_offset and file.offsets[1] >= first_offset


def _all_files(manifest: _Manifest) -> list[_File]:
    return [*manifest.files, *manifest.dead_letter_files]


def _range(rows: pa.Table, column: str) -> tuple[int, int]:
    found = pc.min_max(rows.column(column)).as_py()
    return found["min"], found["max"]


def _sync_folder(folder: Path) -> None:
    number = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
