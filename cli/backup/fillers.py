"""Fillers of offsets that have no record in a backup, so that the records after them keep their offsets."""

from __future__ import annotations

import time
from functools import cache
from typing import TYPE_CHECKING

from ...admin.errors import ResponseError, check
from ...admin.topics import described_topics
from ...protocol.acks import ALL_IN_SYNC
from ...protocol.messages.init_producer_id import InitProducerIdRequest
from ...protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ...protocol.messages.write_txn_markers import WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest
from ...protocol.records.compression_type import Compression
from ...protocol.records.record import Record, encode_batch

if TYPE_CHECKING:
    from ...admin.session import Admin

#: Offsets of one request. The batch has 2 KB; a marker has 78 bytes, and a broker writes 100 of them in 20 ms.
_BATCH_RECORDS = 100_000
_MARKERS = 100
_TIMEOUT_MS = 30_000
#: A filler has a key: a compacted topic would take it, too.
_KEY = b"f"
_NO_TIMESTAMP = 0
#: A broker that has just begun asks the controller for producer ids first.
_COORDINATOR_LOAD_IN_PROGRESS = 14
_CLUSTER_AUTHORIZATION_FAILED = 31
_PATIENCE_S, _PAUSE_S = 30.0, 0.1


class Fillers:
    """Offsets of one partition, which nothing else writes to. Raises UserError.

    Fillers are of two kinds:
    - Below the log start: batches of empty records, large and well compressed. DeleteRecords deletes them at the end.
    - After the log start: abort markers of a transaction that holds no record (WriteTxnMarkers). A marker takes one
      offset, and brokers and clients give it to no consumer, whatever its isolation level. Compaction deletes it like
      any marker.

    No request is repeated: the end of the partition tells the next try of a restore how far this one came.
    """

    def __init__(self, admin: Admin, topic: str, partition: int) -> None:
        (described,) = described_topics(admin, [topic])
        self._admin = admin
        self._topic = topic
        self._topic_id = described.id_in_requests
        self._partition = partition
        self._leader = described.partitions[partition].leader_id
        self._producer: tuple[int, int] | None = None

    def fill_below_start(self, count: int) -> None:
        """Writes records that only take offsets."""
        while count > 0:
            size = min(count, _BATCH_RECORDS)
            part = PartitionProduceData(self._partition, _filler_batch(size))
            topic = TopicProduceData(name=self._topic, topic_id=self._topic_id, partition_data=[part])
            request = ProduceRequest(acks=ALL_IN_SYNC, timeout_ms=_TIMEOUT_MS, topic_data=[topic])
            (response,) = self._admin.ask(request, self._leader).responses[0].partition_responses
            check(self._subject, response.error_code, response.error_message)
            count -= size

    def fill_gap(self, count: int) -> None:
        """Writes markers that no consumer gets."""
        while count > 0:
            producer_id, epoch = self._producer_id()
            topic = WritableTxnMarkerTopic(self._topic, [self._partition])
            marker = WritableTxnMarker(producer_id, epoch, False, [topic], 0)
            request = WriteTxnMarkersRequest([marker] * min(count, _MARKERS))
            for response in self._admin.ask(request, self._leader).markers:
                self._check_marker(response.topics[0].partitions[0].error_code)
            count -= min(count, _MARKERS)

    def _check_marker(self, code: int) -> None:
        if code == _CLUSTER_AUTHORIZATION_FAILED:
            hint = "filling gaps needs the operation Alter on the cluster: grant it, or give --renumber"
            raise ResponseError(self._subject, code, None, f": {hint}")
        check(self._subject, code)

    def _producer_id(self) -> tuple[int, int]:
        """An id that no producer has."""
        deadline = time.monotonic() + _PATIENCE_S
        while self._producer is None:
            response = self._admin.ask(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=_TIMEOUT_MS))
            if response.error_code == _COORDINATOR_LOAD_IN_PROGRESS and time.monotonic() < deadline:
                time.sleep(_PAUSE_S)
                continue
            check("producer id", response.error_code)
            self._producer = response.producer_id, response.producer_epoch
        return self._producer

    @property
    def _subject(self) -> str:
        return f"{self._topic}-{self._partition}"


@cache
def _filler_batch(count: int) -> bytes:
    records = [Record(offset, _NO_TIMESTAMP, _KEY, None) for offset in range(count)]
    return encode_batch(records, compression=Compression.ZSTD)
