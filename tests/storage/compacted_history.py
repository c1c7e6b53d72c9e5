"""The records of compacted topics from several interleaved producers, so that a cleaner meets all its cases.

The cases are plain producers, idempotent producers, whose last batch must stay, and interleaved transactions that commit,
abort or stay open. There are also tombstones, all codecs, and several segments. The test sends the markers to the brokers
itself, in place of a coordinator, so that several brokers get identical requests.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from random import Random

from odradek.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from odradek.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from odradek.protocol.records.compression import Compression
from odradek.protocol.records.record import Record, encode_batch

from compat_tests.wire import WireClient

#: segment.ms of the topics. A later batch starts a new segment.
SEGMENT_MS = 500_000
_BETWEEN_SEGMENTS_MS = 2 * SEGMENT_MS
_FIRST_PRODUCER_ID = 900_000
_PRODUCE_VERSION, _MARKERS_VERSION = 11, 1
_BASE_MS = int(time.time() * 1000)


class Sender:
    """A producer with a producer id."""

    def __init__(self, producer_id: int, is_transactional: bool, bumps_epoch: bool) -> None:
        self.producer_id = producer_id
        self.is_transactional = is_transactional
        #: Each transaction ends with the next epoch (KIP-890).
        self.bumps_epoch = bumps_epoch
        self.epoch = self.sequence = 0
        #: The first offset of its open transaction.
        self.open_since: int | None = None

    def begin_epoch(self) -> None:
        self.epoch, self.sequence = self.epoch + 1, 0


class CompactedHistory:
    """The records of a topic with one partition. `largest`: bytes of a value."""

    def __init__(self, topic: str, seed: int, largest: int = 60) -> None:
        self.topic = topic
        self.largest = largest
        self.end_offset = 0
        self._rng = Random(seed)
        self._now_ms = _BASE_MS
        ids = range(_FIRST_PRODUCER_ID, _FIRST_PRODUCER_ID + 6)
        self._senders = [Sender(number, number % 2 == 0, number % 4 == 0) for number in ids]
        #: A producer whose transaction stays open until `end_all`.
        self._slow = Sender(_FIRST_PRODUCER_ID + 6, is_transactional=True, bumps_epoch=True)

    @property
    def last_stable_offset(self) -> int:
        everyone = (*self._senders, self._slow)
        return min((one.open_since for one in everyone if one.open_since is not None), default=self.end_offset)

    def write(self, clients: Sequence[WireClient], segments: int, steps: int) -> None:
        """Writes segments of batches and markers. All brokers must end with the same offsets."""
        for _ in range(segments):
            # Some producers write to one segment only: their last batch there must stay.
            senders = self._rng.sample(self._senders, 3)
            for _ in range(steps):
                self._step(clients, self._rng.choice(senders))
            self._now_ms += _BETWEEN_SEGMENTS_MS
            self._send(clients, None)

    def begin_slowly(self, clients: Sequence[WireClient]) -> None:
        self._send(clients, self._slow)

    def end_all(self, clients: Sequence[WireClient]) -> None:
        for sender in (*self._senders, self._slow):
            if sender.open_since is not None:
                self._end(clients, sender)

    def _step(self, clients: Sequence[WireClient], sender: Sender) -> None:
        draw = self._rng.random()
        if draw < 0.25:
            self._send(clients, None)
        elif sender.open_since is not None and draw < 0.55:
            self._end(clients, sender)
        elif not sender.is_transactional and draw < 0.3:
            sender.begin_epoch()
            self._send(clients, sender)
        else:
            self._send(clients, sender)

    def _records(self) -> list[Record]:
        rng, made = self._rng, []
        for number in range(rng.randint(1, 4)):
            key = b"key %d" % rng.randrange(12)
            value = None if rng.random() < 0.2 else rng.randbytes(rng.randint(0, self.largest))
            headers = [("name", rng.choice((None, b"value")))] if rng.random() < 0.2 else []
            self._now_ms += 1
            made.append(Record(number, self._now_ms + rng.randint(-20, 20), key, value, headers))
        return made

    def _send(self, clients: Sequence[WireClient], sender: Sender | None) -> None:
        records, kind = self._records(), {}
        if sender is not None:
            kind = {"producer_id": sender.producer_id, "producer_epoch": sender.epoch, "base_sequence": sender.sequence}
            kind["transactional"] = sender.is_transactional
            sender.sequence += len(records)
            if sender.is_transactional and sender.open_since is None:
                sender.open_since = self.end_offset
        batch = encode_batch(records, compression=self._rng.choice(list(Compression)), **kind)
        data = TopicProduceData(self.topic, partition_data=[PartitionProduceData(0, batch)])
        name = "known to no coordinator" if kind.get("transactional") else None
        request = ProduceRequest(transactional_id=name, acks=-1, timeout_ms=30_000, topic_data=[data])
        for client in clients:
            reported = client.call(request, _PRODUCE_VERSION).responses[0].partition_responses[0]
            assert (reported.error_code, reported.base_offset) == (0, self.end_offset), reported
        self.end_offset += len(records)

    def _end(self, clients: Sequence[WireClient], sender: Sender) -> None:
        if sender.bumps_epoch:
            sender.begin_epoch()
        where = [WritableTxnMarkerTopic(self.topic, [0])]
        marker = WritableTxnMarker(sender.producer_id, sender.epoch, self._rng.random() < 0.5, where, 0)
        for client in clients:
            reported = client.call(WriteTxnMarkersRequest([marker]), _MARKERS_VERSION)
            assert reported.markers[0].topics[0].partitions[0].error_code == 0, reported
        self.end_offset += 1
        sender.open_since = None
