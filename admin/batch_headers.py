"""Headers of the record batches of a partition, read through Fetch as a consumer reads; their CRCs are checked."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import NamedTuple

from ..client.transient_errors import FETCH_TRANSIENT
from ..protocol.errors import ErrorCode
from ..protocol.isolation import READ_COMMITTED
from ..protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ..protocol.records.batch import BatchHeader, check_crc, iter_headers
from ..protocol.records.errors import BatchError
from .errors import ResponseError
from .places import Place
from .session import Admin
from .topics import described_topics

_MAX_WAIT_MS = 500
#: Bytes of one response.
FETCH_BYTES = 1 << 20
#: Limit of the time in which a leader moves.
_PATIENCE_S = 30.0
#: Limit of the time in which a leader that throttles this client, or a slow remote store, gives the first batch.
_EMPTY_S = 15.0
_PAUSE_S = 0.2


class CheckedBatch(NamedTuple):
    """A batch, and why its bytes are damaged; "" where its CRC is right."""

    header: BatchHeader
    damage: str


class BatchHeaders:
    """The batches of one partition. `is_compacted`: it may have no batch at the end of its log any more."""

    def __init__(self, admin: Admin, place: Place, *, is_compacted: bool = False) -> None:
        self._admin = admin
        self._place = place
        self._leader: tuple[int, bytes] | None = None
        self._is_compacted = is_compacted
        #: The lowest offset from which a compacted log has had no batch.
        self._last_gap: int | None = None

    def read(self, offset: int) -> list[CheckedBatch]:
        """The whole batches of one response, from the one that has `offset`, which is below the end of the log. None only
        from a compacted log. Raises ResponseError.
        """
        if self._last_gap is not None and offset >= self._last_gap:
            return []
        began = time.monotonic()
        while True:
            error, records = self._fetched(offset)
            waited_s = time.monotonic() - began
            batches = [*_checked(records)] if not error else []
            if batches:
                return batches
            if not error and waited_s > _EMPTY_S:
                if not self._is_compacted:
                    raise self._failure(offset, ErrorCode.REQUEST_TIMED_OUT, "the leader gives no records")
                self._last_gap = offset
                return []
            if error and (error not in FETCH_TRANSIENT or waited_s > _PATIENCE_S):
                raise self._failure(offset, error)
            self._leader = None
            time.sleep(_PAUSE_S)

    def _failure(self, offset: int, code: int, message: str | None = None) -> ResponseError:
        return ResponseError(f"{self._place[0]}-{self._place[1]}, offset {offset}", code, message)

    def between(self, start: int, end: int) -> Iterator[CheckedBatch]:
        """All batches that have offsets from `start` on and below `end`."""
        offset = start
        while offset < end:
            batches = self.read(offset)
            if not batches:
                return
            for batch in batches:
                if batch.header.base_offset >= end:
                    return
                yield batch
            offset = batches[-1].header.next_offset

    def _fetched(self, offset: int) -> tuple[int, bytes]:
        topic, index = self._place
        leader, topic_id = self._leader = self._leader or self._described()
        if leader < 0:
            return ErrorCode.LEADER_NOT_AVAILABLE, b""
        partition = FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=FETCH_BYTES)
        request = FetchRequest(
            max_wait_ms=_MAX_WAIT_MS,
            min_bytes=1,
            max_bytes=FETCH_BYTES,
            isolation_level=READ_COMMITTED,
            topics=[FetchTopic(topic=topic, topic_id=topic_id, partitions=[partition])],
        )
        response = self._admin.ask(request, leader)
        if response.error_code or not response.responses:
            return response.error_code, b""
        (found,) = response.responses[0].partitions
        return found.error_code, bytes(found.records or b"")

    def _described(self) -> tuple[int, bytes]:
        topic, index = self._place
        (described,) = described_topics(self._admin, [topic])
        return described.leaders.get(index, -1), described.id_in_requests


def _checked(records: bytes) -> Iterator[CheckedBatch]:
    for position, header in iter_headers(records):
        try:
            check_crc(records, position, header)
            yield CheckedBatch(header, "")
        except BatchError as error:
            yield CheckedBatch(header, str(error))
