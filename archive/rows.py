"""Records of a scan as rows of tables: raw or typed columns, and dead-letter records with their reasons.

Raw rows have the columns of a scan without the topic. Typed rows have the value as a struct, whose type is that of the table
(schemas.py). A row that does not fit its table is a dead-letter record: the raw columns and the reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..cli.client.errors import NOT_FOUND, CommandError
from ..cli.records.schema_registry import SchemaRegistry
from ..columns import SCHEMA, InvalidScan, Unread, ValueSchema, decoder_of
from ..columns.values import Decoder, JsonDecoder, json_type_of
from .errors import ArchiveError
from .schemas import conformed, merged, storable, without_rows

_MICROSECONDS = pa.timestamp("us", tz="UTC")
_RAW = [field for field in SCHEMA if field.name != "topic"]
_ELEMENT = pa.struct([pa.field("key", pa.string(), nullable=False), pa.field("value", pa.binary())])
_STORED = {"timestamp": _MICROSECONDS, "headers": pa.list_(pa.field("element", _ELEMENT, nullable=True))}
#: Columns of a raw table, in the order of a scan.
RAW_SCHEMA = pa.schema([one.with_type(_STORED.get(one.name, one.type)) for one in _RAW])
DEAD_LETTER_SCHEMA = RAW_SCHEMA.append(pa.field("reason", pa.string(), nullable=False))
#: The bytes of a value beside its typed columns.
VALUE_BYTES = "value_bytes"
#: The `timestamp_type` of offsets without a record (Kafka's NO_TIMESTAMP_TYPE).
UNREAD = -1
#: Timestamps with a date in Python, in Spark and in the names of partitions: years 1 to 9999, in milliseconds.
_FIRST_MS, _LAST_MS = -62_135_596_800_000, 253_402_300_799_999


class Rows(NamedTuple):
    rows: pa.RecordBatch
    dead_letter_records: pa.RecordBatch


class RawRows:
    """Rows with keys and values as bytes."""

    schema: pa.Schema = RAW_SCHEMA
    #: Columns of the scan.
    columns = tuple(RAW_SCHEMA.names)

    def prepare(self, batch: pa.RecordBatch) -> None:
        """Does nothing: the schema of raw rows is fixed."""

    def rows(self, batch: pa.RecordBatch) -> Rows:
        stored, bad = _stored(batch)
        return _divided(stored, stored, bad)


class TypedRows:
    """Rows with values as structs. `schema` grows with the values: `prepare` comes before the rows of each batch."""

    columns = tuple(RAW_SCHEMA.names)

    def __init__(self, values: ValueSchema, topic: str, schema: pa.Schema | None, *, with_bytes: bool = False) -> None:
        """`schema`: of the table where there is one. Raises InvalidScan."""
        self._named = values
        self._topic = topic
        self._with_bytes = with_bytes or (schema is not None and VALUE_BYTES in schema.names)
        has_type = schema is not None and "value" in schema.names
        self._type: pa.DataType | None = (
            storable(schema.field("value").type) if schema is not None and has_type else None
        )
        self._decoder: Decoder | None = None
        self._registry = None if values.registry is None else SchemaRegistry(values.registry, values.user_info)
        self._known_ids: set[bytes] = set()
        self._is_inferred = values.format == "json" and values.schema is None and values.registry is None
        if not self._is_inferred:
            self._renew()
        elif self._type is not None:
            self._decoder = JsonDecoder(self._type)

    @property
    def schema(self) -> pa.Schema:
        fields = [one for one in RAW_SCHEMA if one.name != "value"]
        if self._with_bytes:
            fields.append(pa.field(VALUE_BYTES, pa.binary()))
        if self._type is not None:
            fields.append(pa.field("value", self._type))
        return pa.schema(fields)

    def prepare(self, batch: pa.RecordBatch) -> None:
        """Takes the new columns of a batch's values into the schema. Raises CommandError where the registry is away."""
        values = batch.column("value")
        if self._is_inferred:
            self._infer(values)
        elif self._registry is not None:
            ids = _schema_ids(values) - self._known_ids
            found = [one for one in sorted(ids) if self._has_schema(self._registry, one)]
            if found:
                self._renew()
            self._known_ids |= ids

    def _infer(self, values: pa.Array) -> None:
        try:
            self._grow(json_type_of(values, rows=len(values), unknown=None))
        except InvalidScan:  # no object among the values: no column
            return

    def _has_schema(self, registry: SchemaRegistry, framed_id: bytes) -> bool:
        """Returns whether the registry has the schema: without it the rows do not decode."""
        try:
            registry.schema(int.from_bytes(framed_id, "big"))
        except CommandError as error:
            if error.status == NOT_FOUND:
                return False
            raise
        return True

    def _renew(self) -> None:
        """Decodes by the newest schema from now on."""
        decoder = decoder_of(self._named, self._topic, lambda: pa.array([], pa.binary()))
        self._grow(decoder.type)
        self._decoder = JsonDecoder(self._type) if self._named.format == "json" else decoder

    def _grow(self, found: pa.DataType) -> None:
        kind = storable(found)
        grown = kind if self._type is None else merged(self._type, kind)
        if grown != self._type:
            self._type = grown
            if self._is_inferred:
                self._decoder = JsonDecoder(grown)

    def rows(self, batch: pa.RecordBatch) -> Rows:
        stored, bad = _stored(batch)
        values = batch.column("value")
        if self._decoder is None or self._type is None:
            decoded = None
            is_valid = np.flatnonzero(values.is_valid().to_numpy(False))
            bad = dict.fromkeys(is_valid.tolist(), "no value is a JSON object with a field, so far") | bad
        else:
            found = self._decoder.decode(values)
            fitted = conformed(found.values, self._type)
            bad = fitted.bad | dict(zip(found.bad, found.reasons, strict=True)) | bad
            decoded = fitted.values if not fitted.bad else without_rows(fitted.values, fitted.bad)
        return _divided(self._row(stored, decoded), stored, bad)

    def _row(self, stored: pa.RecordBatch, decoded: pa.Array | None) -> pa.RecordBatch:
        columns = {name: stored.column(name) for name in stored.schema.names}
        columns[VALUE_BYTES] = columns.pop("value")
        if decoded is not None:
            columns["value"] = decoded
        schema = self.schema
        return pa.RecordBatch.from_arrays([columns[name] for name in schema.names], schema=schema)


RowMaker = RawRows | TypedRows


def row_maker(values: ValueSchema | None, topic: str, schema: pa.Schema | None, keep_value: bool) -> RowMaker:
    """Raw rows without `values`, typed ones with. `schema`: of the table where there is one. Raises InvalidScan."""
    if values is None:
        return RawRows()
    return TypedRows(values, topic, schema, with_bytes=keep_value)


def _schema_ids(values: pa.Array) -> set[bytes]:
    """The ids of a registry's schemas that values have before them."""
    has_frame = pc.fill_null(pc.starts_with(values, "\0"), False)
    ids = pc.unique(pc.binary_slice(values.filter(has_frame), 1, 5))
    return {one for one in ids.to_pylist() if len(one) == 4}


def _stored(batch: pa.RecordBatch) -> tuple[pa.RecordBatch, dict[int, str]]:
    """A batch of a scan with the types of RAW_SCHEMA, and the rows whose timestamps no table takes."""
    stamps = batch.column("timestamp").cast(pa.int64())
    bad: dict[int, str] = {}
    outside = pc.fill_null(pc.or_(pc.less(stamps, _FIRST_MS), pc.greater(stamps, _LAST_MS)), False)
    for row in np.flatnonzero(outside.to_numpy(False)).tolist():
        bad[row] = f"the timestamp {stamps[row].as_py()} ms is not between the years 1 and 9999"
    if bad:
        stamps = without_rows(stamps, bad)
    columns = []
    for field in RAW_SCHEMA:
        column = batch.column(field.name)
        if field.name == "timestamp":
            column = stamps.cast(pa.timestamp("ms", tz="UTC")).cast(_MICROSECONDS)
        elif field.name == "headers":
            column = column.cast(field.type)
        columns.append(column)
    return pa.RecordBatch.from_arrays(columns, schema=RAW_SCHEMA), bad


def _divided(rows: pa.RecordBatch, stored: pa.RecordBatch, bad: dict[int, str]) -> Rows:
    if not bad:
        return Rows(rows, _dead_letter_records(stored.slice(0, 0), []))
    numbers = sorted(bad)
    keep = np.ones(rows.num_rows, bool)
    keep[numbers] = False
    left = stored.take(pa.array(numbers))
    return Rows(rows.filter(pa.array(keep)), _dead_letter_records(left, [bad[one] for one in numbers]))


def _dead_letter_records(left: pa.RecordBatch, reasons: Sequence[str]) -> pa.RecordBatch:
    columns: list[Any] = [*left.columns, pa.array(reasons, pa.string())]
    return pa.RecordBatch.from_arrays(columns, schema=DEAD_LETTER_SCHEMA)


def unread_record(unread: Unread) -> pa.RecordBatch:
    """A dead-letter record for offsets that cannot be read: it has the first of them."""
    row: dict[str, Any] = {
        "partition": unread.partition, "offset": unread.first_offset, "timestamp": None, "timestamp_type": UNREAD,
        "key": None, "value": None, "headers": [], "reason": str(unread),
    }  # fmt: skip
    return pa.RecordBatch.from_pylist([row], DEAD_LETTER_SCHEMA)


def check_fits(table: pa.Schema, rows: pa.Schema, name: str) -> None:
    """Raises ArchiveError where a table has columns of other kinds: raw ones in place of typed ones, for example."""
    for field in rows:
        if field.name not in table.names:
            continue
        kind = storable(table.field(field.name).type)
        if field.name == "value" and pa.types.is_struct(kind) != pa.types.is_struct(field.type):
            raise ArchiveError(
                f"table {name} has {'typed' if pa.types.is_struct(kind) else 'raw'} values: choose another"
            )
