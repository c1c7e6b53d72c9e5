"""Typed columns of a DataFrame as keys and values of records: `valueFormat` and `keyFormat` of the sink.

The value is the column `value`, or without it all columns that are no parts of a record, as the fields of a struct. The
driver looks the schemas up at the start of each batch, and its tasks use these.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from ..client.user_errors import UserError
from ..columns.arrow_kinds import is_bytes, is_text
from ..columns.misfit import Misfit
from ..columns.value_encoder import ValueEncoder
from ..records.schema_registry import Registered, SchemaRegistry
from ..sink.columns import COLUMNS, KEY, VALUE, InvalidRows
from .options import InvalidOptions
from .sink_options import ColumnFormat, SinkOptions


@dataclass(frozen=True, slots=True)
class TypedColumns:
    """The encoders of keys and values; None for a column that is written as it is. It can be pickled."""

    key: ValueEncoder | None = None
    value: ValueEncoder | None = None

    @classmethod
    def of(cls, options: SinkOptions, schema: StructType) -> TypedColumns:
        """Looks the schemas up. Raises InvalidOptions for columns that do not fit them."""
        if options.keys is None and options.values is None:
            return cls()
        try:
            kinds = {one.name: one.type for one in to_arrow_schema(schema)}
        except PySparkException as error:
            raise InvalidOptions(str(error).partition("\n")[0]) from None
        if VALUE not in kinds:
            kinds[VALUE] = pa.struct([(name, kinds[name]) for name in fields_of_value(list(kinds))])
        return cls(
            _checked(options, options.keys, KEY, kinds.get(KEY)),
            _checked(options, options.values, VALUE, kinds[VALUE]),
        )

    def encoded(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """A batch with the bytes of keys and values in place of typed columns. Raises InvalidRows."""
        if self.key is None and self.value is None:
            return batch
        columns = dict(zip(batch.schema.names, batch.columns, strict=True))
        try:
            if self.value is not None:
                if VALUE not in columns:
                    names = fields_of_value(list(columns))
                    parts = [columns.pop(name) for name in names]
                    columns[VALUE] = pa.StructArray.from_arrays(parts, names)
                columns[VALUE] = self.value.encode(columns[VALUE])
            if self.key is not None:
                columns[KEY] = self.key.encode(columns[KEY])
        except Misfit as error:
            raise InvalidRows(str(error)) from None
        return pa.record_batch(columns)


def fields_of_value(names: Sequence[str]) -> list[str]:
    """The columns that are fields of the value, where none is `value`."""
    return [name for name in names if name not in COLUMNS]


def _checked(
    options: SinkOptions, given: ColumnFormat | None, name: str, kind: pa.DataType | None
) -> ValueEncoder | None:
    if given is None:
        return None
    if kind is None:
        raise InvalidOptions(f"Option '{name}Format' needs a column '{name}'")
    if given.form == "json" and name == VALUE and (is_text(kind) or is_bytes(kind)):
        raise InvalidOptions(
            f"the column '{name}' is {kind}, which is written as it is without the option 'valueFormat'"
        )
    try:
        encoder = ValueEncoder(given.form, name, _registered(options, given), given.message)
        encoder.check(kind)
    except (UserError, Misfit) as error:
        raise InvalidOptions(str(error)) from None
    return encoder


def _registered(options: SinkOptions, given: ColumnFormat) -> Registered | None:
    if options.registry is None:
        return None
    return SchemaRegistry(options.registry.url, options.registry.user_info).latest(given.subject)
