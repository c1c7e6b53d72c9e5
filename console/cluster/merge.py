"""The merge of a page: records of all partitions by their timestamps, within limits of number, bytes and time.

Each partition is read in windows of offsets. Newest first, a window lies before the one that was read last. The next record
of the page is known once every partition has one at hand or has none left. The page ends with an offset for each partition,
from which the next page continues.

A round of windows that has too many bytes, or takes too long, is given up and read again in smaller windows: what was read
of a window newest first is the part that is shown last. A page ends only after a round: else the next one would begin
where this one did, with the same windows, and a search of large records would never move on.
"""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, NamedTuple

from ...admin.places import Place
from ...client.wording import counted
from ..budgets import Budget
from .filters import Passes
from .lanes import Lane
from .log_reader import LogReader, Range, ReadBatch
from .query import NEWEST, Query
from .records import RecordMaker
from .search_result import SearchResult
from .wanted import Wanted

if TYPE_CHECKING:
    from ...records.consumed import ConsumedRecord

#: Limits of one request: records and bytes that it reads, bytes that it shows, and its time.
MOST_SCANNED, MOST_BYTES, MOST_SHOWN_BYTES, MOST_SECONDS = 2_000_000, 256 << 20, 16 << 20, 4.0
#: Records of the first and of the largest windows of a round, all partitions together.
_FIRST_ROUND, _MOST_ROUND = 5_000, 200_000
#: A filtered search reads no smaller windows for the sake of time: each has a fixed cost.
_LEAST_FILTERED_ROUND = 2_000
#: A round of windows that took longer is followed by a smaller one. One that takes so long after its first batch is given
#: up: what a leader takes for the first one would be the same for a smaller window.
_ROUND_SECONDS, _MOST_ROUND_SECONDS = 0.3, 2.0
#: A round that has read more bytes is given up.
_MOST_ROUND_BYTES = 32 << 20
#: Records between two looks at the clock.
_RECORDS_PER_CHECK = 50


class _OutOfBounds(Exception):
    """A round had more bytes, or took more time, than one may. `count`: the records that it had done with."""

    def __init__(self, count: int) -> None:
        super().__init__(count)
        self.count = count


class Work(NamedTuple):
    """The parts of one search."""

    reader: LogReader
    maker: RecordMaker
    query: Query
    passes: list[Passes]
    wanted: Wanted
    budget: Budget


class Merge:
    def __init__(self, work: Work, result: SearchResult, began: float, seconds: float) -> None:
        self._reader, self._maker, self._query, self._passes, self._wanted, self._budget = work
        self._result = result
        self._is_newest = work.query.order == NEWEST
        self._deadline = began + min(seconds, MOST_SECONDS)
        #: Whether a round was read: the page after this one has another beginning.
        self._has_moved = False
        self._read_bytes = self._shown_bytes = 0
        #: Whether windows end where batches do. After one with too many bytes they do not: a batch may have too many.
        self._is_elastic = True
        #: The first records that pass are shown at once: the next slice of the search goes on.
        self._is_first = work.query.is_first and bool(work.passes)

    def run(self, lanes: list[Lane]) -> None:
        result, query = self._result, self._query
        result.begun = self._edges(lanes)
        result.total = sum(self._left(lane) for lane in lanes)
        size = _FIRST_ROUND if self._passes else min(_FIRST_ROUND, max(query.limit, 10) * max(1, len(lanes)))
        while True:
            if self._take(lanes, to_the_end=False):
                result.ended = f"the limit of {counted(query.limit, 'record')}"
                break
            waiting = [lane for lane in lanes if not lane.ready and not lane.is_exhausted]
            if not waiting:
                result.ended = "the first record of the range" if self._is_newest else "the end of the log"
                break
            if (self._has_moved and self._is_over()) or (self._is_first and any(lane.ready for lane in lanes)):
                result.ended = "the limit of one request"
                self._take(lanes, to_the_end=True)
                break
            size = self._read_round(waiting, size)
        is_done = all(lane.is_exhausted and not lane.ready for lane in lanes)
        result.left = sum(self._left(lane) for lane in lanes)
        result.edges = {} if is_done else self._edges(lanes)
        result.read = sum(self._read_before_edge(lane) for lane in lanes)

    def _is_over(self) -> bool:
        result = self._result
        return (
            result.scanned >= MOST_SCANNED
            or self._read_bytes >= MOST_BYTES
            or self._shown_bytes >= MOST_SHOWN_BYTES
            or self._budget.is_nearly_spent
            or time.monotonic() > self._deadline
        )

    # ---- edges

    def _edges(self, lanes: list[Lane]) -> dict[int, int]:
        return {lane.place[1]: self._edge(lane) for lane in lanes}

    def _edge(self, lane: Lane) -> int:
        """Where the lane continues: before messages that pass and were not taken."""
        if lane.ready:
            return int(lane.ready[0].offset()) + (1 if self._is_newest else 0)
        return lane.high if self._is_newest else lane.low

    def _read_before_edge(self, lane: Lane) -> int:
        """The number of records between the begin of the page and where the lane continues."""
        edge = self._edge(lane)
        decoded = sum((offset >= edge) is self._is_newest for offset in lane.read)
        return decoded + sum(
            count for first, last, count in lane.skipped if (first >= edge if self._is_newest else last < edge)
        )

    def _left(self, lane: Lane) -> int:
        edge = self._edge(lane)
        return max(0, edge - lane.low if self._is_newest else lane.high - edge)

    # ---- records of the page

    def _take(self, lanes: list[Lane], *, to_the_end: bool) -> bool:
        """Takes the records that are next. Returns whether the page is full."""
        while len(self._result.records) < self._query.limit and self._shown_bytes < MOST_SHOWN_BYTES:
            if self._result.records and self._budget.is_nearly_spent:
                return False
            ready = [lane for lane in lanes if lane.ready]
            if not ready or (not to_the_end and any(not lane.ready and not lane.is_exhausted for lane in lanes)):
                return False
            chosen = (max if self._is_newest else min)(ready, key=lambda lane: int(lane.ready[0].timestamp()[1]))
            message = chosen.ready.popleft()
            record = self._maker.record(message, self._query, self._budget)
            self._shown_bytes += record.bytes
            self._result.records.append(record)
        return len(self._result.records) >= self._query.limit

    # ---- windows

    def _read_round(self, waiting: list[Lane], size: int) -> int:
        """Reads the next window of each lane, or of as many as the size allows. Returns the size of the next round."""
        chosen = waiting[:size]
        width = max(1, size // len(chosen))
        windows = {lane.place: self._window(lane, width) for lane in chosen}
        began, read_before = time.monotonic(), self._read_bytes
        try:
            # One record of one partition is read, however long it is and takes.
            passed, read = self._read_windows(windows, is_bounded=size > 1)
        except _OutOfBounds as error:
            self._is_elastic = False
            return max(1, min(size, error.count) // 2)
        self._has_moved = True
        for lane in chosen:
            window, batches = windows[lane.place], read.get(lane.place, [])
            found = passed.get(lane.place, [])
            if self._is_newest:
                lane.high = min([window.low, *(one.first for one in batches)])
                found.reverse()
            else:
                lane.low = max([window.high, *(one.last + 1 for one in batches)])
            lane.ready.extend(found)
            for one in batches:
                if one.offsets is None:
                    lane.skipped.append((one.first, one.last, one.record_count))
                else:
                    lane.read.extend(one.offsets)
        if time.monotonic() - began <= _ROUND_SECONDS:
            in_bytes = size * _MOST_ROUND_BYTES // (2 * max(1, self._read_bytes - read_before))
            return max(1, min(size * 2, in_bytes, _MOST_ROUND))
        return max(min(size, _LEAST_FILTERED_ROUND) if self._passes else 1, size // 2)

    def _window(self, lane: Lane, width: int) -> Range:
        if self._is_newest:
            low, high = max(lane.low, lane.high - width), lane.high
            return Range(low, high, lane.low if self._is_elastic else low, high)
        low, high = lane.low, min(lane.high, lane.low + width)
        return Range(low, high, low, lane.high if self._is_elastic else high)

    def _read_windows(
        self, windows: dict[Place, Range], *, is_bounded: bool
    ) -> tuple[dict[Place, list[ConsumedRecord]], dict[Place, list[ReadBatch]]]:
        """By partition the messages of the windows that pass, and the batches, without their records."""
        passed: dict[Place, list[ConsumedRecord]] = {}
        read: dict[Place, list[ReadBatch]] = {}
        held = number = done = 0
        deadline, most_bytes = math.inf, self._read_bytes + _MOST_ROUND_BYTES

        def is_out() -> bool:
            return is_bounded and (time.monotonic() > deadline or self._read_bytes > most_bytes)

        for batch in self._reader.batches(windows, self._wanted):
            self._budget.check()
            deadline = min(deadline, time.monotonic() + _MOST_ROUND_SECONDS)
            self._result.scanned += batch.record_count
            self._read_bytes += batch.bytes
            for count, message in enumerate(batch.records, 1):
                if self._passes:
                    if count % _RECORDS_PER_CHECK == 0:
                        self._budget.check()
                        if is_out():
                            raise _OutOfBounds(done + count)
                    if not self._does_pass(message):
                        continue
                held += len(message.key() or b"") + len(message.value() or b"")
                number += 1
                passed.setdefault(batch.place, []).append(message)
            read.setdefault(batch.place, []).append(batch._replace(records=[]))
            done += batch.record_count
            # One record always fits, however long it is.
            if (held > MOST_SHOWN_BYTES and number > 1) or is_out():
                raise _OutOfBounds(done)
        return passed, read

    def _does_pass(self, message: ConsumedRecord) -> bool:
        record = self._maker.searched(message, self._query, self._budget)
        return all(one(record, message) for one in self._passes)
