"""Topics in queries of Spark: the data source `odradek` with its batch reader, and `read`, for less CPU."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from .options import FORMAT, Options, parse
from .planning import batch_splits
from .rows import Range, check_schema, fields_of, read_range, records, schema_of

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from ..columns import Split
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


# ---- `pyspark_odradek.read`: topics as a DataFrame, for less CPU than `format("odradek")` takes
#
# Spark starts two Python processes for each query of a Python data source, a second of CPU, to make the source and its plan.
# Here the calling process plans, and `mapInArrow` over the numbers of the splits reads them: a task for each.

Option = str | int | float | bool | None


def read(spark: SparkSession, schema: StructType | str | Sequence[str] | None = None, **options: Option) -> DataFrame:
    """The records of topics: what `spark.read.format("odradek").options(**options).load()` has, in a batch query.

        orders = read(spark, ["offset", "value"], subscribe="orders", **{"kafka.bootstrap.servers": "127.0.0.1:9092"})

    `schema`: the columns to read, as names, or as `.schema(...)` takes them, which `valueFormat` needs; all by default.
    Spark does not prune them: a column that a query does not use is read all the same.
    `options`: those of the data source, with its errors as InvalidOptions, ClusterError and DataLoss.

    The offsets are looked up now, in this process, which needs a way to the brokers. So every action on the DataFrame
    reads the same records; records that retention removes in between fail it as `failOnDataLoss` decides.
    """
    checked = parse({name: str(value) for name, value in options.items() if value is not None})
    wanted = _wanted_schema(schema, checked)
    check_schema(wanted, checked)
    checked.check_batch()
    splits = batch_splits(checked)
    numbers = spark.range(0, len(splits), 1, max(len(splits), 1))
    return numbers.mapInArrow(_split_reader(splits, checked, wanted), wanted)


def _wanted_schema(given: StructType | str | Sequence[str] | None, options: Options) -> StructType:
    if given is None:
        return schema_of(options)
    if isinstance(given, str):
        given = StructType.fromDDL(given)
    if isinstance(given, StructType):
        return given
    return StructType(fields_of(given))


def _split_reader(
    splits: Sequence[Split], options: Options, schema: StructType
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    # A task has all of them, and unpickles its own.
    pickled = [pickle.dumps(one) for one in splits]

    def odradek(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                yield from records(pickle.loads(pickled[number]), options, schema)

    return odradek
