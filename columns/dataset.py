"""A scan as a `pyarrow.dataset.Dataset`: engines that take one ask for the columns and the offsets that a query needs.

DuckDB and Polars call `scanner` with columns and a filter. Splits whose partition and offsets cannot pass the filter are not
read, which Arrow itself decides by the expressions of fragments. Arrow applies the filter to the rows of the others.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.fs

from .plan import Plan
from .reading import Split
from .scan import Scan

_NAME = re.compile(r"\w+")


class ScanDataset(ds.Dataset):  # type: ignore[misc]
    """`duckdb.sql("select count(*) from orders")` with `orders = ScanDataset(scan(...))` reads no values."""

    def __init__(self, made: Scan) -> None:
        self._scan = made

    @property
    def schema(self) -> pa.Schema:
        return self._scan.schema

    def scanner(
        self, columns: Sequence[str] | None = None, filter: pa.compute.Expression | None = None, **options: Any
    ) -> ds.Scanner:
        names = self.schema.names if columns is None else list(columns)
        # An expression has no list of its fields; a name too many costs a column.
        used = set(_NAME.findall(str(filter))) if filter is not None else set()
        needed = [name for name in self.schema.names if name in names or name in used]
        part = self._scan.select(needed).with_plan(pruned(self._scan.plan, filter))
        return ds.Scanner.from_batches(part.reader(), columns=names, filter=filter)

    def to_table(self, columns: Sequence[str] | None = None, filter: Any = None, **options: Any) -> pa.Table:
        return self.scanner(columns, filter).to_table()

    def count_rows(self, filter: Any = None, **options: Any) -> int:
        return self._scan.count() if filter is None else self.scanner([], filter).count_rows()


def pruned(plan: Plan, filter: Any) -> Plan:
    """The plan without splits that have no record which passes the filter."""
    if filter is None:
        return plan
    form, system = ds.IpcFileFormat(), pyarrow.fs.LocalFileSystem()
    splits = plan.splits
    fragments = [
        form.make_fragment(str(number), system, partition_expression=_guarantee(split))
        for number, split in enumerate(splits)
    ]
    schema = pa.schema([("partition", pa.int32()), ("offset", pa.int64())])
    try:
        whole = ds.FileSystemDataset(fragments, schema, form, system)
        kept = {int(fragment.path) for fragment in whole.get_fragments(filter)}
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):  # of other columns, too
        return plan
    parts, number = [], 0
    for one in plan.partitions:
        left = tuple(split for at, split in enumerate(one.splits, number) if at in kept)
        number += len(one.splits)
        parts.append(replace(one, splits=left))
    return replace(plan, partitions=tuple(parts))


def _guarantee(split: Split) -> Any:
    offset, partition = ds.field("offset"), ds.field("partition")
    within = (offset >= split.first_offset) & (offset < split.next_offset)
    return (partition == pa.scalar(split.partition, pa.int32())) & within


class UndecodableDataset(ds.Dataset):  # type: ignore[misc]
    """The records of a scan whose values do not decode. `fields`: the schema of the table."""

    def __init__(self, made: Scan, fields: pa.Schema) -> None:
        self._scan = made
        self._fields = fields

    @property
    def schema(self) -> pa.Schema:
        return self._fields

    def scanner(self, columns: Sequence[str] | None = None, filter: Any = None, **options: Any) -> ds.Scanner:
        part = self._scan.select(["value"])
        for _ in part:
            pass
        batches = part.undecodable.to_batches()
        return ds.Scanner.from_batches(batches, schema=self._fields, columns=columns, filter=filter)
