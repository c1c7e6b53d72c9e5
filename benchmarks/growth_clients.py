"""Many clients in one thread, for the curves of growth: members of a share group, and transactional producers.

Each client has one request in flight, as clients of a slow application have. They cost little themselves, so a hundred of
them leave the machine to the broker.
"""

from __future__ import annotations

import selectors
import time
import uuid
from collections.abc import Sequence
from types import TracebackType
from typing import Any

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.acknowledgement_batches import AcknowledgementBatch
from odradek.protocol.messages.end_txn import EndTxnRequest
from odradek.protocol.messages.find_coordinator import FindCoordinatorRequest
from odradek.protocol.messages.init_producer_id import InitProducerIdRequest
from odradek.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from odradek.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from odradek.protocol.messages.share_fetch import ShareFetchPartition, ShareFetchRequest, ShareFetchTopic
from odradek.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from odradek.protocol.records.record import Record, encode_batch

from compat_tests.recipes import eventually
from compat_tests.wire import WireClient

_PRODUCE, _METADATA, _FIND, _INIT, _END = 12, 12, 6, 4, 5
_HEARTBEAT, _SHARE_FETCH = 1, 2
_GROUP_KEY, _TRANSACTION_KEY = 0, 1
_ACCEPT = 1
#: Long enough for a client that waits for its next record.
_WAIT_MS = 30_000
_VALUE = bytes(100)


class Requesting:
    """A client with one request in flight."""

    def __init__(self, bootstrap: str) -> None:
        self.client = WireClient(bootstrap)
        self._sent: Any = None

    def send(self, request: Any, version: int) -> None:
        self._sent = (request, version, self.client.send(request, version))

    def receive(self) -> Any:
        return self.client.receive(*self._sent)

    def find_coordinator(self, name: str, key_type: int) -> None:
        request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=[name])
        eventually(lambda: not self.client.call(request, _FIND).coordinators[0].error_code, what="a coordinator")


class Clients:
    """Clients that one thread serves as their responses arrive."""

    def __init__(self, members: Sequence[Requesting]) -> None:
        self.members = members
        self._selector = selectors.DefaultSelector()
        for one in members:
            self._selector.register(one.client, selectors.EVENT_READ, one)

    def ready(self) -> list[Any]:
        found = [key.data for key, _ in self._selector.select(_WAIT_MS / 1000)]
        assert found, "no response came"
        return found

    def __enter__(self) -> Clients:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._selector.close()
        for one in self.members:
            one.client.close()


# ---- share groups


class ShareMember(Requesting):
    """A member that acquires one record at a time, and accepts it with its next fetch."""

    def __init__(self, bootstrap: str, topic: str, topic_id: bytes) -> None:
        super().__init__(bootstrap)
        self._group, self._topic, self._topic_id = topic, topic, topic_id
        self._id = str(uuid.uuid4())
        self._member_epoch = self._session_epoch = 0
        self._acknowledged: list[AcknowledgementBatch] = []
        self.find_coordinator(topic, _GROUP_KEY)
        eventually(self._is_assigned, what="an assignment")

    def _is_assigned(self) -> bool:
        request = ShareGroupHeartbeatRequest(
            group_id=self._group,
            member_id=self._id,
            member_epoch=self._member_epoch,
            subscribed_topic_names=None if self._member_epoch else [self._topic],
        )
        response = self.client.call(request, _HEARTBEAT)
        self._member_epoch = max(self._member_epoch, response.member_epoch)
        return response.assignment is not None and bool(response.assignment.topic_partitions)

    def fetch(self, wait_ms: int = _WAIT_MS) -> None:
        partition = ShareFetchPartition(partition_index=0, acknowledgement_batches=self._acknowledged)
        request = ShareFetchRequest(
            group_id=self._group,
            member_id=self._id,
            share_session_epoch=self._session_epoch,
            max_wait_ms=wait_ms,
            min_bytes=1,
            max_records=1,
            batch_size=1,
            topics=[ShareFetchTopic(topic_id=self._topic_id, partitions=[partition])],
        )
        self.send(request, _SHARE_FETCH)

    def acquired(self) -> int:
        """Receives the response. Returns its number of records."""
        response = self.receive()
        assert not response.error_code, response
        self._session_epoch += 1
        parts = [part for topic in response.responses for part in topic.partitions]
        assert not any(part.error_code or part.acknowledge_error_code for part in parts), parts
        found = [one for part in parts for one in part.acquired_records]
        self._acknowledged = [AcknowledgementBatch(one.first_offset, one.last_offset, [_ACCEPT]) for one in found]
        return sum(one.last_offset - one.first_offset + 1 for one in found)


class ShareGroupLoad:
    """One record at a time, which any of the waiting members may take, whatever their number."""

    def __init__(self, bootstrap: str, topic: str, members: int) -> None:
        self._producer = WireClient(bootstrap)
        topic_id = (
            self._producer.call(MetadataRequest([MetadataRequestTopic(name=topic)]), _METADATA).topics[0].topic_id
        )
        made = [ShareMember(bootstrap, topic, topic_id) for _ in range(members)]
        for one in made:
            one.fetch(wait_ms=0)  # a session; the first loads the share partition
            one.acquired()
            one.fetch()
        self.clients = Clients(made)
        batch = encode_batch([Record(0, time.time_ns() // 10**6, None, _VALUE)])
        data = TopicProduceData(topic, partition_data=[PartitionProduceData(0, batch)])
        self._request = ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[data])

    def run(self, records: int) -> None:
        for _ in range(records):
            self._producer.call(self._request, _PRODUCE)
            acquired = 0
            while not acquired:
                for one in self.clients.ready():
                    acquired += one.acquired()
                    one.fetch()

    def close(self) -> None:
        self._producer.close()
        self.clients.__exit__(None, None, None)


# ---- transactions


class TransactionalProducer(Requesting):
    """A producer whose transactions have one record each, in the form of KIP-890."""

    def __init__(self, bootstrap: str, topic: str, partition: int) -> None:
        super().__init__(bootstrap)
        self._topic, self._partition = topic, partition
        self._id = f"bench-{uuid.uuid4()}"
        self.find_coordinator(self._id, _TRANSACTION_KEY)
        self._producer_id = self._epoch = -1
        eventually(self._is_initialized, what="a producer id")
        self._is_ending = False
        self.retries = 0

    def _is_initialized(self) -> bool:
        response = self.client.call(InitProducerIdRequest(self._id, 60_000), _INIT)
        self._producer_id, self._epoch = response.producer_id, response.producer_epoch
        return not response.error_code

    def begin(self) -> None:
        record = Record(0, time.time_ns() // 10**6, None, _VALUE)
        batch = encode_batch(
            [record], producer_id=self._producer_id, producer_epoch=self._epoch, base_sequence=0, transactional=True
        )
        data = TopicProduceData(self._topic, partition_data=[PartitionProduceData(self._partition, batch)])
        self._is_ending = False
        self.send(ProduceRequest(self._id, -1, 30_000, [data]), _PRODUCE)

    def advance(self) -> int:
        """Receives a response and sends the next request of the transaction. Returns the number of ended transactions."""
        response = self.receive()
        if self._is_ending:
            assert not response.error_code, response
            self._producer_id, self._epoch = response.producer_id, response.producer_epoch
            return 1
        error = response.responses[0].partition_responses[0].error_code
        if error == ErrorCode.CONCURRENT_TRANSACTIONS:  # the previous transaction is not complete yet
            self.retries += 1
            self.begin()
            return 0
        assert not error, response
        self._is_ending = True
        self.send(EndTxnRequest(self._id, self._producer_id, self._epoch, True), _END)
        return 0


class TransactionLoad:
    """Producers that each run one transaction after the other."""

    def __init__(self, bootstrap: str, topic: str, partitions: int, producers: int) -> None:
        made = [TransactionalProducer(bootstrap, topic, number % partitions) for number in range(producers)]
        self.clients = Clients(made)

    def run(self, transactions: int) -> None:
        """Runs at least so many transactions; none is open afterwards."""
        for one in self.clients.members:
            assert isinstance(one, TransactionalProducer)
            one.begin()
        left, is_open = transactions, len(self.clients.members)
        while is_open:
            for one in self.clients.ready():
                ended = one.advance()
                left -= ended
                if ended and left >= is_open:
                    one.begin()
                else:
                    is_open -= ended

    def close(self) -> None:
        self.clients.__exit__(None, None, None)
