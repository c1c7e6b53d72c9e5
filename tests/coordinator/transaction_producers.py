"""The producers of the transaction simulation: a sequence of requests, and the handling of their responses.

Some use transaction version 2, others the older flow. They write, commit offsets, end their transactions, and sleep for
a while. After an error they recover with their producer id and epoch (KIP-360), or give up.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Generator
from typing import Any

from odradek.metadata.image import TopicPartition
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from odradek.protocol.messages.end_txn import EndTxnRequest
from odradek.protocol.messages.init_producer_id import InitProducerIdRequest

from tests.coordinator.transaction_calls import OFFSETS, Producer, Tag, Write, error_of

TIMEOUT_MS = 400
PLACES: list[TopicPartition] = [("t", 0), ("t", 1), OFFSETS]
GROUPS = ("g0", "g1")
PARTITIONS = 2
INIT_VERSION = 5

#: The errors of a fenced producer.
FENCED = frozenset({ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_PRODUCER_ID_MAPPING})
#: The errors after which a producer retries.
_RETRIABLE = frozenset({ErrorCode.CONCURRENT_TRANSACTIONS})
#: Yields a request and its version, and receives the response.
Life = Generator[tuple[Any, int], Any, None]
Asking = Generator[tuple[Any, int], Any, Any]


class Client:
    """A producer. Another producer with the same `transactional_id` may replace it while it is still alive."""

    def __init__(self, name: str, transactional_id: str, bumps: bool, rng: random.Random) -> None:
        self.name, self.transactional_id, self.bumps = name, transactional_id, bumps
        self.rng = rng
        self.attempt = 0
        self.is_done = False
        #: The current request has been sent.
        self.has_asked = False
        #: The time when it wakes up.
        self.sleeps_until = 0
        self.producer: Producer = (-1, -1)
        #: The reported ends of its transactions.
        self.reported: dict[Tag, bool] = {}
        self._sequences: Counter[TopicPartition] = Counter()
        self._life = self._live()
        self.asked: tuple[Any, int] | None = next(self._life)

    def respond(self, response: Any) -> None:
        self.attempt += 1
        self.has_asked = False
        if error_of(response) in _RETRIABLE:
            return
        try:
            self.asked = self._life.send(response)
        except StopIteration:
            self.is_done, self.asked = True, None

    def _live(self) -> Life:
        yield from self._init()
        for number in range(1_000):
            if self.producer == (-1, -1):
                return
            yield from self._transaction((self.name, number))

    def _init(self) -> Asking:
        """Sends InitProducerId with its producer id and epoch; without them the first time."""
        request = InitProducerIdRequest(self.transactional_id, TIMEOUT_MS, *self.producer)
        response = yield request, INIT_VERSION
        self._goes_on_as((-1, -1) if response.error_code else (response.producer_id, response.producer_epoch))
        return response.error_code

    def _goes_on_as(self, producer: Producer) -> None:
        if producer != self.producer:
            self._sequences.clear()
        self.producer = producer

    def _transaction(self, tag: Tag) -> Asking:
        committed = self.rng.random() < 0.65
        places = self.rng.sample(PLACES, self.rng.randrange(1, 4))
        if self.bumps and not committed and self.rng.random() < 0.2:
            places = []  # an abort without partitions is valid
        for place in places:
            error = yield from self._write(self._new_write(tag, place))
            if error in FENCED:
                yield from self._recover(tag)
                return
            if error:
                committed = False
                break
        if self.rng.random() < 0.12:
            yield from self._recover(tag)
        else:
            yield from self._end(tag, committed)

    def _recover(self, tag: Tag | None) -> Asking:
        """Recovers with InitProducerId. If that succeeds, the open transaction `tag` is aborted."""
        if self.rng.random() < 0.3:
            self._goes_on_as((-1, -1))
        elif not (yield from self._init()) and tag is not None:
            self.reported[tag] = False

    def _end(self, tag: Tag, committed: bool) -> Asking:
        request = EndTxnRequest(self.transactional_id, *self.producer, committed)
        response = yield request, 5 if self.bumps else 4
        if response.error_code == ErrorCode.INVALID_TXN_STATE and committed and self.bumps:
            # The transaction timed out before the commit; the producer may still request the abort.
            yield from self._end(tag, False)
        elif response.error_code:
            # The end is unknown if another producer has replaced this producer.
            yield from self._recover(None)
        else:
            self.reported[tag] = committed
            if self.bumps:
                self._goes_on_as((response.producer_id, response.producer_epoch))

    def _new_write(self, tag: Tag, place: TopicPartition) -> Write:
        write = Write(place, tag, self.transactional_id, self.producer, self._sequences[place])
        if place != OFFSETS:
            return write
        group, partition = self.rng.choice(GROUPS), self.rng.randrange(PARTITIONS)
        return write._replace(group=group, partition=partition, offset=self.rng.getrandbits(40))

    def _write(self, write: Write) -> Asking:
        if not self.bumps:
            # AddPartitionsToTxn. The coordinator also gets AddOffsetsToTxn in this form.
            topics = [AddPartitionsToTxnTopic(write.place[0], [write.place[1]])]
            response = yield AddPartitionsToTxnRequest([], write.transactional_id, *write.producer, topics), 3
            if error_of(response):
                return error_of(response)
        error = yield write, 5 if self.bumps else 3
        if not error:
            self._sequences[write.place] += 1
        return error
