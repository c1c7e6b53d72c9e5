"""Partitions of a table by its columns: `country`, `bucket(16,id)`, `day` of the record, `month(created)`.

A partition is a transform of Iceberg on a column, so engines leave out files by conditions on the column itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.partitioning import PartitionFieldValue, PartitionKey, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import UnknownTransform

from .key_columns import column_at, column_path
from .store import ArchiveError

_TIMESTAMP = "timestamp"
_EXAMPLES = "examples are country, bucket(16,id), truncate(4,name) and day(created)"
_UNITS = ("hour", "day", "month", "year")
_NUMBERED = ("bucket", "truncate")
_CALL = re.compile(r"(?P<name>[a-z]+)\((?:(?P<number>\d+), *)?(?P<column>[^(),]+)\)")
#: Each partition of a write is a file.
_MOST_PARTITIONS = 1_000


@dataclass(frozen=True)
class PartitionColumn:
    """`transform`: in the words of Iceberg's specification, such as `bucket[16]`."""

    path: str
    transform: str

    @classmethod
    def parse(cls, text: str) -> PartitionColumn:
        """Raises ArchiveError for a text that is none."""
        if text in _UNITS:
            return cls(_TIMESTAMP, text)
        call = _CALL.fullmatch(text)
        if call is None:
            if "(" in text or ")" in text:
                raise ArchiveError(
                    f"{text!r} cannot be a partition; examples are country, bucket(16,id), truncate(4,name), day(created)"
                )
            return cls(column_path(text), "identity")
        name, number, path = call["name"], call["number"], column_path(call["column"].strip())
        if name in _NUMBERED and number is not None and int(number) > 0:
            return cls(path, f"{name}[{number}]")
        if name in _UNITS and number is None:
            return cls(path, name)
        raise ArchiveError(
            f"{text!r} cannot be a partition; examples are country, bucket(16,id), truncate(4,name), day(created)"
        )

    @property
    def name(self) -> str:
        """The name of the partition's field, of which a table cannot have two: no column has it."""
        suffix = self.transform.partition("[")[0]
        return f"{self.path.replace('.', '_')}_{'partition' if suffix == 'identity' else suffix}"


def split_columns(text: str) -> list[str]:
    """The columns of a list with commas, which are also within brackets: `country,bucket(16,id)`."""
    return [one.strip() for one in re.split(r",(?![^(]*\))", text)]


def partition_columns(text: str) -> tuple[PartitionColumn, ...]:
    """The partitions of an option; nothing for `none`. Raises ArchiveError."""
    found = () if text.strip() == "none" else tuple(PartitionColumn.parse(one) for one in split_columns(text))
    if len({one.path for one in found}) != len(found):
        raise ArchiveError(f"--partition-by {text} names a column twice, which PyIceberg does not write")
    return found


def rows_by_partition(schema: Schema, spec: PartitionSpec, rows: pa.Table) -> Iterator[tuple[PartitionKey, pa.Table]]:
    """The rows of each partition. Raises ArchiveError for more than a thousand."""
    codes = np.zeros(rows.num_rows, np.int64)
    values: list[list[object]] = []
    for field in spec.fields:
        if isinstance(field.transform, UnknownTransform):
            raise ArchiveError(f"the table is partitioned by {field.transform}, which this release does not write")
        path = schema.find_column_name(field.source_id)
        assert path is not None
        column = _floored(column_at(rows, path), str(field.transform))
        of_rows, of_column = _transformed(field.transform.transform(schema.find_type(path)), column)
        codes = codes * len(of_column) + of_rows
        values.append(of_column)
    found, of_rows = np.unique(codes, return_inverse=True)
    if len(found) > _MOST_PARTITIONS:
        raise ArchiveError(
            f"the number of partitions of one write is {len(found)}, and at most {_MOST_PARTITIONS} can be: choose a "
            "coarser --partition-by, such as bucket(16,COLUMN)"
        )
    for number, code in enumerate(found.tolist()):
        key = _partition_key(schema, spec, _values_at(values, code))
        yield key, rows if len(found) == 1 else rows.filter(pa.array(of_rows == number))


def _floored(column: pa.ChunkedArray, transform: str) -> pa.ChunkedArray:
    """Times at the begin of their unit, which has the same partition: few values are left."""
    if transform in _UNITS and pa.types.is_timestamp(column.type):
        column = pc.floor_temporal(column, unit=transform)
    return column


def _transformed(
    transform: object, column: pa.ChunkedArray
) -> tuple[np.ndarray[tuple[int], np.dtype[np.int64]], list[object]]:
    """For each row the place of its partition value, and the values."""
    whole = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
    coded = whole.dictionary_encode(null_encoding="encode")
    assert callable(transform)
    made = [None if one is None else transform(one) for one in physical_values(coded.dictionary)]
    places: dict[object, int] = {}
    of_dictionary = np.array([places.setdefault(one, len(places)) for one in made], np.int64)
    return of_dictionary[coded.indices.to_numpy(False)], list(places) or [None]


def physical_values(values: pa.Array) -> list[object]:
    """Values as Iceberg's transforms take them: numbers for dates and times."""
    kind = values.type
    if pa.types.is_date32(kind):
        values = values.cast(pa.int32())
    elif pa.types.is_timestamp(kind) or pa.types.is_time(kind):
        values = values.cast(pa.int64())
    found: list[object] = values.to_pylist()
    return found


def _values_at(values: Sequence[Sequence[object]], code: int) -> list[object]:
    found: list[object] = []
    for of_column in reversed(values):
        code, place = divmod(code, len(of_column))
        found.append(of_column[place])
    return found[::-1]


def _partition_key(schema: Schema, spec: PartitionSpec, values: Sequence[object]) -> PartitionKey:
    fields = [PartitionFieldValue(field=field, value=value) for field, value in zip(spec.fields, values, strict=True)]
    return PartitionKey(fields, spec, schema)
