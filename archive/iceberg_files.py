"""Data files of Iceberg tables: rows by partition, as PyIceberg writes them."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyiceberg.io.pyarrow import pyarrow_to_schema
from pyiceberg.partitioning import PartitionFieldValue, PartitionKey, PartitionSpec
from pyiceberg.table import Table as StoredTable
from pyiceberg.table import WriteTask
from pyiceberg.transforms import DayTransform, HourTransform, MonthTransform
from pyiceberg.types import TimestamptzType

from .errors import ArchiveError
from .store import PartitionBy, partitioned

TRANSFORMS = {
    PartitionBy.hour: HourTransform(), PartitionBy.day: DayTransform(), PartitionBy.month: MonthTransform(),
}  # fmt: skip


def write_tasks(table: StoredTable, rows: pa.Table, write_id: uuid.UUID, numbers: Iterator[int]) -> Iterator[WriteTask]:
    """The files to write for rows: one for each partition of the table."""
    schema = pyarrow_to_schema(rows.schema, name_mapping=table.schema().name_mapping)
    spec = table.spec()
    for start, part in partitioned(rows, unit_of(spec)):
        yield WriteTask(
            write_uuid=write_id, task_id=next(numbers), schema=schema, record_batches=part.combine_chunks().to_batches(),
            partition_key=_partition_key(table, spec, start),
        )  # fmt: skip


def unit_of(spec: PartitionSpec) -> PartitionBy:
    """The unit of a table's partitions. Raises ArchiveError for partitions of another kind."""
    if not spec.fields:
        return PartitionBy.none
    units = {type(transform): unit for unit, transform in TRANSFORMS.items()}
    unit = units.get(type(spec.fields[0].transform)) if len(spec.fields) == 1 else None
    if unit is None:
        raise ArchiveError(f"the table is not partitioned by hour, day or month of one column: {spec}")
    return unit


def _partition_key(table: StoredTable, spec: PartitionSpec, start: Any) -> PartitionKey | None:
    if not spec.fields:
        return None
    (field,) = spec.fields
    micros = None if start is None else int(pa.scalar(start, pa.timestamp("us", tz="UTC")).value)
    value = field.transform.transform(TimestamptzType())(micros)
    return PartitionKey([PartitionFieldValue(field=field, value=value)], spec, table.schema())
