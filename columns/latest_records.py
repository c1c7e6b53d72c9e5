"""The latest record of each key of a partition, as compaction leaves it: no tombstones, and no records without a key."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa

from .layout import Numbers
from .record_schema import schema_of

#: Columns of the records that `latest_offsets` takes.
LATEST_COLUMNS = ("key", "offset", "value")
#: Rows whose keys are merged at once.
_MERGED_ROWS = 1 << 20
_KEY_AND_OFFSET = ("key", "offset")


def latest_offsets(records: Iterable[pa.RecordBatch]) -> Numbers:
    """The offsets of the latest record of each key of one partition, ascending; without tombstones."""
    latest = schema_of(_KEY_AND_OFFSET).empty_table()
    tombstones: list[Numbers] = []
    waiting: list[pa.Table] = []
    for batch in records:
        tombstones.append(batch.column("offset").to_numpy()[batch.column("value").is_null().to_numpy(False)])
        waiting.append(pa.Table.from_batches([batch.select(list(_KEY_AND_OFFSET))]))
        if sum(table.num_rows for table in waiting) >= max(_MERGED_ROWS, latest.num_rows):
            latest, waiting = _merged([latest, *waiting]), []
    latest = _merged([latest, *waiting])
    offsets = np.sort(latest.column("offset").to_numpy())
    return np.setdiff1d(offsets, np.concatenate(tombstones), assume_unique=True) if tombstones else offsets


def records_at(offsets: Numbers, records: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yields the records of a partition with these offsets, which ascend."""
    for batch in records:
        own = batch.column("offset").to_numpy()
        at = np.searchsorted(offsets, own)
        is_chosen = (at < len(offsets)) & (offsets[np.minimum(at, len(offsets) - 1)] == own)
        if is_chosen.any():
            yield batch.filter(pa.array(is_chosen))


def _merged(tables: list[pa.Table]) -> pa.Table:
    """The greatest offset of each key. Records without a key are left out."""
    table = pa.concat_tables(tables)
    table = table.filter(table.column("key").is_valid())
    greatest = table.group_by("key").aggregate([("offset", "max")])
    return pa.table([greatest.column("key"), greatest.column("offset_max")], schema=schema_of(_KEY_AND_OFFSET))
