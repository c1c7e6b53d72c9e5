"""Seeded simulation of transactions.

Producers are replaced, sleep and return. Requests and responses are lost or late. Coordinators and leaders crash
anywhere, and time jumps.

The simulation has one transaction shard with its log, of which a crash may lose the uncommitted records. It also has
the leaders of some partitions (transaction_leaders.py), one of them the coordinator of groups whose offsets are part of
transactions. Each step randomly runs one of the possible next events, then checks all invariants. The calm phase at the
end completes everything. Then all records of a transaction must have the same end, the one reported to its producer.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from odradek.coordinator.result import Reply
from odradek.coordinator.transaction_records import encode_record
from odradek.coordinator.transaction_requests import (
    MarkersWritten,
    NeedProducerId,
    ProducerIdTaken,
    SendMarkers,
    TransactionRequest,
    TransactionsConfig,
)
from odradek.coordinator.transaction_shard import TransactionShard
from odradek.metadata.image import TopicPartition
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.init_producer_id import InitProducerIdRequest

from tests.coordinator.group_logs import LogRecord
from tests.coordinator.transaction_calls import OFFSETS, Call, Marker, Question, Tag, Write, error_of
from tests.coordinator.transaction_invariants import check_decided, check_end, check_expired, check_same
from tests.coordinator.transaction_leaders import Leader, OffsetsLeader
from tests.coordinator.transaction_logs import compacted, load_transactions
from tests.coordinator.transaction_producers import GROUPS, PLACES, TIMEOUT_MS, Client
from tests.coordinator.transaction_promises import Promises

EXPIRATION_MS = 1_500
IDS = 4
#: The number of events between two reloads and comparisons of the shard.
RELOAD_EVERY = 200
VERIFYING_VERSION = 5


class Simulation:
    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        version = 1 if seed % 5 == 4 else 2
        self.config = TransactionsConfig(
            expiration_ms=EXPIRATION_MS,
            abort_interval_ms=100,
            remove_expired_interval_ms=300,
            transaction_version=version,
        )
        self.now = 1_000
        self.log: list[LogRecord] = []
        self.high_watermark = 0
        self.coordinator_epoch = 0
        self.next_producer_id = 0
        self.offsets = OffsetsLeader()
        self.leaders: dict[TopicPartition, Leader] = {place: Leader(place) for place in PLACES if place != OFFSETS}
        self.leaders[OFFSETS] = self.offsets
        self.promises = Promises()
        self.clients: list[Client] = []
        #: In flight: requests, verifications of leaders, their results, markers, and the markers' results.
        self.calls: list[Call] = []
        self.questions: list[Question] = []
        self.verdicts: list[tuple[Question, int]] = []
        self.replies: list[tuple[Call, int, Any]] = []
        self.markers: list[tuple[SendMarkers, TopicPartition]] = []
        self.travelling: list[Marker] = []
        #: Delayed markers, which may arrive after the end of their transaction.
        self.late: list[Marker] = []
        self.written: list[MarkersWritten] = []
        self.taken: list[ProducerIdTaken] = []
        #: Outputs that wait for the high watermark: required offset, event of the decision, output.
        self.parked: list[tuple[int, int, Any]] = []
        self.crashes = 0
        self.is_calm = False
        self.shard = self.loaded(self.log)
        for number in range(IDS):
            self.begin(number)

    def begin(self, number: int) -> None:
        """Starts a producer for the id, even if another producer has it. Every other id uses the older flow."""
        bumps = self.config.transaction_version >= 2 and number % 2 == 0
        name = f"id{number}"
        self.clients.append(Client(f"{name}/{len(self.clients)}", name, bumps, self.rng))

    @property
    def reported(self) -> dict[Tag, bool]:
        """Returns the ends of transactions as reported to their producers."""
        return {tag: committed for client in self.clients for tag, committed in client.reported.items()}

    # The coordinator.

    def loaded(self, log: list[LogRecord]) -> TransactionShard:
        return load_transactions(self.config, log, self.now)

    def new_producer_id(self) -> int:
        self.next_producer_id += 1
        return self.next_producer_id

    def take(self) -> None:
        output = self.shard.take()
        self.log += [encode_record(record) for record in output.records]
        for reply in output.replies:
            if isinstance(reply, Reply):
                self.promises.has_decided(reply.token.request, reply.response)  # type: ignore[attr-defined]
            self.parked.append((len(self.log), self.promises.event, reply))

    def release(self, reply: Any, decided: int = 0) -> None:
        if isinstance(reply, SendMarkers):
            self.markers += [(reply, place) for place in reply.partitions]
            if not reply.partitions:
                self.written.append(_written(reply, frozenset()))
        elif isinstance(reply, NeedProducerId):
            self.taken.append(ProducerIdTaken(reply.transactional_id, self.new_producer_id()))
        elif isinstance(reply.token, Question):
            self.verdicts.append((reply.token, error_of(reply.response)))
        else:
            self.promises.tells(reply.token, reply.response, decided)
            self.replies.append((reply.token, decided, reply.response))

    def crash(self) -> None:
        """Crashes the coordinator. Another coordinator loads the log. Markers of the previous one may still be in flight."""
        self.crashes += 1
        del self.log[self.rng.randrange(self.high_watermark, len(self.log) + 1) :]
        self.high_watermark = len(self.log)
        self.coordinator_epoch += 1
        for lost in (self.calls, self.questions, self.parked, self.markers, self.written, self.taken):
            lost.clear()
        self.late += self.travelling
        self.travelling.clear()
        self.shard = self.loaded(self.log)
        self.take()
        self.promises.crashed()
        # Some producers crash with it, and are replaced at once; others retry.
        for client in [client for client in self.clients if not client.is_done]:
            client.has_asked = False
            if self.rng.random() < 0.2:
                client.is_done = True
                self.begin(int(client.transactional_id[2:]))

    # Steps.

    def run(self, steps: int) -> None:
        for _ in range(steps):
            self.happen()
            self.check()
        self.is_calm = True
        for client in self.clients:
            client.is_done = True
        for _ in range(12):
            self._pass(TIMEOUT_MS)
            while actions := [action for action in self._possible() if action != self._tick]:
                self.rng.choice(actions)()
                self.check()
        check_end(self.shard, self.leaders.values(), self.reported)
        self.check_reload()

    def happen(self) -> None:
        kind = self.rng.random()
        # Crashes are most frequent where they may do most harm.
        if self.rng.random() < (0.01 if self.travelling else 0.002):
            self.crash()
        elif kind < 0.003:
            lost = self.offsets.crash(self.rng, self.now)
            self.markers += [(marker.markers, marker.place) for marker in lost if self._is_mine(marker)]
        elif kind < 0.006:
            self.begin(self.rng.randrange(IDS))
        elif kind < 0.009:
            self._pass(self.rng.randrange(2_000))
        else:
            self.rng.choice(self._possible())()

    def _possible(self) -> list[Callable[[], None]]:
        actions: list[Callable[[], None]] = [self._tick]
        if not self.is_calm:
            actions += [self._read, self._repeat]
            actions += [self._send] * 3 if self._wishful() else []
        if self.high_watermark < len(self.log) or self.parked:
            actions += [self._commit] * 2
        if self.offsets.high_watermark < len(self.offsets.log):
            actions += [self._commit_offsets] * 2
        queues: list[tuple[list[Any], Callable[[], None]]] = [
            (self.calls, self._arrive),
            (self.questions, self._ask),
            (self.verdicts, self._go_on),
            (self.replies, self._deliver),
            (self.markers, self._mark),
            (self.travelling, self._write_marker),
            (self.written, self._tell),
            (self.taken, self._use_id),
        ]
        return actions + [act for queue, act in queues if queue] * 3 + [self._write_late_marker] * bool(self.late)

    def _tick(self) -> None:
        self._pass(self.rng.randrange(20))

    def _pass(self, ms: int) -> None:
        self.now += ms
        self.shard.expire(self.now)
        self._time_has_decided()

    def _time_has_decided(self) -> None:
        decided = self.shard.state.records
        for record in decided:
            if record.value is None:
                check_expired(record.key.transactional_id, self.log, self.now - EXPIRATION_MS)  # type: ignore[attr-defined]
        self.promises.time_passed(decided, self.now, TIMEOUT_MS)
        self.take()

    def _wishful(self) -> list[Client]:
        """Returns the clients with an unsent request."""
        return [c for c in self.clients if not c.is_done and not c.has_asked and c.sleeps_until <= self.now]

    def _send(self) -> None:
        client = self.rng.choice(self._wishful())
        client.has_asked = True
        assert client.asked is not None
        self.calls.append(Call(client, client.attempt, *client.asked))

    def _repeat(self) -> None:
        """Repeats a request after a timeout of its client."""
        asking = [client for client in self.clients if not client.is_done and client.has_asked]
        if asking:
            client = self.rng.choice(asking)
            assert client.asked is not None
            self.calls.append(Call(client, client.attempt, *client.asked))

    def _arrive(self) -> None:
        call = self._any(self.calls)
        # Late requests of the older flow may do harm (KIP-890), so they are dropped.
        if call.attempt != call.client.attempt and not call.client.bumps:
            return
        if not isinstance(call.request, Write):
            self._handle(call)
            return
        question = self.leaders[call.request.place].question(call, self.now)
        if question is None:
            self._write(call)
        else:
            self.questions.append(question)

    def _handle(self, asked: Call | Question) -> None:
        request, version = asked.request, VERIFYING_VERSION if isinstance(asked, Question) else asked.version
        message = TransactionRequest(asked, request, version)
        if self.shard.needs_producer_id(request, version):
            message.new_producer_id = self.new_producer_id()
        self.shard.handle(message, self.now)
        if isinstance(request, InitProducerIdRequest) and self.shard.state.records:
            self.promises.has_reason(request.transactional_id or "")
        self.take()

    def _commit(self) -> None:
        self.high_watermark = self.rng.randrange(self.high_watermark, len(self.log) + 1)
        while self.parked and self.parked[0][0] <= self.high_watermark:
            _, decided, reply = self.parked.pop(0)
            self.release(reply, decided)

    def _ask(self) -> None:
        self._handle(self._any(self.questions))

    def _go_on(self) -> None:
        """Delivers a verification result to a leader. The transaction may have ended by then."""
        question, error = self._any(self.verdicts)
        if not error and not self.leaders[question.call.request.place].still_stands(question):
            error = ErrorCode.INVALID_TXN_STATE
        if error:
            self.replies.append((question.call, 0, error))
        else:
            self._write(question.call)

    def _write(self, call: Call) -> None:
        leader = self.leaders[call.request.place]
        before = leader.appended
        error = leader.write(call, self.now)
        if leader.appended != before:
            self.promises.may_write(call.request.transactional_id, call.request.producer)
        if error is not None:
            self.replies.append((call, 0, error))

    def _commit_offsets(self) -> None:
        for done in self.offsets.commit(self.rng):
            if isinstance(done, Call):
                self.replies.append((done, 0, 0))
            else:
                self._is_written(done)

    def _deliver(self) -> None:
        call, decided, response = self._any(self.replies)
        client = call.client
        if client.is_done or call.attempt != client.attempt:
            return
        if self.rng.random() < 0.1:
            client.has_asked = False
            return
        self.promises.hears(client, response, decided)
        client.respond(response)
        if self.rng.random() < 0.02:
            client.sleeps_until = self.now + self.rng.randrange(2 * EXPIRATION_MS)

    def _mark(self) -> None:
        markers, place = self._any(self.markers)
        if self.shard.awaits(markers, place):
            check_decided(markers, self.log[: self.high_watermark])
            self.travelling.append(Marker(markers, place, self.coordinator_epoch))
            if markers.transaction_version >= 2 and self.rng.random() < 0.2:
                # A retry after a lost response. Without an epoch per transaction it must be the last marker.
                self.late.append(self.travelling.pop())
                self.markers.append((markers, place))

    def _write_marker(self) -> None:
        self._take_marker(self._any(self.travelling))

    def _write_late_marker(self) -> None:
        """Writes a late marker, most often where it would do harm: while its producer has an open transaction."""
        marker = self._any(self.late)
        is_open = bool(self.leaders[marker.place].open.get(marker.markers.producer_id))
        is_old = not self.shard.awaits(marker.markers, marker.place)
        if self.is_calm or self.rng.random() < (0.5 if is_open and is_old else 0.02):
            self._take_marker(marker)
        else:
            self.late.append(marker)

    def _take_marker(self, marker: Marker) -> None:
        leader = self.leaders[marker.place]
        is_open = bool(leader.open.get(marker.markers.producer_id))
        is_awaited = self.shard.awaits(marker.markers, marker.place)
        error = leader.end(marker)
        if error is not ErrorCode.NONE:
            assert not (self._is_mine(marker) and is_awaited), f"{marker} gets an unexpected error: {error.name}"
            return
        assert is_awaited or not is_open, f"{marker} ends an open transaction"
        if marker.place != OFFSETS:
            self._is_written(marker)

    def _is_written(self, marker: Marker) -> None:
        """Reports a written marker to the coordinator, or makes it retry."""
        if not self._is_mine(marker):
            return
        if self.rng.random() < 0.1:
            self.markers.append((marker.markers, marker.place))
        else:
            self.written.append(_written(marker.markers, frozenset({marker.place})))

    def _is_mine(self, marker: Marker) -> bool:
        return marker.coordinator_epoch == self.coordinator_epoch

    def _tell(self) -> None:
        self.shard.handle(self._any(self.written), self.now)
        self.take()

    def _use_id(self) -> None:
        self.shard.handle(self._any(self.taken), self.now)
        self._time_has_decided()

    def _read(self) -> None:
        self.offsets.read(self.rng.choice(GROUPS), self.rng.random() < 0.7, self.now)

    def _any(self, queue: list[Any]) -> Any:
        return queue.pop(self.rng.randrange(len(queue)))

    # Invariants.

    def check(self) -> None:
        self.promises.event += 1
        self.promises.check(self.shard)
        self.offsets.check()
        if self.promises.event % RELOAD_EVERY == 0:
            self.check_reload()

    def check_reload(self) -> None:
        for log in (self.log, compacted(self.log)):
            check_same(self.shard, self.loaded(log))
        self.offsets.check_reload(self.now)


def _written(markers: SendMarkers, places: frozenset[TopicPartition]) -> MarkersWritten:
    return MarkersWritten(markers.transactional_id, markers.producer_id, markers.producer_epoch, places)
