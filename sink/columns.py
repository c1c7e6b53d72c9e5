"""The columns that a sink takes, from a batch of Arrow: topic, partition, key, value, headers, timestamp."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .rows import NO_PARTITION, Columns, Numbers

#: The names of columns, as the Kafka sink of Spark has them, and `timestamp`.
TOPIC, PARTITION, KEY, VALUE, HEADERS, TIMESTAMP = COLUMNS = (
    "topic",
    "partition",
    "key",
    "value",
    "headers",
    "timestamp",
)
_MOST_PARTITION = (1 << 31) - 1


class InvalidRows(ValueError):
    """Rows that no topic can take. The words name the column."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of one batch of Arrow. `columns`: buffers as `encode_rows` takes them, which keep their memory alive."""

    count: int
    columns: Columns
    keys: Columns
    #: Topics of rows; None where the topic is an option.
    topics: pa.Array | None
    #: Partitions of rows, NO_PARTITION for null; None without such a column.
    partitions: Numbers | None


def rows_of(batch: pa.RecordBatch) -> Rows:
    """Raises InvalidRows for a column of another type than Spark's Kafka sink takes."""
    found = {name: batch.column(at) for at, name in enumerate(batch.schema.names)}
    if VALUE not in found:
        raise InvalidRows("there is no column 'value'")
    if unknown := sorted(set(found) - set(COLUMNS)):
        raise InvalidRows(f"there is no use for the column '{unknown[0]}'; a record has {', '.join(COLUMNS)}")
    keys, values = _texts(KEY, found.get(KEY)), _texts(VALUE, found[VALUE])
    times, headers = _times(found.get(TIMESTAMP)), _headers(found.get(HEADERS))
    partitions = _partitions(found.get(PARTITION))
    topics = found.get(TOPIC)
    if topics is not None:
        if not (pa.types.is_string(topics.type) or pa.types.is_large_string(topics.type)):
            raise InvalidRows(f"the column '{TOPIC}' is {topics.type}, not a string")
        if topics.null_count:
            raise InvalidRows(f"null topic present in the data; the column '{TOPIC}' needs a name in each row")
    key_buffers = _buffers(keys)
    columns = (times, *key_buffers, *_buffers(values), *headers)
    return Rows(batch.num_rows, columns, key_buffers, topics, partitions)


def _partitions(array: pa.Array | None) -> Numbers | None:
    """Spark's Kafka sink fails for a negative number, too."""
    if array is None or pa.types.is_null(array.type):
        return None
    if not pa.types.is_integer(array.type):
        raise InvalidRows(f"the column '{PARTITION}' is {array.type}, not an integer")
    bounds = pc.min_max(array).as_py()
    least, most = bounds["min"], bounds["max"]
    if least is not None and not 0 <= least <= most <= _MOST_PARTITION:
        raise InvalidRows(f"a row has the partition {least if least < 0 else most}")
    numbers: Numbers = array.cast(pa.int32()).fill_null(NO_PARTITION).to_numpy(zero_copy_only=False)
    return numbers


def _whole(array: pa.Array) -> pa.Array:
    """The same without an offset into its buffers."""
    return array if array.offset == 0 else pa.concat_arrays([array, array.slice(0, 0)])


def _texts(name: str, array: pa.Array | None) -> pa.Array | None:
    if array is None or pa.types.is_null(array.type):
        return None
    kinds = (pa.types.is_string, pa.types.is_binary, pa.types.is_large_string, pa.types.is_large_binary)
    if not any(is_kind(array.type) for is_kind in kinds):
        raise InvalidRows(f"the column '{name}' is {array.type}, not a string or binary")
    return _whole(array if array.type in (pa.string(), pa.binary()) else array.cast(pa.binary()))


def _buffers(array: pa.Array | None) -> Columns:
    """Ends, validity and bytes."""
    if array is None:
        return (None, None, None)
    validity, ends, content = array.buffers()
    return (ends, validity if array.null_count else None, content)


def _times(array: pa.Array | None) -> Numbers | None:
    """Milliseconds since 1970; null is now."""
    if array is None or pa.types.is_null(array.type):
        return None
    if not pa.types.is_timestamp(array.type):
        raise InvalidRows(f"the column '{TIMESTAMP}' is {array.type}, not a timestamp")
    numbers = array.cast(pa.timestamp("ms", array.type.tz), safe=False).cast(pa.int64())
    if numbers.null_count:
        numbers = numbers.fill_null(int(time.time() * 1000))
    return np.ascontiguousarray(numbers.to_numpy(zero_copy_only=False))


def _headers(array: pa.Array | None) -> Columns:
    """Ends of the rows' headers, and the buffers of their keys and values."""
    if array is None or pa.types.is_null(array.type):
        return (None,) * 7
    kind = array.type
    if not (pa.types.is_list(kind) and pa.types.is_struct(kind.value_type) and kind.value_type.num_fields == 2):
        raise InvalidRows(f"the column '{HEADERS}' is {kind}, not an array of structs of key and value")
    if array.null_count:  # a null may have a range of pairs, which it does not own
        array = pa.array([one or [] for one in array.to_pylist()], kind)
    array = _whole(array)
    pair_keys, pair_values = array.values.flatten()
    keys, values = _texts("headers.key", pair_keys), _texts("headers.value", pair_values)
    if array.flatten().flatten()[0].null_count:  # of the pairs that rows have: a slice has others
        raise InvalidRows(f"null key present in the column '{HEADERS}'")
    return (array.buffers()[1], *_buffers(keys), *_buffers(values))
