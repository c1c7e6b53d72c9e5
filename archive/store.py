"""Duties of a store of tables, for the archiver, and its errors: each topic has a table, and one of dead-letter records.

The offsets that a table covers are in the commit of its rows. So a process that ends at any instant leaves a table whose
offsets are those of its rows, and files that no commit names.
"""

from __future__ import annotations

import fcntl
import json
import math
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import IO, Any, NamedTuple, Protocol, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from ..client.error_kinds import ErrorKind
from ..client.reasons import reason_of

T = TypeVar("T")
#: Files of a table are merged up to this size.
TARGET_FILE_BYTES = 128 << 20
#: Rows of a row group: a replay reads some at a time.
ROW_GROUP_ROWS = 128 << 10
#: Files of about one size that are merged into one: each row is rewritten log16(files) times.
FILES_TO_MERGE = 16
#: Least size for the comparison of sizes: smaller files cost what this one costs.
_LEAST_FILE_BYTES = 64 << 10
#: Rows that are merged at once, in bytes of Arrow.
_MOST_MERGED_BYTES = 1 << 30


class ArchiveError(Exception):
    """A table cannot be opened, written or read. `kind`: by what a user does about it."""

    def __init__(self, message: str, kind: ErrorKind = ErrorKind.FAILED) -> None:
        super().__init__(message)
        self.kind = kind


class TableChanged(ArchiveError):
    """Another process has committed offsets to the table."""


class NoSuchTable(ArchiveError):
    """There is no table of this name."""


class ForeignTable(ArchiveError):
    """The table is no table of an archiver."""


@dataclass(frozen=True)
class Covered:
    """The offsets of a topic whose records are in a table: for each partition all below the number.

    `starts`: where the table begins; none in tables that earlier releases made.
    """

    topic: str
    topic_id: str
    offsets: dict[int, int] = field(default_factory=dict)
    starts: dict[int, int] = field(default_factory=dict)

    def text(self) -> str:
        made: dict[str, object] = {"topic": self.topic, "topic_id": self.topic_id, "offsets": _by_text(self.offsets)}
        if self.starts:
            made["starts"] = _by_text(self.starts)
        return json.dumps(made, separators=(",", ":"))

    @classmethod
    def from_text(cls, text: str) -> Covered:
        """Raises ArchiveError for a text that is none."""
        try:
            found = json.loads(text)
            offsets, starts = (
                {int(partition): int(offset) for partition, offset in named.items()}
                for named in (found["offsets"], found.get("starts", {}))
            )
            return cls(str(found["topic"]), str(found["topic_id"]), offsets, starts)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise ArchiveError(f"the table's offsets are damaged: {reason_of(error)}") from None

    @property
    def span(self) -> int | None:
        """The number of offsets that the table covers; None where its start is not known."""
        if not self.starts:
            return None
        return sum(offset - self.starts.get(partition, offset) for partition, offset in self.offsets.items())

    def has_more_than(self, other: Covered | None) -> bool:
        """Returns whether a partition is covered further."""
        known = other.offsets if other is not None else {}
        return any(offset > known.get(partition, 0) for partition, offset in self.offsets.items())


def _by_text(offsets: dict[int, int]) -> dict[str, int]:
    return {str(partition): offsets[partition] for partition in sorted(offsets)}


class PartitionBy(StrEnum):
    """Units of a record's timestamp by which a table is partitioned."""

    hour = "hour"
    day = "day"
    month = "month"
    none = "none"


class RowRules(Protocol):
    """Rules of a table for its rows, beside their types."""

    def adapted(self, kind: pa.DataType) -> pa.DataType:
        """The type of values, for a type that follows from them or from their schema."""

    def errors(self, rows: pa.RecordBatch) -> dict[int, str]:
        """The rows that the table does not take, with the reason. Raises ArchiveError where it can take none."""


class Table(Protocol):
    """A topic's table with its dead-letter records. What is written counts when it is committed.

    `rules`: those of its rows, beside their types; None where there are none.
    """

    rules: RowRules | None

    @property
    def name(self) -> str:
        """The name of an Iceberg table with its namespace, or the folder of a Parquet table."""

    @property
    def covered(self) -> Covered | None:
        """The offsets of the newest commit; None before the first."""

    @property
    def schema(self) -> pa.Schema | None:
        """The columns of the table; None where there is no table."""

    @property
    def record_count(self) -> int:
        """The number of rows and dead-letter records of the newest commit."""

    def evolve(self, schema: pa.Schema) -> None:
        """Creates the table, or adds and widens columns."""

    def restart(self, schema: pa.Schema) -> None:
        """Has the next commit put its rows in place of all others, with these columns. The table exists."""

    def write(self, rows: pa.Table, dead_letter_records: pa.Table) -> None: ...

    def commit(self, covered: Covered) -> None:
        """Adds all that is written. Raises TableChanged where another process has committed offsets meanwhile."""

    def abandon(self) -> None:
        """Forgets and deletes what is written and not committed."""

    def maintain(self) -> None:
        """Merges small files, and deletes what no reader needs any more."""

    def close(self) -> None: ...


class FileRange(NamedTuple):
    """Records of a file of a table: those of a partition lie between the offsets, both included."""

    path: str
    partitions: tuple[int, int]
    offsets: tuple[int, int]
    rows: int

    def reaches(self, partition: int, offset: int) -> bool:
        """Returns whether the file may have a record of a partition from an offset on."""
        return self.partitions[0] <= partition <= self.partitions[1] and self.offsets[1] >= offset


class Source(Protocol):
    """A table that is read back. `id`: that of no other table, of other warehouses included."""

    name: str
    id: str
    schema: pa.Schema

    def ranges(self) -> list[FileRange]: ...

    def read(self, partition: int, first_offset: int, next_offset: int) -> pa.Table:
        """The rows of a partition between two offsets, in any order."""


def locked(path: Path) -> IO[str]:
    """An open file with a lock, which the end of the process releases. Raises ArchiveError where another process has it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    file = path.open("w", encoding="utf-8")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        raise ArchiveError(f"another process writes {path.parent.name}, or this one twice") from None
    return file


def partitioned(rows: pa.Table, unit: PartitionBy) -> Iterator[tuple[Any, pa.Table]]:
    """The rows by their partition of the table: the beginning of the hour, day or month, None for no timestamp."""
    if unit is PartitionBy.none or not rows.num_rows:
        yield None, rows
        return
    stamps = rows.column("timestamp").combine_chunks()
    starts = pc.floor_temporal(stamps, unit=unit.value)
    found = sorted(pc.unique(starts).to_pylist(), key=lambda one: (one is not None, one))
    for start in found:
        if len(found) == 1:
            yield start, rows
        elif start is None:
            yield start, rows.filter(starts.is_null())
        else:
            yield start, rows.filter(pc.fill_null(pc.equal(starts, pa.scalar(start, starts.type)), False))


def groups_to_merge(files: Iterable[tuple[Hashable, int, T]], target_bytes: int = TARGET_FILE_BYTES) -> list[list[T]]:
    """Groups of files to merge: of one partition and about one size. `files`: partition, size in bytes, file."""
    by_tier: dict[tuple[Hashable, int], list[tuple[int, T]]] = {}
    for key, size, one in files:
        if size < target_bytes // 2:
            tier = int(math.log(max(size, _LEAST_FILE_BYTES), FILES_TO_MERGE))
            by_tier.setdefault((key, tier), []).append((size, one))
    found = []
    for members in by_tier.values():
        if len(members) >= FILES_TO_MERGE:
            found += [one for one in _filled(members, target_bytes) if len(one) > 1]
    return found


def bounded_tables(tables: Iterable[pa.Table]) -> list[pa.Table]:
    """The first of the tables that fit into memory together: files can be much smaller than their rows."""
    found: list[pa.Table] = []
    total = 0
    for one in tables:
        total += one.nbytes
        if found and total > _MOST_MERGED_BYTES:
            break
        found.append(one)
    return found


def _filled(members: Sequence[tuple[int, T]], target_bytes: int) -> list[list[T]]:
    groups: list[list[T]] = [[]]
    total = 0
    for size, one in members:
        if groups[-1] and total + size > target_bytes:
            groups.append([])
            total = 0
        groups[-1].append(one)
        total += size
    return groups
