"""The messages of the transaction simulation: producers' requests, leaders' verifications, coordinators' markers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from odradek.coordinator.transaction_requests import SendMarkers
from odradek.metadata.image import TopicPartition
from odradek.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from odradek.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

if TYPE_CHECKING:
    from odradek.storage.log.verifications import Verification

    from tests.coordinator.transaction_producers import Client

#: A transaction: its producer's name and number.
Tag = tuple[str, int]
#: A producer id and its epoch. Later ones are greater, since ids are assigned in ascending order.
Producer = tuple[int, int]

OFFSETS: TopicPartition = ("__consumer_offsets", 0)


class Write(NamedTuple):
    """A batch for a partition; for `__consumer_offsets` the commit of an offset for `group` and `partition`."""

    place: TopicPartition
    tag: Tag
    transactional_id: str
    producer: Producer
    sequence: int
    group: str = ""
    partition: int = 0
    offset: int = -1

    def as_commit(self) -> TxnOffsetCommitRequest:
        committed = TxnOffsetCommitRequestPartition(partition_index=self.partition, committed_offset=self.offset)
        return TxnOffsetCommitRequest(
            transactional_id=self.transactional_id,
            group_id=self.group,
            producer_id=self.producer[0],
            producer_epoch=self.producer[1],
            topics=[TxnOffsetCommitRequestTopic(name="t", partitions=[committed])],
        )


@dataclass(frozen=True, eq=False)
class Call:
    """A request in flight. `attempt` identifies it: the client ignores responses to earlier attempts."""

    client: Client
    attempt: int
    request: Any
    version: int


@dataclass(frozen=True, eq=False)
class Question:
    """A leader's verification that its partition is in the transaction of `call` (KIP-890)."""

    call: Call
    verification: Verification

    @property
    def request(self) -> AddPartitionsToTxnRequest:
        write: Write = self.call.request
        adds = self.call.client.bumps
        topics = [AddPartitionsToTxnTopic(write.place[0], [write.place[1]])]
        asked = AddPartitionsToTxnTransaction(write.transactional_id, *write.producer, not adds, topics)
        return AddPartitionsToTxnRequest(transactions=[asked])


class Marker(NamedTuple):
    markers: SendMarkers
    place: TopicPartition
    coordinator_epoch: int


def error_of(response: Any) -> int:
    if isinstance(response, int):
        return response
    for one in getattr(response, "results_by_transaction", ()):
        return int(one.topic_results[0].results_by_partition[0].partition_error_code)
    for topic in getattr(response, "results_by_topic_v3_and_below", ()):
        return int(topic.results_by_partition[0].partition_error_code)
    return int(response.error_code)
