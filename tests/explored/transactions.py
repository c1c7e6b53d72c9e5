"""A transaction of two partitions: a coordinator that moves, and a second producer that fences the first.

The coordinator is the product's `TransactionShard`, loaded from its log after each move; the leaders of the partitions use
the product's `Producers` and its check of markers. Requests, responses and markers are doubled and reordered, and a lost one
is sent again. A coordinator dies after it has handled a request: its records are committed or lost.
"""

from __future__ import annotations

import copy
from collections.abc import Hashable, Iterable
from types import SimpleNamespace
from typing import Any, NamedTuple

from odradek.coordinator.transaction_records import encode_record
from odradek.coordinator.transaction_requests import (
    MarkersWritten,
    SendMarkers,
    TransactionRequest,
    TransactionsConfig,
)
from odradek.coordinator.transaction_shard import TransactionShard
from odradek.metadata.image import TopicPartition
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from odradek.protocol.messages.end_txn import EndTxnRequest
from odradek.protocol.messages.init_producer_id import InitProducerIdRequest

from tests.coordinator.group_logs import LogRecord
from tests.coordinator.transaction_calls import Call, Marker, Question, Write, error_of
from tests.coordinator.transaction_leaders import Leader
from tests.coordinator.transaction_logs import load_transactions
from tests.explored.explorer import Choice, frozen

CONFIG = TransactionsConfig(transaction_version=0)
PLACES: tuple[TopicPartition, ...] = (("t", 0), ("t", 1))
PRODUCERS = ("first", "second")
#: Errors after which a request is sent again.
_AGAIN = {ErrorCode.CONCURRENT_TRANSACTIONS}


class Budget(NamedTuple):
    """How often each thing happens in one run. `commits`: whether the first producer commits, or aborts."""

    moves: int = 1
    doubled: int = 0
    #: Timers that fire: the transaction times out.
    timers: int = 0
    #: How often a refused request is sent again.
    again: int = 1
    fences: bool = True
    commits: bool = True
    #: The partitions of the transaction.
    places: int = 2


class Producer:
    """A producer of the one transactional id. Its steps: init, add, write to each partition, end."""

    def __init__(self, places: int) -> None:
        self.id, self.epoch = -1, -1
        self.step = "init"
        self.is_waiting = False
        self.number = 0
        self.to_write = list(PLACES[:places])


class TransactionWorld:
    def __init__(self, budget: Budget) -> None:
        self.budget, self.now = budget, 1_000_000
        self.log: list[LogRecord] = []
        self.next_producer_id = 100
        self.coordinator_epoch = 0
        self.shard = load_transactions(CONFIG, self.log, self.now)
        self.producers = {name: Producer(budget.places) for name in PRODUCERS}
        self.leaders = {place: Leader(place) for place in PLACES[: budget.places]}
        #: Requests: (producer, its number, step, id, epoch). Responses: (producer, number, response).
        self.requests: list[tuple[Any, ...]] = []
        self.responses: list[tuple[Any, ...]] = []
        #: Writes whose leader asks the coordinator, and those that it permitted.
        self.questions: list[Question] = []
        self.verified: list[Question] = []
        self.markers: list[Marker] = []
        self.written: list[MarkersWritten] = []
        #: The acknowledged end of the first transaction: "commit", "abort" or none.
        self.promised = ""

    def copy(self) -> TransactionWorld:
        world = object.__new__(type(self))
        vars(world).update(copy.deepcopy(vars(self), {id(CONFIG): CONFIG}))
        return world

    def canonical(self) -> Hashable:
        shared = frozenset({id(CONFIG)})
        state = self.shard.state
        leaders = tuple(
            (frozen(leader.producers, shared), frozen(leader.open), frozen(leader.ended))
            for leader in self.leaders.values()
        )
        waits = tuple(
            tuple(sorted((one.call.request.place, one.call.attempt) for one in some))
            for some in (self.questions, self.verified)
        )
        messages = (self.requests, self.responses, self.markers, self.written)
        return (
            self.budget, self.now, frozen(state.transactions, shared), self.shard.deadline(), self.next_producer_id,
            self.coordinator_epoch, frozen(self.producers), leaders, waits, self.promised,
            *(tuple(sorted(map(repr, some))) for some in messages),
        )  # fmt: skip

    # ---- choices

    def choices(self) -> Iterable[Choice]:
        budget = self.budget
        for name, producer in self.producers.items():
            is_allowed = name == "first" or (budget.fences and self.producers["first"].step != "init")
            if not producer.is_waiting and producer.step in ("init", "add", "end") and is_allowed:
                yield "send", name
            if producer.step == "write":
                for place in producer.to_write:
                    yield "write", name, place
        for request in dict.fromkeys(self.requests):
            yield "deliver", request
            if budget.moves:
                yield "deliver-and-die", request, True
                yield "deliver-and-die", request, False
            if budget.doubled:
                yield "double", request
        for index in range(len(self.responses)):
            yield "receive", index
        for index in range(len(self.questions)):
            yield "verify", index
        for index in range(len(self.verified)):
            yield "append", index
        for index in range(len(self.markers)):
            yield "mark", index, False
            if budget.doubled:
                yield "mark", index, True
        for index in range(len(self.written)):
            yield "know", index
            if budget.moves:
                yield "know-and-die", index, True
                yield "know-and-die", index, False
        if budget.timers and self.shard.deadline() is not None:
            yield ("expire",)

    def apply(self, choice: Choice) -> None:
        kind, *subjects = choice
        getattr(self, "_" + kind.replace("-", "_"))(*subjects)
        self._check()

    def _spend(self, name: str) -> None:
        self.budget = self.budget._replace(**{name: getattr(self.budget, name) - 1})

    # ---- producers

    def _send(self, name: str) -> None:
        producer = self.producers[name]
        producer.number += 1
        producer.is_waiting = True
        self.requests.append((name, producer.number, producer.step, producer.id, producer.epoch))

    def _receive(self, index: int) -> None:
        name, number, step, response = self.responses.pop(index)
        producer = self.producers[name]
        if number != producer.number or not producer.is_waiting:
            return
        producer.is_waiting = False
        error = error_of(response)
        if error in _AGAIN and self.budget.again:
            self._spend("again")
        elif error:
            producer.step = "failed"
        elif step == "init":
            producer.id, producer.epoch = response.producer_id, response.producer_epoch
            producer.step = "add" if name == "first" else "done"
        elif step == "add":
            producer.step = "write"
        else:
            producer.step = "done"
            self.promised = "commit" if self.budget.commits else "abort"

    def _write(self, name: str, place: TopicPartition) -> None:
        """The leader asks the coordinator whether its partition is in the transaction."""
        producer = self.producers[name]
        producer.to_write.remove(place)
        if not producer.to_write:
            producer.step = "end"
        write = Write(place, (name, 1), "x", (producer.id, producer.epoch), 0)
        client: Any = SimpleNamespace(bumps=False)
        question = self.leaders[place].question(Call(client, producer.number, write, 0), self.now)
        assert question is not None
        self.questions.append(question)

    def _verify(self, index: int) -> None:
        question = self.questions.pop(index)
        _, replies = self._handled(TransactionRequest(question, question.request, 4))
        if all(error_of(reply.response) == ErrorCode.NONE for reply in replies if reply.token is question):
            self.verified.append(question)

    def _append(self, index: int) -> None:
        question = self.verified.pop(index)
        leader = self.leaders[question.call.request.place]
        if leader.still_stands(question):
            leader.write(question.call, self.now)

    # ---- the coordinator

    def _handled(self, message: Any) -> tuple[list[Any], list[Any]]:
        self.shard.handle(message, self.now)
        output = self.shard.take()
        return output.records, output.replies

    def _request(self, request: tuple[Any, ...]) -> tuple[list[Any], list[Any]]:
        self.requests.remove(request)
        _, _, step, producer_id, epoch = request
        asked: Any
        if step == "init":
            asked, version = InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=60_000), 4
        elif step == "add":
            topics = [AddPartitionsToTxnTopic("t", [index for _, index in PLACES[: self.budget.places]])]
            asked = AddPartitionsToTxnRequest(
                v3_and_below_transactional_id="x",
                v3_and_below_producer_id=producer_id,
                v3_and_below_producer_epoch=epoch,
                v3_and_below_topics=topics,
            )
            version = 3
        else:
            asked = EndTxnRequest(
                transactional_id="x", producer_id=producer_id, producer_epoch=epoch, committed=self.budget.commits
            )
            version = 3
        message = TransactionRequest(request[:3], asked, version)
        if self.shard.needs_producer_id(asked, version):
            message.new_producer_id = self.next_producer_id
            self.next_producer_id += 1
        return self._handled(message)

    def _deliver(self, request: tuple[Any, ...]) -> None:
        self._commit(*self._request(request))

    def _deliver_and_die(self, request: tuple[Any, ...], is_committed: bool) -> None:
        records, _ = self._request(request)
        self._move(records if is_committed else [])

    def _commit(self, records: list[Any], replies: list[Any]) -> None:
        self.log += [encode_record(record) for record in records]
        self._release(replies)

    def _release(self, replies: list[Any]) -> None:
        for reply in replies:
            if isinstance(reply, SendMarkers):
                self.markers += [Marker(reply, place, self.coordinator_epoch) for place in reply.partitions]
                if not reply.partitions:
                    self.written.append(written(reply, frozenset()))
            elif not isinstance(reply.token, Question):
                self.responses.append((*reply.token, reply.response))

    def _move(self, records: list[Any]) -> None:
        """The next coordinator loads the log. Markers of the former one may still be on their way."""
        self._spend("moves")
        self.log += [encode_record(record) for record in records]
        self.coordinator_epoch += 1
        self.shard: TransactionShard = load_transactions(CONFIG, self.log, self.now)
        self.written.clear()
        self._release(self.shard.take().replies)
        in_flight = {one[:2] for one in (*self.requests, *self.responses)}
        for name, producer in self.producers.items():
            if (name, producer.number) not in in_flight:
                producer.is_waiting = False

    def _double(self, request: tuple[Any, ...]) -> None:
        self._spend("doubled")
        self.requests.append(request)

    def _mark(self, index: int, is_doubled: bool) -> None:
        marker = self.markers[index]
        if is_doubled:
            self._spend("doubled")
        else:
            del self.markers[index]
        if marker.coordinator_epoch == self.coordinator_epoch and not self.shard.awaits(marker.markers, marker.place):
            return  # the sender drops it
        is_written = self.leaders[marker.place].end(marker) is ErrorCode.NONE
        if is_written and marker.coordinator_epoch == self.coordinator_epoch:
            self.written.append(written(marker.markers, frozenset({marker.place})))

    def _know(self, index: int) -> None:
        self._commit(*self._handled(self.written.pop(index)))

    def _know_and_die(self, index: int, is_committed: bool) -> None:
        records, _ = self._handled(self.written.pop(index))
        self._move(records if is_committed else [])

    def _expire(self) -> None:
        self._spend("timers")
        deadline = self.shard.deadline()
        assert deadline is not None
        self.now = max(self.now, deadline)
        self.shard.expire(self.now)
        output = self.shard.take()
        self._commit(output.records, output.replies)

    # ---- invariants

    def _check(self) -> None:
        outcomes = {outcome for leader in self.leaders.values() for outcome in leader.ended.get(("first", 1), ())}
        assert len(outcomes) <= 1, "one partition has a commit and the other an abort"
        if self.promised:
            assert outcomes <= {self.promised == "commit"}, (
                f"a transaction whose {self.promised} was acknowledged is not"
            )
        transaction = self.shard.state.transactions.get("x")
        if transaction is not None and transaction.state.name.startswith(("COMPLETE", "EMPTY")):
            for place, leader in self.leaders.items():
                assert not leader.open.get(transaction.producer_id), (
                    f"the transaction is complete, and {place} has records without a marker"
                )


def written(markers: SendMarkers, places: frozenset[TopicPartition]) -> MarkersWritten:
    return MarkersWritten(markers.transactional_id, markers.producer_id, markers.producer_epoch, places)
