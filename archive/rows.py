"""Records of a scan as rows of tables: raw or typed columns, and dead-letter records with their reasons.

Raw rows have the columns of a scan without the topic. Typed rows have the value as a struct, whose type is that of the
table. A row that does not fit its table is a dead-letter record: the raw columns and the reason.
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
from ..columns.values import Decoder, JsonDecoder, floored, json_type_of
from .store import ArchiveError

# ---- types of the columns of tables, and their evolution
#
# A table takes new columns, and wider types where Iceberg has the promotion: int to long, float to double, and decimals of
# more digits. A column that a schema no longer has stays in the table; new rows have null there. Every other change leaves
# the column as it is, and a row whose value does not fit is a dead-letter record (`conformed`).

#: Digits of an unsigned integer of 64 bits.
_UINT64_DIGITS = 20
_INTEGERS = {
    pa.int8(): 32,
    pa.int16(): 32,
    pa.int32(): 32,
    pa.int64(): 64,
    pa.uint8(): 32,
    pa.uint16(): 32,
    pa.uint32(): 64,
}


def storable(kind: pa.DataType) -> pa.DataType:
    """The type of a column for values of a type: the types that Iceberg has."""
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(one.name, storable(one.type), one.nullable) for one in kind])
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        item = kind.value_field
        return pa.list_(pa.field("element", storable(item.type), item.nullable))
    if pa.types.is_map(kind):
        return pa.map_(storable(kind.key_type), storable(kind.item_type))
    if kind in _INTEGERS:
        return pa.int32() if _INTEGERS[kind] == 32 else pa.int64()
    if pa.types.is_uint64(kind):
        return pa.decimal128(_UINT64_DIGITS, 0)
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", kind.tz and "UTC")
    if pa.types.is_time(kind):
        return pa.time64("us")
    return _SIMPLE.get(kind, kind)


_SIMPLE = {
    pa.float16(): pa.float32(), pa.large_string(): pa.string(), pa.large_binary(): pa.binary(),
    pa.string_view(): pa.string(), pa.binary_view(): pa.binary(), pa.null(): pa.string(), pa.date64(): pa.date32(),
}  # fmt: skip


def merged(old: pa.DataType, new: pa.DataType) -> pa.DataType:
    """The type of a column for values of a table's type and of a schema's."""
    if pa.types.is_struct(old) and pa.types.is_struct(new):
        added = {one.name: one for one in new}
        kept = [_merged_field(one, added.pop(one.name, None)) for one in old]
        return pa.struct([*kept, *(pa.field(one.name, one.type) for one in added.values())])
    if pa.types.is_list(old) and pa.types.is_list(new):
        return pa.list_(_merged_field(old.value_field, new.value_field))
    if pa.types.is_map(old) and pa.types.is_map(new):
        return pa.map_(old.key_type, merged(old.item_type, new.item_type))
    return new if _is_promotion(old, new) else old


def grown(old: pa.Schema, new: pa.Schema) -> pa.Schema:
    """The columns of a table for rows of its schema and of another."""
    return pa.schema(list(merged(pa.struct(list(old)), pa.struct(list(new)))))


def _merged_field(old: pa.Field, new: pa.Field | None) -> pa.Field:
    return old if new is None else pa.field(old.name, merged(old.type, new.type), old.nullable)


def _is_promotion(old: pa.DataType, new: pa.DataType) -> bool:
    if pa.types.is_decimal(old) and pa.types.is_decimal(new):
        return bool(new.scale == old.scale and new.precision > old.precision)
    return (old, new) in ((pa.int32(), pa.int64()), (pa.float32(), pa.float64()))


class Conformed(NamedTuple):
    """`values` of the type; null in the rows of `bad`, which have the reason."""

    values: pa.Array
    bad: dict[int, str]


def conformed(values: pa.Array, kind: pa.DataType, name: str = "") -> Conformed:
    """Values as a table's type. Fields that the type lacks are left out; those that the values lack are null."""
    if values.type == kind:
        return Conformed(values, {})
    values = floored(values, kind)
    if pa.types.is_struct(kind) and pa.types.is_struct(values.type):
        return _conformed_struct(values, kind, name)
    if pa.types.is_list(kind) and pa.types.is_list(values.type):
        return _conformed_list(values, kind, name)
    if pa.types.is_map(kind) and pa.types.is_map(values.type):
        return _conformed_map(values, kind, name)
    if _is_cast(values.type, kind):
        try:
            return Conformed(values.cast(kind), {})
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            pass
    return _row_by_row(values, kind, name)


def _conformed_struct(values: pa.Array, kind: pa.DataType, name: str) -> Conformed:
    bad: dict[int, str] = {}
    columns = []
    for field in kind:
        number = values.type.get_field_index(field.name)
        if number < 0:
            columns.append(pa.nulls(len(values), field.type))
            continue
        part = conformed(pc.struct_field(values, [number]), field.type, f"{name}.{field.name}".lstrip("."))
        columns.append(part.values)
        bad = part.bad | bad
    is_null = values.is_null()
    made = pa.StructArray.from_arrays(columns, fields=list(kind), mask=is_null if values.null_count else None)
    return Conformed(made, bad)


def _conformed_list(values: pa.Array, kind: pa.DataType, name: str) -> Conformed:
    inner = conformed(values.flatten(), kind.value_type, f"{name}[]")
    parents = pc.list_parent_indices(values) if inner.bad else None
    bad = {parents[row].as_py(): reason for row, reason in inner.bad.items()} if parents is not None else {}
    return Conformed(pa.ListArray.from_arrays(_list_offsets(values), inner.values, type=kind), bad)


def _conformed_map(values: pa.Array, kind: pa.DataType, name: str) -> Conformed:
    entries = values.cast(pa.list_(pa.struct([("key", values.type.key_type), ("value", values.type.item_type)])))
    flat = entries.flatten()
    keys = conformed(pc.struct_field(flat, [0]), kind.key_type, f"{name}{{}}")
    items = conformed(pc.struct_field(flat, [1]), kind.item_type, f"{name}{{}}")
    inner = items.bad | keys.bad
    parents = pc.list_parent_indices(entries) if inner else None
    bad = {parents[row].as_py(): reason for row, reason in inner.items()} if parents is not None else {}
    if keys.bad:  # a map's key cannot be null: no row of this array is stored
        return Conformed(pa.nulls(len(values), kind), {row: next(iter(bad.values())) for row in range(len(values))})
    return Conformed(pa.MapArray.from_arrays(_list_offsets(entries), keys.values, items.values, type=kind), bad)


def _list_offsets(values: pa.Array) -> pa.Array:
    """Offsets from 0 with a null for each null list, as `from_arrays` takes them."""
    lengths = pc.fill_null(pc.list_value_length(values), 0).to_numpy(False)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    mask = np.append(values.is_null().to_numpy(False), False)
    return pa.array(offsets, pa.int32(), mask=mask)


def _is_cast(old: pa.DataType, new: pa.DataType) -> bool:
    """Returns whether values of a type may stand for those of another, where each of them fits."""
    if pa.types.is_string(new):
        return not pa.types.is_nested(old) and not pa.types.is_binary(old)
    if pa.types.is_string(old):
        return not pa.types.is_nested(new) and not pa.types.is_binary(new)
    if _is_number(old) and _is_number(new):
        return True
    same = (pa.types.is_timestamp, pa.types.is_time, pa.types.is_date)
    return any(check(old) and check(new) for check in same)


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _row_by_row(values: pa.Array, kind: pa.DataType, name: str) -> Conformed:
    bad: dict[int, str] = {}
    is_cast = _is_cast(values.type, kind)
    made: list[Any] = [pa.nulls(1, kind)]
    places = np.zeros(len(values), np.int64)
    for row in np.flatnonzero(values.is_valid().to_numpy(False)).tolist():
        one = values.slice(row, 1)
        try:
            if not is_cast:
                raise pa.ArrowInvalid(f"is of the type {values.type}, and the table's column is {kind}")
            made.append(one.cast(kind))
            places[row] = len(made) - 1
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            bad[row] = f"{name or 'the value'}: {str(error).partition(chr(10))[0]}"
    return Conformed(pa.concat_arrays(made).take(pa.array(places)), bad)


def without_rows(values: pa.Array, rows: Any) -> pa.Array:
    """The values with null, fields included, in these rows."""
    mask = np.zeros(len(values), bool)
    mask[list(rows)] = True
    return values.take(pa.array(np.arange(len(values)), mask=mask))


# ---- rows

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
