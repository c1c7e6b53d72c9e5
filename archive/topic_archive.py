"""A topic and its table: reads from closed segments and through the brokers, and commits of rows with their offsets.

Each turn plans the offsets from the end of the table to the end of the log, writes files of rows, and commits
them with their offsets. The offsets of a commit follow from its rows, and at the end of a split from the split.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pyarrow as pa

from ..client.error_kinds import ErrorKind
from ..client.user_errors import UserError
from ..columns import Plan, Reader, ScanError, Split, ValueSchema, kernel
from ..columns.cluster import Cluster
from ..columns.cluster_errors import ClusterError
from ..columns.cluster_plan import plan_topic
from ..columns.inference import SAMPLE_ROWS, Inference
from ..columns.readers import open_split
from ..columns.request import READ_COMMITTED, Request
from ..columns.split_reader import ReadOptions
from ..protocol.uuids import uuid_to_text
from .column_names import distinct_fields
from .column_types import Times, grows_to, merged
from .rows import RowMaker, TypedRows, check_fits, inferred_type, row_maker, unread_record
from .sampling import count_below, sample
from .store import ArchiveError, Covered, Table

_logger = logging.getLogger(__name__)

FRESHNESS_S = 10.0
#: Rows in memory that become files, in bytes of Arrow. A file has a quarter to a half of that.
FILE_BYTES = 128 << 20

#: Shorter turns of a back-fill would be plans and commits for the most part.
_LEAST_TURN_S = 2.0
_READING_TO_OVERHEAD = 4


class NotAssigned(ArchiveError):
    """Another process keeps the table from now on."""


class SparkEnded(Exception):
    """The session of Spark has ended: another process begins with another one."""


@dataclass(frozen=True)
class ArchiveOptions:
    """`freshness_s`: a record is in the table so long after its acknowledgement, where the machine keeps up with the topic.

    `values`: typed columns, raw ones without. `keep_value`: typed tables have the value's bytes, too, from which a replay
    writes them. `skip_unreadable`: damaged and deleted records become dead-letter records; the topic stops otherwise.
    `commit_group`: gets the offsets of the tables, for tools that show lag; None: one of each table, `none`: no commits.
    `rebuild`: the first commit makes the table anew from the log, with the types of now. `times`: what typed columns have of
    times that not all engines have. `on_note`: shows a line, such as the types that were inferred. `is_assigned`: returns
    whether the table is still this process's; a turn ends without a commit where it is not. `table_of`: returns the name
    of a topic's table before it is open, so that the group of the table has the errors from the first turn on.
    """

    values: ValueSchema | None = None
    keep_value: bool = False
    freshness_s: float = FRESHNESS_S
    isolation_level: str = READ_COMMITTED
    skip_unreadable: bool = False
    file_bytes: int = FILE_BYTES
    rebuild: bool = False
    times: Times = Times.native
    commit_group: str | None = None
    on_note: Callable[[str], None] = _logger.info
    is_assigned: Callable[[], bool] = lambda: True
    table_of: Callable[[str], str | None] = lambda topic: None


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
    #: Why the last maintenance failed: the rows are in the table, in more files than needed.
    maintenance_error: ArchiveError | None = field(default=None, repr=False)

    @property
    def state(self) -> str:
        if self.error is not None:
            return "failing"
        return "up to date" if self.is_caught_up else "behind"


def of_library(error: Exception, where: str) -> ArchiveError:
    """An error of the archive for any other: its text, and what it concerns."""
    kind = getattr(error, "kind", ErrorKind.FAILED)
    text = str(error).strip().partition("\n")[0]
    if isinstance(error, ArchiveError | UserError | ScanError):
        return ArchiveError(text if where in text else f"{where}: {text}", kind)
    return ArchiveError(f"{where}: {type(error).__name__}{': ' if text else ''}{text}", kind)


class TopicArchive:
    """One topic and its table."""

    def __init__(self, topic: str, table: Table, options: ArchiveOptions) -> None:
        """Raises ArchiveError, InvalidScan and UserError for a table or a schema that does not fit."""
        self.archived = Archived(topic)
        self._table = table
        self._options = options
        self._must_rebuild = options.rebuild and table.covered is not None
        schema = None if self._must_rebuild else table.schema
        self._rows: RowMaker = row_maker(options.values, topic, schema, options.keep_value, options.times, table.rules)
        if schema is not None:
            check_fits(schema, self._rows.schema, topic)
        self._offsets: dict[int, int] = {}
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_dead: list[pa.RecordBatch] = []
        self._bytes = 0
        #: Rows and dead-letter records that are written and not committed.
        self._written = [0, 0]
        self._has_looked_for_maintenance = False
        #: This turn makes the table anew.
        self._is_restarted = False
        self._on_note = options.on_note
        #: Time of the last turn's plan and commit.
        self._overhead_s = 0.0
        #: Notes about times in columns that were shown.
        self._noted: list[str] = []
        kernel.load()  # not in the first turn that has records, which would be late

    @property
    def table(self) -> str:
        """The name of the table."""
        return self._table.name

    @property
    def offsets(self) -> dict[int, int]:
        """The offset of each partition below which the table has all records."""
        covered = self._table.covered
        return {} if covered is None else covered.offsets

    def advance(self, cluster: Cluster) -> None:
        """One turn: up to the end of the log, or of the time. What it wrote is committed, or abandoned with an error."""
        self.archived.committed_at = None
        self._waiting, self._waiting_dead, self._bytes, self._written = [], [], 0, [0, 0]
        self._is_restarted = False
        try:
            self._take_turn(cluster)
        except BaseException:
            with contextlib.suppress(Exception):
                self._table.abandon()
            raise

    def _take_turn(self, cluster: Cluster) -> None:
        began = time.monotonic()
        covered = self._table.covered
        plan = self._plan(cluster, covered)
        if self._must_rebuild and covered is not None:
            covered, plan = self._rebuilt(cluster, covered)
        elif self._is_sample_open(covered) and any(one.start < one.end for one in plan.partitions):
            covered, plan = self._with_inferred_type(cluster, covered, plan)
        read_began = time.monotonic()
        topic_id = _topic_id(plan)
        check_same_log(plan, covered, topic_id)
        self._offsets = dict(covered.offsets) if covered is not None else dict(plan.starts)
        self._offsets |= {one: start for one, start in plan.starts.items() if one not in self._offsets}
        starts = self._starts(covered)
        for one in plan.partitions:
            self._offsets[one.partition] = max(self._offsets[one.partition], one.start)
        is_caught_up = self._read(cluster, plan, read_began + self._reading_s())
        self._flush()
        read_ended = time.monotonic()
        if covered is None or self._offsets != covered.offsets or self._is_restarted:
            known = topic_id or (covered.topic_id if covered else "")
            self._commit(Covered(self.archived.topic, known, self._offsets, starts))
        self.archived.is_caught_up = is_caught_up
        self._note_times()
        self._overhead_s = read_began - began + time.monotonic() - read_ended
        if self.archived.committed_at is not None or not self._has_looked_for_maintenance:
            self._maintain()

    def _note_times(self) -> None:
        """Notes each field once that loses digits, or that Spark does not read."""
        found = self._rows.notes() if isinstance(self._rows, TypedRows) else []
        for one in found:
            if one not in self._noted:
                self._on_note(f"topic {self.archived.topic}: {one}")
        self._noted = found

    def _plan(self, cluster: Cluster, covered: Covered | None) -> Plan:
        request = Request(isolation_level=self._options.isolation_level)
        if covered is not None:
            request.start_offsets = dict(covered.offsets)
        return plan_topic(cluster, self.archived.topic, self._request(cluster, request, covered))

    def _first_plan(self, cluster: Cluster, covered: Covered) -> Plan:
        """A plan from where the table begins. Raises ScanError where the log begins later."""
        request = Request(isolation_level=self._options.isolation_level, start_offsets=covered.starts)
        return plan_topic(cluster, self.archived.topic, request)

    def _starts(self, covered: Covered | None) -> dict[int, int]:
        """Where the table begins; nothing where that is not known."""
        if covered is not None and not covered.starts:
            return {}
        return self._offsets | (covered.starts if covered is not None else {})

    # ---- types of JSON without a schema

    def _is_sample_open(self, covered: Covered | None) -> bool:
        """Returns whether types follow from the values: up to the end of the sample, which begins with the table."""
        if not isinstance(self._rows, TypedRows) or not self._rows.is_inferred:
            return False
        return covered is None or (covered.span is not None and covered.span < SAMPLE_ROWS)

    def _with_inferred_type(self, cluster: Cluster, covered: Covered | None, plan: Plan) -> tuple[Covered | None, Plan]:
        """Sets the type that the sample has by now. A table with another one is made anew from where it begins: the same
        records have one table, wherever commits fall. Returns the offsets that are left to it, and a plan from them.
        """
        assert isinstance(self._rows, TypedRows)
        first = plan
        if covered is not None:
            try:
                first = self._first_plan(cluster, covered)
            except ClusterError:
                raise
            except ScanError:  # the log has lost the table's first records: its columns stay as they are
                self._keep_type()
                return covered, plan
        found = self._sample(cluster, first)
        if not found.rows:
            return covered, plan
        kind, old = self._rows.adapted(inferred_type(found)), _value_type(self._table.schema)
        grown = kind if old is None else merged(old, kind)
        is_grown = old is None or (grows_to(old, kind) and distinct_fields(grown) == grown)
        if is_grown:
            kind = grown
        self._rows.set_type(kind)
        if kind != old:  # for a person, who can fix it by a schema
            self._on_note(f"topic {self.archived.topic}: {found}")
        if covered is None or is_grown:
            return covered, plan
        is_kept = self._lacks_records(cluster, first, covered)  # compaction has removed records that the table has
        try:
            if not is_kept:
                self._restart()
        except ArchiveError as error:  # a key or a partition has no such type: its values are dead-letter records
            self._on_note(str(error))
            is_kept = True
        if is_kept:
            self._rows.set_type(distinct_fields(grown, old))
            return covered, plan
        return replace(covered, offsets=covered.starts), first

    def _keep_type(self) -> None:
        """Sets the type of the table, also after a turn that failed with another one."""
        old = _value_type(self._table.schema)
        if isinstance(self._rows, TypedRows) and old is not None:
            self._rows.set_type(old)

    def _rebuilt(self, cluster: Cluster, covered: Covered) -> tuple[Covered, Plan]:
        """Has this turn make the table anew. Raises ArchiveError and ScanError where the log lacks records of the table."""
        first = self._first_plan(cluster, covered)
        if self._lacks_records(cluster, first, covered):
            raise ArchiveError(
                f"topic {self.archived.topic}: its log lacks records that the table has, from compaction or retention: "
                f"the table is not made anew; archive to another one, --table {self.archived.topic}=NAME"
            )
        if isinstance(self._rows, TypedRows) and self._rows.is_inferred:
            found = self._sample(cluster, first)
            if found.rows:
                self._rows.set_type(inferred_type(found))
                self._on_note(f"topic {self.archived.topic}: {found}")
        self._restart()
        return replace(covered, offsets=first.starts), first

    def _restart(self) -> None:
        self._table.restart(self._rows.schema)
        self._is_restarted = True

    def _lacks_records(self, cluster: Cluster, first: Plan, covered: Covered) -> bool:
        skip = self._options.skip_unreadable
        return count_below(cluster, first, covered.offsets, skip_unreadable=skip) < self._table.record_count

    def _sample(self, cluster: Cluster, plan: Plan) -> Inference:
        return sample(cluster, plan, skip_unreadable=self._options.skip_unreadable, rows=SAMPLE_ROWS)

    # ---- a turn

    def _reading_s(self) -> float:
        """Time for the reading of a turn: several times that of its plan and its commit, also on a slow machine."""
        return max(self._options.freshness_s, _LEAST_TURN_S, _READING_TO_OVERHEAD * self._overhead_s)

    def _request(self, cluster: Cluster, request: Request, covered: Covered | None) -> Request:
        """The request from the offsets that are left, where the options allow that others are gone."""
        if covered is None or not self._options.skip_unreadable:
            return request
        from ..protocol.log_places import EARLIEST

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
        for split in plan.splits:
            reader = open_split(split, options, cluster)
            for batch in reader:
                self._check_assigned()
                self._add_explained(split, batch)
                self._offsets[split.partition] = batch.column("offset")[-1].as_py() + 1
                if self._bytes >= self._options.file_bytes:
                    self._flush()
                if time.monotonic() > deadline and not self._is_restarted:
                    self._note_unread(reader, split, self._offsets[split.partition])
                    return False
            self._note_unread(reader, split, split.next_offset)
            self._offsets[split.partition] = split.next_offset
        return True

    def _note_unread(self, reader: Reader, split: Split, end: int) -> None:
        for unread in reader.unread:
            if unread.first_offset < end:
                self._waiting_dead.append(unread_record(unread))

    def _add_explained(self, split: Split, batch: pa.RecordBatch) -> None:
        """Adds a batch. Raises ArchiveError with its offsets for an error that no record accounts for."""
        try:
            self._add(batch)
        except Exception as error:
            if is_explained(error):
                raise
            _logger.debug("a batch of %s failed", split.topic, exc_info=error)
            offsets = batch.column("offset")
            where = f"{split.topic}-{split.partition}: offsets {offsets[0]} to {offsets[-1]}"
            raise of_library(error, where) from error

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
            self._note_written(rows.num_rows, dead.num_rows)
        self._waiting, self._waiting_dead, self._bytes = [], [], 0

    def _note_written(self, rows: int, dead_letter_records: int) -> None:
        self._written[0] += rows
        self._written[1] += dead_letter_records

    def _check_assigned(self) -> None:
        """Raises NotAssigned."""
        if not self._options.is_assigned():
            raise NotAssigned(f"topic {self.archived.topic}: another process keeps its table from now on")

    def _commit(self, covered: Covered) -> None:
        self._check_assigned()
        if self._table.schema is None:
            self._table.evolve(self._rows.schema)
        self._table.commit(covered)
        self._must_rebuild = False
        self.archived.commits += 1
        self.archived.rows += self._written[0]
        self.archived.dead_letter_records += self._written[1]
        self.archived.committed_at = time.monotonic()

    def _maintain(self) -> None:
        """Does what is due. A failure is shown and changes no row: the rows are committed."""
        self._has_looked_for_maintenance = True
        try:
            self._table.maintain()
        except Exception as error:
            _logger.debug("maintenance of the table of %s failed", self.archived.topic, exc_info=error)
            self.archived.maintenance_error = of_library(error, f"maintenance of the table of {self.archived.topic}")
            with contextlib.suppress(Exception):
                self._table.abandon()
        else:
            self.archived.maintenance_error = None

    def close(self) -> None:
        self._table.close()


def _value_type(schema: pa.Schema | None) -> pa.DataType | None:
    return schema.field("value").type if schema is not None and "value" in schema.names else None


def _topic_id(plan: Plan) -> str:
    found = next((split.topic_id for split in plan.splits if split.topic_id is not None), None)
    return "" if found is None else uuid_to_text(found)


def check_same_log(plan: Plan, covered: Covered | None, topic_id: str) -> None:
    """Raises ArchiveError for a topic that was deleted and created again, or a log that lost records."""
    if covered is None:
        return
    if topic_id and covered.topic_id and topic_id != covered.topic_id:
        raise ArchiveError(
            f"topic {plan.topic} was deleted and created again: name another table for it, --table {plan.topic}=NAME"
        )
    for one in plan.partitions:
        offset = covered.offsets.get(one.partition, 0)
        if one.log_end < offset:
            raise ArchiveError(
                f"{plan.topic}-{one.partition} ends at offset {one.log_end}, and the table covers it up to {offset}: "
                "the log has lost records, or is another topic's"
            )


def is_explained(error: Exception) -> bool:
    """Returns whether an error has words for a person; others are of libraries, or defects."""
    return isinstance(error, ArchiveError | UserError | ScanError)
