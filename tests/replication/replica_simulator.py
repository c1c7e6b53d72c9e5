"""A seeded simulation of one partition: its replicas, a controller and a faulty network.

The replicas are `ReplicaRole` state machines, each over an in-memory log whose unsynced part is lost in a crash.
Followers truncate and fill their logs with replication/replica_role.py. Messages (fetches, responses, proposals, metadata
updates) are delayed, so they overtake each other, and are lost or duplicated. Brokers crash and return with another
epoch. After an unclean crash, unsynced records are lost, and the controller removes the broker from the ISR at once
(KIP-966). It keeps the last member, which then loses nothing. Each host has its own clock, which is set forward and
back.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from typing import NamedTuple

from odradek.metadata.image import NO_LEADER
from odradek.replication.divergence import diverging, truncation_offset
from odradek.replication.isr import IsrProposal
from odradek.replication.replica_role import ReplicaRole

LAG_TIME_MAX_MS = 300
MIN_INSYNC = 2
QUESTION_TIMEOUT_MS = 120
#: The initial clock of a host: a replica that was never caught up is behind for that long.
STARTED_MS = 100_000_000
#: The maximum clock error.
CLOCKS_MS = (0, 0, -3_600_000, -2 * LAG_TIME_MAX_MS, LAG_TIME_MAX_MS // 2, 2 * LAG_TIME_MAX_MS, 3_600_000)


class Registration(NamedTuple):
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int
    partition_epoch: int
    #: The epochs of all live brokers.
    broker_epochs: tuple[tuple[int, int], ...]


class SimulatedLog:
    """A log of (epoch, value) by offset; the first `synced` entries survive a crash."""

    def __init__(self) -> None:
        self.records: list[tuple[int, int]] = []
        self.synced = 0
        #: (epoch, start offset), as in `storage.epochs`.
        self.epochs: list[tuple[int, int]] = []

    @property
    def end(self) -> int:
        return len(self.records)

    @property
    def latest(self) -> int:
        return self.epochs[-1][0] if self.epochs else -1

    def assign(self, epoch: int, start: int) -> None:
        if epoch > self.latest:
            while self.epochs and self.epochs[-1][1] >= start:
                self.epochs.pop()
            self.epochs.append((epoch, start))

    def append(self, epoch: int, value: int) -> None:
        self.assign(epoch, self.end)
        self.records.append((epoch, value))

    def truncate(self, end: int) -> None:
        del self.records[end:]
        self.synced = min(self.synced, end)
        while self.epochs and self.epochs[-1][1] >= end:
            self.epochs.pop()

    def end_offset_for(self, epoch: int) -> tuple[int, int]:
        if epoch == self.latest and epoch >= 0:
            return epoch, self.end
        later = next((number for number, (known, _) in enumerate(self.epochs) if known > epoch), None)
        if epoch < 0 or later is None:
            return -1, -1
        return (self.epochs[later - 1][0] if later else epoch), self.epochs[later][1]


class Node:
    """A running broker; its log survives the process."""

    def __init__(self, simulation: Simulation, number: int, log: SimulatedLog, broker_epoch: int) -> None:
        self.log = log
        self.number = number
        self.broker_epoch = broker_epoch
        self.role = simulation.new_partition(number, log)
        self.role.min_insync_replicas = MIN_INSYNC
        self.role.lag_time_max_ms = LAG_TIME_MAX_MS
        self.role.may_join = self._may_join
        self.known: dict[int, int] = {}
        #: The id of the fetch in flight; responses to older ones are ignored.
        self.fetch = 0
        #: The id of the controller request in flight, one at a time, and the time until which its response is awaited.
        self.question = 0
        self.asks_until_ms = 0

    def _may_join(self, replica: int, broker_epoch: int) -> bool:
        return self.known.get(replica) == broker_epoch


class Fetch(NamedTuple):
    node: Node
    number: int
    epoch: int
    offset: int
    last_fetched_epoch: int


class Simulation:
    def __init__(self, seed: int, partition: type[ReplicaRole] = ReplicaRole, brokers: int = 3) -> None:
        self.rng = random.Random(seed)
        self._partition = partition
        self.now_ms = STARTED_MS
        self._heap: list[tuple[int, int, Callable[[], None]]] = []
        self._count = 0
        self.is_calm = False
        first = seed % 2  # broker ids start at 0, too
        self.replicas = tuple(range(first, first + brokers))
        self.logs = {number: SimulatedLog() for number in self.replicas}
        self.nodes: dict[int, Node] = {}
        self.broker_epochs = dict.fromkeys(self.replicas, 0)
        self.registration = Registration(self.replicas, self.replicas, first, 0, 0, tuple(self.broker_epochs.items()))
        self.elections = 0
        self._clock_errors_ms = dict.fromkeys(self.replicas, 0)
        for number in self.replicas:
            self._start(number)
            self._each(20, lambda number=number: self._fetch(number))
        self._each(15, self._produce)
        self._each(LAG_TIME_MAX_MS // 2, self._shrink)
        self._each(40, self._fault)
        self._each(60, self._retry_proposals)
        self._each(250, self._set_a_clock)

    def new_partition(self, number: int, log: SimulatedLog) -> ReplicaRole:
        """Returns a partition after a start. A checkpointed high watermark is anything below the true one; here it is
        zero.
        """
        return self._partition(number, log.end, 0)

    # ---- time and the network

    def clock(self, node: Node) -> int:
        return self.now_ms + self._clock_errors_ms[node.number]

    def _set_a_clock(self) -> None:
        if self.is_calm:
            return
        self._clock_errors_ms[self.rng.choice(self.replicas)] = self.rng.choice(CLOCKS_MS)

    def run(self, events: int, check: Callable[[], None]) -> None:
        for _ in range(events):
            self.now_ms, _, event = heapq.heappop(self._heap)
            event()
            check()

    def calm_down(self, events: int, check: Callable[[], None]) -> None:
        """Ends faults and load: all brokers run, no message is lost, nothing is produced."""
        self.is_calm = True
        for number in self.replicas:
            if number not in self.nodes:
                self.broker_epochs[number] += 1
                self._start(number)
        self._elect(self.registration.isr)
        self.run(events, check)

    def _at(self, delay_ms: int, event: Callable[[], None]) -> None:
        self._count += 1
        heapq.heappush(self._heap, (self.now_ms + delay_ms, self._count, event))

    def _each(self, interval_ms: int, event: Callable[[], None]) -> None:
        def again() -> None:
            event()
            self._at(self.rng.randint(1, 2 * interval_ms), again)

        self._at(self.rng.randint(1, interval_ms), again)

    def _send(self, message: Callable[[], None]) -> None:
        for _ in range(1 if self.is_calm else self.rng.choices((0, 1, 2), (10, 85, 5))[0]):
            self._at(self.rng.choice((1, 2, 5, 10, 80)), message)

    # ---- the controller

    def _decide(self, **changes: object) -> None:
        """Sets the next state of the partition; each running broker receives it after a delay."""
        before = self.registration
        self.registration = after = before._replace(
            partition_epoch=before.partition_epoch + 1, broker_epochs=self._alive(), **changes
        )  # type: ignore[arg-type]
        self.elections += after.leader_epoch > before.leader_epoch
        for node in list(self.nodes.values()):
            self._at(self.rng.choice((1, 3, 30, 100)), lambda node=node: self._learn(node, after))

    def _alive(self) -> tuple[tuple[int, int], ...]:
        return tuple((number, epoch) for number, epoch in self.broker_epochs.items() if number in self.nodes)

    def _elect(self, isr: tuple[int, ...]) -> None:
        alive = [replica for replica in isr if replica in self.nodes]
        before = self.registration
        leader = before.leader if before.leader in alive else (self.rng.choice(alive) if alive else NO_LEADER)
        epoch = before.leader_epoch + (leader != before.leader)
        self._decide(isr=isr, leader=leader, leader_epoch=epoch)

    def _alter(self, node: Node, question: int, proposal: IsrProposal, isr: tuple[tuple[int, int], ...]) -> None:
        """Handles a proposal. A request that timed out is not processed: its connection is closed."""
        now = self.registration
        if question != node.question:
            return
        _, leader_epoch, partition_epoch = proposal
        if (leader_epoch, partition_epoch, node.number) != (now.leader_epoch, now.partition_epoch, now.leader):
            return
        if any(member not in self.nodes or self.broker_epochs[member] != epoch for member, epoch in isr):
            self._send(lambda: self._reject(node, question, proposal))
            return
        self._decide(isr=tuple(member for member, _ in isr))
        after = self.registration
        self._send(lambda: self._accept(node, question, proposal, after))

    def _reject(self, node: Node, question: int, proposal: IsrProposal) -> None:
        if self._is_answered(node, question):
            node.role.withdraw(proposal)

    def _accept(self, node: Node, question: int, proposal: IsrProposal, after: Registration) -> None:
        if self._is_answered(node, question):
            node.role.accepted(proposal, after.isr, after.leader_epoch, after.partition_epoch, self.clock(node))

    def _is_answered(self, node: Node, question: int) -> bool:
        if not self._is_up(node) or question != node.question:
            return False
        node.asks_until_ms = 0
        return True

    def _is_up(self, node: Node) -> bool:
        return self.nodes.get(node.number) is node

    # ---- brokers

    def _start(self, number: int) -> None:
        self.nodes[number] = node = Node(self, number, self.logs[number], self.broker_epochs[number])
        self._learn(node, self.registration)

    def _learn(self, node: Node, registration: Registration) -> None:
        if self._is_up(node) and registration.partition_epoch >= node.role.partition_epoch:
            node.known = dict(registration.broker_epochs)
            if node.role.apply(registration, self.clock(node)) and node.role.is_leader:
                node.log.assign(node.role.leader_epoch, node.log.end)

    def _fault(self) -> None:
        if self.is_calm:
            return
        number = self.rng.choice(self.replicas)
        node = self.nodes.get(number)
        if node is None:
            self.broker_epochs[number] += 1
            self._start(number)
            # The returning broker may lead if the partition has no leader.
            self._elect(self.registration.isr)
        elif self.rng.random() < 0.2:
            del self.nodes[number]
            isr = tuple(replica for replica in self.registration.isr if replica != number)
            if isr and self.rng.random() < 0.5:
                self.logs[number].truncate(self.logs[number].synced)
            self._elect(isr or self.registration.isr)
        elif self.rng.random() < 0.2 and self.registration.leader != NO_LEADER:
            leader = self.rng.choice([member for member in self.registration.isr if member in self.nodes])
            changed = leader != self.registration.leader
            self._decide(leader=leader, leader_epoch=self.registration.leader_epoch + changed)

    def _produce(self) -> None:
        node = self.rng.choice(list(self.nodes.values()) or [None])
        if self.is_calm or node is None or not node.role.is_leader or not node.role.has_enough_in_sync:
            return
        for _ in range(self.rng.randint(1, 3)):
            node.log.append(node.role.leader_epoch, self.rng.getrandbits(40))
        node.role.appended(node.log.end, self.clock(node))
        if self.rng.random() < 0.3:
            node.log.synced = node.log.end

    def _propose(self, node: Node) -> None:
        proposal = node.role.proposal
        if proposal is None or self.now_ms < node.asks_until_ms:
            return
        node.question += 1
        node.asks_until_ms = self.now_ms + QUESTION_TIMEOUT_MS
        followers, question = node.role.followers, node.question
        isr = tuple((m, node.broker_epoch if m == node.number else followers[m].broker_epoch) for m in proposal.isr)
        self._send(lambda: self._alter(node, question, proposal, isr))

    def _shrink(self) -> None:
        for node in list(self.nodes.values()):
            if node.role.propose_shrinking(self.clock(node)) is not None:
                self._propose(node)

    def _retry_proposals(self) -> None:
        for node in list(self.nodes.values()):
            self._propose(node)

    # ---- fetching

    def _fetch(self, number: int) -> None:
        node = self.nodes.get(number)
        if node is None or node.role.is_leader or node.role.leader not in self.nodes:
            return
        role, log = node.role, node.log
        epoch, offset, last = role.leader_epoch, log.end, log.latest
        leader = self.nodes[role.leader]
        node.fetch += 1
        asked = Fetch(node, node.fetch, epoch, offset, last)
        self._send(lambda: self._serve(leader, asked))

    def _serve(self, leader: Node, asked: Fetch) -> None:
        follower, _, epoch, offset, last_fetched_epoch = asked
        role, log = leader.role, leader.log
        if not self._is_up(leader) or not role.is_leader or role.leader_epoch != epoch:
            return
        if last_fetched_epoch >= 0:
            known, end = log.end_offset_for(last_fetched_epoch)
            if known < 0:
                return
            differs = diverging(offset, last_fetched_epoch, known, end)
            if differs is not None:
                self._send(lambda: self._cut(asked, differs))
                return
        if offset > log.end:
            return
        role.follower_fetched(follower.number, offset, self.clock(leader), broker_epoch=follower.broker_epoch)
        if role.propose_joining(follower.number) is not None:
            self._propose(leader)
        records, high_watermark = log.records[offset : offset + 4], role.high_watermark
        self._send(lambda: self._take(asked, records, high_watermark))

    def _cut(self, asked: Fetch, differs: tuple[int, int]) -> None:
        if self._awaits(asked):
            log, role = asked.node.log, asked.node.role
            end = truncation_offset(
                *differs, log_end_offset=log.end, high_watermark=role.high_watermark, end_offset_for=log.end_offset_for
            )
            log.truncate(end)
            role.truncated(log.end)

    def _take(self, asked: Fetch, records: list[tuple[int, int]], high_watermark: int) -> None:
        if self._awaits(asked):
            node = asked.node
            for record in records:
                node.log.append(*record)
            node.role.appended(node.log.end, self.clock(node))
            node.role.follow(high_watermark)
            if self.rng.random() < 0.3:
                node.log.synced = node.log.end

    def _awaits(self, asked: Fetch) -> bool:
        """Returns whether a response is still awaited: a fetcher has one fetch in flight and accepts one response."""
        node = asked.node
        if not self._is_up(node) or node.fetch != asked.number:
            return False
        node.fetch += 1
        return not node.role.is_leader and node.role.leader_epoch == asked.epoch
