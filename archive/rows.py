"""Records of a scan as rows of tables: raw or typed columns, and dead-letter records with their reasons.

Raw rows have the columns of a scan without the topic. Typed rows have the value as a struct, whose type is that of the
table. A row that does not fit its table is a dead-letter record: the raw columns and the reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..client.error_kinds import ErrorKind
from ..client.user_errors import UserError
from ..columns import SCHEMA, Unread, ValueSchema, decoder_of
from ..columns.decoder import Decoder
from ..columns.inference import Inference
from ..columns.json_decoder import JsonDecoder
from ..columns.json_text_decoder import JsonTextDecoder
from ..records.schema_registry import SchemaRegistry
from .column_names import distinct_fields, names_in_conflict
from .column_types import Times, cut_fields, in_nanoseconds, merged, storable, times_of_day
from .conforming import conformed, without_rows
from .store import ArchiveError, RowRules
from .values_beyond import ValuesBeyond

_MICROSECONDS = pa.timestamp("us", tz="UTC")
_RAW = [field for field in SCHEMA if field.name != "topic"]
_ELEMENT = pa.struct([pa.field("key", pa.string(), nullable=False), pa.field("value", pa.binary())])
_STORED = {"timestamp": _MICROSECONDS, "headers": pa.list_(pa.field("element", _ELEMENT, nullable=True))}
#: Columns of a raw table, in the order of a scan.
RAW_SCHEMA = pa.schema([one.with_type(_STORED.get(one.name, one.type)) for one in _RAW])
DEAD_LETTER_SCHEMA = RAW_SCHEMA.append(pa.field("reason", pa.string(), nullable=False))
#: The bytes of a value beside its typed columns.
VALUE_BYTES = "value_bytes"
#: The JSON text of a value with a field that is no column; null in other rows.
VALUE_JSON = "value_json"
#: The `timestamp_type` of offsets without a record (Kafka's NO_TIMESTAMP_TYPE).
UNREAD = -1
#: Timestamps with a date in Python, in Spark and in the names of partitions: years 1 to 9999, in milliseconds.
FIRST_MS, _LAST_MS = -62_135_596_800_000, 253_402_300_799_999


class Rows(NamedTuple):
    rows: pa.RecordBatch
    dead_letter_records: pa.RecordBatch


class RawRows:
    """Rows with keys and values as bytes."""

    schema: pa.Schema = RAW_SCHEMA
    #: Columns of the scan.
    columns = tuple(RAW_SCHEMA.names)

    def __init__(self, rules: RowRules | None = None) -> None:
        self._rules = rules

    def prepare(self, batch: pa.RecordBatch) -> None:
        """Does nothing: the schema of raw rows is fixed."""

    def rows(self, batch: pa.RecordBatch) -> Rows:
        stored, bad = _stored(batch)
        return _divided(stored, stored, bad, self._rules)


class TypedRows:
    """Rows with values as structs, or as JSON text: `prepare` comes before the rows of each batch.

    With a schema, columns grow with it. Without one the type of JSON is that of a sample (`set_type`), and a value with a
    field that is no column is in VALUE_JSON, too.
    """

    columns = tuple(RAW_SCHEMA.names)

    def __init__(
        self,
        values: ValueSchema,
        topic: str,
        schema: pa.Schema | None,
        *,
        with_bytes: bool = False,
        times: Times = Times.native,
        rules: RowRules | None = None,
    ) -> None:
        """`schema`: of the table where there is one. Raises InvalidScan."""
        self._named = values
        self._rules = rules
        self._times = times
        #: Fields whose columns lack the digits of their nanoseconds.
        self._cut: list[str] = []
        self._topic = topic
        self._with_bytes = with_bytes or (schema is not None and VALUE_BYTES in schema.names)
        has_type = schema is not None and "value" in schema.names
        self._type: pa.DataType | None = (
            storable(schema.field("value").type) if schema is not None and has_type else None
        )
        if self._type is not None and pa.types.is_binary(self._type):
            raise ArchiveError(f"the table of topic {topic} has raw values: name another, --table {topic}=NAME")
        self._decoder: Decoder | None = None
        self._registry = None if values.registry is None else SchemaRegistry(values.registry, values.user_info)
        self._known_ids: set[bytes] = set()
        self.is_inferred = values.is_free_json
        self._has_rest = schema is not None and VALUE_JSON in schema.names
        #: A batch, and its values that have fields without a column.
        self._rest: tuple[pa.RecordBatch, pa.Array] | None = None
        self._beyond = ValuesBeyond()
        if not self.is_inferred:
            self._renew()
        elif self._type is not None:
            self.set_type(self._type)

    @property
    def schema(self) -> pa.Schema:
        fields = [one for one in RAW_SCHEMA if one.name != "value"]
        if self._with_bytes:
            fields.append(pa.field(VALUE_BYTES, pa.binary()))
        if self._type is not None:
            fields.append(pa.field("value", self._type))
        if self._has_rest:
            fields.append(pa.field(VALUE_JSON, pa.string()))
        return pa.schema(fields)

    def adapted(self, kind: pa.DataType) -> pa.DataType:
        """The type of values by the rules of the table, for one that follows from them or from their schema."""
        return kind if self._rules is None else self._rules.adapted(kind)

    def set_type(self, kind: pa.DataType) -> None:
        """Sets the type of JSON values: a struct, or text."""
        self._type = kind = self.adapted(kind)
        self._decoder = JsonDecoder(kind) if pa.types.is_struct(kind) else JsonTextDecoder()

    def prepare(self, batch: pa.RecordBatch) -> None:
        """Takes the new columns of a batch's values into the schema. Raises UserError where the registry is away."""
        values = batch.column("value")
        if self.is_inferred:
            self._prepare_inferred(batch)
        elif self._registry is not None:
            ids = _schema_ids(values) - self._known_ids
            found = [one for one in sorted(ids) if self._has_schema(self._registry, one)]
            if found:
                self._renew()
            self._known_ids |= ids

    def _prepare_inferred(self, batch: pa.RecordBatch) -> None:
        if self._type is None:
            found = Inference.of(batch.column("value"), rows=None)
            if found.rows:
                self.set_type(inferred_type(found))
        if self._type is not None and pa.types.is_struct(self._type) and not self._with_bytes:
            rest = self._beyond.texts(batch.column("value"), self._type)
            self._has_rest = self._has_rest or rest.null_count < len(rest)
            self._rest = (batch, rest)

    def _has_schema(self, registry: SchemaRegistry, framed_id: bytes) -> bool:
        """Returns whether the registry has the schema: without it the rows do not decode."""
        try:
            registry.schema(int.from_bytes(framed_id, "big"))
        except UserError as error:
            if error.kind == ErrorKind.NOT_FOUND:
                return False
            raise
        return True

    def _renew(self) -> None:
        """Decodes by the newest schema from now on."""
        is_exact = self._times is Times.number
        decoder = decoder_of(self._named, self._topic, lambda: pa.array([], pa.binary()), "ns" if is_exact else "us")
        kind = self.adapted(storable(decoder.type, self._times))
        self._type = kind if self._type is None else merged(self._type, kind)
        if names := names_in_conflict(self._type):
            raise ArchiveError(
                f"topic {self._topic}: a table cannot have the field {names[0]} beside others of the schema"
            )
        # Timestamps of Protobuf have nanoseconds, which the decoder itself has cut.
        finest = in_nanoseconds(decoder.type) if self._named.format == "protobuf" else decoder.type
        self._cut = [] if self._with_bytes or self._named.format == "json" else cut_fields(finest, self._type)
        self._decoder = JsonDecoder(self._type) if self._named.format == "json" else decoder

    def notes(self) -> list[str]:
        """Lines for a user about the columns of times: digits that are cut, and types that Spark lacks."""
        found = []
        if self._cut:
            found.append(
                f"times of nanoseconds are cut to microseconds in {', '.join(self._cut)}: --times number has them as "
                "numbers, and --keep-value the bytes of each value"
            )
        of_day = times_of_day(self._type) if self._type is not None else []
        if of_day:
            found.append(
                f"Spark reads no table with times of day, as in {', '.join(of_day)}: --times number has microseconds"
            )
        return found

    def rows(self, batch: pa.RecordBatch) -> Rows:
        stored, bad = _stored(batch)
        values = batch.column("value")
        if self._decoder is None or self._type is None:
            decoded = None  # no value but null, so far
        else:
            found = self._decoder.decode(values)
            fitted = conformed(found.values, self._type)
            bad = fitted.bad | dict(zip(found.bad, found.reasons, strict=True)) | bad
            decoded = fitted.values if not fitted.bad else without_rows(fitted.values, fitted.bad)
        columns = {VALUE_JSON: self._rest_of(batch)} if self._has_rest else {}
        return _divided(self._row(stored, decoded, columns), stored, bad, self._rules)

    def _rest_of(self, batch: pa.RecordBatch) -> pa.Array:
        if self._rest is not None and self._rest[0] is batch:
            return self._rest[1]
        return pa.nulls(batch.num_rows, pa.string())

    def _row(self, stored: pa.RecordBatch, decoded: pa.Array | None, others: dict[str, pa.Array]) -> pa.RecordBatch:
        columns = {name: stored.column(name) for name in stored.schema.names} | others
        columns[VALUE_BYTES] = columns.pop("value")
        if decoded is not None:
            columns["value"] = decoded
        schema = self.schema
        return pa.RecordBatch.from_arrays([columns[name] for name in schema.names], schema=schema)


RowMaker = RawRows | TypedRows


def inferred_type(inference: Inference) -> pa.DataType:
    """The type of a column for JSON values. Fields that are null in all of them are no columns, nor those in conflict."""
    return distinct_fields(storable(inference.typed(unknown=None) or pa.string()))


def row_maker(
    values: ValueSchema | None,
    topic: str,
    schema: pa.Schema | None,
    keep_value: bool,
    times: Times = Times.native,
    rules: RowRules | None = None,
) -> RowMaker:
    """Raw rows without `values`, typed ones with. `schema`: of the table where there is one. Raises InvalidScan."""
    if values is None:
        return RawRows(rules)
    return TypedRows(values, topic, schema, with_bytes=keep_value, times=times, rules=rules)


def _schema_ids(values: pa.Array) -> set[bytes]:
    """The ids of a registry's schemas that values have before them."""
    has_frame = pc.fill_null(pc.starts_with(values, "\0"), False)
    ids = pc.unique(pc.binary_slice(values.filter(has_frame), 1, 5))
    return {one for one in ids.to_pylist() if len(one) == 4}


def _stored(batch: pa.RecordBatch) -> tuple[pa.RecordBatch, dict[int, str]]:
    """A batch of a scan with the types of RAW_SCHEMA, and the rows whose timestamps no table takes."""
    stamps = batch.column("timestamp").cast(pa.int64())
    bad: dict[int, str] = {}
    outside = pc.fill_null(pc.or_(pc.less(stamps, FIRST_MS), pc.greater(stamps, _LAST_MS)), False)
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


def _divided(rows: pa.RecordBatch, stored: pa.RecordBatch, bad: dict[int, str], rules: RowRules | None = None) -> Rows:
    if rules is not None:
        bad = rules.errors(rows) | bad
    if not bad:
        return Rows(rows, _dead_letter_records(stored.slice(0, 0), []))
    numbers = sorted(bad)
    keep = np.ones(rows.num_rows, bool)
    keep[numbers] = False
    left = stored.take(pa.array(numbers))
    return Rows(rows.filter(pa.array(keep)), _dead_letter_records(left, [bad[one] for one in numbers]))


def _dead_letter_records(left: pa.RecordBatch, reasons: Sequence[str]) -> pa.RecordBatch:
    columns: list[pa.Array] = [*left.columns, pa.array(reasons, pa.string())]
    return pa.RecordBatch.from_arrays(columns, schema=DEAD_LETTER_SCHEMA)


def unread_record(unread: Unread) -> pa.RecordBatch:
    """A dead-letter record for offsets that cannot be read: it has the first of them."""
    row: dict[str, object] = {
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
        if field.name == "value" and form_of(kind) != form_of(field.type):
            raise ArchiveError(
                f"the values of table {name} are {form_of(kind)}: name another, --table {name}=NAME, or make it anew, "
                "--rebuild"
            )


def form_of(kind: pa.DataType) -> str:
    if pa.types.is_struct(kind):
        return "typed"
    return "text" if pa.types.is_string(kind) else "raw"
