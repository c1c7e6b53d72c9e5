"""The columns of a scan."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

HEADERS_TYPE = pa.list_(pa.struct([pa.field("key", pa.string(), nullable=False), pa.field("value", pa.binary())]))
#: Columns of a scan, with Kafka's names. A `timestamp` of -1 (none) is null; `timestamp_type` is 0 for CreateTime and 1
#: for LogAppendTime.
SCHEMA = pa.schema(
    [
        pa.field("topic", pa.string(), nullable=False),
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("timestamp", pa.timestamp("ms", tz="UTC")),
        pa.field("timestamp_type", pa.int32(), nullable=False),
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("headers", HEADERS_TYPE, nullable=False),
    ]
)
#: A column of scans with typed values: why a value does not decode; null for the others.
VALUE_ERROR = pa.field("value_error", pa.string())


def schema_of(columns: Sequence[str]) -> pa.Schema:
    """The schema of these columns, in this order."""
    return pa.schema([SCHEMA.field(name) for name in columns])
