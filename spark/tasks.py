"""The work of a task: the records of one range of offsets."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from .options import Options
from .rows import Rows

if TYPE_CHECKING:
    import pyarrow as pa

    from ..columns import Split

_is_frozen = False


@dataclass
class Range(InputPartition):
    """Offsets that one task reads; None: no records at all."""

    split: Split | None


def read_range(partition: Any, options: Options, schema: StructType) -> Iterator[pa.RecordBatch]:
    """Yields the records of a partition of the data source, a Range."""
    if partition.split is not None:
        yield from records(partition.split, options, schema)


def records(split: Split, options: Options, schema: StructType) -> Iterator[pa.RecordBatch]:
    """Yields the records of a split from the data directory where this machine has it, from the brokers otherwise."""
    from ..columns import read_split

    rows = Rows(schema, options, split.topic)
    _freeze()
    reader = read_split(split, rows.scanned, on_unreadable="raise" if options.fail_on_data_loss else "skip")
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
