"""Tables that `odradek archive` keeps, as they are: their topics, sizes and offsets, and the maintenance that is due."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import pyarrow as pa
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import CommitFailedException, NoSuchNamespaceError
from pyiceberg.table import Table as StoredTable

from ..admin.table_owner import Owner
from .iceberg import OFFSETS, arrow_schema, covered_of, owner_of
from .keyed import keyed_of
from .maintenance import Maintenance
from .ownership import namespace_parts
from .parquet import MANIFEST, ParquetSource, ParquetTable
from .store import ArchiveError, Covered, ForeignTable, groups_to_merge


@dataclass
class TableStatus:
    """`files_to_merge` and `snapshots_to_expire` are due. `value` is the type of the values. `key`: the columns whose values
    have a row each; empty for a table with a row for each record.
    """

    table: str
    owner: Owner
    rows: int
    files: int
    bytes: int
    snapshots: int
    files_to_merge: int
    snapshots_to_expire: int
    offsets: dict[int, int]
    value: str
    key: str = ""

    def as_dict(self) -> dict[str, object]:
        return asdict(self)


@dataclass(frozen=True)
class TableProgress:
    """`offsets`: for each partition all records below the number are in the table. `commit_ms`: the time of the newest
    commit, None before the first.
    """

    table: str
    owner: Owner
    offsets: dict[int, int]
    commit_ms: int | None


@dataclass
class Maintained:
    """Counts of a maintenance."""

    table: str
    deleted_rows: int = 0
    merged_files: int = 0
    expired_snapshots: int = 0
    deleted_files: int = 0


def iceberg_tables(catalog: Catalog, namespace: str, names: list[str] | None) -> Iterator[StoredTable]:
    """The tables of archives in a namespace, or the named ones. Raises ArchiveError for a name that is none."""
    try:
        known = {name[-1]: name for name in catalog.list_tables(namespace_parts(namespace))}
    except NoSuchNamespaceError:
        known = {}
    for name in _chosen({one.removeprefix(f"{namespace}.") for one in names or ()}, known):
        table = catalog.load_table(known[name])
        try:
            owner_of(table)
        except ForeignTable:
            if names:
                raise
            continue
        yield table


def _chosen(names: set[str], known: Collection[str]) -> list[str]:
    missing = sorted(names - set(known))
    if missing:
        raise ArchiveError(f"there is no table {missing[0]}, but {', '.join(sorted(known)) or 'none'}")
    return sorted(names or known)


def status_of_iceberg(table: StoredTable, maintenance: Maintenance) -> TableStatus:
    tasks, keyed = list(table.scan().plan_files()), keyed_of(table.properties)
    files = [task.file for task in tasks]
    return TableStatus(
        ".".join(table.name()), owner_of(table), sum(one.record_count for one in files), len(files),
        sum(one.file_size_in_bytes for one in files), len(table.snapshots()),
        sum(map(len, maintenance.mergeable(table))), len(maintenance.expired(table)), _offsets(covered_of(table)),
        _value_of(arrow_schema(table)), "" if keyed is None else str(keyed.key),
    )  # fmt: skip


def progress_of_iceberg(table: StoredTable) -> TableProgress:
    """Reads no file of the table but its metadata."""
    snapshot = table.current_snapshot()
    return TableProgress(
        ".".join(table.name()), owner_of(table), _offsets(covered_of(table)), snapshot and snapshot.timestamp_ms
    )


def progress_of_parquet(folder: Path) -> TableProgress:
    source = ParquetSource(folder)
    changed_ms = int((folder / MANIFEST).stat().st_mtime * 1000)
    return TableProgress(str(folder), source.owner, _offsets(source.covered), changed_ms if source.covered else None)


def maintain_iceberg(table: StoredTable, maintenance: Maintenance, most_bytes: int | None = None) -> Maintained:
    """Does all that is due. `most_bytes`: of files to merge, and more only for a single merge.

    Raises ArchiveError where another program changes the table meanwhile.
    """
    done = Maintained(".".join(table.name()))
    covered = covered_of(table)
    properties = {} if covered is None else {OFFSETS: covered.text()}
    steps: list[tuple[str, Callable[[], int]]] = [
        ("deleted_rows", lambda: maintenance.delete_old_rows(table, properties)),
        ("merged_files", lambda: maintenance.merge(table, properties, most_bytes)),
        ("expired_snapshots", lambda: maintenance.expire(table)),
        ("deleted_files", lambda: maintenance.remove_orphans(table)),
    ]
    for name, step in steps:
        try:
            setattr(done, name, step())
        except CommitFailedException:
            raise ArchiveError(
                f"table {done.table} was changed by another program meanwhile: run the command again"
            ) from None
        table.refresh()
    return done


def parquet_folders(folder: Path, names: list[str] | None) -> list[Path]:
    """The folders of topics below a folder, or the named ones. Raises ArchiveError for a name that is none."""
    known = {one.parent.name: one.parent for one in folder.glob(f"*/{MANIFEST}")}
    return [known[name] for name in _chosen(set(names or ()), known)]


def status_of_parquet(folder: Path) -> TableStatus:
    source = ParquetSource(folder)
    sized = ((Path(one.path).parent, one.bytes, one) for one in source.files)
    return TableStatus(
        str(folder), source.owner, sum(one.rows for one in source.files), len(source.files),
        sum(one.bytes for one in source.files), 0, sum(map(len, groups_to_merge(sized))), 0,
        _offsets(source.covered), _value_of(source.schema),
    )  # fmt: skip


def maintain_parquet(folder: Path, most_bytes: int | None = None) -> Maintained:
    """As `maintain_iceberg`. Raises ArchiveError where another process writes the folder."""
    before = ParquetSource(folder)
    table = ParquetTable(folder.parent, before.owner, name=folder.name)
    try:
        table.maintain(most_bytes)
    finally:
        table.close()
    kept = {one.path for one in ParquetSource(folder).files}
    return Maintained(str(folder), merged_files=sum(one.path not in kept for one in before.files))


def _offsets(covered: Covered | None) -> dict[int, int]:
    return {} if covered is None else covered.offsets


def _value_of(schema: pa.Schema) -> str:
    return str(schema.field("value").type) if "value" in schema.names else "no value so far"
