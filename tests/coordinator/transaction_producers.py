"""The producers of the simulation of transactions: what they ask for, one thing after another, and what they make of it.

Some speak transaction version 2, others the older flow. They write, commit offsets, end their transactions, sleep for a
while, and come back after an error by the id and epoch that they have (KIP-360), or give up.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Generator
from typing import Any

from odradek.coordinator.transactions.transaction import Place
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from odradek.protocol.messages.end_txn import EndTxnRequest
from odradek.protocol.messages.init_producer_id import InitProducerIdRequest

from tests.coordinator.transaction_calls import OFFSETS, Producer, Tag, Write, error_of

TIMEOUT_MS = 400
PLACES: list[Place] = [("t", 0), ("t", 1), OFFSETS]
GROUPS = ("g0", "g1")
PARTITIONS = 2
INIT_VERSION = 5

#: What a producer is told that has lost its id.
FENCED = frozenset({ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_PRODUCER_ID_MAPPING})
#: What is asked for again.
_RETRIABLE = frozenset({ErrorCode.CONCURRENT_TRANSACTIONS})
#: A request and its version go out; the response comes back.
Life = Generator[tuple[Any, int], Any, None]
Asking = Generator[tuple[Any, int], Any, Any]


class Client:
    """One producer; another with the same `transactional_id` may take its place while it still lives."""

    def __init__(self, name: str, transactional_id: str, bumps: bool, chance: random.Random) -> None:
        self.name, self.transactional_id, self.bumps = name, transactional_id, bumps
        self.chance = chance
        self.attempt = 0
        self.is_done = False
        #: Whether what it asks for now has been on its way.
        self.has_asked = False
        #: When it goes on, having had enough of a rest.
        self.sleeps_until = 0
        self.producer: Producer = (-1, -1)
        #: What it was told of the end of its transactions.
        self.told: dict[Tag, bool] = {}
        self._sequences: Counter[Place] = Counter()
        self._life = self._live()
        self.asked: tuple[Any, int] | None = next(self._life)

    def answer(self, response: Any) -> None:
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
        """With the id and epoch that it has; without, the first time."""
        request = InitProducerIdRequest(self.transactional_id, TIMEOUT_MS, *self.producer)
        response = yield request, INIT_VERSION
        self._goes_on_as((-1, -1) if response.error_code else (response.producer_id, response.producer_epoch))
        return response.error_code

    def _goes_on_as(self, producer: Producer) -> None:
        if producer != self.producer:
            self._sequences.clear()
        self.producer = producer

    def _transaction(self, tag: Tag) -> Asking:
        committed = self.chance.random() < 0.65
        places = self.chance.sample(PLACES, self.chance.randrange(1, 4))
        if self.bumps and not committed and self.chance.random() < 0.2:
            places = []  # which may be aborted, though there is nothing to abort
        for place in places:
            error = yield from self._write(self._new_write(tag, place))
            if error in FENCED:
                yield from self._recover(tag)
                return
            if error:
                committed = False
                break
        if self.chance.random() < 0.12:
            yield from self._recover(tag)
        else:
            yield from self._end(tag, committed)

    def _recover(self, tag: Tag | None) -> Asking:
        """What it has not asked to end, `tag`, is aborted if it is given an epoch to go on with."""
        if self.chance.random() < 0.3:
            self._goes_on_as((-1, -1))
        elif not (yield from self._init()) and tag is not None:
            self.told[tag] = False

    def _end(self, tag: Tag, committed: bool) -> Asking:
        request = EndTxnRequest(self.transactional_id, *self.producer, committed)
        answer = yield request, 5 if self.bumps else 4
        if answer.error_code == ErrorCode.INVALID_TXN_STATE and committed and self.bumps:
            # Its time was up before it came to commit; it may still agree with that.
            yield from self._end(tag, False)
        elif answer.error_code:
            # How it has ended is not known, if others have come since.
            yield from self._recover(None)
        else:
            self.told[tag] = committed
            if self.bumps:
                self._goes_on_as((answer.producer_id, answer.producer_epoch))

    def _new_write(self, tag: Tag, place: Place) -> Write:
        write = Write(place, tag, self.transactional_id, self.producer, self._sequences[place])
        if place != OFFSETS:
            return write
        group, partition = self.chance.choice(GROUPS), self.chance.randrange(PARTITIONS)
        return write._replace(group=group, partition=partition, offset=self.chance.getrandbits(40))

    def _write(self, write: Write) -> Asking:
        if not self.bumps:
            # AddPartitionsToTxn; of AddOffsetsToTxn, too, the coordinator is asked in this form.
            topics = [AddPartitionsToTxnTopic(write.place[0], [write.place[1]])]
            answer = yield AddPartitionsToTxnRequest([], write.transactional_id, *write.producer, topics), 3
            if error_of(answer):
                return error_of(answer)
        error = yield write, 5 if self.bumps else 3
        if not error:
            self._sequences[write.place] += 1
        return error
