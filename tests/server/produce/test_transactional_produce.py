"""A transactional Produce, and events while the coordinator verifies its transaction (KIP-890)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import odradek
import pytest
from odradek.coordinator.transactions_state import result
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnResponse
from odradek.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from odradek.server.coordinators.transaction_driver import TransactionDriver
from odradek.server.coordinators.transaction_markers import MOST_MARKERS, of_distinct_producers
from odradek.server.coordinators.transaction_verification import Membership, TransactionVerification
from odradek.server.partitions.transaction_marker import Marker

from tests.server.harness.data_path import DataPath, batch_of, values_of, wait_until

pytestmark = pytest.mark.usefixtures("sockets")

PRODUCER_ID, EPOCH = 5, 0
LARGE_BYTES = 40_000


@pytest.fixture
def coordinator(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Returns a function that sets the coordinator's reply for each partition: success or `error`, after `meanwhile`."""

    def says(error: int = 0, meanwhile: Callable[[], object] = lambda: None) -> None:
        def verify(_: Any, __: Any, asked: Membership, answered: Callable[[dict[Any, int]], None], ___: Any) -> None:
            meanwhile()
            answered(dict.fromkeys(asked.partitions, error))

        monkeypatch.setattr(TransactionVerification, "verify", verify)

    return says


def batch(sequence: int) -> bytearray:
    return batch_of(b"v", producer_id=PRODUCER_ID, producer_epoch=EPOCH, base_sequence=sequence, transactional=True)


def send(path: DataPath, topic: str, sequence: int) -> tuple[int, int]:
    """Returns (error code, base offset)."""
    reported = path.produce(topic, batch(sequence), version=11, transactional_id="t")
    return reported.error_code, reported.base_offset


def end(path: DataPath, topic: str, epoch: int = EPOCH) -> None:
    marker = Marker(PRODUCER_ID, epoch, False, 0, 1)
    assert path.hosted(topic).end_transaction(marker, 0).error == 0


def test_a_response_that_comes_after_the_transactions_end_is_worth_nothing(
    path: DataPath, coordinator: Callable[..., None]
) -> None:
    topic = path.topic()
    coordinator(meanwhile=lambda: end(path, topic))
    assert send(path, topic, 0) == (ErrorCode.INVALID_TXN_STATE, -1)
    assert path.hosted(topic).log_end_offset == 1, "only the marker is there"
    coordinator()
    assert send(path, topic, 0) == (ErrorCode.NONE, 1)


def test_epoch_fenced_during_verification_returns_invalid_producer_epoch(
    path: DataPath, coordinator: Callable[..., None]
) -> None:
    topic = path.topic()
    coordinator(meanwhile=lambda: end(path, topic, EPOCH + 1))
    assert send(path, topic, 0) == (ErrorCode.INVALID_PRODUCER_EPOCH, -1)


def test_a_batch_behind_one_that_has_to_come_again_has_to_come_again_too(
    path: DataPath, coordinator: Callable[..., None]
) -> None:
    topic = path.topic()
    coordinator(ErrorCode.NOT_COORDINATOR)
    assert send(path, topic, 0) == (ErrorCode.NOT_ENOUGH_REPLICAS, -1)
    coordinator()
    another = path.another_client()
    assert send(another, topic, 1) == (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)
    another.close()
    assert send(path, topic, 1) == (ErrorCode.NOT_ENOUGH_REPLICAS, -1), "as the first was told"
    assert [send(path, topic, sequence) for sequence in (0, 1)] == [(ErrorCode.NONE, 0), (ErrorCode.NONE, 1)]


def test_write_on_other_connection_opens_transaction_for_both(
    broker: odradek.Broker, path: DataPath, coordinator: Callable[..., None]
) -> None:
    topic = path.topic()
    hosted = path.hosted(topic)
    coordinator(meanwhile=lambda: hosted.append(batch(0), broker.server.node.clock.now_ms(), is_in_transaction=True))
    assert send(path, topic, 1) == (ErrorCode.NONE, 1)


def test_batch_that_overtakes_the_marker_of_the_previous_transaction_is_written(
    path: DataPath, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The coordinator answers CONCURRENT_TRANSACTIONS until the marker is written; the broker asks again."""
    topic = path.topic()
    errors = [ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.NONE]

    def submit(_: Any, __: str, request: Any, ___: int, ____: Any, reply: Callable[[Any], None]) -> None:
        error = errors.pop(0)
        reply(AddPartitionsToTxnResponse(results_by_transaction=[result(request.transactions[0], error)]))
        if error:
            assert path.hosted(topic).end_transaction(Marker(PRODUCER_ID, EPOCH, True, 0, 2), 0).error == 0

    monkeypatch.setattr(TransactionDriver, "submit", submit)
    reported = path.produce(topic, batch(0), version=12, transactional_id="t")
    assert (reported.error_code, reported.base_offset) == (ErrorCode.NONE, 1)
    assert not errors


def test_markers_of_several_producers_are_one_write_with_a_result_each(
    path: DataPath, coordinator: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    coordinator()
    topic = path.topic()
    for producer_id in (1, 2, 3):
        records = batch_of(b"v", producer_id=producer_id, producer_epoch=4, base_sequence=0, transactional=True)
        assert path.produce(topic, records, version=11, transactional_id="t").error_code == 0
    hosted = path.hosted(topic)
    writes, append = list[int](), hosted.log.append

    def counted(buffer: Any, headers: Any, now_ms: int) -> None:
        writes.append(len(headers))
        append(buffer, headers, now_ms)

    monkeypatch.setattr(type(hosted.log), "append", lambda _, *args: counted(*args))
    markers = [Marker(1, 4, True, 0, 1), Marker(2, 3, True, 0, 1), Marker(3, 4, False, 0, 1)]
    results = hosted.end_transactions(markers, 0)
    assert [one.error for one in results] == [0, ErrorCode.INVALID_PRODUCER_EPOCH, 0]
    assert [(one.base_offset, one.end_offset) for one in results if not one.error] == [(3, 4), (4, 5)]
    assert writes == [2]
    assert hosted.high_watermark == 5 and hosted.last_stable_offset == 1, "the second producer's transaction is open"
    (aborted,) = hosted.log.aborted_transactions(0, 5)
    assert (aborted.producer_id, aborted.first_offset, aborted.last_offset) == (3, 2, 4)


def test_markers_of_one_producer_are_not_written_together() -> None:
    def asked(*producers: int) -> list[Any]:
        return [(Marker(producer_id, 0, True, 0, 1), print) for producer_id in producers]

    def parts(*producers: int) -> list[list[int]]:
        return [[marker.producer_id for marker, _ in part] for part in of_distinct_producers(asked(*producers))]

    assert parts() == []
    assert parts(1, 2, 3) == [[1, 2, 3]]
    assert parts(1, 2, 1, 2, 3, 3) == [[1, 2], [1, 2, 3], [3]]
    assert [len(part) for part in parts(*range(2 * MOST_MARKERS + 1))] == [MOST_MARKERS, MOST_MARKERS, 1]


def test_batch_that_waits_for_its_verification_keeps_its_bytes(
    broker: odradek.Broker, path: DataPath, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All connections receive into one buffer, so the next request of another one overwrites what is not copied.

    Small requests are copied out of it in any case.
    """
    responses: list[Callable[[], None]] = []

    def verify(_: Any, __: Any, asked: Membership, answered: Callable[[dict[Any, int]], None], ___: Any) -> None:
        responses.append(lambda: answered(dict.fromkeys(asked.partitions, 0)))

    monkeypatch.setattr(TransactionVerification, "verify", verify)
    topic, other_topic, value = path.topic(), path.topic(), b"v" * LARGE_BYTES
    sequence = {"producer_id": PRODUCER_ID, "producer_epoch": EPOCH, "base_sequence": 0}
    data = [PartitionProduceData(0, batch_of(value, transactional=True, **sequence))]
    request = ProduceRequest(
        acks=1, timeout_ms=1000, transactional_id="t", topic_data=[TopicProduceData(topic, partition_data=data)]
    )
    number = path.client.send(request, 11)
    wait_until(lambda: bool(responses), "the coordinator has the request")
    another = path.another_client()
    assert another.produce(other_topic, batch_of(b"w" * 2 * LARGE_BYTES)).error_code == 0
    another.close()
    broker._running().loop.call_soon_threadsafe(responses[0])
    (response,) = path.client.receive(request, 11, number).responses[0].partition_responses
    assert (response.error_code, response.base_offset) == (ErrorCode.NONE, 0)
    assert values_of(path.fetch(topic)) == [value]
