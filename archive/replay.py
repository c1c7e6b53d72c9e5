"""A table, or a range of it, back into a topic: keys, values, headers, timestamps and partitions as they were.

Each partition is written in the order of its offsets. A transaction has records and, as the metadata of a consumer group's
commit on the target's partition, the offset of the table where it ends (`odradek.admin.replay_progress`). A replay that
starts again continues there, so it neither repeats nor skips for consumers with read_committed. The committed offset is the
one behind the transaction's marker, so the group has no lag. The producer's transactional id is the group's name, which
fences an older process.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from ..admin.connection import DEFAULT_TIMEOUT_S, Connection
from ..admin.log_offsets import offsets_at
from ..admin.pipeline_progress import REPLAY_GROUPS
from ..admin.replay_progress import ReplayProgress, parse_replay_progress
from ..admin.topics import described_topics
from ..client.error_kinds import ErrorKind
from ..client.explained_errors import from_library
from ..client.wording import counted
from ..protocol.log_places import LATEST
from .rows import UNREAD, VALUE_BYTES
from .store import ArchiveError, FileRange, Source

if TYPE_CHECKING:
    from confluent_kafka import TopicPartition

    from ..admin.session import Admin

#: A transaction ends after so many records, or so much time.
_TRANSACTION_RECORDS, _TRANSACTION_S = 20_000, 1.0
#: Offsets of one reading of the table; the number follows the bytes of the records that are found.
_FIRST_SPAN, _FEWEST_BYTES, _MOST_BYTES = 20_000, 16 << 20, 64 << 20
_MOST_SPAN = 1 << 40
_FULL_WAIT_S = 0.1
#: Offsets that the marker of a transaction takes in a partition.
_MARKER = 1
_COLUMNS = ("offset", "timestamp", "key", "value", "headers")


@dataclass(frozen=True)
class ReplayRange:
    """Records from `start_offset` up to `end_offset`, and from `start_ms` up to `end_ms`; None has no limit."""

    partitions: Sequence[int] | None = None
    start_offset: int | None = None
    end_offset: int | None = None
    start_ms: int | None = None
    end_ms: int | None = None


@dataclass
class Replayed:
    """`replaced_timestamps`: records with the timestamp 0, in place of which the client library writes the current time."""

    records: int = 0
    transactions: int = 0
    replaced_timestamps: int = 0


class Replay:
    """`Replay(source, client, topic).run()`."""

    def __init__(
        self,
        source: Source,
        client: Mapping[str, str],
        topic: str,
        within: ReplayRange | None = None,
        *,
        rate: float | None = None,
        name: str | None = None,
    ) -> None:
        """`rate`: records a second. `name`: of the progress; another one begins anew. Raises ArchiveError, UserError."""
        self._source = source
        self._connection = Connection(dict(client), DEFAULT_TIMEOUT_S)
        self._topic = topic
        self._within = within or ReplayRange()
        self._rate = rate
        #: Called with the number of records of each transaction.
        self.on_progress: Callable[[int], None] = lambda count: None
        self.name = name or _default_name(source.id, topic, self._within)
        self._value_column = _value_column(source)
        self._ranges = source.ranges()
        self._failed: Any = None
        self._partitions = self._chosen()

    @property
    def total(self) -> int:
        """The number of records of the files, at most."""
        return sum(one.rows for one in self._ranges)

    def _chosen(self) -> list[int]:
        found = sorted({number for one in self._ranges for number in range(one.partitions[0], one.partitions[1] + 1)})
        if self._within.partitions is not None:
            found = [one for one in found if one in self._within.partitions]
        with self._connection.admin() as admin:
            (described,) = described_topics(admin, [self._topic])
        count = len(described.partitions)
        if found and found[-1] >= count:
            raise ArchiveError(
                f"topic {self._topic} has {counted(count, 'partition')}, and the table has partition {found[-1]}"
            )
        return found

    def run(self) -> Replayed:
        try:
            return self._run()
        except Exception as error:
            found = from_library(error)
            if found is None:
                raise
            raise found from None

    def _run(self) -> Replayed:
        from confluent_kafka import Consumer, Producer, TopicPartition

        timeout_s = self._connection.timeout_s
        group = f"{REPLAY_GROUPS}{self.name}"
        settings = self._connection.librdkafka()
        consumer = Consumer(settings | {"group.id": group, "enable.auto.commit": False})
        producer = Producer(
            settings | {"transactional.id": group, "linger.ms": 5, "on_delivery": self._delivered}
            | {"delivery.report.only.error": True}
        )  # fmt: skip
        with contextlib.closing(consumer):
            producer.init_transactions(timeout_s)  # ends the transaction of an earlier process: its offsets are final
            asked = [TopicPartition(self._topic, one) for one in self._partitions]
            committed = consumer.committed(asked, timeout_s) if asked else []
            starts = {one.partition: _progress_of(one) for one in committed if one.offset >= 0}
            with self._connection.admin() as admin:
                return _Writing(self, producer, consumer, admin, starts).write()

    def _delivered(self, error: Any, message: object) -> None:
        if error is not None and self._failed is None:
            self._failed = error

    def rejected(self, partition: int, offset: int, error: Exception) -> ArchiveError:
        """The error for a record that the client library does not take."""
        found = from_library(error)
        reason = str(error) if found is None else str(found)
        return ArchiveError(
            f"{self._topic}-{partition}: the row of offset {offset} of {self._source.name} cannot be written: {reason}; "
            "raise the limits of the topic and of the client (-X message.max.bytes=N), and run the command again",
            ErrorKind.FAILED if found is None else found.kind,
        )

    def raise_failed(self) -> None:
        """Raises the first error of a delivery."""
        if self._failed is not None:
            raise ArchiveError(f"topic {self._topic}: {self._failed.str()}")

    # ---- the table

    def rows(self, partition: int, start: int | None) -> Iterator[pa.Table]:
        """The rows of a partition, by offset. `start`: of the progress."""
        within = self._within
        ranges = [one for one in self._ranges if one.reaches(partition, 0)]
        end = self.end_of(partition)
        offset = max(within.start_offset or 0, start or 0)
        span = _FIRST_SPAN
        while (offset := _next_offset(ranges, offset)) < end:
            upper = min(offset + span, end)
            found = self._filtered(self._source.read(partition, offset, upper))
            if found.num_rows:
                yield found.sort_by("offset")
            if found.nbytes < _FEWEST_BYTES:
                span = min(span * 2, _MOST_SPAN)
            elif found.nbytes > _MOST_BYTES:
                span = max(span // 2, 1)
            offset = upper

    def end_of(self, partition: int) -> int:
        """The offset of the table at which the replay of a partition ends."""
        last = max((one.offsets[1] for one in self._ranges if one.reaches(partition, 0)), default=-1)
        return last + 1 if self._within.end_offset is None else min(self._within.end_offset, last + 1)

    def _filtered(self, rows: pa.Table) -> pa.Table:
        rows = rows.filter(pc.not_equal(rows.column("timestamp_type"), UNREAD))
        stamp = rows.column("timestamp")
        for limit_ms, compare in ((self._within.start_ms, pc.greater_equal), (self._within.end_ms, pc.less)):
            if limit_ms is not None:
                limit = pa.scalar(limit_ms * 1000, pa.int64()).cast(stamp.type)
                rows = rows.filter(pc.fill_null(compare(rows.column("timestamp"), limit), False))
        return rows

    @property
    def value_column(self) -> str:
        return self._value_column

    @property
    def topic(self) -> str:
        return self._topic

    @property
    def rate(self) -> float | None:
        return self._rate

    @property
    def partitions(self) -> Sequence[int]:
        return self._partitions


class _Writing:
    """The transactions of one run."""

    def __init__(self, replay: Replay, producer: Any, consumer: Any, admin: Admin, starts: Mapping[int, int]) -> None:
        self._replay = replay
        self._producer = producer
        self._consumer = consumer
        self._admin = admin
        self._starts = starts
        #: Partition -> offset of the table after the records of the open transaction.
        self._offsets: dict[int, int] = {}
        self._count = 0
        self._began = time.monotonic()
        self._transaction_began = self._began
        self._done = Replayed()

    def write(self) -> Replayed:
        turns = {one: self._replay.rows(one, self._starts.get(one)) for one in self._replay.partitions}
        try:
            while turns:
                for partition in list(turns):
                    rows = next(turns[partition], None)
                    if rows is None:
                        del turns[partition]
                    else:
                        self._write_rows(partition, rows)
            self._commit()
        except BaseException:
            with contextlib.suppress(Exception):
                if self._count:
                    self._producer.abort_transaction(self._timeout_s)
            raise
        return self._done

    @property
    def _timeout_s(self) -> float:
        return DEFAULT_TIMEOUT_S

    def _write_rows(self, partition: int, rows: pa.Table) -> None:
        from confluent_kafka import KafkaException

        columns = [rows.column(self._replay.value_column if name == "value" else name) for name in _COLUMNS]
        stamps = columns[1].cast(pa.timestamp("ms", tz="UTC")).cast(pa.int64())
        self._done.replaced_timestamps += pc.sum(pc.equal(stamps, 0)).as_py() or 0
        columns[1] = pc.fill_null(stamps, -1)
        for offset, stamp, key, value, headers in zip(*(one.to_pylist() for one in columns), strict=True):
            if not self._count:
                self._producer.begin_transaction()
                self._transaction_began = time.monotonic()
            try:
                self._produce(partition, stamp, key, value, [(one["key"], one["value"]) for one in headers or ()])
            except (KafkaException, TypeError, ValueError, OverflowError) as error:
                raise self._replay.rejected(partition, offset, error) from None
            self._offsets[partition] = offset + 1
            self._count += 1
            self._pace()
            is_long = self._count % 100 == 0 and time.monotonic() - self._transaction_began > _TRANSACTION_S
            if self._count >= _TRANSACTION_RECORDS or is_long:
                self._commit()

    def _produce(
        self,
        partition: int,
        stamp: int,
        key: bytes | None,
        value: bytes | None,
        headers: list[tuple[str, bytes | None]],
    ) -> None:
        while True:
            try:
                self._producer.produce(
                    self._replay.topic, value, key, partition, timestamp=stamp, headers=headers or None
                )
                return
            except BufferError:  # the brokers are slower than the table
                self._producer.poll(_FULL_WAIT_S)
                self._replay.raise_failed()

    def _pace(self) -> None:
        rate = self._replay.rate
        if rate is None:
            return
        due = self._began + (self._done.records + self._count) / rate
        while (left := due - time.monotonic()) > 0:
            if time.monotonic() - self._transaction_began > _TRANSACTION_S:
                self._commit()
            self._producer.poll(min(left, _TRANSACTION_S))

    def _commit(self) -> None:
        if not self._count:
            return
        from confluent_kafka import TopicPartition

        if self._producer.flush(self._timeout_s):
            raise ArchiveError(
                f"topic {self._replay.topic}: records were not acknowledged within {self._timeout_s:g} s"
            )
        self._replay.raise_failed()
        topic = self._replay.topic
        ends = dict(offsets_at(self._admin, [(topic, one) for one in self._offsets], LATEST))
        now_ms = int(time.time() * 1000)
        offsets = [
            TopicPartition(
                topic,
                one,
                ends[topic, one] + _MARKER,
                metadata=ReplayProgress(offset, self._replay.end_of(one), now_ms).text(),
            )
            for one, offset in self._offsets.items()
        ]
        metadata = self._consumer.consumer_group_metadata()
        self._producer.send_offsets_to_transaction(offsets, metadata, self._timeout_s)
        self._producer.commit_transaction(self._timeout_s)
        self._replay.raise_failed()
        self._replay.on_progress(self._count)
        self._done.records += self._count
        self._done.transactions += 1
        self._count, self._offsets = 0, {}


def _progress_of(committed: TopicPartition) -> int:
    """The offset of the table in a commit; the committed offset itself in one of a replay by an earlier version."""
    progress = parse_replay_progress(committed.metadata or "")
    return int(committed.offset) if progress is None else progress.offset


def _next_offset(ranges: Sequence[FileRange], offset: int) -> int:
    """The least offset from `offset` on that a file may have."""
    return min((max(one.offsets[0], offset) for one in ranges if one.offsets[1] >= offset), default=_MOST_SPAN << 20)


def _value_column(source: Source) -> str:
    """Raises ArchiveError for a table without the bytes of its values."""
    if VALUE_BYTES in source.schema.names:
        return VALUE_BYTES
    if "value" not in source.schema.names or not pa.types.is_binary(source.schema.field("value").type):
        raise ArchiveError(f"table {source.name} has typed values without their bytes: archive with --keep-value")
    return "value"


def _default_name(source: str, topic: str, within: ReplayRange) -> str:
    """One name for each table, topic and range: the same command goes on where it stopped."""
    partitions = None if within.partitions is None else list(within.partitions)
    described = [source, topic, partitions, within.start_offset, within.end_offset, within.start_ms, within.end_ms]
    return hashlib.sha256(json.dumps(described).encode()).hexdigest()[:16]
