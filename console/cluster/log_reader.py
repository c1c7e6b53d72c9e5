"""Windows of a topic's partitions, read with Fetch: only batches that may have a wanted record are decoded.

A window is a range of offsets. Records of aborted transactions and markers are left out, as for any reader of committed
records. The caller closes the administrator's session whose connections this uses.
"""

from __future__ import annotations

import time
from array import array
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from ...admin.errors import NoResponse, ResponseError, UnknownNode
from ...admin.log_offsets import list_offsets
from ...admin.topics import described_topics
from ...client.error_kinds import ErrorKind
from ...client.transient_errors import FETCH_TRANSIENT
from ...client.user_errors import UserError
from ...protocol.errors import ErrorCode
from ...protocol.isolation import READ_COMMITTED
from ...protocol.log_places import EARLIEST, LATEST
from ...protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ...protocol.records.batch import HEADER_BYTES, BatchHeader, iter_headers
from ...protocol.records.compression import decompress
from ...protocol.records.control import ControlType, control_type
from ...protocol.records.errors import CorruptBatch, InvalidBatch, OldMessageFormat, UnsupportedCompression
from ...protocol.records.record import Record, decode_batch
from .wanted import EVERYTHING, Wanted

if TYPE_CHECKING:
    from ...admin.session import Admin
    from ...admin.topics import Topic
    from ...protocol.messages.fetch import PartitionData

Place = tuple[str, int]
#: Bytes of one response, and of a partition in it: of the first one, and the bounds of those that follow.
_MOST_BYTES, _FIRST_BYTES, _LEAST_BYTES, _MOST_PARTITION_BYTES = 8 << 20, 256 << 10, 64 << 10, 4 << 20
_WAIT_MS = 500
_PAUSE_S = 0.1
_CREATE_TIME, _LOG_APPEND_TIME = 1, 2
_DAMAGED = (CorruptBatch, InvalidBatch, UnsupportedCompression)


class FetchedRecord:
    """A record with the methods of confluent-kafka's messages."""

    __slots__ = ("_place", "_record", "_timestamp_type")

    def __init__(self, place: Place, record: Record, timestamp_type: int) -> None:
        self._place, self._record, self._timestamp_type = place, record, timestamp_type

    def topic(self) -> str:
        return self._place[0]

    def partition(self) -> int:
        return self._place[1]

    def offset(self) -> int:
        return self._record.offset

    def key(self) -> bytes | None:
        return self._record.key

    def value(self) -> bytes | None:
        return self._record.value

    def headers(self) -> Sequence[tuple[str, bytes | None]] | None:
        return self._record.headers

    def timestamp(self) -> tuple[int, int]:
        return self._timestamp_type, self._record.timestamp


class Range(NamedTuple):
    """A window of offsets from `low` to before `high`. Batches that lie across its ends are read up to `least` and `most`:
    else each would be decoded for several windows.
    """

    low: int
    high: int
    least: int
    most: int


class ReadBatch(NamedTuple):
    """The records of one batch that are in the window of its partition. `offsets` is None where the batch was not decoded:
    then it has nothing that is wanted, and all of it is in the window, from `first` to `last`.
    """

    place: Place
    record_count: int
    bytes: int
    first: int
    last: int
    offsets: array[int] | None
    records: list[FetchedRecord]


@dataclass(slots=True)
class _Window:
    place: Place
    #: The next offset, and the one from which on the next batch is wanted.
    next: int
    least: int
    end: int
    most: int
    partition_bytes: int = _FIRST_BYTES
    deadline: float = 0.0
    producers: set[int] = field(default_factory=set)


class LogReader:
    """Raises UserError where a partition cannot be read for `timeout_s`."""

    def __init__(self, admin: Admin, topic: str, timeout_s: float) -> None:
        self._admin = admin
        self._timeout_s = timeout_s
        self.topic = self._described(topic)
        #: Whether a leader has to be looked up again.
        self._is_stale = False
        #: Windows whose next offset their leader's log does not have.
        self._out_of_range: list[_Window] = []

    def _described(self, name: str) -> Topic:
        (found,) = described_topics(self._admin, [name])
        return found

    def offsets_at(self, places: Sequence[Place], position: int) -> dict[Place, int]:
        """Offsets of EARLIEST or LATEST, which is that of the last committed record, or of a time in ms; -1: no record has
        it or a later one.
        """
        found = list_offsets(self._admin, dict.fromkeys(places, position), committed=True)
        return {place: one.offset for place, one in found.items()}

    def batches(self, windows: Mapping[Place, Range], wanted: Wanted = EVERYTHING) -> Iterator[ReadBatch]:
        """Batches of the windows, those of a partition in order."""
        deadline = time.monotonic() + self._timeout_s
        opened = {
            place: _Window(place, one.low, one.least, one.high, one.most, deadline=deadline)
            for place, one in windows.items()
            if one.low < one.high
        }
        while opened:
            if self._is_stale:
                self._is_stale = False
                time.sleep(_PAUSE_S)
                self.topic = self._described(self.topic.name)
            if self._out_of_range:
                self._enter_range(opened)
            leaders = self._leaders(opened)
            for node, some in leaders.items():
                is_empty = True
                for window, data in self._fetched(node, some):
                    is_empty = False
                    yield from self._read(window, data, wanted)
                    if window.next >= window.end:
                        del opened[window.place]
                if is_empty and time.monotonic() > some[0].deadline:
                    raise UserError(f"broker {node} sent no record for {self._timeout_s:g} s", ErrorKind.UNREACHABLE)

    def _leaders(self, opened: Mapping[Place, _Window]) -> dict[int, list[_Window]]:
        leaders = self.topic.leaders
        made: dict[int, list[_Window]] = defaultdict(list)
        for place, window in opened.items():
            made[leaders.get(place[1], -1)].append(window)
        for window in made.pop(-1, ()):
            self._read_again(window, "it has no leader")
        return made

    def _read_again(self, window: _Window, words: str) -> None:
        """Has the next round begin with a pause and the leaders of all partitions, for all that have none together. Raises
        UserError after the time of a request.
        """
        topic, partition = window.place
        if time.monotonic() > window.deadline:
            raise UserError(f"{topic}-{partition} cannot be read: {words}", ErrorKind.UNREACHABLE)
        self._is_stale = True

    def _enter_range(self, opened: dict[Place, _Window]) -> None:
        """Moves the windows that are out of range to the start of their logs, or ends them where the logs are shorter. A
        response with OFFSET_OUT_OF_RANGE has no log start offset: ListOffsets has it, once for all windows.
        """
        windows, self._out_of_range = self._out_of_range, []
        places = [one.place for one in windows]
        starts = list_offsets(self._admin, dict.fromkeys(places, EARLIEST))
        ends = list_offsets(self._admin, dict.fromkeys(places, LATEST))
        for window in windows:
            if starts[window.place].offset > window.next:
                window.next = window.least = starts[window.place].offset  # deleted meanwhile
                window.deadline = time.monotonic() + self._timeout_s
            elif ends[window.place].offset < window.next:
                window.next = window.end  # a truncated log
            else:
                self._read_again(window, ErrorCode.OFFSET_OUT_OF_RANGE.name)
            if window.next >= window.end:
                del opened[window.place]

    def _fetched(self, node: int, windows: list[_Window]) -> Iterator[tuple[_Window, PartitionData]]:
        """One response of a leader, for those of the windows that it has something for."""
        partitions = [
            FetchPartition(partition=one.place[1], fetch_offset=one.next, partition_max_bytes=one.partition_bytes)
            for one in windows
        ]
        asked = FetchTopic(topic=self.topic.name, topic_id=self.topic.id_in_requests, partitions=partitions)
        request = FetchRequest(
            max_wait_ms=_WAIT_MS, min_bytes=1, max_bytes=_MOST_BYTES, isolation_level=READ_COMMITTED, topics=[asked]
        )
        try:
            response = self._admin.impatient.ask(request, node)
        except (NoResponse, UnknownNode) as error:
            self._read_again(windows[0], str(error))
            return
        if response.error_code:
            raise ResponseError(f"topic {self.topic.name}", response.error_code)
        if response.throttle_time_ms and not response.responses:
            time.sleep(min(response.throttle_time_ms / 1000, self._timeout_s))
        of = {one.place[1]: one for one in windows}
        for topic in response.responses:
            for data in topic.partitions:
                yield of[data.partition_index], data

    def _read(self, window: _Window, data: PartitionData, wanted: Wanted) -> Iterator[ReadBatch]:
        topic, partition = window.place
        code = data.error_code
        if code == ErrorCode.OFFSET_OUT_OF_RANGE:
            self._out_of_range.append(window)
            return
        if code in FETCH_TRANSIENT:
            self._read_again(window, ErrorCode(code).name)
            return
        if code:
            raise ResponseError(f"{topic}-{partition}", code)
        began = window.next
        try:
            yield from self._walked(window, data, wanted)
        except OldMessageFormat:
            words = "its records are older than Kafka 0.11's format: read them with `odradek consume`"
            raise UserError(f"{topic}-{partition}, offset {window.next}: {words}") from None
        except _DAMAGED as error:
            raise UserError(f"{topic}-{partition}, offset {window.next}: {error}") from None
        if window.next > began:
            window.deadline = time.monotonic() + self._timeout_s
        elif data.last_stable_offset >= 0 and window.next >= data.last_stable_offset:
            window.next = window.end  # a truncated log
        elif time.monotonic() > window.deadline:
            raise UserError(f"{topic}-{partition} sent no record for {self._timeout_s:g} s", ErrorKind.UNREACHABLE)

    def _walked(self, window: _Window, data: PartitionData, wanted: Wanted) -> Iterator[ReadBatch]:
        records = memoryview(data.records or b"")
        aborted = sorted(data.aborted_transactions or (), key=lambda one: one.first_offset, reverse=True)
        window.producers.clear()
        count = size = 0
        for position, header in iter_headers(records):
            if header.base_offset >= window.end:
                window.next = window.end
                break
            while aborted and aborted[-1].first_offset <= header.last_offset:
                window.producers.add(aborted.pop().producer_id)
            count, size = count + max(header.record_count, 1), size + header.size
            if header.last_offset >= window.next:
                if header.is_control:
                    _end_transaction(window.producers, records, position, header)
                elif not (header.is_transactional and header.producer_id in window.producers):
                    yield _read_batch(window, records, position, header, wanted)
                window.next = window.least = header.next_offset
        if count:
            left = max(window.end - window.next, 0)
            window.partition_bytes = min(max(left * size // count * 5 // 4, _LEAST_BYTES), _MOST_PARTITION_BYTES)


def _end_transaction(producers: set[int], records: memoryview, position: int, header: BatchHeader) -> None:
    """The marker of an abort ends what is left out of its producer."""
    if header.is_transactional and any(
        control_type(one.key) is ControlType.ABORT for one in decode_batch(records, position, header)
    ):
        producers.discard(header.producer_id)


def _read_batch(window: _Window, records: memoryview, position: int, header: BatchHeader, wanted: Wanted) -> ReadBatch:
    first, last = max(header.base_offset, window.least), min(header.last_offset, window.most - 1)
    is_inside = first == header.base_offset and last == header.last_offset
    if is_inside and not _may_have(records, position, header, wanted.in_batch):
        return ReadBatch(window.place, header.record_count, header.size, first, last, None, [])
    kind = _LOG_APPEND_TIME if header.timestamp_type else _CREATE_TIME
    found = decode_batch(records, position, header)
    if not is_inside:
        found = [one for one in found if first <= one.offset <= last]
    chosen = wanted.chosen(found)
    offsets = array("q", [one.offset for one in found])
    return ReadBatch(
        window.place,
        len(found),
        header.size,
        first,
        last,
        offsets,
        [FetchedRecord(window.place, one, kind) for one in chosen],
    )


def _may_have(
    records: memoryview, position: int, header: BatchHeader, in_batch: Callable[[bytes], bool] | None
) -> bool:
    if in_batch is None:
        return True
    packed = records[position + HEADER_BYTES : position + header.size]
    return in_batch(bytes(decompress(header.compression, packed)))
