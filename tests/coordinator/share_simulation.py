"""Seeded simulation of one share partition, its persister and some members.

Locks expire, writes fail or arrive late, leaders change, members crash, and dead-letter records are lost with their leader.
The persister responds after its commit, crashes, and restarts from the rest of its log. The ledger checks the
invariants.
"""

from __future__ import annotations

import itertools
import random
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

from immutables import Map
from odradek.coordinator.acquisition import AcquireRequest, acquire
from odradek.coordinator.dead_letters import DeadLetter
from odradek.coordinator.rejection import Rejection
from odradek.coordinator.share_partition import (
    AckBatch,
    Limits,
    SharePartition,
    Write,
)
from odradek.coordinator.share_state import PersisterConfig
from odradek.coordinator.state_batches import StateBatch
from odradek.metadata.image import MetadataImage, PartitionImage, TopicImage, TopicsImage
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.initialize_share_group_state import (
    InitializeShareGroupStateRequest,
    InitializeStateData,
    InitializeStatePartition,
)
from odradek.protocol.messages.read_share_group_state import ReadShareGroupStateRequest
from odradek.protocol.messages.share_state_batches import StateBatchData
from odradek.protocol.messages.share_state_reads import ReadStateData, ReadStatePartition
from odradek.protocol.messages.write_share_group_state import (
    WriteShareGroupStateRequest,
    WriteStateData,
    WriteStatePartition,
)
from odradek.protocol.schema import Message

from tests.coordinator.share_ledger import Ledger
from tests.coordinator.share_state_log import ShareStateLog


class FetchedBatch(NamedTuple):
    base_offset: int
    last_offset: int


TOPIC_ID = b"t" * 16
LIMITS = Limits(delivery_count=4, record_locks=120, record_lock_duration_ms=1_000)
MEMBERS = ("m1", "m2", "m3", "m4")
LOST = Rejection(ErrorCode.COORDINATOR_NOT_AVAILABLE, "lost on the way")


def image_of(partitions: int = 1) -> MetadataImage:
    partition = PartitionImage((1,), (1,), 1, 0, 0, (bytes(16),))
    topic = TopicImage("t", TOPIC_ID, Map(dict.fromkeys(range(partitions), partition)))
    return MetadataImage(topics=TopicsImage(Map({"t": topic}), Map({TOPIC_ID: topic})))


@dataclass
class Sent:
    leader_epoch: int
    write: Write


@dataclass
class Asked:
    member_id: str
    batch: AckBatch
    #: The acquired records.
    is_allowed: bool
    start_offset: int
    until_ms: int


class ShareSimulation:
    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.limits = replace(LIMITS, has_dead_letters=seed % 2 == 1)
        self.now = 1_000_000
        config = PersisterConfig(updates_per_snapshot=self.rng.choice((0, 3, 500)))
        self.persister = ShareStateLog(self.rng, config, image_of(), self.now)
        self.batches: list[FetchedBatch] = []
        self.ledger = Ledger(LIMITS.delivery_count, self.limits.has_dead_letters)
        #: Dead-letter records in flight to the queue.
        self.dead_letter_records: list[DeadLetter] = []
        self.sent: list[Sent] = []
        #: Pending writes of each leader, one request in flight.
        self.writing: dict[int, Sent] = {}
        self.leader_epoch = 0
        self.token = 0
        #: Token -> a pending acknowledgement.
        self.asked: dict[int, Asked] = {}
        self.deliveries = 0
        self.is_calm = False
        start = InitializeStatePartition(partition=0, state_epoch=1, start_offset=0)
        topic = InitializeStateData(topic_id=TOPIC_ID, partitions=[start])
        self._persist(InitializeShareGroupStateRequest(group_id="g", topics=[topic]))
        self._lead()

    # Events.

    def run(self, steps: int) -> None:
        moves = (
            (self._append, 10), (self._fetch, 30), (self._acknowledge, 30), (self._deliver_write, 25),
            (self._wait, 10), (self._release, 3), (self._acknowledge_at_random, 3), (self._change_leader, 5),
            (self._dead_letter, 10), (self._commit, 25), (self._crash_persister, 3),
        )  # fmt: skip
        names, weights = zip(*moves, strict=True)
        for _ in range(steps):
            self.rng.choices(names, weights)[0]()
            self._look()

    def run_calm(self) -> None:
        """Runs without failures: one well-behaved member consumes all records."""
        self.is_calm = True
        for _ in range(2_000):
            while self.sent or self.writing or self.dead_letter_records:
                self._deliver_write()
                self._commit()
                self._dead_letter()
            if self.leader.start_offset == self._end():
                break
            self._fetch("m1")
            for offset in sorted(self.ledger.held.get("m1", {})):
                self._send("m1", AckBatch(offset, offset, [1]))
            self.now += LIMITS.record_lock_duration_ms // 4
            self._expire()
            self._look()
        assert self.leader.start_offset == self._end(), f"stuck at {self.leader.start_offset}: {list(self.leader.runs)}"
        self.ledger.check_drained(self._end())

    def _append(self) -> None:
        first = self._end()
        self.batches.append(FetchedBatch(first, first + self.rng.randrange(12)))

    def _fetch(self, member_id: str | None = None) -> None:
        member_id = member_id or self.rng.choice(MEMBERS)
        offset = self.leader.next_fetch_offset()
        found = [b for b in self.batches if b.last_offset >= offset][: self.rng.randrange(1, 6)]
        wish = AcquireRequest(self.rng.choice((1, 5, 20, 500)), self.rng.choice((1, 10, 500)), self.rng.random() < 0.3)
        if self.leader.can_acquire():
            acquired = acquire(self.leader, member_id, wish, offset, found, self.now)
            until = self.now + LIMITS.record_lock_duration_ms
            count = self.ledger.acquired(member_id, acquired, self.now, until)
            assert not wish.is_record_limit or count <= wish.max_records
            self.deliveries += count

    def _acknowledge(self) -> None:
        member_id = self.rng.choice(MEMBERS)
        held = sorted(self.ledger.held.get(member_id, {}))
        if held:
            first = last = self.rng.choice(held)
            while last + 1 in held and self.rng.random() < 0.8:
                last += 1
            kinds = [self.rng.choice((0, 1, 1, 1, 2, 2, 3, 4)) for _ in range(last - first + 1)]
            self._send(member_id, AckBatch(first, last, kinds if self.rng.random() < 0.5 else kinds[:1]))

    def _acknowledge_at_random(self) -> None:
        if self._end():
            first = self.rng.randrange(self._end())
            last = min(first + self.rng.randrange(5), self._end() - 1)
            self._send(self.rng.choice(MEMBERS), AckBatch(first, last, [self.rng.randrange(5)]))

    def _release(self) -> None:
        member_id = self.rng.choice(MEMBERS)
        self.leader.release(member_id)
        self.ledger.released(member_id, self.now)

    def _wait(self) -> None:
        self.now += self.rng.randrange(LIMITS.record_lock_duration_ms)
        self._expire()
        self.persister.expire(self.now)

    def _expire(self) -> None:
        deadline = self.leader.deadline()
        if deadline is not None and deadline <= self.now:
            self.leader.expire(self.now)

    def _change_leader(self) -> None:
        """Changes the leader. Writes of the previous one may still arrive, before or after the new one has read."""
        if self.rng.random() < 0.5:
            while self.sent and self.rng.random() < 0.5:
                self._deliver_write()
                self._commit()
        self._lead()

    # The leader and its persister.

    def _lead(self) -> None:
        self.leader_epoch += 1
        partition = ReadStatePartition(partition=0, leader_epoch=self.leader_epoch)
        topic = ReadStateData(topic_id=TOPIC_ID, partitions=[partition])
        found = self._persist(ReadShareGroupStateRequest(group_id="g", topics=[topic]))
        assert found.error_code == 0, found
        batches = [
            StateBatch(b.first_offset, b.last_offset, b.delivery_state, b.delivery_count) for b in found.state_batches
        ]
        self.leader = SharePartition(found.start_offset, batches, self.limits)
        self.asked.clear()
        self.dead_letter_records.clear()
        self.ledger.leader_changed()

    def _send(self, member_id: str, batch: AckBatch) -> None:
        self.token += 1
        is_allowed = self.ledger.sent(member_id, batch, self.leader.start_offset)
        until_ms = self.now + LIMITS.record_lock_duration_ms
        self.asked[self.token] = Asked(member_id, batch, is_allowed, self.leader.start_offset, until_ms)
        self.leader.acknowledge(self.token, member_id, [batch], self.now)

    def _deliver_write(self) -> None:
        """Delivers a write. Each leader's writes arrive in order; those of an earlier leader may be late."""
        waiting = [sent for sent in self.sent if sent.leader_epoch not in self.writing]
        if not waiting:
            return
        epoch = waiting[-1 if self.rng.random() < 0.9 else 0].leader_epoch
        sent = next(sent for sent in waiting if sent.leader_epoch == epoch)
        self.sent.remove(sent)
        if not self.is_calm and self.rng.random() < 0.1:
            self._reported(sent, LOST)
        else:
            self.writing[epoch] = sent
            self.persister.ask(_request(sent), partial(self._written, sent), self.now)

    def _written(self, sent: Sent, response: Any) -> None:
        """Handles a response of the persister, or None after its crash: the leader may retry the unknown result."""
        del self.writing[sent.leader_epoch]
        is_lost = response is None or (not self.is_calm and self.rng.random() < 0.1)
        if is_lost and (response is None or not response.error_code):
            self.ledger.written_unknown_to_leader(sent.write)
        if is_lost and self.rng.random() < 0.5:
            self.sent.insert(0, sent)
        elif is_lost:
            self._reported(sent, LOST)
        else:
            validation_error = Rejection(ErrorCode(response.error_code), response.error_message or "")
            self._reported(sent, validation_error if response.error_code else None)

    def _reported(self, sent: Sent, validation_error: Rejection | None) -> None:
        if sent.leader_epoch == self.leader_epoch:
            self.leader.written(sent.write.id, validation_error)
            self._look()

    def _commit(self) -> None:
        self.persister.turn()
        self.persister.commit(is_all=self.is_calm)
        if self.rng.random() < 0.1:
            self.persister.prune()

    def _crash_persister(self) -> None:
        self.persister.crash(self.now)

    def _dead_letter(self) -> None:
        """Writes a dead-letter record. The leader may change before it gets the result."""
        if not self.dead_letter_records:
            return
        dead_letter = self.dead_letter_records.pop(self.rng.randrange(len(self.dead_letter_records)))
        self.ledger.dead_letter_written(dead_letter)
        if self.is_calm or self.rng.random() < 0.9:
            self.leader.dead_letter_written(dead_letter)
            self._look()
        else:
            self._change_leader()

    def _persist(self, request: Message) -> Any:
        """Repeats a request until it gets a response."""
        responses: list[Any] = []
        while not any(responses):
            self.persister.ask(request, responses.append, self.now)
            if self.rng.random() < 0.1:
                self.persister.crash(self.now)
            self.persister.turn()
            self.persister.commit(is_all=True)
        return responses[-1]

    def _look(self) -> None:
        output = self.leader.take()
        self.sent += [Sent(self.leader_epoch, w) for w in output.writes]
        for token, validation_error in output.replies:
            asked = self.asked.pop(token)  # type: ignore[arg-type]
            if validation_error is None:
                assert asked.is_allowed, f"{asked.member_id} may not acknowledge {asked.batch}"
                self.ledger.confirmed_by_leader(asked.member_id, asked.batch, asked.start_offset, asked.until_ms)
        for dead_letter in output.dead_letter_records:
            self.ledger.given_up_by_leader(dead_letter)
        self.dead_letter_records += output.dead_letter_records
        runs = list(self.leader.runs)
        assert all(a.last + 1 == b.first for a, b in itertools.pairwise(runs)), runs
        assert not runs or runs[0].first == self.leader.start_offset
        assert self.leader.in_flight_count <= LIMITS.record_locks + 12

    def _end(self) -> int:
        return self.batches[-1].last_offset + 1 if self.batches else 0


def _request(sent: Sent) -> WriteShareGroupStateRequest:
    partition = WriteStatePartition(
        partition=0,
        state_epoch=1,
        leader_epoch=sent.leader_epoch,
        start_offset=sent.write.start_offset,
        delivery_complete_count=sent.write.delivery_complete_count,
        state_batches=[StateBatchData(*batch) for batch in sent.write.batches],
    )
    topic = WriteStateData(topic_id=TOPIC_ID, partitions=[partition])
    return WriteShareGroupStateRequest(group_id="g", topics=[topic])
