"""Transactions whose markers are rejected because a client that is no coordinator wrote markers of later epochs."""

from __future__ import annotations

from collections.abc import Iterator

import odradek
import pytest
from odradek.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from odradek.protocol.messages.end_txn import EndTxnRequest
from odradek.protocol.messages.find_coordinator import FindCoordinatorRequest
from odradek.protocol.messages.init_producer_id import InitProducerIdRequest
from odradek.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from odradek.server.coordinators import transaction_driver

from tests.server.harness.data_path import DataPath, wait_until

pytestmark = pytest.mark.usefixtures("sockets")

TRANSACTIONAL_ID = "overtaken"


@pytest.fixture
def path(monkeypatch: pytest.MonkeyPatch) -> Iterator[DataPath]:
    monkeypatch.setattr(transaction_driver, "OVERTAKEN_RETRY_MS", 20)
    with odradek.Broker(config={"transaction.state.log.num.partitions": 1}) as running:
        found = DataPath(running)
        yield found
        found.close()


def init(path: DataPath) -> tuple[int, int]:
    find = FindCoordinatorRequest(key_type=1, coordinator_keys=[TRANSACTIONAL_ID])
    wait_until(lambda: not path.client.call(find, 4).coordinators[0].error_code)
    given: list[tuple[int, int]] = []

    def is_given() -> bool:
        response = path.client.call(InitProducerIdRequest(TRANSACTIONAL_ID, 60_000), 4)
        if not response.error_code:
            given.append((response.producer_id, response.producer_epoch))
        return bool(given)

    wait_until(is_given, "a producer begins")
    return given[0]


@pytest.mark.parametrize(("epochs_ahead", "coordinator_epoch"), [(5, 0), (32_767, 0), (0, (1 << 31) - 1)])
@pytest.mark.parametrize("committed", [True, False])
def test_transaction_ends_though_a_stranger_wrote_a_later_marker(
    path: DataPath, epochs_ahead: int, coordinator_epoch: int, committed: bool
) -> None:
    topic = path.topic()
    producer_id, epoch = init(path)
    adding = AddPartitionsToTxnRequest([], TRANSACTIONAL_ID, producer_id, epoch, [AddPartitionsToTxnTopic(topic, [0])])
    added = path.client.call(adding, 3).results_by_topic_v3_and_below[0].results_by_partition[0]
    assert not added.partition_error_code
    forged = WritableTxnMarker(
        producer_id,
        min(epoch + epochs_ahead, 32_767),
        False,
        [WritableTxnMarkerTopic(topic, [0])],
        coordinator_epoch,
    )
    written = path.client.call(WriteTxnMarkersRequest([forged]), 1)
    assert not written.markers[0].topics[0].partitions[0].error_code
    ended = path.client.call(EndTxnRequest(TRANSACTIONAL_ID, producer_id, epoch, committed), 3)
    assert not ended.error_code
    again = init(path)
    assert again == (producer_id, epoch + 1)
