"""The reader of a stream whose options or schema are wrong: it raises when Spark first requests an offset.

Spark up to 4.2 calls `stop` of a reader that it could not make, so an error of `streamReader` ends in an `UnboundLocalError`
of Spark's own. An error of the first offset ends in its own line.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NoReturn

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from .options import InvalidOptions

if TYPE_CHECKING:
    import pyarrow as pa


class RejectedStream(DataSourceStreamReader):
    """Each call raises the error."""

    def __init__(self, error: InvalidOptions) -> None:
        self._error = error

    def initialOffset(self) -> NoReturn:
        raise self._error

    def latestOffset(self, start: object = None, limit: object = None) -> NoReturn:
        raise self._error

    def partitions(self, start: object, end: object) -> NoReturn:
        raise self._error

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        raise self._error
