"""A transactional id: whose it is, at which epoch, and where its transaction stands.

```
state            means                                                   goes to, by
Empty            nobody has written anything yet                         Ongoing: partitions are added
                                                                         PrepareAbort: ended with nothing in it (TV2)
Ongoing          partitions are in the transaction                       PrepareCommit, PrepareAbort: EndTxn
                                                                         PrepareAbort: its time is up, or another
                                                                         producer has come (PrepareEpochFence inside)
PrepareCommit    decided; its markers are being written                  CompleteCommit: all of them are
PrepareAbort     decided; its markers are being written                  CompleteAbort: all of them are
CompleteCommit   everything is written; the next one may begin           Ongoing, Empty, PrepareAbort: as above
CompleteAbort    everything is written; the next one may begin           Ongoing, Empty, PrepareAbort: as above
Dead             its tombstone is written                                nothing
```

InitProducerId leads from Empty and the two Complete states to Empty, with the next epoch, so that whoever had the one
before is fenced (KIP-98). Of an Ongoing transaction it first makes an aborted one, one epoch on, and is told to come again
(CONCURRENT_TRANSACTIONS). PrepareEpochFence is the moment between those two; it is never written and exists here for its
name. With transaction version 2 (KIP-890) every end has an epoch of its own as well, so that what a producer sent for one
transaction never lands in the next; when the epochs run out, the end gives the next producer id (`next_producer_id` until
the markers, which are still in the old name, are written).
"""

from __future__ import annotations

from enum import IntEnum

from ...protocol.internal.transaction_state import PartitionsSchema, TransactionLogValue

NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_TIMESTAMP = -1
MAX_EPOCH = 32_767
#: From this transaction version on, ends bump the epoch and partitions are added by writing to them.
EPOCH_BUMP_VERSION = 2

#: Topic and partition.
Place = tuple[str, int]


class State(IntEnum):
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
        """As tools show it and filters name it: CompleteCommit."""
        return self.name.title().replace("_", "")


_ENDED = frozenset({State.EMPTY, State.COMPLETE_COMMIT, State.COMPLETE_ABORT})

#: Each state, and those from which it is reached; another way is a bug. None is an id that was not known.
REACHED_FROM: dict[int, frozenset[State | None]] = {
    State.EMPTY: _ENDED | {None},
    State.ONGOING: _ENDED | {State.ONGOING},
    State.PREPARE_COMMIT: frozenset({State.ONGOING}),
    State.PREPARE_ABORT: _ENDED | {State.ONGOING},
    State.COMPLETE_COMMIT: frozenset({State.PREPARE_COMMIT}),
    State.COMPLETE_ABORT: frozenset({State.PREPARE_ABORT}),
    State.DEAD: _ENDED,
}

#: Nothing is going on: a transaction may begin, and the id may be forgotten.
RESTING = _ENDED
#: Decided and not through: whoever asks for something else has to wait.
PREPARED = frozenset({State.PREPARE_COMMIT, State.PREPARE_ABORT})


class Transaction:
    """`durable` is what the log says, and nothing else of it survives."""

    __slots__ = ("_durable", "last_producer_epoch", "places", "state", "transactional_id", "unwritten")

    def __init__(self, transactional_id: str, durable: TransactionLogValue) -> None:
        self.transactional_id = transactional_id
        self._durable = durable
        #: The epoch before this one, when it was the same producer's: it may repeat what it asked (KIP-360).
        self.last_producer_epoch = NO_PRODUCER_EPOCH
        #: Partitions whose marker is not known to be written.
        self.unwritten: set[Place] = set()
        self.places: set[Place] = set()
        self.state = State.EMPTY
        self.durable = durable

    @property
    def durable(self) -> TransactionLogValue:
        return self._durable

    @durable.setter
    def durable(self, value: TransactionLogValue) -> None:
        before, self._durable = self._durable, value
        status = value.transaction_status
        self.state = status if type(status) is State else State(status)
        topics = value.transaction_partitions
        if topics is not before.transaction_partitions or before is value:
            self.places = {(topic.topic, index) for topic in topics or () for index in topic.partition_ids}

    @property
    def producer_id(self) -> int:
        return self._durable.producer_id

    @property
    def producer_epoch(self) -> int:
        return self._durable.producer_epoch

    @property
    def is_epoch_exhausted(self) -> bool:
        return is_exhausted(self._durable.producer_epoch)

    def changed(self, state: State, now: int, places: set[Place] | None = None) -> TransactionLogValue:
        """What the log is to say next; the caller changes what else is different. `places` None: as they are."""
        old = self._durable
        topics = None
        if state is not State.EMPTY:
            # A list is never changed once it is in a value, so the next one may have the same.
            topics = old.transaction_partitions if places is None else by_topic(places)
            topics = [] if topics is None else topics
        return TransactionLogValue(
            producer_id=old.producer_id,
            # As Kafka: the id that it had when this was decided, which is the same one unless the epochs ran out.
            previous_producer_id=old.producer_id,
            next_producer_id=old.next_producer_id,
            producer_epoch=old.producer_epoch,
            transaction_timeout_ms=old.transaction_timeout_ms,
            transaction_status=state,
            transaction_partitions=topics,
            transaction_last_update_timestamp_ms=now,
            transaction_start_timestamp_ms=old.transaction_start_timestamp_ms,
            client_transaction_version=old.client_transaction_version,
        )


def is_exhausted(epoch: int) -> bool:
    """The last epoch is kept for fencing."""
    return epoch >= MAX_EPOCH - 1


def by_topic(places: set[Place]) -> list[PartitionsSchema]:
    topics: dict[str, list[int]] = {}
    for topic, index in sorted(places):
        topics.setdefault(topic, []).append(index)
    return [PartitionsSchema(topic=topic, partition_ids=indexes) for topic, indexes in topics.items()]
