"""Rows with typed values: those of a scan with their values decoded, and the rows that do not decode."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from .decoder import Decoder

UNDECODABLE = pa.schema(
    [
        pa.field("topic", pa.string(), nullable=False),
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("timestamp", pa.timestamp("ms", tz="UTC")),
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("reason", pa.string(), nullable=False),
    ]
)


def typed(batch: pa.RecordBatch, decoder: Decoder) -> tuple[pa.RecordBatch, pa.RecordBatch]:
    """A RecordBatch of a scan with its values decoded, and the rows of UNDECODABLE that are not in it.

    The batch has `value` and whatever else the caller wants; UNDECODABLE rows have the columns that the batch has.
    """
    number = batch.schema.get_field_index("value")
    found = decoder.decode(batch.column(number))
    made = batch.set_column(number, pa.field("value", decoder.type), found.values)
    if not found.bad:
        return made, pa.RecordBatch.from_pylist([], UNDECODABLE)
    keep = np.ones(batch.num_rows, bool)
    keep[found.bad] = False
    left = batch.take(pa.array(found.bad))
    return made.filter(pa.array(keep)), _undecodable(left, found.reasons)


def typed_rows(batch: pa.RecordBatch, decoder: Decoder) -> tuple[pa.RecordBatch, pa.RecordBatch]:
    """All rows of a RecordBatch of a scan, with a column `value_error`, and the rows of UNDECODABLE.

    A value that does not decode is null, and its row has the reason.
    """
    number = batch.schema.get_field_index("value")
    found = decoder.decode(batch.column(number))
    made = batch.set_column(number, pa.field("value", decoder.type), found.values)
    reasons = np.full(batch.num_rows, None, object)
    reasons[found.bad] = found.reasons
    made = made.append_column("value_error", pa.array(reasons, pa.string()))
    if not found.bad:
        return made, pa.RecordBatch.from_pylist([], UNDECODABLE)
    return made, _undecodable(batch.take(pa.array(found.bad)), found.reasons)


def _undecodable(left: pa.RecordBatch, reasons: Sequence[str]) -> pa.RecordBatch:
    columns = {name: left.column(name) for name in left.schema.names}
    columns["reason"] = pa.array(reasons, pa.string())
    return pa.RecordBatch.from_arrays([columns[name] for name in UNDECODABLE.names], schema=UNDECODABLE)
