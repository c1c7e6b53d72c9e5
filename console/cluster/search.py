"""Records that a viewer reads: pages of a search, newest or oldest first, and live tails.

A page is merged from all partitions by their timestamps, within limits of number, bytes and time. It ends with an offset for
each partition, from which the next page continues. Each partition is read in windows of offsets. Newest first, a window lies
before the one that was read last. The next record of the page is known once every partition has one at hand or has none
left.

A tail is a consumer that stays open between the requests of one viewer, and is closed when the requests stop.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ...cli.client.connection import Connection
from ...cli.client.errors import NOT_FOUND, CommandError, Misused
from ...cli.records.reading import Place, Reader, range_notes
from ...cli.records.selection import BEGINNING, END, STORED, Position, Selection, parse_position
from .records import NEWEST, Passes, Query, Record, RecordMaker, filters

if TYPE_CHECKING:
    from ...cli.records.consumed import ConsumedRecord

#: Limits of one request: records and bytes that it reads, bytes that it shows, and its time.
MOST_SCANNED, MOST_BYTES, MOST_SHOWN_BYTES, MOST_SECONDS = 100_000, 64 << 20, 16 << 20, 4.0
MOST_SHOWN = 500
#: A request for a filtered page ends after this time with what it has, so that its viewer sees the progress.
SLICE_SECONDS = 1.0
#: Records of the first and of the largest windows of a round, all partitions together.
_FIRST_ROUND, _MOST_ROUND = 5_000, 20_000
#: A filtered search reads no smaller windows for the sake of time: each has a fixed cost.
_LEAST_FILTERED_ROUND = 2_000
#: A round of windows that took longer is followed by a smaller one.
_ROUND_SECONDS = 0.3
_BATCH = 500
#: librdkafka holds so many KB that were not read yet.
_SETTINGS = {"queued.max.messages.kbytes": 16 << 10, "queued.min.messages": 1000}


@dataclass(slots=True)
class Found:
    """`ended` is the reason why the search ended, and `edges` where it continues: empty at the end of the range. Partitions
    of `leaderless` were not read. `notes`: offsets of the query that partitions do not have. `left`: offsets of the range
    that were not read.
    """

    records: list[Record]
    scanned: int = 0
    seconds: float = 0.0
    ended: str = ""
    leaderless: dict[int, list[int]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    edges: dict[int, int] = field(default_factory=dict)
    #: Where the search began.
    begun: dict[int, int] = field(default_factory=dict)
    left: int = 0
    #: Offsets of the range when the search began.
    total: int = 0


class RecordReader:
    """`read` opens a consumer without a group and closes it."""

    def __init__(
        self, connection: Connection, maker: RecordMaker, away: Callable[[], frozenset[int]] = frozenset
    ) -> None:
        self._connection = connection
        self._away = away
        self.maker = maker

    def read(self, query: Query, seconds: float = MOST_SECONDS) -> Found:
        """Raises CommandError for a topic that does not exist, and Misused for a bad query."""
        start, until = position_of(query.start), position_of(query.until)
        passes = filters(query)
        began = time.monotonic()
        chosen = () if query.partition is None else (query.partition,)
        reader = Reader(self._connection, Selection([query.topic], chosen), more_settings=_SETTINGS)
        try:
            made = Found([])
            places = self._places(reader, query, made)
            if places:
                lanes = _lanes(reader, places, query, start, until, made)
                _Merge(reader, self.maker, query, passes, made, began, seconds).run(lanes)
        finally:
            reader.close()
        made.seconds = time.monotonic() - began
        return made

    def batches(self, query: Query) -> Iterator[list[Record]]:
        """Records of the whole range that pass, in the order of the partitions' logs: for a download."""
        start, until = position_of(query.start), position_of(query.until)
        passes = filters(query)
        chosen = () if query.partition is None else (query.partition,)
        reader = Reader(self._connection, Selection([query.topic], chosen), more_settings=_SETTINGS)
        try:
            places = self._places(reader, query, Found([]))
            lanes = _lanes(reader, places, query, start, until, Found([])) if places else []
            ranges = {lane.place: (lane.low, lane.high) for lane in lanes if not lane.is_exhausted}
            if not ranges:
                return
            reader.begin_within(ranges)
            for batch in reader.batches(_BATCH):
                made = [(self.maker.record(one, query), one) for one in batch]
                yield [record for record, one in made if all(check(record, one) for check in passes)]
        finally:
            reader.close()

    def _places(self, reader: Reader, query: Query, made: Found) -> list[Place]:
        """The partitions to read: without those whose leader does not respond, which a search would wait for."""
        known = reader.described(query.topic).partitions
        away = self._away()
        wanted = sorted(known) if query.partition is None else [query.partition]
        if wanted and wanted[0] not in known:
            reader.begin()  # raises the error for a partition that does not exist
        for index in wanted:
            if known[index].leader < 0 or known[index].leader in away:
                made.leaderless[index] = sorted(known[index].replicas)
        if made.leaderless:
            made.ended = "the end of the log"
        return [(query.topic, index) for index in wanted if index not in made.leaderless]

    def open(self, query: Query, start: Position, *, follow: bool) -> Reader:
        chosen = () if query.partition is None else (query.partition,)
        reader = Reader(self._connection, Selection([query.topic], chosen, start, None, follow))
        try:
            reader.begin()
        except BaseException:
            reader.close()
            raise
        return reader


def position_of(text: str) -> Position | None:
    if not text:
        return None
    found = parse_position(text)
    if found.offset == STORED:
        raise Misused("a search has no group, and so no stored offsets: give beginning, end, an offset or a time")
    return found


# ---- the range of each partition


@dataclass(slots=True)
class _Lane:
    """A partition: the offsets from `low` to before `high` were not read, `ready` are messages that pass."""

    place: Place
    low: int
    high: int
    ready: deque[ConsumedRecord] = field(default_factory=deque)

    @property
    def is_exhausted(self) -> bool:
        return self.low >= self.high


def _lanes(
    reader: Reader, places: list[Place], query: Query, start: Position | None, until: Position | None, made: Found
) -> list[_Lane]:
    first, last = reader.offsets_at(places, BEGINNING), reader.offsets_at(places, END)
    known = [place for place in places if place in first and place in last]
    lows, highs = dict(first), dict(last)
    if start is not None:
        lows = _resolved(reader, known, start, first, last)
        if start.offset is not None and start.offset >= 0:
            made.notes += range_notes(start.offset, first, last, "nothing to read there")
    if until is not None:
        highs = _resolved(reader, known, until, first, last)
    lanes = []
    for place in known:
        low, high = max(first[place], lows[place]), min(last[place], highs[place])
        edge = query.edges.get(place[1])
        if edge is not None:
            low, high = (low, min(high, edge)) if query.order == NEWEST else (max(low, edge), high)
        lanes.append(_Lane(place, low, max(low, high)))
    return lanes


def _resolved(
    reader: Reader, places: list[Place], position: Position, first: dict[Place, int], last: dict[Place, int]
) -> dict[Place, int]:
    """The offset of each partition at a position."""
    if position.timestamp_ms is not None:
        found = reader.offsets_at(places, position.timestamp_ms)
        return {place: found[place] if found.get(place, -1) >= 0 else last[place] for place in places}
    offset = position.offset
    assert offset is not None
    if offset == BEGINNING:
        return first
    if offset == END:
        return last
    if offset < 0:  # the newest of each partition
        return {place: last[place] + (offset - _TAIL) for place in places}
    return dict.fromkeys(places, offset)


#: librdkafka's logical offset of a log's end, to which a count is added.
_TAIL = -2000

# ---- the merge


class _OutOfBounds(Exception):
    """A window had more bytes, or took more time, than a request has."""


class _Merge:
    def __init__(
        self,
        reader: Reader,
        maker: RecordMaker,
        query: Query,
        passes: list[Passes],
        made: Found,
        began: float,
        seconds: float,
    ) -> None:
        self._reader, self._maker, self._query, self._passes = reader, maker, query, passes
        self._made = made
        self._is_newest = query.order == NEWEST
        self._deadline = began + min(seconds, MOST_SECONDS)
        self._hard_deadline = began + MOST_SECONDS
        self._read_bytes = self._shown_bytes = 0
        self._taken: dict[Place, int] = {}

    def run(self, lanes: list[_Lane]) -> None:
        made, query = self._made, self._query
        made.begun = self._edges(lanes)
        made.total = sum(self._left(lane) for lane in lanes)
        size = _FIRST_ROUND if self._passes else min(_FIRST_ROUND, max(query.limit, 10) * max(1, len(lanes)))
        while True:
            if self._take(lanes, to_the_end=False):
                made.ended = f"the limit of {query.limit} records"
                break
            waiting = [lane for lane in lanes if not lane.ready and not lane.is_exhausted]
            if not waiting:
                made.ended = "the first record of the range" if self._is_newest else "the end of the log"
                break
            if self._is_over():
                made.ended = "the limit of one request"
                self._take(lanes, to_the_end=True)
                break
            size = self._read_round(waiting, size)
        is_done = all(lane.is_exhausted and not lane.ready for lane in lanes)
        made.left = sum(self._left(lane) for lane in lanes)
        made.edges = {} if is_done else self._edges(lanes)

    def _is_over(self) -> bool:
        made = self._made
        return (
            made.scanned >= MOST_SCANNED
            or self._read_bytes >= MOST_BYTES
            or self._shown_bytes >= MOST_SHOWN_BYTES
            or time.monotonic() > self._deadline
        )

    # ---- edges

    def _edges(self, lanes: list[_Lane]) -> dict[int, int]:
        return {lane.place[1]: self._edge(lane) for lane in lanes}

    def _edge(self, lane: _Lane) -> int:
        """Where the lane continues: before messages that pass and were not taken."""
        if lane.ready:
            return int(lane.ready[0].offset()) + (1 if self._is_newest else 0)
        return lane.high if self._is_newest else lane.low

    def _left(self, lane: _Lane) -> int:
        edge = self._edge(lane)
        return max(0, edge - lane.low if self._is_newest else lane.high - edge)

    # ---- records of the page

    def _take(self, lanes: list[_Lane], *, to_the_end: bool) -> bool:
        """Takes the records that are next. Returns whether the page is full."""
        while len(self._made.records) < self._query.limit and self._shown_bytes < MOST_SHOWN_BYTES:
            ready = [lane for lane in lanes if lane.ready]
            if not ready or (not to_the_end and any(not lane.ready and not lane.is_exhausted for lane in lanes)):
                return False
            chosen = (max if self._is_newest else min)(ready, key=lambda lane: int(lane.ready[0].timestamp()[1]))
            message = chosen.ready.popleft()
            record = self._maker.record(message, self._query)
            self._shown_bytes += record.bytes
            self._made.records.append(record)
        return len(self._made.records) >= self._query.limit

    # ---- windows

    def _read_round(self, waiting: list[_Lane], size: int) -> int:
        """Reads the next window of each lane, or of as many as the size allows. Returns the size of the next round."""
        chosen = waiting[:size]
        width = max(1, size // len(chosen))
        windows = {lane.place: self._window(lane, width) for lane in chosen}
        began, scanned = time.monotonic(), self._made.scanned
        try:
            passed = self._read_windows(windows, len(chosen) * width)
        except _OutOfBounds:
            if time.monotonic() > self._hard_deadline:
                self._deadline = min(self._deadline, self._hard_deadline)
            return max(1, min(size // 2, (self._made.scanned - scanned) // 2))
        for lane in chosen:
            low, high = windows[lane.place]
            found = passed.get(lane.place, [])
            if self._is_newest:
                lane.high = low
                found.reverse()
            else:
                lane.low = high
            lane.ready.extend(found)
        if time.monotonic() - began <= _ROUND_SECONDS:
            return min(size * 2, _MOST_ROUND)
        return max(min(size, _LEAST_FILTERED_ROUND) if self._passes else 1, size // 2)

    def _window(self, lane: _Lane, width: int) -> tuple[int, int]:
        if self._is_newest:
            return max(lane.low, lane.high - width), lane.high
        return lane.low, min(lane.high, lane.low + width)

    def _read_windows(self, windows: dict[Place, tuple[int, int]], most: int) -> dict[Place, list[ConsumedRecord]]:
        """Messages of the windows that pass, by partition."""
        passed: dict[Place, list[ConsumedRecord]] = {}
        held = 0
        self._reader.begin_within(windows)
        for batch in self._reader.batches(min(_BATCH, most)):
            for message in batch:
                length = len(message.key() or b"") + len(message.value() or b"")
                self._made.scanned += 1
                self._read_bytes += length
                if self._passes and not self._does_pass(message):
                    continue
                held += length
                passed.setdefault((message.topic(), message.partition()), []).append(message)
            # One record always fits, however long it is.
            if (held > MOST_SHOWN_BYTES and sum(map(len, passed.values())) > 1) or self._is_late():
                raise _OutOfBounds
        return passed

    def _is_late(self) -> bool:
        return time.monotonic() > self._hard_deadline

    def _does_pass(self, message: ConsumedRecord) -> bool:
        record = self._maker.record(message, self._query)
        return all(one(record, message) for one in self._passes)


def edges_text(edges: dict[int, int]) -> str:
    """Edges as a part of an address: `0.1500-1.1480`."""
    return "-".join(f"{partition}.{offset}" for partition, offset in sorted(edges.items()))


def edges_of(text: str) -> dict[int, int]:
    """Raises Misused for a text that `edges_text` did not make."""
    try:
        pairs = [one.split(".") for one in text.split("-") if one]
        found = {int(partition): int(offset) for partition, offset in pairs}
    except ValueError:
        raise CommandError("the position of the search cannot be read: start the search again") from None
    return found


# ---- live tails

#: Consumers of all viewers together.
MOST_TAILS = 8
_CLOSED_AFTER_S = 15.0
#: Limits of one request.
_MOST_RECORDS, _MOST_WAIT_S = 100, 0.4
_TAIL_BATCH = 100


@dataclass(slots=True)
class _Tail:
    query: Query
    reader: Reader
    batches: Iterator[list[ConsumedRecord]]
    passes: list[Passes]
    used: float
    lock: threading.Lock = field(default_factory=threading.Lock)


class Tails:
    """The least recently read tail makes place for a new one."""

    def __init__(self, records: RecordReader) -> None:
        self._records = records
        self._tails: dict[str, _Tail] = {}
        self._lock = threading.Lock()

    def begin(self, query: Query) -> str:
        """Opens a tail at the end of the log. Returns its name."""
        passes = filters(query)
        reader = self._records.open(query, Position(END), follow=True)
        made = _Tail(query, reader, reader.batches(_TAIL_BATCH), passes, time.monotonic())
        name = secrets.token_urlsafe(12)
        with self._lock:
            self._tails[name] = made
            dropped = sorted(self._tails, key=lambda one: self._tails[one].used)[
                : max(0, len(self._tails) - MOST_TAILS)
            ]
        for one in dropped:
            self.end(one)
        return name

    def read(self, name: str) -> list[Record]:
        """Records since the last call. Raises CommandError for a tail that was closed."""
        tail = self._tails.get(name)
        if tail is None:
            raise CommandError("following the new records has ended: start again", NOT_FOUND)
        found: list[Record] = []
        with tail.lock:
            tail.used = time.monotonic()
            deadline = tail.used + _MOST_WAIT_S
            for batch in tail.batches:
                for message in batch:
                    record = self._records.maker.record(message, tail.query)
                    if all(one(record, message) for one in tail.passes):
                        found.append(record)
                if len(found) >= _MOST_RECORDS or (found and not batch) or time.monotonic() > deadline:
                    break
        return found[-_MOST_RECORDS:]

    def end(self, name: str) -> None:
        with self._lock:
            tail = self._tails.pop(name, None)
        if tail is not None:
            with tail.lock:
                tail.reader.close()

    def sweep(self) -> None:
        """Closes tails whose viewer is gone."""
        now = time.monotonic()
        for name in [name for name, tail in list(self._tails.items()) if now - tail.used > _CLOSED_AFTER_S]:
            self.end(name)

    def close(self) -> None:
        for name in list(self._tails):
            self.end(name)
