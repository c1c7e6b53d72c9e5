"""A query with the sink: its tasks and its drivers, which may die, run in the process of the tests."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import closing
from itertools import count

import pyarrow as pa
from confluent_kafka import Consumer, TopicPartition
from odradek.admin.session import Admin
from odradek.protocol.records.compression import Compression
from odradek.sink.batches import Producer
from odradek.sink.decision import Decisions, WrittenBatch
from odradek.sink.ledger import Attempt
from odradek.sink.transaction import TransactionWriter

from compat_tests.recipes import is_end_of_partition, make_topic

PARTITIONS, TASKS, ROWS = 3, 3, 40
#: Steps of `Decisions.commit`, and how often each comes until the last.
STEPS = ("take", "write", "decide", "end", "end one", "note", "clear")
LONG_MS, SHORT_MS = 60_000, 1_000
_numbers = count()


class Died(BaseException):
    """Stands for the end of the process: nothing after it runs."""


class Query:
    """A query with its topic and ledger, whose tasks and drivers run here."""

    def __init__(self, admin: Admin, bootstrap: str, name: str = "", *, has_topic: bool = False) -> None:
        self.name = name or f"query-{next(_numbers)}"
        self.admin, self.bootstrap = admin, bootstrap
        if not has_topic:
            make_topic(bootstrap, self.name, PARTITIONS)

    def task(self, number: int, run: str, batch: int, timeout_ms: int = LONG_MS, attempt: int = 0) -> Attempt:
        """The transaction of a task, with the same rows in each run."""
        made = Attempt(number, attempt, -1, -1)
        how = Producer(-1, -1, Compression.LZ4)
        writer = TransactionWriter(self.admin, made.transactional_id(self.name, run), timeout_ms, how, self.name, 30.0)
        with closing(writer):
            texts = [f"{batch}-{number}-{row}".encode() for row in range(ROWS)]
            writer.write(pa.record_batch({"key": pa.array(texts), "value": pa.array(texts)}))
            writer.flush()
        return Attempt(number, attempt, *writer.producer)

    def batch(self, run: str, number: int, timeout_ms: int = LONG_MS) -> WrittenBatch:
        attempts = tuple(self.task(task, run, number, timeout_ms) for task in range(TASKS))
        return WrittenBatch(number, "query", run, attempts)

    def decisions(self, before: Callable[[str], None] | None = None, *, skips_expired: bool = False) -> Decisions:
        made = Decisions(self.admin, self.name, (self.name, 0), skips_expired=skips_expired)
        made.before = before or made.before
        return made

    def committed(self) -> list[str]:
        """The records that a reader of committed ones has when no transaction is open."""
        found = []
        settings = {"bootstrap.servers": self.bootstrap, "group.id": "reader", "isolation.level": "read_committed"}
        with closing(Consumer({**settings, "enable.partition.eof": True})) as consumer:
            consumer.assign([TopicPartition(self.name, index, 0) for index in range(PARTITIONS)])
            ended: set[int] = set()
            while len(ended) < PARTITIONS:
                message = consumer.poll(30)
                assert message is not None
                if is_end_of_partition(message):
                    ended.add(message.partition())
                else:
                    found.append((message.value() or b"").decode())
        return sorted(found)

    def has_open_transactions(self) -> bool:
        return bool(self.decisions().open_attempts())


def rows(*batches: int) -> list[str]:
    return sorted(f"{batch}-{task}-{row}" for batch in batches for task in range(TASKS) for row in range(ROWS))


def dies_before(step: str, times: int) -> Callable[[str], None]:
    """Ends the process before a step comes for the given time."""
    left = [times]
    lock = threading.Lock()

    def before(name: str) -> None:
        with lock:
            if name == step:
                left[0] -= 1
            if left[0] <= 0:
                raise Died(name)

    return before
