"""Batches that follow a rejected batch are rejected with the same error, until that batch comes again.

An idempotent producer has several requests in flight. When the first is rejected for a transient reason (this
broker is just becoming the leader, or the ISR is too small for a moment), the second must not be written: that
would leave a gap. Apache Kafka handles this in two ways, and librdkafka loses by either:

- For a producer that the partition does not know, Kafka accepts any sequence number as the first (KIP-360).
  librdkafka then counts the first batch as written too, since a later one was: it is acknowledged, and lost.
- For a producer with state in the partition, Kafka rejects the second batch with OUT_OF_ORDER_SEQUENCE_NUMBER.
  librdkafka then takes a new epoch for all its partitions, and batches of other partitions that were written but
  not acknowledged are written twice (docs/failover.md).

If the second batch gets the error of the first, a client sends both again, in order.

The rejected batches are kept by connection: all batches in flight to a partition's leader are on one connection,
and a client that has received a rejection begins with the rejected batch. It may begin with another leader. When
this broker is the leader again, the log has the batch, and nothing is missing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, NamedTuple

from ...protocol.errors import ErrorCode
from ...protocol.records.batch import HEADER_BYTES, MAGIC, MAGIC_AT, NO_SEQUENCE, PRODUCER_AT, unpack_producer
from .produce_authorization import TopicKey

if TYPE_CHECKING:
    from ...protocol.messages.produce import TopicProduceData, TopicProduceResponse
    from ...protocol.schema import Records
    from ..network.call import ClientConnection

#: A partition as the requests of a connection name it: by topic name or id, and index.
_Partition = tuple[TopicKey, int]

#: After a client's longest wait for a response (request.timeout.ms), no earlier request is in flight. A rejected batch may
#: have been given up by then.
REMEMBERED_S = 30.0
#: Limit of one connection; the oldest is forgotten for one more.
MAX_REMEMBERED = 10_000
#: Errors of a batch before it is written, which may be over a moment later. No list of clients
#: (`client/transient_errors.py`): the broker waits for none of them, it repeats the code for the batches that follow.
PASSING = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.CONCURRENT_TRANSACTIONS,
    }
)

#: Sequence numbers have 31 bits and wrap around: a number less than half of them ahead is a later one.
_SEQUENCES, _HALF = 1 << 31, 1 << 30


class Sequence(NamedTuple):
    """A batch's position in its producer's sequence."""

    producer_id: int
    epoch: int
    first: int


class _Rejected(NamedTuple):
    epoch: int
    first: int
    error: int
    until: float


def sequence_of(records: Records) -> Sequence | None:
    """None of what no idempotent producer sent."""
    if records is None or len(records) < HEADER_BYTES or records[MAGIC_AT] != MAGIC:
        return None
    sequence = Sequence(*unpack_producer(records, PRODUCER_AT))
    return sequence if sequence.producer_id >= 0 and sequence.first >= 0 else None


class RejectedBatches:
    """The rejected batches of one connection. `clock`: monotonic, in seconds."""

    __slots__ = ("_clock", "_rejected")

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._rejected: dict[tuple[_Partition, int], _Rejected] = {}

    @classmethod
    def of(cls, connection: ClientConnection) -> RejectedBatches:
        """Returns those of a connection, which keeps them; the layer below does not know what they are."""
        found: RejectedBatches | None = connection.rejected_batches
        if found is None:
            found = connection.rejected_batches = cls(asyncio.get_running_loop().time)
        return found

    def __bool__(self) -> bool:
        return bool(self._rejected)

    def error_for(self, partition: _Partition, sequence: Sequence, written: int) -> int:
        """Returns the error of a batch that follows a rejected one, or 0 if it may be written.
        `written`: the last sequence number in the log of this producer and epoch, -1 for none.
        """
        key = (partition, sequence.producer_id)
        rejected = self._rejected.get(key)
        if rejected is None:
            return 0
        ahead = (sequence.first - rejected.first) % _SEQUENCES
        is_written = written != NO_SEQUENCE and (written - rejected.first) % _SEQUENCES < _HALF
        if sequence.epoch != rejected.epoch or ahead == 0 or is_written or self._clock() >= rejected.until:
            del self._rejected[key]
            return 0
        return rejected.error if ahead < _HALF else 0

    def note(self, partition: _Partition, sequence: Sequence | None, error: int) -> None:
        """Notes that a batch was rejected and nothing of it was written."""
        if sequence is None or error not in PASSING:
            return
        key = (partition, sequence.producer_id)
        before = self._rejected.get(key)
        if before is not None and before.epoch == sequence.epoch:
            if (sequence.first - before.first) % _SEQUENCES < _HALF:
                return
            del self._rejected[key]
        elif len(self._rejected) >= MAX_REMEMBERED:
            del self._rejected[next(iter(self._rejected))]
        self._rejected[key] = _Rejected(sequence.epoch, sequence.first, error, self._clock() + REMEMBERED_S)

    def note_all(
        self, asked: Iterable[TopicProduceData], responses: Iterable[TopicProduceResponse], by_id: bool
    ) -> None:
        """Notes the rejected batches of a Produce from its response."""
        for topic, reported in zip(asked, responses, strict=True):
            name = topic.topic_id if by_id else topic.name
            for data, partition in zip(topic.partition_data, reported.partition_responses, strict=True):
                if partition.error_code:
                    self.note((name, partition.index), sequence_of(data.records), partition.error_code)
