"""Transactions under seeded chance: producers that are replaced, answers that are lost, a coordinator that crashes anywhere.

The world has one shard with its log, of which a crash may lose what was not committed, and some partitions, whose leaders
are the real `Producers` and the real checks of markers. In each step chance takes one of all that could happen next. At the
end it is calm, everything comes to rest, and of every transaction all records must have come to the same end, the one that
its producer was told of.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import Any

from odradek.coordinator.transactions.records import decode_record, encode_record
from odradek.coordinator.transactions.result import (
    MarkersWritten,
    SendMarkers,
    TransactionRequest,
    TransactionsConfig,
)
from odradek.coordinator.transactions.shard import TransactionShard
from odradek.coordinator.transactions.transaction import RESTING, Place, State
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from odradek.protocol.messages.end_txn import EndTxnRequest
from odradek.protocol.messages.init_producer_id import InitProducerIdRequest
from odradek.protocol.records.batch import CONTROL_FLAG, TRANSACTIONAL_FLAG, BatchHeader
from odradek.storage.producers import Producers
from odradek.storage.transaction_checks import check_marker

CONFIG = TransactionsConfig(abort_interval_ms=100)
TIMEOUT_MS = 400
PLACES: list[Place] = [("t", 0), ("t", 1), ("u", 0)]

#: A transaction, as its producer counts them.
Tag = tuple[str, int]
#: A request and its version go out; the response comes back, or None when it was lost.
Life = Generator[tuple[Any, int, "Write | None"], Any, None]


@dataclass(frozen=True)
class Write:
    """What a leader appends once the coordinator has said that the partition is in the transaction."""

    place: Place
    tag: Tag
    producer_id: int
    epoch: int


class Leader:
    def __init__(self) -> None:
        self.producers = Producers()
        self.open: dict[int, list[Tag]] = {}
        self.ended: dict[Tag, set[bool]] = {}

    def _header(self, producer_id: int, epoch: int, flags: int) -> BatchHeader:
        offset = self.producers.end_offset
        return BatchHeader(offset, 60, 0, 2, 0, TRANSACTIONAL_FLAG | flags, 0, 0, 0, producer_id, epoch, 0, 1)

    def write(self, write: Write) -> bool:
        known = self.producers.by_id.get(write.producer_id)
        if known is not None and write.epoch < known.epoch:
            return False
        tags = self.open.setdefault(write.producer_id, [])
        if write.tag not in tags:
            self.producers.update(self._header(write.producer_id, write.epoch, 0))
            tags.append(write.tag)
        return True

    def end(self, markers: SendMarkers, coordinator_epoch: int) -> None:
        producer_id, epoch = markers.producer_id, markers.producer_epoch
        error = check_marker(self.producers, producer_id, epoch, coordinator_epoch, markers.transaction_version)
        assert error is ErrorCode.NONE, (error, markers)
        header = self._header(producer_id, epoch, CONTROL_FLAG)
        self.producers.end_transaction(header, 0, coordinator_epoch, aborted=not markers.committed)
        for tag in self.open.pop(producer_id, []):
            self.ended.setdefault(tag, set()).add(markers.committed)


@dataclass(eq=False)
class Client:
    """One producer; another with the same `transactional_id` may take its place while it still lives."""

    name: str
    transactional_id: str
    bumps: bool
    life: Life = field(init=False)
    asked: tuple[Any, int, Write | None] | None = None
    attempt: int = 0
    is_done: bool = False


class Simulation:
    def __init__(self, seed: int, early_markers: bool = False) -> None:
        self.chance = random.Random(seed)
        #: A planted bug: markers that go out before the decision is committed.
        self.early_markers = early_markers
        self.now = 1_000
        self.log: list[tuple[bytes, bytes | None]] = []
        self.high_watermark = 0
        self.coordinator_epoch = 0
        self.next_producer_id = 0
        self.leaders = {place: Leader() for place in PLACES}
        #: What producers were told of the end of their transactions.
        self.told: dict[Tag, bool] = {}
        self.clients: list[Client] = []
        self.requests: list[tuple[Client, int]] = []
        self.replies: list[tuple[Client, int, Any]] = []
        self.parked: list[tuple[int, Any]] = []
        self.markers: list[tuple[SendMarkers, Place]] = []
        self.written: list[MarkersWritten] = []
        self.crashes = 0
        self.shard = self.loaded()
        for number in range(3):
            self.begin(f"id{number}", bumps=number != 2)

    # Producers.

    def begin(self, transactional_id: str, bumps: bool) -> None:
        client = Client(f"{transactional_id}/{len(self.clients)}", transactional_id, bumps)
        self.clients.append(client)
        client.life = self.life(client)
        client.asked = next(client.life)

    def life(self, client: Client) -> Life:
        """Transactions until it is fenced. A lost answer and a retriable error are asked again."""
        request = InitProducerIdRequest(client.transactional_id, TIMEOUT_MS)
        known = yield from self._asked(request, 5)
        if known.error_code:
            return
        producer_id, epoch = known.producer_id, known.producer_epoch
        for number in range(1_000):
            tag = (client.name, number)
            for place in self.chance.sample(PLACES, self.chance.randrange(1, 4)):
                write = Write(place, tag, producer_id, epoch)
                added = yield from self._asked(*self._add(client, write), write)
                if error_of(added):
                    return
            committed = self.chance.random() < 0.6
            end = EndTxnRequest(client.transactional_id, producer_id, epoch, committed)
            answer = yield from self._asked(end, 5 if client.bumps else 4)
            if answer.error_code:
                return
            self.told[tag] = committed
            if client.bumps:
                producer_id, epoch = answer.producer_id, answer.producer_epoch

    def _asked(self, request: Any, version: int, write: Write | None = None) -> Generator[Any, Any, Any]:
        while True:
            response = yield (request, version, write)
            if response is not None and error_of(response) != ErrorCode.CONCURRENT_TRANSACTIONS:
                return response

    def _add(self, client: Client, write: Write) -> tuple[Any, int]:
        topics = [AddPartitionsToTxnTopic(write.place[0], [write.place[1]])]
        if client.bumps:
            one = AddPartitionsToTxnTransaction(client.transactional_id, write.producer_id, write.epoch, False, topics)
            return AddPartitionsToTxnRequest(transactions=[one]), 5
        return AddPartitionsToTxnRequest([], client.transactional_id, write.producer_id, write.epoch, topics), 3

    def answer(self, client: Client, response: Any) -> None:
        assert client.asked is not None
        write = client.asked[2]
        may_write = response is not None and write is not None and not error_of(response)
        # The leader writes as soon as it hears that it may; the epoch may have gone on since.
        if may_write and write is not None and not self.leaders[write.place].write(write):
            client.is_done, client.asked = True, None
            return
        try:
            client.asked = client.life.send(response)
        except StopIteration:
            client.is_done, client.asked = True, None
        client.attempt += 1

    # The coordinator.

    def loaded(self) -> TransactionShard:
        shard = TransactionShard(CONFIG)
        for key, value in self.log:
            shard.replay(decode_record(key, value))
        shard.loaded(self.now)
        return shard

    def take(self) -> None:
        output = self.shard.take()
        self.log += [encode_record(record) for record in output.records]
        for reply in output.replies:
            if self.early_markers and isinstance(reply, SendMarkers):
                self.release(reply)
            else:
                self.parked.append((len(self.log), reply))

    def release(self, reply: Any) -> None:
        if not isinstance(reply, SendMarkers):
            self.replies.append((*reply.token, reply.response))
        elif reply.places:
            self.markers += [(reply, place) for place in reply.places]
        else:
            self.written.append(
                MarkersWritten(reply.transactional_id, reply.producer_id, reply.producer_epoch, frozenset())
            )

    def crash(self) -> None:
        self.crashes += 1
        del self.log[self.chance.randrange(self.high_watermark, len(self.log) + 1) :]
        self.high_watermark = len(self.log)
        self.coordinator_epoch += 1
        for lost in (self.requests, self.parked, self.markers, self.written):
            lost.clear()
        self.shard = self.loaded()
        self.take()
        # Some producers go down with it, and are replaced at once.
        for client in [client for client in self.clients if not client.is_done]:
            if self.chance.random() < 0.3:
                client.is_done = True
                self.begin(client.transactional_id, client.bumps)

    # Steps.

    def run(self, steps: int) -> None:
        for _ in range(steps):
            if self.chance.random() < 0.01:
                self.crash()
            elif self.chance.random() < 0.01:
                self.begin(f"id{(number := self.chance.randrange(3))}", bumps=number != 2)
            else:
                self.step()
        for client in self.clients:
            client.is_done = True
        for _ in range(20):
            self.now += TIMEOUT_MS
            self._tick()
            while actions := [action for action in self._possible() if action != self._tick]:
                self.chance.choice(actions)()
        self.check()

    def step(self) -> None:
        self.chance.choice(self._possible())()

    def _possible(self) -> list[Callable[[], None]]:
        actions: list[Callable[[], None]] = [self._tick]
        if any(not client.is_done for client in self.clients):
            actions += [self._send] * 3
        if self.requests:
            actions += [self._arrive] * 3
        if self.high_watermark < len(self.log) or self.parked:
            actions += [self._commit] * 2
        return (
            actions
            + [
                act
                for queue, act in (
                    (self.replies, self._deliver),
                    (self.markers, self._mark),
                    (self.written, self._tell),
                )
                if queue
            ]
            * 3
        )

    def _tick(self) -> None:
        self.now += self.chance.randrange(20)
        self.shard.expire(self.now)
        self.take()

    def _send(self) -> None:
        """A request goes out, or the same once more: its client has waited for too long."""
        client = self.chance.choice([client for client in self.clients if not client.is_done])
        self.requests.append((client, client.attempt))

    def _arrive(self) -> None:
        client, attempt = self._any(self.requests)
        if client.asked is None or attempt != client.attempt:
            return
        request, version, _ = client.asked
        message = TransactionRequest((client, attempt), request, version)
        if self.shard.needs_producer_id(request, version):
            message.new_producer_id = self.next_producer_id
            self.next_producer_id += 1
        self.shard.handle(message, self.now)
        self.take()

    def _commit(self) -> None:
        self.high_watermark = self.chance.randrange(self.high_watermark, len(self.log) + 1)
        while self.parked and self.parked[0][0] <= self.high_watermark:
            self.release(self.parked.pop(0)[1])

    def _deliver(self) -> None:
        client, attempt, response = self._any(self.replies)
        if not client.is_done and attempt == client.attempt and self.chance.random() < 0.9:
            self.answer(client, response)

    def _mark(self) -> None:
        markers, place = self._any(self.markers)
        if self.shard.awaits(markers, place):
            self.check_decided(markers)
            self.leaders[place].end(markers, self.coordinator_epoch)
            self.written.append(
                MarkersWritten(
                    markers.transactional_id, markers.producer_id, markers.producer_epoch, frozenset({place})
                )
            )

    def _tell(self) -> None:
        self.shard.handle(self._any(self.written), self.now)
        self.take()

    def _any(self, queue: list[Any]) -> Any:
        return queue.pop(self.chance.randrange(len(queue)))

    # What must hold.

    def check_decided(self, markers: SendMarkers) -> None:
        """A marker is in a partition only if no crash can take back the decision for it."""
        committed = [decode_record(*record) for record in self.log[: self.high_watermark]]
        values = [record.value for record in committed if record.key.transactional_id == markers.transactional_id]
        wanted = State.PREPARE_COMMIT if markers.committed else State.PREPARE_ABORT
        assert values and values[-1].transaction_status == wanted, f"{markers} was not decided"

    def check(self) -> None:
        for transaction in self.shard.state.transactions.values():
            assert transaction.state in RESTING, f"{transaction.transactional_id} is {transaction.state.shown}"
        ends: dict[Tag, set[bool]] = {}
        for place, leader in self.leaders.items():
            assert not any(leader.open.values()), f"{place} has a transaction that hangs: {leader.open}"
            for tag, found in leader.ended.items():
                ends.setdefault(tag, set()).update(found)
        for tag, found in ends.items():
            assert len(found) == 1, f"{tag} is committed in one place and aborted in another"
            assert self.told.get(tag, *found) in found, f"{tag} was told {self.told[tag]} and is {found}"
        again = self.loaded()
        for name, transaction in self.shard.state.transactions.items():
            assert again.state.transactions[name].durable == transaction.durable


def error_of(response: Any) -> int:
    for one in getattr(response, "results_by_transaction", ()):
        return int(one.topic_results[0].results_by_partition[0].partition_error_code)
    for topic in getattr(response, "results_by_topic_v3_and_below", ()):
        return int(topic.results_by_partition[0].partition_error_code)
    return int(response.error_code)
