"""The state machine of a transactional id: its producer id and epoch, and the state of its transaction.

```
state            meaning                                                 next state: event
Empty            no partitions were added yet                            Ongoing: partitions are added
                                                                         PrepareAbort: abort without partitions (TV2)
Ongoing          partitions are in the transaction                       PrepareCommit, PrepareAbort: EndTxn
                                                                         PrepareAbort: timeout, or InitProducerId by a
                                                                         new producer (via PrepareEpochFence)
PrepareCommit    decided; its markers are being written                  CompleteCommit: all markers are written
PrepareAbort     decided; its markers are being written                  CompleteAbort: all markers are written
CompleteCommit   all markers are written; the next one can begin         Ongoing, Empty, PrepareAbort: as above
CompleteAbort    all markers are written; the next one can begin         Ongoing, Empty, PrepareAbort: as above
Dead             its tombstone is written                                none
```

InitProducerId leads from Empty and the two Complete states to Empty, with the next epoch, so that the previous
producer is fenced (KIP-98). If the transaction is Ongoing, InitProducerId first aborts it with the next epoch, and
the client must retry (CONCURRENT_TRANSACTIONS). PrepareEpochFence is the moment in between; it is never written and
exists here only for its name. With transaction version 2 (KIP-890) every end takes a new epoch as well, so that
records sent for one transaction never become part of the next. When the epochs run out, the end takes the next
producer id. It is in `next_producer_id` until the markers are written, which still have the old producer id.
"""

from __future__ import annotations

from enum import IntEnum

from ..metadata.image import TopicPartition
from ..protocol.internal.transaction_state import PartitionsSchema, TransactionLogValue
from ..protocol.records.batch import NO_PRODUCER_EPOCH

MAX_EPOCH = 32_767


#: Topic and partition.
class TransactionStatus(IntEnum):
    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def shown(self) -> str:
        """Returns the name in tools and filters: CompleteCommit."""
        return self.name.title().replace("_", "")


_ENDED = frozenset({TransactionStatus.EMPTY, TransactionStatus.COMPLETE_COMMIT, TransactionStatus.COMPLETE_ABORT})


#: State -> its valid previous states. Any other transition is a bug. None stands for an unknown id.
VALID_PREVIOUS_STATES: dict[int, frozenset[TransactionStatus | None]] = {
    TransactionStatus.EMPTY: _ENDED | {None},
    TransactionStatus.ONGOING: _ENDED | {TransactionStatus.ONGOING},
    TransactionStatus.PREPARE_COMMIT: frozenset({TransactionStatus.ONGOING}),
    TransactionStatus.PREPARE_ABORT: _ENDED | {TransactionStatus.ONGOING},
    TransactionStatus.COMPLETE_COMMIT: frozenset({TransactionStatus.PREPARE_COMMIT}),
    TransactionStatus.COMPLETE_ABORT: frozenset({TransactionStatus.PREPARE_ABORT}),
    TransactionStatus.DEAD: _ENDED,
}


#: States without a transaction: one may begin, and the id may be removed.
NOT_IN_TRANSACTION = _ENDED


#: States with a decided but incomplete end: other requests must wait.
PREPARED = frozenset({TransactionStatus.PREPARE_COMMIT, TransactionStatus.PREPARE_ABORT})


class Transaction:
    """A transactional id and its transaction. `durable`: the state in the log; only this part is durable."""

    __slots__ = ("_durable", "last_producer_epoch", "partitions", "state", "transactional_id", "unwritten")

    def __init__(self, transactional_id: str, durable: TransactionLogValue) -> None:
        self.transactional_id = transactional_id
        self._durable = durable
        #: The previous epoch if the same producer had it: the producer may retry its request (KIP-360).
        self.last_producer_epoch = NO_PRODUCER_EPOCH
        #: Partitions without a confirmed marker.
        self.unwritten: set[TopicPartition] = set()
        self.partitions: set[TopicPartition] = set()
        self.state = TransactionStatus.EMPTY
        self.durable = durable

    @property
    def durable(self) -> TransactionLogValue:
        return self._durable

    @durable.setter
    def durable(self, value: TransactionLogValue) -> None:
        before, self._durable = self._durable, value
        status = value.transaction_status
        self.state = status if type(status) is TransactionStatus else TransactionStatus(status)
        topics = value.transaction_partitions
        if topics is not before.transaction_partitions or before is value:
            self.partitions = {(topic.topic, index) for topic in topics or () for index in topic.partition_ids}

    @property
    def producer_id(self) -> int:
        return self._durable.producer_id

    @property
    def producer_epoch(self) -> int:
        return self._durable.producer_epoch

    @property
    def is_epoch_exhausted(self) -> bool:
        return is_exhausted(self._durable.producer_epoch)

    def is_followed_by(self, value: TransactionLogValue) -> bool:
        """Returns whether the producer of the next value is this one, with no lower epoch, or begins with epoch 0."""
        is_same = value.producer_id == self.producer_id
        return value.producer_epoch == 0 or (is_same and value.producer_epoch >= self.producer_epoch)

    def changed(
        self, state: TransactionStatus, now_ms: int, partitions: set[TopicPartition] | None = None
    ) -> TransactionLogValue:
        """Returns the next value for the log; the caller changes further fields. `partitions` None: unchanged."""
        old = self._durable
        topics = None
        if state is not TransactionStatus.EMPTY:
            # A list in a value is never changed, so the next value can share it.
            topics = old.transaction_partitions if partitions is None else by_topic(partitions)
            topics = [] if topics is None else topics
        return TransactionLogValue(
            producer_id=old.producer_id,
            # As in Kafka: the producer id at the decision, which differs only if the epochs ran out.
            previous_producer_id=old.producer_id,
            next_producer_id=old.next_producer_id,
            producer_epoch=old.producer_epoch,
            transaction_timeout_ms=old.transaction_timeout_ms,
            transaction_status=state,
            transaction_partitions=topics,
            transaction_last_update_timestamp_ms=now_ms,
            transaction_start_timestamp_ms=old.transaction_start_timestamp_ms,
            client_transaction_version=old.client_transaction_version,
        )


def is_exhausted(epoch: int) -> bool:
    """Returns whether a producer can get no further epoch. The last epoch is reserved for fencing."""
    return epoch >= MAX_EPOCH - 1


def by_topic(partitions: set[TopicPartition]) -> list[PartitionsSchema]:
    if len(partitions) == 1:
        ((topic, index),) = partitions
        return [PartitionsSchema(topic, [index])]
    topics: dict[str, list[int]] = {}
    for topic, index in sorted(partitions):
        topics.setdefault(topic, []).append(index)
    return [PartitionsSchema(topic=topic, partition_ids=indexes) for topic, indexes in topics.items()]
