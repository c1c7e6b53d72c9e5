"""Records as a Parquet file, and rows of a Parquet file as records. Needs pyarrow (`odradek[parquet]`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from ..client.user_errors import UserError

if TYPE_CHECKING:
    from .consumed import ConsumedRecord
    from .contents import Content


#: librdkafka's type of a record without a timestamp, and Kafka's number for it. Others may be negative.
_NO_TIMESTAMP, _NONE = 0, -1
#: Rows of a row group.
_GROUP_ROWS = 50_000


class ParquetWriter:
    """Keys and values are binary columns as they were, text for decoded ones; headers a list of structs."""

    def __init__(self, out: BinaryIO) -> None:
        import pyarrow
        import pyarrow.parquet

        header = pyarrow.struct([("key", pyarrow.string()), ("value", pyarrow.binary())])
        self._schema = pyarrow.schema(
            [
                ("topic", pyarrow.dictionary(pyarrow.int32(), pyarrow.string())),
                ("partition", pyarrow.int32()),
                ("offset", pyarrow.int64()),
                ("timestamp", pyarrow.timestamp("ms", tz="UTC")),
                ("key", pyarrow.binary()),
                ("value", pyarrow.binary()),
                ("headers", pyarrow.list_(header)),
            ]
        )
        self._arrow = pyarrow
        self._file = pyarrow.parquet.ParquetWriter(out, self._schema)
        self._rows: list[tuple[object, ...]] = []

    def write(self, messages: Sequence[ConsumedRecord], keys: Sequence[Content], values: Sequence[Content]) -> None:
        for message, key, value in zip(messages, keys, values, strict=True):
            kind, stamp = message.timestamp()
            headers = [{"key": name, "value": content} for name, content in message.headers() or ()]
            position = (
                message.topic(),
                message.partition(),
                message.offset(),
                None if kind == _NO_TIMESTAMP or stamp == _NONE else stamp,
            )
            self._rows.append((*position, _binary(key), _binary(value), headers))
        if len(self._rows) >= _GROUP_ROWS:
            self._flush()

    def _flush(self) -> None:
        columns = list(zip(*self._rows, strict=True)) or [()] * len(self._schema)
        arrays = [
            self._arrow.array(column, type=field.type) for column, field in zip(columns, self._schema, strict=True)
        ]
        self._file.write_table(self._arrow.Table.from_arrays(arrays, schema=self._schema))
        self._rows = []

    def end(self) -> None:
        if self._rows:
            self._flush()
        self._file.close()


def _binary(content: Content) -> bytes | None:
    from .contents import as_bytes

    return None if content is None else as_bytes(content)


def parquet_rows(path: Path) -> Iterator[dict[str, object]]:
    """Rows of a file, a group at a time. The `timestamp` of a record is in milliseconds: Python has the years 1 to 9999.
    Raises UserError for a file that is damaged, or no Parquet.
    """
    import pyarrow
    import pyarrow.parquet

    try:
        yield from _rows_of(path)
    except pyarrow.ArrowInvalid as error:
        raise UserError(f"{path} is not Parquet, or damaged: {str(error).splitlines()[0]}") from None


def _rows_of(path: Path) -> Iterator[dict[str, object]]:
    import pyarrow
    import pyarrow.parquet

    milliseconds = pyarrow.timestamp("ms", tz="UTC")
    with pyarrow.parquet.ParquetFile(path) as file:
        for batch in file.iter_batches():
            at = batch.schema.get_field_index("timestamp")
            if at >= 0 and "value" in batch.schema.names and pyarrow.types.is_timestamp(batch.column(at).type):
                stamps = batch.column(at).cast(milliseconds, safe=False).cast(pyarrow.int64())
                batch = batch.set_column(at, "timestamp", stamps)
            yield from batch.to_pylist()
