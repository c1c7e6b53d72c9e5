"""Batches in and out of sequence: both brokers give the same response to each, and hold the same batches at the end.

`ODRADEK_SEQUENCE_WALKS=200` runs more of them. Markers go straight to the brokers, as a coordinator would send them.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from random import Random
from typing import Any, NamedTuple

import pytest
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from odradek.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from odradek.protocol.records.batch import MAX_SEQUENCE
from odradek.protocol.records.record import Record, encode_batch

from compat_tests.batches import read_batches
from compat_tests.odradek_process import OdradekProcess
from compat_tests.oracle import ApacheKafka
from compat_tests.recipes import make_topic
from compat_tests.wire import WireClient

pytestmark = pytest.mark.oracle

WALKS = int(os.environ.get("ODRADEK_SEQUENCE_WALKS", "8"))
STEPS = 150
PRODUCERS = 3
_FIRST_PRODUCER_ID = 900_000
_PRODUCE_VERSION, _MARKERS_VERSION = 11, 1
#: Recent, since retention deletes older records.
_TIMESTAMP = int(time.time() * 1000)


class Batch(NamedTuple):
    producer_id: int
    epoch: int
    sequence: int
    count: int


class Marker(NamedTuple):
    producer_id: int
    epoch: int
    coordinator_epoch: int


class Walk:
    """A random walk: each batch is close to the one that the broker accepts next."""

    def __init__(self, seed: int) -> None:
        self._rng = Random(seed)
        self._sent: dict[int, list[Batch]] = {_FIRST_PRODUCER_ID + number: [] for number in range(PRODUCERS)}

    def step(self) -> Batch | Marker:
        rng = self._rng
        producer_id = rng.choice(list(self._sent))
        sent = self._sent[producer_id]
        last = sent[-1] if sent else Batch(producer_id, 0, MAX_SEQUENCE - 5, 1)
        epoch = max(0, last.epoch + rng.choice((0,) * 9 + (1, 1, -1)))
        if rng.random() < 0.08:
            return Marker(producer_id, epoch, rng.randrange(3))
        if sent and rng.random() < 0.2:
            return rng.choice(sent[-7:])
        following = last.sequence + last.count
        sequence = rng.choice((following,) * 8 + (0, 0, following + 1, following - 1))
        return Batch(producer_id, epoch, sequence % (MAX_SEQUENCE + 1), rng.randint(1, 3))

    def taken(self, batch: Batch) -> None:
        self._sent[batch.producer_id].append(batch)


def send(client: WireClient, topic: str, one: Batch | Marker) -> tuple[Any, ...]:
    """Sends a batch or a marker. Returns its error, and for a batch also offsets and append time."""
    if isinstance(one, Marker):
        where = [WritableTxnMarkerTopic(topic, [0])]
        marker = WritableTxnMarker(one.producer_id, one.epoch, False, where, one.coordinator_epoch)
        reported = client.call(WriteTxnMarkersRequest([marker]), _MARKERS_VERSION)
        return (reported.markers[0].topics[0].partitions[0].error_code,)
    records = [Record(number, _TIMESTAMP, None, b"v") for number in range(one.count)]
    identity = {"producer_id": one.producer_id, "producer_epoch": one.epoch, "base_sequence": one.sequence}
    data = TopicProduceData(topic, partition_data=[PartitionProduceData(0, encode_batch(records, **identity))])
    request = ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[data])
    response = client.call(request, _PRODUCE_VERSION).responses[0].partition_responses[0]
    return response.error_code, response.base_offset, response.log_append_time_ms, response.log_start_offset


def batches(bootstrap: str, topic: str) -> list[tuple[Any, ...]]:
    return [(header.base_offset, *header[9:13], header.is_control) for header, _ in read_batches(bootstrap, topic, 0)]


@pytest.fixture(scope="module")
def clients(apache_kafka: ApacheKafka, odradek: OdradekProcess) -> Iterator[tuple[WireClient, WireClient]]:
    with WireClient(apache_kafka.bootstrap) as oracle, WireClient(odradek.bootstrap) as ours:
        yield oracle, ours


@pytest.mark.parametrize("seed", range(WALKS))
def test_out_of_order_sequences_are_refused_by_both(
    seed: int, clients: tuple[WireClient, WireClient], apache_kafka: ApacheKafka, odradek: OdradekProcess
) -> None:
    topic, walk = f"sequences-{seed}", Walk(seed)
    for broker in (apache_kafka, odradek):
        make_topic(broker.bootstrap, topic)
    seen = set()
    for number in range(STEPS):
        one = walk.step()
        theirs, ours = (send(client, topic, one) for client in clients)
        assert theirs == ours, f"step {number}, {one}: Apache Kafka says {theirs}, Odradek {ours}"
        seen.add(theirs[0])
        if isinstance(one, Batch) and not theirs[0]:
            walk.taken(one)
    assert batches(apache_kafka.bootstrap, topic) == batches(odradek.bootstrap, topic)
    assert {ErrorCode.NONE, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER} <= seen
