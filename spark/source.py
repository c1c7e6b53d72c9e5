"""The data source `odradek`: batch queries, and what the tasks of all queries do."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from .options import EARLIEST, FORMAT, LATEST, InvalidOptions, Options, Position, named, parse
from .planning import checked, chosen_topics, resolved, splits
from .rows import Rows, check_schema, schema_of

if TYPE_CHECKING:
    import pyarrow as pa

    from ..columns import Split
    from .stream import StreamReader

_is_frozen = False


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


@dataclass
class Range(InputPartition):
    """Offsets that one task reads; None: no records at all."""

    split: Split | None


class BatchReader(DataSourceReader):
    def __init__(self, options: Options, schema: StructType) -> None:
        self._options = options
        self._schema = schema

    def partitions(self) -> list[Range]:
        from ..columns.cluster import Cluster

        options = self._options
        with Cluster(options.client) as cluster:
            topics = chosen_topics(cluster, options)
            start = options.start or Position("startingOffsets", EARLIEST)
            end = options.end or Position("endingOffsets", LATEST)
            starts = resolved(cluster, topics, options, start, is_start=True)
            ends = resolved(cluster, topics, options, end, is_start=False)
            for place, first in starts.items():
                if first > ends[place] and start.each:
                    raise InvalidOptions(f"{named(place)}: the start {first} is after the end {ends[place]}")
            made = splits(cluster, topics, options, *checked(cluster, topics, options, starts, ends))
        return [Range(one) for one in made] or [Range(None)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_range(partition, self._options, self._schema)


def read_range(partition: Any, options: Options, schema: StructType) -> Iterator[pa.RecordBatch]:
    """Yields the records of a range from the data directory where this machine has it, from the brokers otherwise."""
    if partition.split is None:
        return
    from ..columns import read_split

    rows = Rows(schema, options)
    _freeze()
    reader = read_split(partition.split, rows.scanned, on_unreadable="raise" if options.fail_on_data_loss else "skip")
    for batch in reader:
        yield rows.convert(batch)
    for unread in reader.unread:
        print(f"odradek: skipped, since failOnDataLoss is false: {unread}", file=sys.stderr)


def _freeze() -> None:
    """Takes the objects of the imported libraries out of the collections of garbage: Spark's worker runs a full one after
    each task, which costs a tenth of a second over those of numba and pyarrow.
    """
    global _is_frozen
    if not _is_frozen:
        _is_frozen = True
        gc.collect()
        gc.freeze()
