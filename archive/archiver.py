"""The archiver: reads topics from closed segments and through the brokers, and keeps their tables up to date.

Each turn of a topic plans the offsets from the end of its table to the end of the log, writes files of rows, and commits
them with their offsets. A turn ends with the log, or after `freshness_s`: so each of several topics has its turns, and a
back-fill commits now and then. The offsets of a commit follow from its rows, and at the end of a split from the split.
"""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from ..cli.client.errors import CommandError
from ..columns import Plan, Reader, ScanError, Split, ValueSchema, kernel
from ..columns.cluster import Cluster, ClusterError, open_split
from ..columns.plan import READ_COMMITTED, Request
from ..columns.reading import ReadOptions
from ..protocol.uuids import uuid_to_text
from .rows import RowMaker, check_fits, row_maker, unread_record
from .store import ArchiveError, Covered, Table, TableChanged

FRESHNESS_S = 10.0
#: Rows in memory that become files, in bytes of Arrow. A file has a quarter to a half of that.
FILE_BYTES = 128 << 20
#: Small files and old snapshots are looked for after so many commits.
_COMMITS_BETWEEN_MAINTENANCE = 20
#: A turn follows the one before after at most this part of the freshness: the rest is for the turn itself.
_PART_OF_FRESHNESS = 0.4
#: The next turn may take so many times as long as the longest of the last ones, which are so many.
_MARGIN, _LAST_TURNS = 1.5, 20
_LEAST_WAIT_S = 0.05
#: Shorter turns of a back-fill would be plans and commits for the most part.
_LEAST_TURN_S = 2.0
_READING_TO_OVERHEAD = 4
#: Longest wait after errors, which doubles from `freshness_s`.
_MOST_BACKOFF_S = 60.0


class SparkEnded(Exception):
    """The session of Spark has ended: another process begins with another one."""


@dataclass(frozen=True)
class ArchiveOptions:
    """`freshness_s`: a record is in the table so long after its acknowledgement, where the machine keeps up with the topic.

    `values`: typed columns, raw ones without. `keep_value`: typed tables have the value's bytes, too, from which a replay
    writes them. `skip_unreadable`: damaged and deleted records become dead-letter records; the topic stops otherwise.
    """

    values: ValueSchema | None = None
    keep_value: bool = False
    freshness_s: float = FRESHNESS_S
    isolation_level: str = READ_COMMITTED
    skip_unreadable: bool = False
    file_bytes: int = FILE_BYTES
    commits_between_maintenance: int = _COMMITS_BETWEEN_MAINTENANCE


@dataclass
class Archived:
    """Counts of a topic since the archiver's start."""

    topic: str
    rows: int = 0
    dead_letter_records: int = 0
    commits: int = 0
    is_caught_up: bool = False
    #: Moment of the last turn's commit, before the merges and deletions that follow some; None for a turn without a commit.
    committed_at: float | None = None
    error: Exception | None = field(default=None, repr=False)


class TopicArchive:
    """One topic and its table."""

    def __init__(self, topic: str, table: Table, options: ArchiveOptions) -> None:
        """Raises ArchiveError, InvalidScan and CommandError for a table or a schema that does not fit."""
        self.archived = Archived(topic)
        self._table = table
        self._options = options
        self._rows: RowMaker = row_maker(options.values, topic, table.schema, options.keep_value)
        if table.schema is not None:
            check_fits(table.schema, self._rows.schema, topic)
        self._offsets: dict[int, int] = {}
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_dead: list[pa.RecordBatch] = []
        self._bytes = 0
        #: Time of the last turn's plan and commit.
        self._overhead_s = 0.0
        kernel.load()  # not in the first turn that has records, which would be late

    def advance(self, cluster: Cluster) -> None:
        """One turn: up to the end of the log, or of the time. What it wrote is committed, or abandoned with an error."""
        began = time.monotonic()
        self.archived.committed_at = None
        self._waiting, self._waiting_dead, self._bytes = [], [], 0
        covered = self._table.covered
        request = Request(isolation_level=self._options.isolation_level)
        if covered is not None:
            request.start_offsets = dict(covered.offsets)
        plan = cluster.plan(self.archived.topic, self._request(cluster, request, covered))
        read_began = time.monotonic()
        topic_id = _topic_id(plan)
        _check_same_log(plan, covered, topic_id)
        self._offsets = dict(covered.offsets) if covered is not None else dict(plan.starts)
        self._offsets |= {one: start for one, start in plan.starts.items() if one not in self._offsets}
        try:
            self.archived.is_caught_up = self._read(cluster, plan, read_began + self._reading_s())
            self._flush()
            read_ended = time.monotonic()
            if covered is None or self._offsets != covered.offsets:
                self._commit(
                    Covered(self.archived.topic, topic_id or (covered.topic_id if covered else ""), self._offsets)
                )
            self._overhead_s = read_began - began + time.monotonic() - read_ended
        except BaseException:
            with contextlib.suppress(Exception):
                self._table.abandon()
            raise

    def _reading_s(self) -> float:
        """Time for the reading of a turn: several times that of its plan and its commit, also on a slow machine."""
        return max(self._options.freshness_s, _LEAST_TURN_S, _READING_TO_OVERHEAD * self._overhead_s)

    def _request(self, cluster: Cluster, request: Request, covered: Covered | None) -> Request:
        """The request from the offsets that are left, where the options allow that others are gone."""
        if covered is None or not self._options.skip_unreadable:
            return request
        from ..cli.client.admin import EARLIEST

        described = cluster.described([covered.topic])
        first = cluster.offsets(described, EARLIEST)
        for partition, offset in covered.offsets.items():
            start = first.get((covered.topic, partition), 0)
            if start > offset:
                self._gap(covered.topic, partition, offset, start)
                request.start_offsets = {**request.start_offsets, partition: start}
        return request

    def _gap(self, topic: str, partition: int, first: int, start: int) -> None:
        from ..columns import Unread

        reason = "removed by retention or DeleteRecords before it was archived"
        self._waiting_dead.append(unread_record(Unread(topic, partition, first, start, "the log", -1, reason)))

    def _read(self, cluster: Cluster, plan: Plan, deadline: float) -> bool:
        """Returns whether all of the plan is read."""
        options = ReadOptions(self._rows.columns, self._options.skip_unreadable)
        for one in plan.partitions:
            if one.start > self._offsets[one.partition]:
                self._offsets[one.partition] = one.start
        for split in plan.splits:
            reader = open_split(split, options, cluster)
            for batch in reader:
                self._add(batch)
                self._offsets[split.partition] = batch.column("offset")[-1].as_py() + 1
                if self._bytes >= self._options.file_bytes:
                    self._flush()
                if time.monotonic() > deadline:
                    self._note_unread(reader, split, self._offsets[split.partition])
                    return False
            self._note_unread(reader, split, split.next_offset)
            self._offsets[split.partition] = split.next_offset
        return True

    def _note_unread(self, reader: Reader, split: Split, end: int) -> None:
        for unread in reader.unread:
            if unread.first_offset < end:
                self._waiting_dead.append(unread_record(unread))

    def _add(self, batch: pa.RecordBatch) -> None:
        before = self._rows.schema
        self._rows.prepare(batch)
        if self._rows.schema != before:
            self._flush()  # files have one schema
        made = self._rows.rows(batch)
        if made.rows.num_rows:
            self._waiting.append(made.rows)
        if made.dead_letter_records.num_rows:
            self._waiting_dead.append(made.dead_letter_records)
        self._bytes += made.rows.nbytes + made.dead_letter_records.nbytes

    def _flush(self) -> None:
        """Writes the waiting rows to files, with the schema that they have."""
        if self._waiting or self._waiting_dead:
            from .rows import DEAD_LETTER_SCHEMA

            schema = self._waiting[0].schema if self._waiting else self._rows.schema
            self._table.evolve(schema)
            rows = pa.Table.from_batches(self._waiting, schema)
            dead = pa.Table.from_batches(self._waiting_dead, DEAD_LETTER_SCHEMA)
            self._table.write(rows, dead)
            self.archived.rows += rows.num_rows
            self.archived.dead_letter_records += dead.num_rows
        self._waiting, self._waiting_dead, self._bytes = [], [], 0

    def _commit(self, covered: Covered) -> None:
        if self._table.schema is None:
            self._table.evolve(self._rows.schema)
        self._table.commit(covered)
        self.archived.commits += 1
        self.archived.committed_at = time.monotonic()
        if self.archived.commits % self._options.commits_between_maintenance == 0:
            self._table.maintain()

    def close(self) -> None:
        self._table.close()


def _topic_id(plan: Plan) -> str:
    found = next((split.topic_id for split in plan.splits if split.topic_id is not None), None)
    return "" if found is None else uuid_to_text(found)


def _check_same_log(plan: Plan, covered: Covered | None, topic_id: str) -> None:
    """Raises ArchiveError for a topic that was deleted and created again, or a log that lost records."""
    if covered is None:
        return
    if topic_id and covered.topic_id and topic_id != covered.topic_id:
        raise ArchiveError(f"topic {plan.topic} was deleted and created again: choose another table for it")
    for one in plan.partitions:
        offset = covered.offsets.get(one.partition, 0)
        if one.log_end < offset:
            raise ArchiveError(
                f"{plan.topic}-{one.partition} ends at offset {one.log_end}, and the table covers it up to {offset}: "
                "the log has lost records, or is another topic's"
            )


class Archiver:
    """Keeps topics as tables: `run(once=True)` up to the ends of their logs, and `run()` until `stop`.

    `open_table` opens the table of a topic. An error of one topic does not stop the others: its turns are repeated.
    """

    def __init__(
        self,
        client: Mapping[str, str],
        topics: Sequence[str],
        open_table: Callable[[str], Table],
        options: ArchiveOptions | None = None,
        *,
        on_error: Callable[[str, Exception], None] | None = None,
        open_archive: Callable[[str, Table, ArchiveOptions], TopicArchive] = TopicArchive,
    ) -> None:
        """`client`: Kafka's client properties. `open_archive`: reads a topic in this process, or in jobs of Spark."""
        self._client = dict(client)
        self._topics = list(topics)
        self._open_table = open_table
        self._options = options or ArchiveOptions()
        self._on_error = on_error or (lambda topic, error: None)
        self._open_archive = open_archive
        self._archives: dict[str, TopicArchive] = {}
        self._failures: dict[str, int] = {}
        #: Seconds to a turn's commit, with its wait for the turns of other topics: the last ones by topic.
        self._turns_s: dict[str, deque[float]] = {topic: deque(maxlen=_LAST_TURNS) for topic in self._topics}
        self._cluster: Cluster | None = None
        self._is_stopped = False

    def stop(self) -> None:
        """Ends `run` after the commit in progress."""
        self._is_stopped = True

    def run(self, *, once: bool = False) -> list[Archived]:
        """Returns the counts of each topic. With `once`, raises the first topic's error after the others' turns."""
        done: dict[str, Archived] = {}
        next_turns = dict.fromkeys(self._topics, time.monotonic())
        ended = dict(next_turns)
        try:
            while next_turns and not self._is_stopped:
                topic = min(next_turns, key=lambda one: next_turns[one])
                self._wait_until(next_turns[topic])
                if self._is_stopped:
                    break
                began = time.monotonic()
                is_first = topic not in done
                found = done[topic] = self._turn(topic)
                ready = max(next_turns[topic], ended[topic])
                ended[topic] = time.monotonic()
                if found.is_caught_up and not is_first:  # others read a backlog, or open the table
                    self._turns_s[topic].append((found.committed_at or ended[topic]) - ready)
                if once and (found.is_caught_up or found.error is not None):
                    del next_turns[topic]
                else:
                    next_turns[topic] = began + self._pause_s(found)
        finally:
            self.close()
        if once:
            self._raise_first(done)
        return list(done.values())

    def _turn(self, topic: str) -> Archived:
        try:
            archive = self._archives.get(topic)
            if archive is None:
                table = self._open_table(topic)
                try:
                    archive = self._archives[topic] = self._open_archive(topic, table, self._options)
                except BaseException:
                    table.close()
                    raise
            if self._cluster is None:
                self._cluster = Cluster(self._client)
            archive.advance(self._cluster)
        except Exception as error:
            if not isinstance(error, ArchiveError | CommandError | ScanError | OSError) and not _is_of_catalog(error):
                raise
            return self._failed(topic, error)
        self._failures.pop(topic, None)
        archive.archived.error = None
        return archive.archived

    def _failed(self, topic: str, error: Exception) -> Archived:
        archive = self._archives.get(topic)
        found = archive.archived if archive is not None else Archived(topic)
        if isinstance(error, ClusterError) and self._cluster is not None:
            self._cluster.close()
            self._cluster = None
        if archive is not None and (isinstance(error, TableChanged) or _is_of_catalog(error)):
            with contextlib.suppress(Exception):
                archive.close()  # opened again, with the offsets that the table has
            del self._archives[topic]
        self._failures[topic] = self._failures.get(topic, 0) + 1
        found.error, found.is_caught_up = error, False
        self._on_error(topic, error)
        return found

    def _pause_s(self, found: Archived) -> float:
        if found.error is not None:
            backoff = self._options.freshness_s * 2.0 ** min(self._failures[found.topic] - 1, 10)
            return min(backoff, _MOST_BACKOFF_S)
        return self._interval_s(found.topic) if found.is_caught_up else 0.0

    def _interval_s(self, topic: str) -> float:
        """Time between the begins of turns: a record that just missed a turn is in the table at the end of the next one."""
        freshness_s = self._options.freshness_s
        return max(
            0.0, min(_PART_OF_FRESHNESS * freshness_s, freshness_s - _MARGIN * max(self._turns_s[topic], default=0.0))
        )

    def _wait_until(self, moment: float) -> None:
        while not self._is_stopped and (left := moment - time.monotonic()) > 0:
            time.sleep(min(left, _LEAST_WAIT_S))

    def _raise_first(self, done: Mapping[str, Archived]) -> None:
        for one in done.values():
            if one.error is not None:
                raise one.error

    def close(self) -> None:
        for archive in self._archives.values():
            with contextlib.suppress(OSError):
                archive.close()
        self._archives = {}
        if self._cluster is not None:
            self._cluster.close()
            self._cluster = None


def _is_of_catalog(error: Exception) -> bool:
    """Returns whether a library of a catalog raised the error: PyIceberg, or that of its database or its requests."""
    return any(kind.__module__.split(".")[0] in ("pyiceberg", "sqlalchemy", "requests") for kind in type(error).__mro__)
