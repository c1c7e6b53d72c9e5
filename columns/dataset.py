"""A scan as a `pyarrow.dataset.Dataset`: engines that take one ask for the columns and the records that a query needs.

DuckDB and Polars call `scanner` with columns and a filter. Splits whose partition, offsets and timestamps cannot pass the
filter are not read, which Arrow itself decides by the expressions of fragments; nor are segments without a key that the
filter names (key_filters.py). Arrow applies the filter to the rows of the others.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.fs

from .dataset_scanner import DatasetScanner
from .directory import segments_of
from .key_conditions import keys_of
from .plan import Plan
from .record_schema import SCHEMA
from .scan import Scan
from .segment import Segment, latest_timestamp
from .split import Split

_NAME = re.compile(r"\w+")


class ScanDataset(ds.Dataset):  # type: ignore[misc]
    """`duckdb.sql("select count(*) from orders")` with `orders = ScanDataset(scan(...))` reads no values."""

    def __init__(self, scanned: Scan) -> None:
        self._scan = scanned

    @property
    def schema(self) -> pa.Schema:
        return self._scan.schema

    def scanner(
        self, columns: Sequence[str] | None = None, filter: pa.compute.Expression | None = None, **options: object
    ) -> ds.Scanner:
        names = self.schema.names if columns is None else list(columns)
        needed = used_columns(self.schema.names, names, filter)
        plan = pruned(self._scan.plan, filter, self.schema, whole_partitions=self._scan.latest_per_key)
        part = self._scan.select(needed).with_plan(plan)
        if filter is not None and "key" in _NAME.findall(str(filter)):
            part = part.with_keys(keys_of(filter, self.schema.field("key").type == pa.string()))
        return DatasetScanner(part.reader(), names, filter)

    def to_table(
        self, columns: Sequence[str] | None = None, filter: pa.compute.Expression | None = None, **options: object
    ) -> pa.Table:
        return self.scanner(columns, filter).to_table()

    def count_rows(self, filter: pa.compute.Expression | None = None, **options: object) -> int:
        return self._scan.count() if filter is None else self.scanner([], filter).count_rows()


def pruned(
    plan: Plan, filter: pa.compute.Expression | None, schema: pa.Schema = SCHEMA, *, whole_partitions: bool = False
) -> Plan:
    """The plan without splits that have no record which passes the filter. `schema`: of the dataset.

    Arrow compares the conditions on partitions, offsets and timestamps with each split, beside any others.
    `whole_partitions`: a partition keeps all of its splits or none. The latest record of a key is that of the whole
    partition, and only then does it pass the filter or not.
    """
    if filter is None:
        return plan
    times = _Times() if "timestamp" in _NAME.findall(str(filter)) else None
    kept = possible([_guarantee(split, times) for split in plan.splits], filter, schema)
    parts, number = [], 0
    for one in plan.partitions:
        left = tuple(split for at, split in enumerate(one.splits, number) if at in kept)
        number += len(one.splits)
        if whole_partitions and left:
            left = one.splits
        parts.append(replace(one, splits=left))
    return replace(plan, partitions=tuple(parts))


def possible(guarantees: Sequence[pa.compute.Expression], filter: pa.compute.Expression, schema: pa.Schema) -> set[int]:
    """The numbers of the parts of a dataset that may have a row which passes the filter. `guarantees`: conditions that every
    row of a part passes.
    """
    form, system = ds.IpcFileFormat(), pyarrow.fs.LocalFileSystem()
    fragments = [
        form.make_fragment(str(number), system, partition_expression=guarantee)
        for number, guarantee in enumerate(guarantees)
    ]
    try:
        whole = ds.FileSystemDataset(fragments, schema, form, system)
        return {int(fragment.path) for fragment in whole.get_fragments(filter)}
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError):  # the scanner raises it, too
        return set(range(len(guarantees)))


def used_columns(names: Sequence[str], columns: Sequence[str], filter: pa.compute.Expression | None) -> list[str]:
    """Those of the names that a scanner of `columns` with a filter needs, in their order.

    An expression has no list of its fields; a name too many costs a column.
    """
    used = set(_NAME.findall(str(filter))) if filter is not None else set()
    return [name for name in names if name in columns or name in used]


def _guarantee(split: Split, times: _Times | None) -> pa.compute.Expression:
    """A condition that every record of a split passes."""
    offset, partition, timestamp = ds.field("offset"), ds.field("partition"), ds.field("timestamp")
    found = (partition == pa.scalar(split.partition, pa.int32())) & (offset >= split.first_offset)
    found &= offset < split.next_offset
    latest = times.latest(split) if times is not None else None
    if latest is not None:
        found &= (timestamp <= pa.scalar(latest, SCHEMA.field("timestamp").type)) | timestamp.is_null()
    return found


class _Times:
    """The largest timestamps of splits of files, by the time indexes of their segments."""

    def __init__(self) -> None:
        self._segments: dict[str, list[Segment]] = {}
        self._latest: dict[str, int | None] = {}

    def latest(self, split: Split) -> int | None:
        """None where a segment of the split has no index that has it."""
        if split.path is None:
            return None
        found = []
        for segment in self._listed(split.path):
            is_behind = segment.base_offset >= split.next_offset
            if is_behind or (segment.next_base is not None and segment.next_base <= split.first_offset):
                continue
            if segment.path not in self._latest:
                self._latest[segment.path] = latest_timestamp(segment)
            found.append(self._latest[segment.path])
        known = [one for one in found if one is not None]
        return max(known) if known and len(known) == len(found) else None

    def _listed(self, path: str) -> list[Segment]:
        if path not in self._segments:
            self._segments[path] = []
            with suppress(OSError):
                self._segments[path] = segments_of(path)
        return self._segments[path]


class UndecodableDataset(ds.Dataset):  # type: ignore[misc]
    """The records of a scan whose values do not decode. `fields`: the schema of the table."""

    def __init__(self, scanned: Scan, fields: pa.Schema) -> None:
        self._scan = scanned
        self._fields = fields

    @property
    def schema(self) -> pa.Schema:
        return self._fields

    def scanner(
        self, columns: Sequence[str] | None = None, filter: pa.compute.Expression | None = None, **options: object
    ) -> ds.Scanner:
        part = self._scan.select(["value_error"])
        for _ in part:
            pass
        return ds.InMemoryDataset(part.undecodable, self._fields).scanner(columns=columns, filter=filter)
