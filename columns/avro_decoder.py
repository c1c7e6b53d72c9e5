"""Avro records as columns, by fastavro."""

from __future__ import annotations

import re
from collections.abc import Callable

import pyarrow as pa

from ..records.avro_defaults import marked_with_defaults
from ..records.avro_logical import PREFIX, WHOLE, AvroType, AvroValue
from ..records.avro_marked import named_types
from ..records.avro_reader import AvroReader
from ..records.schema_registry import RegistryFailure
from .avro_columns import AvroColumns, has_unions
from .avro_rows import rows_of_avro
from .decoder import Decoded
from .errors import InvalidScan, SchemaRegistryUnavailable

#: In an error of fastavro that shows marked schemas: what they have more than others.
_OUR_MARKS = re.compile(rf"'logicalType': '{PREFIX}{WHOLE}', |(?:, )?'(?:odradek\.|__)\w+': (?:'[^']*'|\w+|{{}})")
_SHOWN_CHARACTERS = 300


class AvroDecoder:
    """Avro records by fastavro. `reader`: the schema of the columns. `writer_of`: the schema that a value was written with,
    or None for the reader's; and the rest of the value's bytes.
    """

    def __init__(self, reader: AvroType, writer_of: Callable[[bytes], tuple[AvroReader | None, bytes]]) -> None:
        self._reader = AvroReader(reader)
        self._writer_of = writer_of
        named = named_types(reader)
        self._has_unions = any(map(has_unions, (reader, *named.values())))
        found = AvroColumns(named, self._has_unions).of(reader, "", ())
        self.type = found.type
        self._convert = found.convert
        self._shown = marked_with_defaults(reader, named=self._has_unions)
        if not pa.types.is_struct(self.type) or not self.type.num_fields:
            raise InvalidScan("the Avro schema is not a record with fields")

    def decode(self, values: pa.Array) -> Decoded:
        rows, bad, reasons = [], [], []
        for number, value in enumerate(values.to_pylist()):
            try:
                rows.append(None if value is None else self._one(value))
            except RegistryFailure as failure:
                raise SchemaRegistryUnavailable(str(failure)) from None
            except Exception as error:  # fastavro raises what it meets: struct.error, EOFError, KeyError and so on
                rows.append(None)
                bad.append(number)
                reasons.append(_reason(error))
        return rows_of_avro(rows, self.type, bad, reasons)

    def _one(self, value: bytes) -> AvroValue:
        writer, rest = self._writer_of(value)
        if writer is None:
            found = self._reader.read(rest, named=self._has_unions)
        else:
            found = writer.read(rest, self._shown, named=self._has_unions)
        return found if self._convert is None else self._convert(found)


def _reason(error: Exception) -> str:
    import fastavro

    if isinstance(error, EOFError):
        return "the record ends within a field"
    if isinstance(error, fastavro.read.SchemaResolutionError):
        return _OUR_MARKS.sub("", str(error)).replace(f"'{PREFIX}", "'")[:_SHOWN_CHARACTERS]
    return str(error).partition("\n")[0] or type(error).__name__
