"""The writer of one attempt of a task: rows into a transaction of its own, which is left open for the driver to end."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa

from ..admin.errors import RequestFailed, ResponseError
from ..admin.session import Admin
from ..admin.topics import described_topics
from ..protocol.errors import ErrorCode
from .batches import Batch, Batches, Producer
from .columns import InvalidRows, Rows, rows_of
from .requests import end, take_id
from .sending import Sender


class TransactionWriter:
    """`topic`: that of rows without the column. `how`: of batches; its id and epoch are those of the transaction here.

    The transaction begins with the first row. The constructor raises nothing; the methods raise RequestFailed and
    InvalidRows.
    """

    def __init__(
        self, admin: Admin, transactional_id: str, timeout_ms: int, how: Producer, topic: str, deadline_s: float
    ) -> None:
        self._admin = admin
        self._id = transactional_id
        self._timeout_ms = timeout_ms
        self._how = how
        self._topic = topic
        self._deadline_s = deadline_s
        self._sender: Sender | None = None
        self._batches = Batches(how)
        #: Numbers of partitions of topics.
        self._counts: dict[str, int] = {}
        self.producer = (-1, -1)
        self.rows = 0

    def close(self) -> None:
        if self._sender is not None:
            self._sender.close()

    def write(self, batch: pa.RecordBatch) -> None:
        if not batch.num_rows:
            return
        rows = rows_of(batch)
        self._began().send(self._added(rows))
        self.rows += rows.count

    def flush(self) -> None:
        """Returns when brokers have acknowledged all rows; the transaction stays open."""
        if self._sender is None:
            return
        self._sender.send(self._batches.finish())
        self._sender.flush()

    def abort(self) -> None:
        """Gives up what was written. A transaction that cannot be ended now is aborted with the next batch, or times out."""
        if self._sender is not None:
            # A batch that a broker before KIP-890 takes after the abort would begin a transaction that nothing ends.
            self._sender.close()
            with contextlib.suppress(RequestFailed):
                end(self._admin, self._id, self.producer, commits=False)

    def _began(self) -> Sender:
        if self._sender is None:
            self.producer = take_id(self._admin, self._id, self._timeout_ms)
            self._batches = Batches(replace(self._how, id=self.producer[0], epoch=self.producer[1]))
            self._sender = Sender(
                self._admin, self._id, self.producer, self._deadline_s, int(self._deadline_s * 1000) // 4
            )
        return self._sender

    def _added(self, rows: Rows) -> Iterator[Batch]:
        now_ms = int(time.time() * 1000)
        if rows.topics is None and not self._topic:
            raise InvalidRows("topic option required when no 'topic' column is present; use the option 'topic'")
        if rows.topics is None or self._topic:
            yield from self._batches.add(self._topic, self._count_of(self._topic), rows, now_ms)
            return
        names: pa.DictionaryArray = rows.topics.dictionary_encode()
        indexes = names.indices.to_numpy(zero_copy_only=False)
        for index, name in enumerate(names.dictionary.to_pylist()):
            chosen = np.flatnonzero(indexes == index).astype(np.int32)
            yield from self._batches.add(name, self._count_of(name), rows, now_ms, chosen)

    def _count_of(self, topic: str) -> int:
        if topic not in self._counts:
            (described,) = described_topics(self._admin, [topic])
            if not described.partitions:
                raise ResponseError(f"topic {topic}", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            self._counts[topic] = len(described.partitions)
        return self._counts[topic]
