"""The rows of a query: Spark's schema, with the names and types of Spark's Kafka connector, and batches of a scan in it."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from ..protocol.records.batch import NO_TIMESTAMP
from .conditions import Conditions
from .options import DROP_MALFORMED, FAIL_FAST, PERMISSIVE, InvalidOptions, Options
from .worker_process import lower_cost_of_reuse

if TYPE_CHECKING:
    import pyarrow as pa

    from ..columns import Split
    from ..columns.decoder import Decoded


HEADERS = ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))
_TYPES: dict[str, DataType] = {
    "key": BinaryType(),
    "value": BinaryType(),
    "topic": StringType(),
    "partition": IntegerType(),
    "offset": LongType(),
    "timestamp": TimestampType(),
    "timestampType": IntegerType(),
    "headers": HEADERS,
}
#: Columns of Spark whose names in a scan differ.
_SCANNED = {"timestampType": "timestamp_type"}
#: Timestamps of Spark: years 1 to 9999, in ms.
_FIRST_MS, _LAST_MS = -62_135_596_800_000, 253_402_300_799_999


def schema_of(options: Options) -> StructType:
    """The connector's schema: headers only with includeHeaders."""
    if options.value_format:
        raise InvalidOptions(
            "Option 'valueFormat' needs .schema(...) with the fields of value: value struct<id: bigint>"
        )
    return StructType(fields_of([name for name in _TYPES if name != "headers" or options.include_headers]))


def fields_of(names: Iterable[str]) -> list[StructField]:
    """The columns of these names. Raises InvalidOptions for those that there are not."""
    found = list(names)
    for name in found:
        if name not in _TYPES:
            raise InvalidOptions(_no_column(name))
    return [StructField(name, _TYPES[name]) for name in found]


def _no_column(name: str) -> str:
    return f"schema: there is no column {name!r}, but {', '.join(_TYPES)}"


def check_schema(schema: StructType, options: Options) -> None:
    """Raises InvalidOptions for columns that there are not, or have other types."""
    for field in schema.fields:
        if field.name not in _TYPES:
            raise InvalidOptions(_no_column(field.name))
        if field.name == "headers" and not options.include_headers:
            raise InvalidOptions("schema: the column 'headers' needs the option includeHeaders")
        expected, found = _TYPES[field.name].simpleString(), field.dataType.simpleString()
        if field.name == "value" and options.value_format:
            if not isinstance(field.dataType, StructType):
                raise InvalidOptions(f"schema: with valueFormat, value is a struct<...>, not {found}")
        elif found != expected:
            raise InvalidOptions(f"schema: the column {field.name!r} is {expected}, not {found}")
    if len(set(schema.names)) != len(schema.names):
        raise InvalidOptions("schema: a column is named twice")


def conditions_of(options: Options) -> Conditions:
    return Conditions(keys=None if options.key is None else frozenset((options.key,)))


class Rows:
    """The conversion of batches of a topic, with the columns `scanned`, into batches of a schema."""

    def __init__(self, schema: StructType, options: Options, topic: str, conditions: Conditions | None = None) -> None:
        """`conditions`: those that all rows meet; by default that of the options.

        Raises InvalidScan for values that no schema fits, SchemaRegistryUnavailable.
        """
        self._schema: pa.Schema = arrow_schema(schema)
        self._mode = options.mode
        self._topic = topic
        self.conditions = conditions_of(options) if conditions is None else conditions
        self._decoder: Any = None
        columns = list(schema.names)
        if self.conditions.keys is not None and "key" not in columns:
            columns.append("key")
        if options.value_format and "value" in columns:
            from ..columns.typed_rows import UNDECODABLE

            self._decoder = _decoder(self._schema.field("value").type, options, topic)
            columns += [name for name in ("topic", "partition", "offset", "timestamp", "key") if name not in columns]
            self._left_out = UNDECODABLE
        self.scanned = [_SCANNED.get(name, name) for name in columns]

    def convert(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Raises InvalidOptions for a value that does not decode, with mode=FAILFAST."""
        import pyarrow as pa

        batch = self.conditions.rows(batch)
        if self._decoder is not None:
            batch = self._typed(batch)
        columns = []
        for field in self._schema:
            column = batch.column(_SCANNED.get(field.name, field.name))
            columns.append(self._column(column, field))
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)

    def _column(self, column: pa.Array, field: pa.Field) -> pa.Array:
        if field.name == "headers":
            return _headers(column, field.type)
        if field.name == "timestamp":
            return self._dated(column).cast(field.type)
        return projected(column, field.type)

    def _dated(self, column: pa.Array) -> pa.Array:
        """Timestamps with null for those beyond the years of Spark. Raises InvalidOptions for one, with mode=FAILFAST."""
        import pyarrow as pa
        import pyarrow.compute as pc

        from ..columns.arrow_buffers import scalar

        if column.null_count:  # the connector shows a record without a timestamp at -1 ms
            column = column.fill_null(scalar(NO_TIMESTAMP, column.type))
        stamps = column.cast(pa.int64())
        least, most = pc.min_max(stamps).values()
        if not len(stamps) or (least.as_py() >= _FIRST_MS and most.as_py() <= _LAST_MS):
            return column
        first, last = scalar(_FIRST_MS, stamps.type), scalar(_LAST_MS, stamps.type)
        outside = pc.or_(pc.less(stamps, first), pc.greater(stamps, last))
        if self._mode == FAIL_FAST:
            raise InvalidOptions(
                f"{self._topic}: the timestamp {stamps.filter(outside)[0].as_py()} ms is not between the years 1 and 9999: "
                f"with mode={PERMISSIVE} it is null"
            )
        return pc.if_else(outside, pa.scalar(None, column.type), column)

    def _typed(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        import pyarrow as pa

        from ..columns import typed

        made, left_out = typed(batch, self._decoder)
        if not left_out.num_rows or self._mode == DROP_MALFORMED:
            return made
        row = {name: left_out.column(name)[0].as_py() for name in ("topic", "partition", "offset", "reason")}
        if self._mode == FAIL_FAST:
            raise InvalidOptions(
                "{topic}-{partition}: offset {offset}: the value does not decode: {reason}".format(**row)
            )
        bad = batch.filter(pa.compute.is_in(batch.column("offset"), value_set=left_out.column("offset")))
        number = bad.schema.get_field_index("value")
        bad = bad.set_column(number, made.schema.field(number), pa.nulls(bad.num_rows, made.schema.field(number).type))
        table = pa.Table.from_batches([made, bad.cast(made.schema)]).sort_by("offset").combine_chunks()
        return table.to_batches()[0]


def arrow_schema(schema: StructType) -> pa.Schema:
    """The types that Spark expects of the batches of a schema."""
    from pyspark.sql.pandas.types import to_arrow_schema

    try:
        return to_arrow_schema(schema, timezone="UTC")
    except TypeError:  # Spark before 4.2, where timestamps are in UTC
        return to_arrow_schema(schema)


def _decoder(kind: pa.DataType, options: Options, topic: str) -> Any:
    from ..columns import ValueSchema, decoder_of
    from ..columns.json_decoder import JsonDecoder

    if options.schema_registry is None:
        return JsonDecoder(kind)
    named = ValueSchema(
        options.value_format, registry=options.schema_registry, message=options.message,
        user_info=options.schema_registry_user_info,
    )  # fmt: skip
    import pyarrow as pa

    return _ProjectedDecoder(decoder_of(named, topic, lambda: pa.array([], pa.binary()), "us"), kind)


class _ProjectedDecoder:
    """The structs of a decoder as those of Spark's schema. A value that does not fit there does not decode."""

    def __init__(self, decoder: Any, kind: pa.DataType) -> None:
        """Raises InvalidOptions for a type that no value of the registry's schema has."""
        import pyarrow as pa

        self.type = kind
        self._decoder = decoder
        try:
            projected(pa.array([], decoder.type), kind)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
            raise InvalidOptions(
                f"schema: value is {decoder.type} in the schema registry: {_first_line(error)}"
            ) from None

    def decode(self, values: pa.Array) -> Decoded:
        found: Decoded = self._decoder.decode(values)
        bad = dict(zip(found.bad, found.reasons, strict=True))
        made = self._projected(found.values, 0, bad)
        rows = sorted(bad)
        return found._replace(values=made, bad=rows, reasons=[bad[one] for one in rows])

    def _projected(self, values: pa.Array, first: int, bad: dict[int, str]) -> pa.Array:
        """The values from row `first` on: halves of them, where one does not fit."""
        import pyarrow as pa

        try:
            return projected(values, self.type)
        except pa.ArrowInvalid as error:
            if len(values) == 1:
                bad[first] = _first_line(error)
                return pa.nulls(1, self.type)
            half = len(values) // 2
            parts = ((values.slice(0, half), first), (values.slice(half), first + half))
            return pa.concat_arrays([self._projected(part, at, bad) for part, at in parts])


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]


def projected(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """Values with the fields of a type by their names; those that the values lack are null."""
    if column.type == kind:
        return column
    import pyarrow as pa

    from ..columns.timestamp_units import floored

    if pa.types.is_list(kind) and pa.types.is_list(column.type):
        column = pa.concat_arrays([column]) if column.offset else column
        items = projected(column.values, kind.value_type)
        return pa.ListArray.from_arrays(column.offsets, items, type=kind, mask=column.is_null())
    if not (pa.types.is_struct(kind) and pa.types.is_struct(column.type)):
        return floored(column, kind).cast(kind)
    fields, parts = [], column.flatten()
    for field in kind:
        number = column.type.get_field_index(field.name)
        missing = pa.nulls(len(column), field.type)
        fields.append(missing if number < 0 else projected(parts[number], field.type))
    return pa.StructArray.from_arrays(fields, fields=list(kind), mask=column.is_null())


def _headers(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """Lists of headers, which are null where a record has none, as in the connector."""
    import pyarrow as pa

    if not len(column.values):
        return pa.nulls(len(column), kind)
    import pyarrow.compute as pc

    from ..columns.arrow_buffers import scalar

    if column.offset:
        column = pa.concat_arrays([column])
    mask = pc.equal(pc.list_value_length(column), scalar(0, pa.int32()))
    values = column.values.cast(kind.value_type)
    return pa.ListArray.from_arrays(column.offsets, values, type=kind, mask=mask)


@dataclass
class Range(InputPartition):
    """Offsets that one task reads; None: no records at all."""

    split: Split | None


def read_range(
    partition: Any, options: Options, schema: StructType, conditions: Conditions | None = None
) -> Iterator[pa.RecordBatch]:
    """Yields the records of a partition of the data source, a Range."""
    if partition.split is not None:
        yield from records(partition.split, options, schema, conditions)


def records(
    split: Split, options: Options, schema: StructType, conditions: Conditions | None = None
) -> Iterator[pa.RecordBatch]:
    """Yields the records of a split from the data directory where this machine has it, from the brokers otherwise.

    `conditions`: those that all rows meet, with that of the options.
    """
    from ..columns import read_split

    rows = Rows(schema, options, split.topic, conditions)
    lower_cost_of_reuse()
    for part in rows.conditions.narrowed(split):
        reader = read_split(part, rows.scanned, on_unreadable="raise" if options.fail_on_data_loss else "skip")
        for batch in reader:
            if (converted := rows.convert(batch)).num_rows:
                yield converted
        for unread in reader.unread:
            print(f"odradek: skipped, since failOnDataLoss is false: {unread}", file=sys.stderr)
