"""TxnOffsetCommit, and events while the transaction's coordinator verifies it (KIP-890)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import odradek
import pytest
from odradek.coordinator.transactions_state import result
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnResponse
from odradek.protocol.messages.find_coordinator import FindCoordinatorRequest
from odradek.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from odradek.server.coordinators.transaction_driver import TransactionDriver
from odradek.server.coordinators.transaction_verification import Membership, TransactionVerification
from odradek.server.partitions.hosted_partition import HostedPartition
from odradek.server.partitions.transaction_marker import Marker

from tests.server.harness.data_path import DataPath, wait_until

pytestmark = pytest.mark.usefixtures("sockets")

PRODUCER_ID, EPOCH = 5, 0
LOOKING_UP, ADDING = 4, 5
LATER = (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR)


@pytest.fixture
def path() -> Iterator[DataPath]:
    with odradek.Broker(config={"offsets.topic.num.partitions": "1"}) as broker:
        found = DataPath(broker)
        found.client.call(FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]), 4)
        wait_until(lambda: broker.server.partitions.hosted.get(("__consumer_offsets", 0)), "there is a coordinator")
        yield found
        found.close()


def meanwhile(monkeypatch: pytest.MonkeyPatch, happens: Callable[[], object] = lambda: None) -> None:
    """Makes the coordinator reply, after `happens`, that the group's partition is in the transaction."""

    def verify(_: Any, __: Any, asked: Membership, answered: Callable[[dict[Any, int]], None], ___: Any) -> None:
        happens()
        answered(dict.fromkeys(asked.partitions, 0))

    monkeypatch.setattr(TransactionVerification, "verify", verify)


def commit(path: DataPath, topic: str, version: int = LOOKING_UP) -> int:
    """Returns the error code, once the group's coordinator has loaded."""
    partition = TxnOffsetCommitRequestPartition(0, 7)
    request = TxnOffsetCommitRequest("t", "g", PRODUCER_ID, EPOCH, topics=[TxnOffsetCommitRequestTopic(topic)])
    request.topics[0].partitions = [partition]
    codes = [ErrorCode.NOT_COORDINATOR]

    def is_reported() -> bool:
        response = path.client.call(request, version)
        codes.append(response.topics[0].partitions[0].error_code)
        return codes[-1] not in LATER

    wait_until(is_reported, "the group's coordinator answers")
    return codes[-1]


def offsets(path: DataPath) -> HostedPartition:
    return path.hosted("__consumer_offsets")


def end(path: DataPath, epoch: int) -> None:
    assert offsets(path).end_transaction(Marker(PRODUCER_ID, epoch, False, 0, 1), 0).error == 0


def test_offsets_of_ongoing_transaction_are_written(path: DataPath, monkeypatch: pytest.MonkeyPatch) -> None:
    meanwhile(monkeypatch)
    assert commit(path, path.topic()) == ErrorCode.NONE
    assert offsets(path).is_in_transaction(PRODUCER_ID, EPOCH)


@pytest.mark.parametrize(
    ("epoch_of_end", "error"), [(EPOCH, ErrorCode.INVALID_TXN_STATE), (EPOCH + 1, ErrorCode.INVALID_PRODUCER_EPOCH)]
)
def test_offsets_after_end_of_transaction_are_not_written(
    path: DataPath, monkeypatch: pytest.MonkeyPatch, epoch_of_end: int, error: ErrorCode
) -> None:
    meanwhile(monkeypatch, lambda: end(path, epoch_of_end))
    assert commit(path, path.topic()) == error
    assert offsets(path).last_stable_offset == offsets(path).log_end_offset, "nothing is pending"


def test_offsets_that_overtake_the_marker_of_the_previous_transaction_are_written(
    path: DataPath, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The transaction's coordinator answers CONCURRENT_TRANSACTIONS until the marker is written."""
    topic = path.topic()
    meanwhile(monkeypatch)
    assert commit(path, topic) == ErrorCode.NONE
    monkeypatch.undo()
    end(path, EPOCH)
    errors = [ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.NONE]

    def submit(_: Any, __: str, request: Any, ___: int, ____: Any, reply: Callable[[Any], None]) -> None:
        error = errors.pop(0)
        reply(AddPartitionsToTxnResponse(results_by_transaction=[result(request.transactions[0], error)]))
        if error:
            end(path, EPOCH)

    monkeypatch.setattr(TransactionDriver, "submit", submit)
    assert commit(path, topic, ADDING) == ErrorCode.NONE
    assert not errors
