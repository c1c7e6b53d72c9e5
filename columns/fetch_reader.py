"""Reads a split through the partition's leader."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from ..protocol.errors import ErrorCode
from ..protocol.messages.fetch import PartitionData
from ..protocol.records.batch import CONTROL_FLAG
from . import kernel, layout
from .batch_decoder import BatchDecoder
from .batch_selection import Aborted, data_rows
from .cluster import LEAST_FETCH_BYTES, PATIENCE_S, Cluster, connected
from .cluster_errors import not_authorized
from .errors import REMOVED
from .layout import Numbers
from .split import Split
from .split_reader import Batches, ReadOptions, SplitReader

_ROWS = 8192
_FAR = 1 << 62


class FetchReader(SplitReader):
    """Yields the records of a split through the partition's leader."""

    def __init__(self, split: Split, options: ReadOptions, cluster: Cluster | None = None) -> None:
        super().__init__(split, options)
        self._cluster = cluster
        self._source = f"Fetch from {(split.client or {}).get('bootstrap.servers', 'the brokers')}"
        #: The offset at which the leader has a batch of the split that is not committed yet.
        self._unstable_at = -1

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self._read(self._options.columns)

    def count(self) -> int:
        """The number of records. All of them are fetched."""
        return sum(batch.num_rows for batch in self._read(()))

    def _read(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        if self._cluster is not None:
            yield from self._read_from(self._cluster, columns)
        else:
            assert self.split.client is not None
            with connected(self.split.client) as cluster:
                yield from self._read_from(cluster, columns)

    def _read_from(self, cluster: Cluster, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        split = self.split
        decoder = self._new_decoder(columns)
        rows = np.empty((_ROWS, layout.HEADER_COLUMNS), np.int64)
        last_progress = time.monotonic()
        while self.next_offset < split.next_offset:
            response = cluster.fetch(split, self.next_offset)
            if response.error_code:
                self._failed(cluster, response)
                continue
            data = memoryview(response.records or b"")
            view = np.frombuffer(data, np.uint8) if len(data) else np.empty(0, np.uint8)
            count, _, result = kernel.walk_headers(view, 0, len(view), 0, 0, True, rows)
            if count:
                yield from self._of_response(decoder, data, rows[:count], _ended(response, rows[:count]))
                last_progress = time.monotonic()
            elif len(data) and result != layout.END_OF_BUFFER:
                self._missing(split.next_offset, "the broker's response has no batch")
            elif self._has_no_more(cluster):
                self._end_faulty(split.next_offset)
                self._advance(split.next_offset)
            elif time.monotonic() - last_progress > PATIENCE_S:
                self._missing(split.next_offset, f"the leader returned no record for {PATIENCE_S:g} s")

    def _has_no_more(self, cluster: Cluster) -> bool:
        """Returns whether compaction has removed all offsets that are left.

        The leader returns no committed record then, where an open transaction is next.
        """
        split = self.split
        if not split.is_read_committed or self._unstable_at == self.next_offset:
            return False
        response = cluster.fetch(replace(split, aborted=None), self.next_offset, LEAST_FETCH_BYTES)
        view = np.frombuffer(response.records or b"", np.uint8)
        row = np.empty((1, layout.HEADER_COLUMNS), np.int64)
        count, _, _ = kernel.walk_headers(view, 0, len(view), 0, 0, False, row)
        if not count:
            return False
        # The cleaner leaves uncommitted batches alone, so that one does not go before the leader returns it.
        self._unstable_at = self.next_offset
        return int(row[0, layout.BASE_OFFSET]) >= split.next_offset

    def _of_response(
        self, decoder: BatchDecoder, data: memoryview, rows: Numbers, aborted: Sequence[Aborted]
    ) -> Iterator[pa.RecordBatch]:
        self._end_faulty(int(rows[0, layout.BASE_OFFSET]))
        bounds = self.split.bounds._replace(first_offset=self.next_offset)
        wanted = data_rows(rows, bounds, aborted if self.split.is_read_committed else None)
        yield from self._decoded(decoder, Batches(self._source, data, None, rows, wanted, bounds))
        self._advance(int(rows[-1, layout.BASE_OFFSET] + rows[-1, layout.LAST_DELTA]) + 1)

    def _failed(self, cluster: Cluster, response: PartitionData) -> None:
        code = ErrorCode(response.error_code)
        if code is ErrorCode.OFFSET_OUT_OF_RANGE:
            start = cluster.log_start(self.split)
            if start > self.next_offset:
                self._missing(start, REMOVED)
            else:
                self._missing(self.split.next_offset, "the log ends before: it was truncated")
        elif code is ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            raise not_authorized(self.split.topic)
        else:
            self._missing(self.split.next_offset, f"the leader returned {code.name}")

    def _missing(self, next_offset: int, reason: str) -> None:
        self._unreadable(next_offset, self._source, -1, reason)


def _ended(response: PartitionData, rows: Numbers) -> list[Aborted]:
    """The aborted transactions of a response: each ends at the next marker of its producer, here or later."""
    control = rows[rows[:, layout.ATTRIBUTES] & CONTROL_FLAG != 0]
    found = []
    for one in response.aborted_transactions or ():
        markers = control[
            (control[:, layout.PRODUCER_ID] == one.producer_id) & (control[:, layout.BASE_OFFSET] > one.first_offset)
        ]
        last = int(markers[0, layout.BASE_OFFSET]) if len(markers) else _FAR
        found.append(Aborted(one.producer_id, one.first_offset, last))
    return found
