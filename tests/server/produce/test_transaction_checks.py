"""The check of a transactional Produce on replicas without a broker: what is verified, and what the response counts for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from odradek.server.config.broker_config import BrokerConfig
from odradek.server.network.call import Call
from odradek.server.partitions.transaction_marker import Marker
from odradek.server.produce.transactional_produce import TransactionalProduce, Unverified, _for_producers

from tests.server.harness.hosted import NOW_MS, TOPIC, TOPIC_ID, Hosted, batch
from tests.server.harness.noted_calls import NotedCalls
from tests.server.harness.noted_connection import NotedConnection
from tests.server.harness.noted_partitions import NotedPartitions
from tests.server.harness.noted_verification import NotedVerification
from tests.server.harness.virtual_time import loop_clock, simulated

PRODUCER_ID, EPOCH = 7, 3
LOOKED_UP, ADDED, BY_ID = 11, 12, 13


def transactional(sequence: int = 0, *, epoch: int = EPOCH, producer_id: int = PRODUCER_ID) -> bytearray:
    return batch(producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence, transactional=True)


class Producing:
    """A broker that leads two partitions. The test is the coordinator of transactions."""

    def __init__(self, path: Path, **properties: str) -> None:
        self.hosted = [Hosted(path, index=index) for index in range(2)]
        for one in self.hosted:
            one.lead()
        self.verification = NotedVerification()
        self.asked = self.verification.asked
        config = BrokerConfig({key.replace("_", "."): value for key, value in properties.items()})
        self.partitions = NotedPartitions(self.hosted)
        self.produce = TransactionalProduce(config, loop_clock(), self.partitions, self.verification)
        self.calls = NotedCalls(NotedConnection())

    def call(self, *records: Any, version: int = ADDED) -> Call[ProduceRequest]:
        """Returns a Produce with records for each partition, from the first on."""
        data = [PartitionProduceData(index, one) for index, one in enumerate(records)]
        topic = TopicProduceData(name=TOPIC, topic_id=TOPIC_ID, partition_data=data)
        return self.calls.call(ProduceRequest(transactional_id="tx", topic_data=[topic]), version)

    def unverified(self, *records: Any, **options: Any) -> Unverified:
        found = self.produce.unverified(self.call(*records, **options))
        assert found is not None
        return found

    def verified(self, found: Unverified, version: int, errors: dict[Any, int]) -> dict[int, int]:
        """Has the coordinator answer. Returns the error of each partition that the check passes on."""
        results: list[dict[Any, int]] = []
        self.produce.verify(self.call(version=version), found, results.append)
        self.asked[-1].answered(errors)
        [result] = results
        return {index: error for (_, index), error in result.items()}


@pytest.mark.parametrize(
    ("version", "enable", "is_trusted"),
    [(LOOKED_UP, "true", False), (LOOKED_UP, "false", True), (ADDED, "false", False), (ADDED, "true", False)],
)
def test_only_old_clients_are_trusted_and_only_where_the_verification_is_off(
    version: int, enable: str, is_trusted: bool, tmp_path: Path
) -> None:
    async def story() -> None:
        harness = Producing(tmp_path, transaction_partition_verification_enable=enable)
        assert harness.produce.is_trusted(version) == is_trusted

    simulated(story)


@pytest.mark.parametrize(("version", "adds"), [(LOOKED_UP, False), (ADDED, True), (BY_ID, True)])
def test_partitions_that_are_not_in_the_transaction_are_verified_together(
    version: int, adds: bool, tmp_path: Path
) -> None:
    async def story() -> None:
        harness = Producing(tmp_path)
        found = harness.unverified(transactional(4), transactional(9), version=version)
        assert found.membership == ("tx", PRODUCER_ID, EPOCH, ((TOPIC, 0), (TOPIC, 1)), adds)
        assert found.sequences == {(TOPIC, 0): 4, (TOPIC, 1): 9}
        for one in harness.hosted:
            kept = one.log.producers.verifications[PRODUCER_ID]
            assert found.verifications[TOPIC, one.index] is kept

    simulated(story)


@pytest.mark.parametrize(
    "records", [None, b"short", batch(), batch(producer_id=5, producer_epoch=0, base_sequence=0), "old", "control"]
)
def test_batch_that_is_not_transactional_is_not_verified(records: Any, tmp_path: Path) -> None:
    if records == "old":
        records = transactional()
        records[16] = 1  # the format
    elif records == "control":
        records = transactional()[:60]  # shorter than a header

    async def story() -> None:
        harness = Producing(tmp_path)
        assert harness.produce.unverified(harness.call(records)) is None
        assert harness.hosted[0].log.producers.verifications == {}
        found = harness.unverified(records, transactional())
        assert list(found.verifications) == [(TOPIC, 1)], "the others are"

    simulated(story)


@pytest.mark.parametrize("state", ["not here", "follower", "in the transaction", "denied"])
def test_partition_that_needs_no_verification_is_left_out(state: str, tmp_path: Path) -> None:
    async def story() -> None:
        harness = Producing(tmp_path)
        [first, _] = harness.hosted
        if state == "not here":
            harness.partitions.drop(first)
        elif state == "follower":
            first.follow_leader(2, epoch=2)
        elif state == "in the transaction":
            assert not first.append(transactional(), NOW_MS, is_in_transaction=True).error
        if state == "denied":
            assert harness.produce.unverified(harness.call(transactional()), {TOPIC}) is None
            assert harness.produce.unverified(harness.call(transactional(), version=BY_ID), {TOPIC_ID}) is None
            assert harness.produce.unverified(harness.call(transactional(), version=BY_ID), {TOPIC}) is not None
        else:
            found = harness.unverified(transactional(1), transactional(0))
            assert list(found.verifications) == [(TOPIC, 1)]

    simulated(story)


def test_batches_that_wait_are_copied_and_hold_their_connection(tmp_path: Path) -> None:
    async def story() -> None:
        harness = Producing(tmp_path)
        received = transactional()
        call = harness.call(received, None)
        found = harness.produce.unverified(call)
        assert found is not None
        harness.produce.verify(call, found, lambda errors: None)
        before = bytes(received)
        received[:] = bytes(len(received))
        data = call.request.topic_data[0].partition_data
        assert (bytes(data[0].records), data[1].records) == (before, None)
        assert harness.calls.held == 1
        assert harness.asked[0].membership is found.membership

    simulated(story)


@pytest.mark.parametrize("is_ended", [True, False])
def test_success_counts_only_while_its_verification_is_pending(is_ended: bool, tmp_path: Path) -> None:
    async def story() -> None:
        harness = Producing(tmp_path)
        found = harness.unverified(transactional(), transactional())
        if is_ended:
            harness.hosted[0].end_transaction(Marker(PRODUCER_ID, EPOCH, False, 0, 1), NOW_MS)
        result = harness.verified(found, ADDED, {(TOPIC, 0): 0, (TOPIC, 1): 0})
        assert result == ({1: 0} if is_ended else {0: 0, 1: 0})

    simulated(story)


def test_error_counts_though_the_partition_is_gone_and_success_does_not(tmp_path: Path) -> None:
    async def story() -> None:
        harness = Producing(tmp_path)
        found = harness.unverified(transactional(), transactional())
        for one in harness.hosted:
            harness.partitions.drop(one)
        result = harness.verified(found, ADDED, {(TOPIC, 0): 0, (TOPIC, 1): ErrorCode.INVALID_TXN_STATE})
        assert result == {1: ErrorCode.INVALID_TXN_STATE}

    simulated(story)


def test_verification_that_is_repeated_begins_anew_where_the_partition_is_still_here(tmp_path: Path) -> None:
    async def story() -> None:
        harness = Producing(tmp_path)
        found = harness.unverified(transactional(4), transactional(9))
        first = dict(found.verifications)
        results: list[dict[Any, int]] = []
        harness.produce.verify(harness.call(), found, results.append)
        harness.hosted[0].end_transaction(Marker(PRODUCER_ID, EPOCH, False, 0, 1), NOW_MS)
        removed = harness.hosted[1]
        harness.partitions.drop(removed)
        harness.asked[0].again()
        assert found.verifications[TOPIC, 0] is not first[TOPIC, 0]
        assert found.verifications[TOPIC, 1] is first[TOPIC, 1]
        harness.partitions.add(removed)
        harness.asked[0].answered({(TOPIC, 0): 0, (TOPIC, 1): 0})
        assert results == [{(TOPIC, 0): 0, (TOPIC, 1): 0}]

    simulated(story)


@pytest.mark.parametrize(
    ("error", "version", "expected"),
    [
        (0, ADDED, 0),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ADDED, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, LOOKED_UP, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.NOT_COORDINATOR, ADDED, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.NETWORK_EXCEPTION, ADDED, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.CONCURRENT_TRANSACTIONS, LOOKED_UP, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.CONCURRENT_TRANSACTIONS, ADDED, ErrorCode.CONCURRENT_TRANSACTIONS),
        (ErrorCode.TRANSACTION_ABORTABLE, 10, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.TRANSACTION_ABORTABLE, LOOKED_UP, ErrorCode.TRANSACTION_ABORTABLE),
        (ErrorCode.PRODUCER_FENCED, ADDED, ErrorCode.INVALID_PRODUCER_EPOCH),
        (ErrorCode.INVALID_TXN_STATE, ADDED, ErrorCode.INVALID_TXN_STATE),
    ],
)
def test_producer_gets_an_error_of_its_version(error: int, version: int, expected: int) -> None:
    assert _for_producers(error, version) == expected
