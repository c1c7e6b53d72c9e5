"""A seeded simulation of a quorum: one heap of events, a faulty network and disks, clocks that jump, voter changes.

A seed reproduces a run to the event. `Simulation(seed).run()` raises on a violation. `mutations` are injected driver
bugs that show that the checks find them: `unsynced_fetch` sends before the log is synced, `forgotten_state` loses
`quorum-state` in a crash.
"""

from __future__ import annotations

import heapq
import random
from collections import deque
from collections.abc import Callable
from typing import Any

from odradek.protocol.messages.add_raft_voter import AddRaftVoterRequest
from odradek.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse, SupportedFeatureKey
from odradek.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest
from odradek.protocol.messages.voter_listeners import VoterListener
from odradek.replication.quorum.core import QuorumConfig
from odradek.replication.quorum.effects import (
    Appended,
    Effect,
    ElectionState,
    Flush,
    LeaderGone,
    PeerRequest,
    PeerResponse,
    Reply,
    Resign,
    Send,
    Synced,
    WriteState,
)
from odradek.replication.quorum.replica import QuorumReplica, Remembered
from odradek.replication.quorum.voters import Address, ReplicaKey, Voter, VoterHistory, VoterSet

from tests.replication.quorum.quorum_invariants import PROGRESS, Broken, Invariants
from tests.replication.quorum.toy_log import ENTRY_BYTES, ToyLog

CHAOS_MS = 8_000
HEALING_MS = 10_000
#: Longer than the timeout of a change of the voters.
CALM_MS = 35_000
#: A run with more events is an endless loop of messages.
MOST_EVENTS = 100_000


def directory(node_id: int) -> bytes:
    return bytes([node_id or 0xFF]) * 16  # node 0 has a directory, too


def voter(node_id: int) -> Voter:
    return Voter(ReplicaKey(node_id, directory(node_id)), (Address("CONTROLLER", f"c{node_id}", 9093),))


class Node:
    """A process and its disk. A crash loses unsynced data."""

    def __init__(self, simulation: Simulation, node_id: int) -> None:
        self.id, self.simulation = node_id, simulation
        self.log, self.state = ToyLog(), ElectionState()
        self.replica: QuorumReplica | None = None
        self.incarnation = 0
        self.clock_skew = 0
        self.seen_high_watermark = self.matched = 0
        self._queue: deque[Effect] = deque()
        self._held: list[Effect] = []
        self._writing = False
        self._wake_at: int | None = None

    @property
    def now(self) -> int:
        return self.simulation.now + self.clock_skew

    def start(self) -> None:
        self.incarnation += 1
        self._queue.clear()
        self._held, self._writing, self._wake_at = [], False, None
        #: The numbers of an administrator's requests that this process has not answered.
        self.unanswered: set[int] = set()
        self.seen_high_watermark = 0
        history, config = self.simulation.history(self.id), self.simulation.config(self.id)
        key = ReplicaKey(self.id, directory(self.id))
        for offset, record in self.log.controls(0, self.log.end_offset):
            if hasattr(record.message, "kraft_version"):
                history.set_kraft_version(offset, record.message.kraft_version)
            elif hasattr(record.message, "granting_voters") is False:
                history.add(offset, VoterSet.from_record(record.message))
        rng = self.simulation.rng
        self.replica = QuorumReplica(key, config, self.log, history, Remembered(self.state), rng, self.now)
        self.pump()

    def crash(self) -> None:
        rng = self.simulation.rng
        self.log.crash(rng.randint(self.log.synced_offset, self.log.end_offset))
        if "forgotten_state" in self.simulation.mutations:
            self.state = ElectionState()
        self.replica = None
        self.incarnation += 1

    def handle(self, message: Any) -> None:
        if self.replica is not None:
            self.replica.handle(message, self.now)
            self.pump()

    def wake(self) -> None:
        self._wake_at = None
        if self.replica is not None:
            self.replica.expire(self.now)
            self.pump()

    def later(self, delay: int, function: Callable[[], None]) -> None:
        """Schedules an event for this process; it is dropped if the process dies before."""
        incarnation = self.incarnation

        def run() -> None:
            if self.incarnation == incarnation:
                function()

        self.simulation.at(self.simulation.now + delay, run)

    # ---- effects, in their order

    def pump(self) -> None:
        assert self.replica is not None
        self._queue += self.replica.take()
        while self._queue and not self._writing:
            effect = self._queue.popleft()
            if isinstance(effect, WriteState):
                self._writing = True
                self.later(self.simulation.rng.randint(0, 8), lambda state=effect.state: self._written(state))
            elif isinstance(effect, Flush):
                self._flush()
            elif effect.sync_to > self.log.synced_offset and "unsynced_fetch" not in self.simulation.mutations:
                self._held.append(effect)
            else:
                self._emit(effect)
        self._arm()
        self.simulation.invariants.check(self)

    def _written(self, state: ElectionState) -> None:
        self.state, self._writing = state, False
        if self.simulation.faulty and self.simulation.rng.random() < 0.1:
            # A crash right after a promise is the most revealing one.
            self.later(self.simulation.rng.randint(0, 4), lambda: self.simulation.crash(self, 20))
        self.pump()

    def _flush(self) -> None:
        self.simulation.flushes += 1
        number = self.simulation.flushes
        self.log.begin_flush(number)
        self.later(self.simulation.rng.randint(0, 12), lambda: self._flushed(number))

    def _flushed(self, number: int) -> None:
        self.log.end_flush(number)
        held, self._held = self._held, []
        for effect in held:
            if effect.sync_to <= self.log.synced_offset:
                self._emit(effect)
            else:
                self._held.append(effect)
        self.handle(Synced(self.log.synced_offset))

    def _emit(self, effect: Effect) -> None:
        if isinstance(effect, Send):
            self.simulation.send(self, effect)
        elif isinstance(effect, Reply):
            self.simulation.reply(self, effect)

    def _arm(self) -> None:
        assert self.replica is not None
        deadline = self.replica.deadline()
        if deadline is None:
            return
        at = max(deadline - self.clock_skew, self.simulation.now + 1)
        if self._wake_at is None or at < self._wake_at:
            self._wake_at = at
            self.later(at - self.simulation.now, lambda: self.wake() if self._wake_at == at else None)


class Simulation:
    def __init__(self, seed: int, mutations: frozenset[str] = frozenset()) -> None:
        self.rng = random.Random(seed)
        self.mutations = mutations
        self.now = 1_000_000
        self.flushes = self.events = self._sequence = self._value = self._asked = 0
        self._heap: list[tuple[int, int, Callable[[], None]]] = []
        self.faulty = self.has_load = True
        self.cut: set[tuple[int, int]] = set()
        self.invariants = Invariants(self)
        voters = self.rng.choice((1, 3, 3, 3, 4, 5))
        first = seed % 2  # node ids start at 0, too
        self.initial_voters = VoterSet.of(voter(number) for number in range(first, first + voters))
        self.nodes = {number: Node(self, number) for number in range(first, first + voters + self.rng.randint(0, 2))}
        #: Some responses have one entry, others all.
        self.most_bytes = self.rng.choice((ENTRY_BYTES, 9 * ENTRY_BYTES, 1 << 20))
        self.drops = self.rng.choice((0.0, 0.02, 0.1, 0.3))

    # ---- input to a node after its start

    def history(self, node_id: int) -> VoterHistory:
        initial = self.initial_voters if node_id in self.initial_voters.voters else VoterSet()
        return VoterHistory(initial, 1 if initial.voters else 0)

    def config(self, node_id: int) -> QuorumConfig:
        most = self.most_bytes
        # A request may take longer than a Fetch waits for records, and followers wait for two of them.
        return QuorumConfig("cluster", 300, 1_400, 300, 700, 20, self.initial_voters.ids, most, most)

    # ---- time

    def at(self, time: int, function: Callable[[], None]) -> None:
        self._sequence += 1
        heapq.heappush(self._heap, (time, self._sequence, function))

    def run_until(self, end: int) -> None:
        while self._heap and self._heap[0][0] <= end:
            self.now, _, function = heapq.heappop(self._heap)
            self.events += 1
            assert self.events < MOST_EVENTS, "the replicas exchange messages endlessly"
            function()
        self.now = end

    def run(self) -> None:
        for node in self.nodes.values():
            node.start()
        end = self.now + CHAOS_MS
        self._fault()
        self._append()
        self.run_until(end)
        self._heal()

    # ---- the network

    def _deliver(self, source: int, target: int, function: Callable[[], None]) -> None:
        if source != target and ((source, target) in self.cut or (self.faulty and self.rng.random() < self.drops)):
            return
        copies = 2 if self.faulty and self.rng.random() < 0.05 else 1
        for _ in range(copies):
            slow = self.faulty and self.rng.random() < 0.03
            self.at(self.now + self.rng.randint(1, 900 if slow else 15), function)

    def send(self, source: Node, effect: Send) -> None:
        target = self.nodes[effect.node]
        token = (source.id, source.incarnation, effect.node, effect.correlation)
        if isinstance(effect.request, ApiVersionsRequest):
            feature = SupportedFeatureKey(name="kraft.version", min_version=0, max_version=1)
            response = Reply(token, ApiVersionsResponse(supported_features=[feature]))
            self._deliver(source.id, target.id, lambda: target.replica and self.reply(target, response))
        elif target.replica is None and self.rng.random() < 0.5:
            failed = PeerResponse(effect.node, effect.correlation, None)
            source.later(5, lambda: source.handle(failed))
        else:
            self._deliver(source.id, target.id, lambda: target.handle(PeerRequest(token, effect.request)))

    def reply(self, source: Node, effect: Reply) -> None:
        if isinstance(effect.token, int):
            source.unanswered.discard(effect.token)  # a request of an administrator
            return
        asker, incarnation, node, correlation = effect.token
        target = self.nodes[asker]

        def arrive() -> None:
            if target.incarnation == incarnation:
                target.handle(PeerResponse(node, correlation, effect.response))

        self._deliver(source.id, asker, arrive)

    # ---- faults

    def _append(self) -> None:
        if not self.has_load:
            return
        for node in self.nodes.values():
            if node.replica is not None and node.replica.is_leader:
                self._value += 1
                node.log.append(node.replica.epoch, self._value)
                node.handle(Appended(node.replica.epoch, node.log.end_offset))
        self.at(self.now + self.rng.randint(5, 120), self._append)

    def _fault(self) -> None:
        if not self.faulty:
            return
        faults = (self._crash, self._crash, self._cut, self._cut, self._jump, self._snapshot, self._change_voters)
        self.rng.choice((*faults, self._mend, self._mend, self._resign))()
        self.at(self.now + self.rng.randint(20, 500), self._fault)

    def _any(self) -> Node:
        return self.nodes[self.rng.choice(list(self.nodes))]

    def _crash(self) -> None:
        self.crash(self._any(), 1_500)

    def crash(self, node: Node, longest_ms: int) -> None:
        if node.replica is not None:
            node.crash()
            self.at(self.now + self.rng.randint(1, longest_ms), lambda: None if node.replica else node.start())
            self._tell_that_gone(node)

    def _tell_that_gone(self, gone: Node) -> None:
        """Reports to the other nodes, after a delay, that the node's process has died; it may have restarted by then."""
        for node in self.nodes.values():
            if node is not gone and node.replica is not None and self.rng.random() < 0.5:
                node.later(self.rng.randint(1, 60), lambda node=node: node.handle(LeaderGone(gone.id)))

    def _cut(self) -> None:
        one, both = self._any().id, self.rng.random() < 0.7
        for other in self.nodes:
            if other != one and self.rng.random() < 0.6:
                self.cut |= {(one, other), (other, one)} if both else {(one, other)}

    def _mend(self) -> None:
        self.cut.clear()

    def _jump(self) -> None:
        self._any().clock_skew += self.rng.choice((-5_000, -300, 300, 5_000))

    def _snapshot(self) -> None:
        for node in self.nodes.values():
            if node.replica is not None and self.rng.random() < 0.5:
                end = min(node.replica.high_watermark, node.log.synced_offset)
                node.log.take_snapshot(end, self.rng.random() < 0.7)

    def _resign(self) -> None:
        self._any().handle(Resign())

    def _change_voters(self) -> None:
        changed = self._any()
        key = directory(changed.id)
        for node in self.nodes.values():
            if node.replica is None or not node.replica.is_leader:
                continue
            if changed.id in node.replica.voter_set.voters:
                request: Any = RemoveRaftVoterRequest(voter_id=changed.id, voter_directory_id=key, cluster_id=None)
            else:
                listeners = [VoterListener(name="CONTROLLER", host=f"c{changed.id}", port=9093)]
                request = AddRaftVoterRequest(
                    cluster_id=None,
                    timeout_ms=2_000,
                    voter_id=changed.id,
                    voter_directory_id=key,
                    listeners=listeners,
                )
            self._asked += 1
            node.unanswered.add(self._asked)
            node.handle(PeerRequest(self._asked, request))

    def _heal(self) -> None:
        """Stops all faults: soon there must be one leader, and all nodes must have its commits."""
        self.faulty = False
        self.cut.clear()
        for node in self.nodes.values():
            if node.replica is None:
                node.start()
        before = len(self.invariants.committed)
        self.run_until(self.now + HEALING_MS)
        leaders = [node for node in self.nodes.values() if node.replica is not None and node.replica.is_leader]
        if len(leaders) != 1:
            raise Broken(
                PROGRESS, f"{len(leaders)} leaders: {[n.replica and n.replica.role for n in self.nodes.values()]}"
            )
        leader = leaders[0].replica
        assert leader is not None
        if len(self.invariants.committed) <= before + 10:
            raise Broken(PROGRESS, f"nothing is committed after {before}")
        for node in self.nodes.values():
            assert node.replica is not None
            if node.replica.high_watermark < leader.high_watermark - 40:
                raise Broken(PROGRESS, f"node {node.id} stays behind: {node.replica.role}")
        self._calm_down()

    def _calm_down(self) -> None:
        """Ends the load: all logs must become equal and committed, with the same voters, and no request may stay open."""
        self.has_load = False
        self.run_until(self.now + CALM_MS)
        (leader,) = [node for node in self.nodes.values() if node.replica is not None and node.replica.is_leader]
        for node in self.nodes.values():
            replica = node.replica
            assert replica is not None and leader.replica is not None
            if node.log.entries != leader.log.entries or replica.high_watermark != leader.log.end_offset:
                raise Broken(PROGRESS, f"node {node.id} differs from the leader {leader.id} when nothing happens")
            if replica.voter_set != leader.replica.voter_set:
                raise Broken(PROGRESS, f"node {node.id} has other voters than {leader.replica.voter_set.ids}")
            if node.unanswered:
                raise Broken(PROGRESS, f"node {node.id} has not answered {len(node.unanswered)} requests")
