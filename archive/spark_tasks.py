"""Turns of a topic as jobs of PySpark: tasks read splits and write the files of the rows, the driver commits.

The rule of exactly once is that of the archiver: one commit of the driver has the files and the offsets. A task returns the
files that it wrote. Files of tasks that failed, or ran twice, or whose driver ended, are in no commit. A start of an
archiver deletes them after a day.

A task has the schema of the table at the begin of the job. Where its values bring new columns, it writes nothing and returns
the schema that it needs; the driver evolves the table, and runs those tasks again.
"""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JError
from pyiceberg.manifest import DataFile
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from ..columns import Plan, Split, read_split
from ..columns.cluster import Cluster
from ..columns.divided_splits import sized
from .column_types import grown
from .data_files import FileWriter
from .iceberg import IcebergTable
from .rows import DEAD_LETTER_SCHEMA, RowMaker, row_maker, unread_record
from .store import ArchiveError, Table
from .topic_archive import ArchiveOptions, SparkEnded, TopicArchive

#: The master of spark-submit, or of spark-defaults.conf.
DEFAULT_MASTER = "default"
_CONNECT = "sc://"
#: Bytes of a task: some seconds of a core, and one or two files.
SPLIT_BYTES = 128 << 20
#: Tasks of a job, for each of the tasks that run at the same time. A job is a commit.
_TASKS_PER_SLOT = 4
_FEWEST_TASKS = 16
#: Each run of the tasks widens the table's schema, which a few do.
_MOST_RUNS = 8
#: Spark's words of a context that has ended.
_STOPPED = "stopped SparkContext"
_RESULT = "number long, result binary"


@dataclass
class Written:
    """The result of a task. It wrote nothing where the table needs the schema `needed`, or one of dead-letter records."""

    number: int
    needed: pa.Schema | None = None
    files: list[DataFile] = field(default_factory=list)
    dead_files: list[DataFile] = field(default_factory=list)
    rows: int = 0
    dead_letter_records: int = 0
    needs_dead_letter_table: bool = False

    @property
    def every_file(self) -> list[DataFile]:
        return [*self.files, *self.dead_files]

    @property
    def is_done(self) -> bool:
        return self.needed is None and not self.needs_dead_letter_table


@dataclass(frozen=True)
class Work:
    """All that a task needs beside its split: plain data."""

    topic: str
    options: ArchiveOptions
    schema: pa.Schema
    writer: FileWriter

    def run(self, number: int, split: Split) -> Written:
        """Reads a split, and writes its rows."""
        task = _Task(self, number)
        try:
            return task.run(split)
        except BaseException:
            self.writer.delete(task.written.every_file)
            raise


class _Task:
    def __init__(self, work: Work, number: int) -> None:
        self._work = work
        self.written = Written(number)
        self._rows: RowMaker = row_maker(
            work.options.values, work.topic, work.schema, work.options.keep_value, work.options.times
        )
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_dead: list[pa.RecordBatch] = []
        self._bytes = 0

    def run(self, split: Split) -> Written:
        skip = "skip" if self._work.options.skip_unreadable else "raise"
        reader = read_split(split, self._rows.columns, on_unreadable=skip)
        for batch in reader:
            self._rows.prepare(batch)
            if not self._needs_more():
                self._add(batch)
        self._waiting_dead += [unread_record(one) for one in reader.unread]
        if not self._needs_more():
            self._flush()
        if not self.written.is_done:
            self._work.writer.delete(self.written.every_file)
            self.written.files, self.written.dead_files = [], []
        return self.written

    def _needs_more(self) -> bool:
        """Returns whether the table lacks columns. The rest of the values is read for their types alone."""
        if grown(self._work.schema, self._rows.schema) != self._work.schema:
            self.written.needed = self._rows.schema
        return self.written.needed is not None

    def _add(self, batch: pa.RecordBatch) -> None:
        made = self._rows.rows(batch)
        self._waiting.append(made.rows)
        self._waiting_dead.append(made.dead_letter_records)
        self._bytes += made.rows.nbytes + made.dead_letter_records.nbytes
        if self._bytes >= self._work.options.file_bytes:
            self._flush()

    def _flush(self) -> None:
        rows = pa.Table.from_batches(self._waiting, self._rows.schema)
        dead = pa.Table.from_batches(self._waiting_dead, DEAD_LETTER_SCHEMA)
        self._waiting, self._waiting_dead, self._bytes = [], [], 0
        written, writer = self.written, self._work.writer
        if dead.num_rows and not writer.has_dead_letter_table:
            written.needs_dead_letter_table = True
        if written.is_done:
            written.files += writer.rows(rows)
            written.dead_files += writer.dead_letter_records(dead)
        written.rows += rows.num_rows
        written.dead_letter_records += dead.num_rows


class SparkTopicArchive(TopicArchive):
    """One topic and its Iceberg table, with turns that are jobs of Spark."""

    def __init__(self, spark: SparkSession, topic: str, table: Table, options: ArchiveOptions) -> None:
        """Raises ArchiveError for a table of another kind, and as TopicArchive does."""
        if not isinstance(table, IcebergTable):
            raise ArchiveError("tasks of Spark write Iceberg tables; plain Parquet needs one process")
        super().__init__(topic, table, options)
        self._spark = spark
        self._iceberg = table

    def _read(self, cluster: Cluster, plan: Plan, deadline: float) -> bool:
        every = self._splits(cluster, plan)
        # A table that is made anew has all rows of the old one in its first commit.
        splits = every if self._is_restarted else in_turn(every, _most_tasks(self._spark))
        done = self._run(splits)
        self._note_written(sum(one.rows for one in done), sum(one.dead_letter_records for one in done))
        for split in splits:
            self._offsets[split.partition] = split.next_offset
        return len(splits) == len(every)

    def _splits(self, cluster: Cluster, plan: Plan) -> list[Split]:
        if not plan.splits:
            return []
        sizes = cluster.sizes(cluster.described([plan.topic]))
        found = [sized(one, sizes.get((one.topic, one.partition), 0), SPLIT_BYTES) for one in plan.partitions]
        return [split for splits in found for split in splits if split.first_offset < split.next_offset]

    def _run(self, splits: Sequence[Split]) -> list[Written]:
        """The results of all splits. A split is run again until the table has the columns of its rows."""
        done: list[Written] = []
        left = dict(enumerate(splits))
        for _ in range(_MOST_RUNS):
            if not left:
                return done
            self._iceberg.evolve(self._rows.schema)
            for one in run_tasks(self._spark, self._work(), left):
                if one.is_done:
                    self._iceberg.add(one.files, one.dead_files)
                    done.append(one)
                    del left[one.number]
                elif one.needed is not None:
                    self._iceberg.evolve(one.needed)
                if one.needs_dead_letter_table:
                    self._iceberg.create_dead_letter_table()
        raise ArchiveError(f"topic {self.archived.topic}: its values need more columns after {_MOST_RUNS} runs")

    def _work(self) -> Work:
        schema = self._iceberg.schema
        assert schema is not None
        return Work(self.archived.topic, self._options, schema, self._iceberg.file_writer())


def in_turn(splits: Sequence[Split], most: int) -> list[Split]:
    """The first splits of each partition, `most` in all: offsets of a partition are read without a gap."""
    by_partition: dict[int, list[Split]] = {}
    for one in splits:
        by_partition.setdefault(one.partition, []).append(one)
    longest = max(map(len, by_partition.values()), default=0)
    rounds = (found[number] for number in range(longest) for found in by_partition.values() if number < len(found))
    return [split for split, _ in zip(rounds, range(most))]


def _most_tasks(spark: SparkSession) -> int:
    try:
        slots = int(spark.sparkContext.defaultParallelism)
    except Exception:  # Spark Connect does not tell
        return _FEWEST_TASKS
    return max(_FEWEST_TASKS, _TASKS_PER_SLOT * slots)


def run_tasks(spark: SparkSession, work: Work, splits: dict[int, Split]) -> list[Written]:
    """One task for each split, by its number. Raises ArchiveError for a task that failed, SparkEnded."""
    numbers = sorted(splits)

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for index in batch.column(0).to_pylist():
                number = numbers[index]
                result = pickle.dumps(work.run(number, splits[number]))
                yield pa.RecordBatch.from_pydict(
                    {"number": pa.array([number], pa.int64()), "result": pa.array([result], pa.binary())}
                )

    frame = spark.range(0, len(numbers), 1, len(numbers)).mapInArrow(run, _RESULT)
    try:
        rows = frame.collect()
    except Exception as error:
        if not _is_alive(spark, error):
            raise SparkEnded(f"Spark has ended: {_reason(error)}") from None
        if not isinstance(error, PySparkException | Py4JError):
            raise
        raise ArchiveError(f"the job of Spark failed: {_reason(error)}") from None
    return [pickle.loads(row.result) for row in rows]


def _is_alive(spark: SparkSession, error: Exception) -> bool:
    """Returns whether the session can run another job."""
    if _STOPPED in str(error):
        return False
    try:
        spark.conf.get("spark.app.name", "")  # a call to the JVM, or to the server of Spark Connect
    except Exception:
        return False
    return True


def _reason(error: Exception) -> str:
    """The last line of a task's traceback, or the first line of another error."""
    text, _, _ = str(error).partition("JVM stacktrace")
    _, of_task, trace = text.rpartition("Traceback (most recent call last):")
    lines = [line for line in (trace if of_task else text).splitlines() if line.strip() and not line[0].isspace()]
    return lines[0] if lines else repr(error)


def spark_session(master: str) -> SparkSession:
    """The session of `spark-submit`, of a Spark Connect server (sc://host), or one with a master, which logs errors only."""
    builder = SparkSession.builder.appName("odradek archive")
    if master.startswith(_CONNECT):
        return builder.remote(master).getOrCreate()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = builder.config("spark.ui.showConsoleProgress", "false")
    if master != DEFAULT_MASTER:
        builder = builder.master(master).config("spark.ui.enabled", "false")
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def opener(spark: SparkSession) -> Callable[[str, Table, ArchiveOptions], TopicArchive]:
    """For `Archiver(..., open_archive=...)`."""

    def opened(topic: str, table: Table, options: ArchiveOptions) -> Any:
        return SparkTopicArchive(spark, topic, table, options)

    return opened
