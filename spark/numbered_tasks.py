"""Tasks as rows with their numbers, which `mapInArrow` reads: a DataFrame for less CPU than that of a Python data source.

Spark starts two Python processes for each query of a Python data source, a second of CPU, to make the source and its plan.
Here the calling process has planned.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

Task = TypeVar("Task")


def frame_of(
    spark: SparkSession, tasks: Sequence[Task], read: Callable[[Task], Iterator[pa.RecordBatch]], schema: StructType
) -> DataFrame:
    """The rows of all tasks. `read` yields those of one task, in a process of Spark."""
    numbers = spark.range(0, len(tasks), 1, max(len(tasks), 1))
    return numbers.mapInArrow(_reader(tasks, read), schema)


def _reader(
    tasks: Sequence[Task], read: Callable[[Task], Iterator[pa.RecordBatch]]
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    # A task of Spark has all of them, and unpickles its own.
    pickled = [pickle.dumps(one) for one in tasks]

    def odradek(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                yield from read(pickle.loads(pickled[number]))

    return odradek
