"""Conditions of a query that its plan and its tasks know: those that Spark pushes down, and the option `key`.

A condition leaves out what no record of the result is in: partitions, offsets, segments whose largest timestamp is too
early, segments without the key (columns/key_filters.py). Of the rest, the tasks leave out records with other keys. Spark
applies its conditions to the rows once more, so that one which is not read here costs time and changes no result.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeGuard

if TYPE_CHECKING:
    import pyarrow as pa

    from ..columns import Split
    from ..columns.segment import Segment

_FAR = 1 << 63
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MICROSECOND = datetime.timedelta(microseconds=1)
#: More keys than these are not compared with the filters of segments.
_MOST_KEYS = 100
_EQUAL = ("EqualTo", "EqualNullSafe")
_FROM = (*_EQUAL, "GreaterThan", "GreaterThanOrEqual")


@dataclass(frozen=True, slots=True)
class Conditions:
    """Bounds and values that all records of a result have. None: any value. `partitions`: of any topic.

    `first_offset` and `last_offset` are inclusive, `first_us` is a timestamp in microseconds since 1970.
    """

    keys: frozenset[bytes] | None = None
    partitions: frozenset[int] | None = None
    first_offset: int = 0
    last_offset: int = _FAR
    first_us: int | None = None

    def pushed(self, filters: Iterable[object]) -> Conditions:
        """These conditions and those of filters of Spark, which are joined by "and". Passes over the others."""
        found = self
        for one in filters:
            found = found._with(type(one).__name__, getattr(one, "attribute", ()), getattr(one, "value", None))
        return found

    def _with(self, kind: str, attribute: tuple[str, ...], value: object) -> Conditions:
        values = _values(kind, value)
        numbers = [one for one in values if _is_integer(one)]
        keys = [bytes(one) for one in values if isinstance(one, bytes | bytearray)]
        match attribute:
            case ("key",) if values and len(keys) == len(values):
                return replace(self, keys=frozenset(keys) if self.keys is None else self.keys & frozenset(keys))
            case ("partition",) if values and len(numbers) == len(values):
                wanted = frozenset(numbers)
                return replace(self, partitions=wanted if self.partitions is None else self.partitions & wanted)
            case ("offset",) if values and len(numbers) == len(values):
                return self._between(min(numbers), max(numbers))
            case ("offset",) if _is_integer(value):
                return self._compared(kind, value)
            case ("timestamp",) if kind in _FROM and isinstance(value, datetime.datetime) and value.tzinfo is not None:
                microseconds = (value - _EPOCH) // _MICROSECOND
                known = microseconds if self.first_us is None else self.first_us
                return replace(self, first_us=max(known, microseconds))
        return self

    def _compared(self, kind: str, offset: int) -> Conditions:
        match kind:
            case "GreaterThan":
                return self._between(offset + 1, self.last_offset)
            case "GreaterThanOrEqual":
                return self._between(offset, self.last_offset)
            case "LessThan":
                return self._between(self.first_offset, offset - 1)
            case "LessThanOrEqual":
                return self._between(self.first_offset, offset)
        return self

    def _between(self, first: int, last: int) -> Conditions:
        return replace(self, first_offset=max(self.first_offset, first), last_offset=min(self.last_offset, last))

    def planned(self, splits: Sequence[Split]) -> list[Split]:
        """The parts of splits whose partitions and offsets meet the conditions."""
        if self.keys is not None and not self.keys:
            return []
        made = []
        for split in splits:
            first, end = max(split.first_offset, self.first_offset), min(split.next_offset, self.last_offset + 1)
            if first < end and (self.partitions is None or split.partition in self.partitions):
                made.append(split.part(first, end))
        return made

    def narrowed(self, split: Split) -> Iterator[Split]:
        """The parts of a split, in order, without segments of files that have no record of the result."""
        if self.first_us is None and not self._compares_keys():
            yield split
            return
        from ..columns.narrowed_splits import without_segments

        yield from without_segments([split], self._may_have)

    def _compares_keys(self) -> bool:
        return self.keys is not None and len(self.keys) <= _MOST_KEYS

    def _may_have(self, segment: Segment) -> bool:
        from ..columns.key_filters import may_have
        from ..columns.segment import latest_timestamp

        if self.first_us is not None:
            latest = latest_timestamp(segment)
            if latest is not None and latest * 1000 < self.first_us:
                return False
        return not self._compares_keys() or any(may_have(segment, key) for key in self.keys or ())

    def rows(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows of a batch of a scan that have one of the keys. Without a condition on keys it may lack the column."""
        if self.keys is None:
            return batch
        import pyarrow.compute as pc

        return batch.filter(pc.is_in(batch.column("key"), value_set=_binary(sorted(self.keys))))


def _binary(values: Sequence[bytes]) -> pa.Array:
    """An array of values; pa.array() imports pandas."""
    import numpy as np
    import pyarrow as pa

    ends = np.zeros(len(values) + 1, np.int32)
    np.cumsum([len(value) for value in values], out=ends[1:])
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(b"".join(values))]
    return pa.Array.from_buffers(pa.binary(), len(values), buffers)


def _values(kind: str, value: object) -> list[object]:
    """The values of which a column has one; none for a filter of another kind."""
    if kind in _EQUAL:
        return [value]
    return list(value) if kind == "In" and isinstance(value, Sequence) else []


def _is_integer(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)
