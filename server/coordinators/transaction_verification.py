"""Verification that a partition is part of a transaction, before its first append (KIP-890)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from ...metadata.image import TopicPartition
from ...protocol.errors import ErrorCode
from ...protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from .open_requests import Client
from .transaction_driver import TransactionDriver

if TYPE_CHECKING:
    from ...client.peers import Peers
    from ..config.broker_config import BrokerConfig
    from ..controller.leaders import Leaders
    from ..runtime.clock import Clock
    from ..runtime.lazy import Lazy

ADDING_VERSION = AddPartitionsToTxnRequest.newest_version()
VERIFICATION_TIMEOUT_MS = 10_000
VERIFICATION_PURPOSE = "transaction-membership"
#: Called with an error code, or 0, for each of the partitions.
Answered = Callable[[dict[TopicPartition, int]], None]
#: Called before the coordinator is requested again.
Retried = Callable[[], None]


class Membership(NamedTuple):
    """A producer's request for verification: `adds` the partitions, or only looks them up."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: tuple[TopicPartition, ...]
    adds: bool


class TransactionVerification:
    """Sends verifications to the coordinators of transactions, on this broker or another.

    For clients with transaction version 2, a write adds the partition to the transaction. Older clients add
    partitions beforehand, so their partitions are only looked up. When partitions are added while the previous
    transaction is still ending (CONCURRENT_TRANSACTIONS), the broker waits a little, because the client would only
    retry.
    """

    def __init__(
        self,
        config: BrokerConfig,
        clock: Clock,
        transactions: TransactionDriver,
        leaders: Leaders,
        peers: Lazy[Peers],
    ) -> None:
        self._config = config
        self._clock = clock
        self._transactions = transactions
        self._leaders = leaders
        self._peers = peers

    def verify(self, client: Client, asked: Membership, answered: Answered, retried: Retried) -> None:
        """Verifies the partitions. `answered` may be called immediately, or when the coordinator's log is committed."""
        most_backoff_ms = self._config.get("add.partitions.to.txn.retry.backoff.max.ms")
        self._ask(client, asked, answered, retried, self._clock.now_ms() + most_backoff_ms)

    def _ask(self, client: Client, asked: Membership, answered: Answered, retried: Retried, until_ms: int) -> None:
        topics: dict[str, list[int]] = {}
        for topic, index in asked.partitions:
            topics.setdefault(topic, []).append(index)
        transaction = AddPartitionsToTxnTransaction(
            transactional_id=asked.transactional_id,
            producer_id=asked.producer_id,
            producer_epoch=asked.producer_epoch,
            verify_only=not asked.adds,
            topics=[AddPartitionsToTxnTopic(topic, indexes) for topic, indexes in topics.items()],
        )
        request = AddPartitionsToTxnRequest(transactions=[transaction])
        reply = partial(self._replied, client, asked, answered, retried, until_ms)
        transactions = self._transactions
        index = transactions.partition_for(asked.transactional_id)
        endpoint = self._leaders.other_leader(transactions.topic, index)
        if endpoint is None:
            transactions.submit(asked.transactional_id, request, ADDING_VERSION, client, reply)
        else:
            self._peers().send(
                endpoint, request, reply, timeout_ms=VERIFICATION_TIMEOUT_MS, purpose=VERIFICATION_PURPOSE
            )

    def _replied(
        self,
        client: Client,
        asked: Membership,
        answered: Answered,
        retried: Retried,
        until_ms: int,
        response: AddPartitionsToTxnResponse | None,
    ) -> None:
        """Handles the coordinator's response; None when a coordinator on another broker could not be reached."""
        error = ErrorCode.NETWORK_EXCEPTION if response is None else ErrorCode(response.error_code)
        errors: dict[TopicPartition, int] = dict.fromkeys(asked.partitions, int(error))
        if response is not None and not error:
            errors |= {
                (topic.name, one.partition_index): one.partition_error_code
                for transaction in response.results_by_transaction
                for topic in transaction.topic_results
                for one in topic.results_by_partition
            }
        now_ms = self._clock.now_ms()
        if asked.adds and ErrorCode.CONCURRENT_TRANSACTIONS in errors.values() and now_ms < until_ms:
            backoff_ms = self._config.get("add.partitions.to.txn.retry.backoff.ms")
            again = partial(self._ask_again, client, asked, answered, retried, until_ms)
            self._clock.call_at(now_ms + backoff_ms, again)
        else:
            answered(errors)

    def _ask_again(
        self, client: Client, asked: Membership, answered: Answered, retried: Retried, until_ms: int
    ) -> None:
        retried()
        self._ask(client, asked, answered, retried, until_ms)
