"""The sink of `format("odradek")`: rows of a DataFrame written to topics, each micro-batch of a query once.

A task writes in a transaction of its own and leaves it open; the driver decides by the ledger (`odradek.sink`). Spark makes
the writer anew in the driver for each batch, which carries out a decision that a driver before it could not.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceStreamWriter, DataSourceWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from ..admin.connection import Connection
from ..admin.errors import RequestFailed
from ..sink.batches import Producer
from ..sink.columns import COLUMNS, VALUE
from ..sink.decision import Decisions, WrittenBatch, is_to_write
from ..sink.ledger import Attempt, Ledger
from ..sink.open_transactions import OpenTransactions
from ..sink.transaction import TransactionWriter
from .options import InvalidOptions
from .sink_input import Input, batches_of
from .sink_options import SinkOptions
from .sink_values import TypedColumns, fields_of_value
from .worker_process import lower_cost_of_reuse, runs

try:
    from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter
except ImportError:  # Spark 4.0
    DataSourceArrowWriter, DataSourceStreamArrowWriter = DataSourceWriter, DataSourceStreamWriter

if TYPE_CHECKING:
    import pyarrow as pa

    from ..admin.session import Admin

#: The program of Spark's process that commits and aborts.
_COMMITS = "pyspark.sql.worker.python_streaming_sink_runner"
_RUN_CHARS = 16
#: Properties of tasks of a streaming query.
_QUERY, _RUN, _BATCH = "sql.streaming.queryId", "spark.jobGroup.id", "streaming.sql.batchId"
Messages: TypeAlias = "Sequence[Written | None]"


@dataclass(frozen=True, slots=True)
class Written(WriterCommitMessage):
    """The report of a task: `attempt` is None without a row. `query`, `run`: Spark's ids, "" in a batch query."""

    attempt: Attempt | None
    query: str = ""
    run: str = ""
    rows: int = 0


class StreamWriter(DataSourceStreamArrowWriter):
    """`done`: the ledger at the start of the batch. A batch that it names is not written again."""

    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        check_rows(schema, options)
        options.check_stream()
        self._options = options
        self._schema = schema
        self._done = Ledger()
        self._typed = TypedColumns()
        if not runs(_COMMITS):  # a commit reads the ledger itself
            self._typed = TypedColumns.of(options, schema)
            with Connection(options.client).admin() as admin:
                self._done = self._decisions(admin).finish()

    def write(self, iterator: Iterator[Input]) -> Written:
        context = TaskContext.get()
        assert context is not None
        query, run, batch = (context.getLocalProperty(name) for name in (_QUERY, _RUN, _BATCH))
        if not query or not run or not batch:
            raise RuntimeError(f"Spark names no query, run and batch to the task: {query}, {run}, {batch}")
        short_run = hashlib.sha256(run.encode()).hexdigest()[:_RUN_CHARS]
        if not is_to_write(self._options.ledger, self._done, query, short_run, int(batch)):
            for _ in iterator:  # Spark waits until its rows are taken
                pass
            return Written(None, query, short_run)
        rows_of_task = map(self._typed.encoded, batches_of(iterator, self._schema))
        attempt, rows = written(rows_of_task, self._options, self._options.ledger, short_run)
        return Written(attempt, query, short_run, rows)

    def commit(self, messages: Messages, batchId: int) -> None:
        lower_cost_of_reuse()
        batch = _batch(messages, batchId)
        if batch is None:
            return
        with Connection(self._options.client).admin() as admin:
            decisions = self._decisions(admin)
            if batch.attempts:
                decisions.commit(batch)
            else:
                decisions.clear(batch.run)

    def abort(self, messages: Messages, batchId: int) -> None:
        batch = _batch(messages, batchId)
        if batch is not None:
            with Connection(self._options.client).admin() as admin:
                self._decisions(admin).give_up(batch)

    def _decisions(self, admin: Admin) -> Decisions:
        options = self._options
        place = (options.ledger_topic, 0)
        return Decisions(admin, options.ledger, place, skips_expired=options.skips_expired)


class BatchWriter(DataSourceArrowWriter):
    """All rows of a batch query or none, unless the driver dies while it ends the transactions of the tasks."""

    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        check_rows(schema, options)
        self._options = options
        self._schema = schema
        self._typed = TypedColumns.of(options, schema)
        self.name = f"odradek-batch-{uuid.uuid4().hex[:16]}"

    def write(self, iterator: Iterator[Input]) -> Written:
        rows_of_task = map(self._typed.encoded, batches_of(iterator, self._schema))
        attempt, rows = written(rows_of_task, self._options, self.name, "")
        return Written(attempt, rows=rows)

    def commit(self, messages: Messages) -> None:
        lower_cost_of_reuse()
        with Connection(self._options.client).admin() as admin:
            transactions = self._transactions(admin, messages)
            transactions.check()
            lost = transactions.end(commits=True)
            transactions.abort_others()
        if lost:
            tasks = ", ".join(str(attempt.task) for attempt in lost)
            raise RequestFailed(
                f"the transactions of the tasks {tasks} had timed out: raise 'kafka.transaction.timeout.ms', or write less"
            )

    def abort(self, messages: Messages) -> None:
        with Connection(self._options.client).admin() as admin:
            transactions = self._transactions(admin, messages)
            # Spark also aborts a write whose commit has failed: a part of its rows may be there.
            transactions.end(commits=transactions.is_commit_begun())
            transactions.abort_others()

    def _transactions(self, admin: Admin, messages: Messages) -> OpenTransactions:
        attempts = [one.attempt for one in messages if one is not None and one.attempt is not None]
        return OpenTransactions(admin, "the write", self.name, "", attempts)


def check_rows(schema: StructType, options: SinkOptions) -> None:
    """Raises InvalidOptions for columns of which a record cannot be made."""
    names = schema.fieldNames()
    unknown = fields_of_value(names)
    has_fields = options.values is not None and bool(unknown)
    if VALUE not in names and not has_fields:
        raise InvalidOptions("Required attribute 'value' not found")
    if unknown and (VALUE in names or not has_fields):
        raise InvalidOptions(f"a record has no '{unknown[0]}'; the columns of the sink are {', '.join(COLUMNS)}")
    if twice := [name for name in (*COLUMNS, *unknown) if names.count(name) > 1]:
        raise InvalidOptions(f"there are {names.count(twice[0])} columns '{twice[0]}'; a record has one")
    if "topic" not in names and not options.topic:
        raise InvalidOptions(
            "topic option required when no 'topic' attribute is present. Use the 'topic' option for setting a topic"
        )


def written(batches: Iterator[pa.RecordBatch], options: SinkOptions, name: str, run: str) -> tuple[Attempt | None, int]:
    """Writes the rows of a task. Returns its open transaction, None without a row, and the number of rows."""
    lower_cost_of_reuse()
    context = TaskContext.get()
    assert context is not None
    attempt = Attempt(context.partitionId(), context.attemptNumber(), -1, -1)
    how = Producer(-1, -1, options.compression, None, options.payload_bytes, options.partitioner)
    deadline_s = options.delivery_timeout_ms / 1000
    with Connection(options.client).admin() as admin:
        writer = TransactionWriter(
            admin, attempt.transactional_id(name, run), options.transaction_timeout_ms, how, options.topic, deadline_s
        )
        try:
            for batch in batches:
                writer.write(batch)
            writer.flush()
        except BaseException:
            writer.abort()
            raise
        finally:
            writer.close()
        if not writer.rows:
            return None, 0
        producer_id, producer_epoch = writer.producer
        return replace(attempt, producer_id=producer_id, producer_epoch=producer_epoch), writer.rows


def _batch(messages: Messages, number: int) -> WrittenBatch | None:
    """None where no task has ended."""
    reports = [report for report in messages if report is not None]
    if not reports:
        return None
    attempts = tuple(report.attempt for report in reports if report.attempt is not None)
    return WrittenBatch(number, reports[0].query, reports[0].run, attempts)
