"""Searches: pages of records, newest or oldest first (`merge.py`), and all records of a range for a download."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from ...admin.connection import Connection
from ...admin.places import Place
from ...admin.positions import Position
from ...client.error_kinds import ErrorKind
from ...client.user_errors import UserError
from ...records.reading import Reader
from ...records.selection import Selection
from ..budgets import RECORD_THREADS, UNLIMITED, Budget
from .filters import filters
from .lanes import lanes_of
from .links import Links
from .log_reader import LogReader
from .merge import MOST_SECONDS, Merge, Work
from .query import Query, position_of
from .records import Record, RecordMaker
from .search_result import SearchResult
from .topic_names import check_topic_name

if TYPE_CHECKING:
    from ...admin.topics import Partition

MOST_SHOWN = 500
#: A request for a filtered page ends after this time with what it has, so that its viewer sees the progress.
SLICE_SECONDS = 1.0
_BATCH = 500
#: librdkafka holds so many KB that were not read yet.
_SETTINGS = {"queued.max.messages.kbytes": 16 << 10, "queued.min.messages": 1000}


class RecordReader:
    """Pages are read by a `LogReader` over connections that stay open, downloads and tails by consumers without a group."""

    def __init__(
        self, connection: Connection, maker: RecordMaker, away: Callable[[], frozenset[int]] = frozenset
    ) -> None:
        self._connection = connection
        self._links = Links(connection, RECORD_THREADS)
        self._away = away
        self.maker = maker

    def close(self) -> None:
        self._links.close()

    def read(self, query: Query, budget: Budget = UNLIMITED, seconds: float = MOST_SECONDS) -> SearchResult:
        """Raises UserError for a topic that does not exist, Misused for a bad query, Stopped at the budget's end."""
        start, until = position_of(query.start), position_of(query.until)
        passes = filters(query, budget)
        began = time.monotonic()
        result = SearchResult([])
        with self._links.admin() as admin:
            reader = LogReader(admin, query.topic, self._connection.timeout_s)
            places = self._places({one.partition_index: one for one in reader.topic.partitions}, query, result)
            if places:
                lanes = lanes_of(reader, places, query, start, until, result)
                work = Work(reader, self.maker, query, passes, self.maker.wanted(query), budget)
                Merge(work, result, began, seconds).run(lanes)
        result.seconds = time.monotonic() - began
        return result

    def batches(self, query: Query, budget: Budget = UNLIMITED) -> Iterator[list[Record]]:
        """Records of the whole range that pass, in the order of the partitions' logs: for a download. Raises Stopped."""
        start, until = position_of(query.start), position_of(query.until)
        passes = filters(query, budget)
        with self._links.admin() as admin:
            log = LogReader(admin, query.topic, self._connection.timeout_s)
            places = self._places({one.partition_index: one for one in log.topic.partitions}, query, SearchResult([]))
            lanes = lanes_of(log, places, query, start, until, SearchResult([])) if places else []
        ranges = {lane.place: (lane.low, lane.high) for lane in lanes if not lane.is_exhausted}
        if not ranges:
            return
        chosen = () if query.partition is None else (query.partition,)
        reader = Reader(self._connection, Selection([query.topic], chosen), more_settings=_SETTINGS)
        try:
            reader.begin_within(ranges)
            for batch in reader.batches(_BATCH):
                budget.check()
                made = [(self.maker.record(one, query, budget), one) for one in batch]
                yield [record for record, one in made if all(check(record, one) for check in passes)]
        finally:
            reader.close()

    def _places(self, known: Mapping[int, Partition], query: Query, result: SearchResult) -> list[Place]:
        """The partitions to read: without those whose leader does not respond, which a search would wait for."""
        away = self._away()
        wanted = sorted(known) if query.partition is None else [query.partition]
        if wanted and wanted[0] not in known:
            raise UserError(
                f"{query.topic} has no partition {wanted[0]}, but 0 to {len(known) - 1}", ErrorKind.NOT_FOUND
            )
        for index in wanted:
            if known[index].leader_id < 0 or known[index].leader_id in away:
                result.leaderless[index] = sorted(known[index].replica_nodes)
        if result.leaderless:
            result.ended = "the end of the log"
        return [(query.topic, index) for index in wanted if index not in result.leaderless]

    def open(self, query: Query, start: Position, *, follow: bool) -> Reader:
        check_topic_name(query.topic)
        chosen = () if query.partition is None else (query.partition,)
        reader = Reader(self._connection, Selection([query.topic], chosen, start, None, follow))
        try:
            reader.begin()
        except BaseException:
            reader.close()
            raise
        return reader
