"""Periodic tasks of transactional ids: unused ids expire, transactions that exceed their timeout are aborted."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import odradek
import pytest
from odradek.coordinator.transaction import MAX_EPOCH
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from odradek.protocol.messages.describe_transactions import DescribeTransactionsRequest
from odradek.protocol.messages.end_txn import EndTxnRequest
from odradek.protocol.messages.find_coordinator import FindCoordinatorRequest
from odradek.protocol.messages.init_producer_id import InitProducerIdRequest

from tests.server.harness.data_path import DataPath, values_of, wait_until

pytestmark = pytest.mark.usefixtures("sockets")

TRANSACTION_STATE = "__transaction_state"
TRANSACTIONAL_IDS = 1
PROPERTIES = {
    "transaction.state.log.num.partitions": 1,
    "transaction.remove.expired.transaction.cleanup.interval.ms": 50,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 50,
}


def path_of(properties: dict[str, int]) -> Iterator[DataPath]:
    with odradek.Broker(config=PROPERTIES | properties) as running:
        found = DataPath(running)
        yield found
        found.close()


@pytest.fixture
def path() -> Iterator[DataPath]:
    yield from path_of({})


@pytest.fixture
def forgetful_path() -> Iterator[DataPath]:
    yield from path_of({"transactional.id.expiration.ms": 300})


def init(path: DataPath, transactional_id: str, timeout_ms: int = 60_000) -> Any:
    find = FindCoordinatorRequest(key_type=TRANSACTIONAL_IDS, coordinator_keys=[transactional_id])
    wait_until(lambda: not path.client.call(find, 4).coordinators[0].error_code)
    responses: list[Any] = []

    def is_known() -> bool:
        responses.append(path.client.call(InitProducerIdRequest(transactional_id, timeout_ms), 4))
        return not responses[-1].error_code

    wait_until(is_known)
    return responses[-1]


def add(path: DataPath, transactional_id: str, producer: tuple[int, int]) -> int:
    topics = [AddPartitionsToTxnTopic(path.topic(), [0])]
    request = AddPartitionsToTxnRequest([], transactional_id, *producer, topics)
    code: int = (
        path.client.call(request, 3).results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code
    )
    return code


def described(path: DataPath, transactional_id: str) -> Any:
    return path.client.call(DescribeTransactionsRequest([transactional_id]), 0).transaction_states[0]


def test_an_id_that_rests_is_forgotten_and_one_in_a_transaction_is_not(forgetful_path: DataPath) -> None:
    path, begun = forgetful_path, []

    def has_begun() -> bool:
        """Begins a transaction. Returns False if the id has expired in between, as on a slow machine."""
        begun.append(init(path, "works"))
        return add(path, "works", (begun[-1].producer_id, begun[-1].producer_epoch)) == 0

    wait_until(has_begun)
    rests = init(path, "rests")
    wait_until(lambda: described(path, "rests").error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
    assert described(path, "works").transaction_state == "Ongoing"
    assert values_of(path.fetch(TRANSACTION_STATE))[-1] is None, "who loads the log does not know it either"
    end = EndTxnRequest("rests", rests.producer_id, rests.producer_epoch, True)
    assert path.client.call(end, 5).error_code == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    again = init(path, "rests")
    assert again.producer_id > rests.producer_id and again.producer_epoch == 0


def test_timeout_at_last_epoch_continues_with_new_producer_id(path: DataPath) -> None:
    known = init(path, "slow", timeout_ms=100)
    (shard,) = path.broker.server.coordinators.transactions().shards()
    last = MAX_EPOCH - 1
    shard.shard.state.transactions["slow"].durable.producer_epoch = last
    assert add(path, "slow", (known.producer_id, last)) == 0
    end = EndTxnRequest("slow", known.producer_id, last, False)
    wait_until(lambda: described(path, "slow").transaction_state == "CompleteAbort")
    response = path.client.call(end, 5)
    assert (response.error_code, response.producer_epoch) == (0, 0)
    assert response.producer_id > known.producer_id
