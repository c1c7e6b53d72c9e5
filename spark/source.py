"""The data source `odradek` and its batch reader."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from .options import FORMAT, Options, parse
from .planning import batch_splits
from .rows import check_schema, schema_of
from .tasks import Range, read_range

if TYPE_CHECKING:
    import pyarrow as pa

    from .stream import StreamReader


class OdradekSource(DataSource):
    """Topics as rows of `key, value, topic, partition, offset, timestamp, timestampType`, and `headers` if asked for."""

    def __init__(self, options: Mapping[str, str]) -> None:
        super().__init__(dict(options))
        self.checked = parse(options)

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> StructType:
        return schema_of(self.checked)

    def reader(self, schema: StructType) -> BatchReader:
        check_schema(schema, self.checked)
        self.checked.check_batch()
        return BatchReader(self.checked, schema)

    def streamReader(self, schema: StructType) -> StreamReader:
        from .stream import StreamReader

        check_schema(schema, self.checked)
        self.checked.check_stream()
        return StreamReader(self.checked, schema)


class BatchReader(DataSourceReader):
    def __init__(self, options: Options, schema: StructType) -> None:
        self._options = options
        self._schema = schema

    def partitions(self) -> list[Range]:
        return [Range(one) for one in batch_splits(self._options)] or [Range(None)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_range(partition, self._options, self._schema)
