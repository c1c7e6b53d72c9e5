"""Seeded simulation of a coordinator: a lossy network, members that join and leave, and a log that loses its tail.

The simulation is a heap of events. After each event `check` verifies the invariants of the state machine. Periodically
it also verifies that a shard that loads the log (whole, or compacted) has the same state. Responses are checked when
clients get them: one owner per partition and generation, durable committed offsets, at most one response per request.
"""

from __future__ import annotations

import heapq
import random
from dataclasses import dataclass

from odradek.coordinator.groups.classic.group import ClassicGroup, ClassicGroupState
from odradek.coordinator.groups.shard import GroupShard
from odradek.coordinator.groups_config import GroupsConfig
from odradek.coordinator.result import GroupRequest
from odradek.coordinator.timers import NEVER
from odradek.protocol.messages.offset_commit import OffsetCommitRequest
from odradek.protocol.schema import Message

from tests.coordinator.group_logs import LogRecord, load
from tests.coordinator.harness.kinds import encode_record
from tests.coordinator.simulated_clients import SimulatedClient

#: Nothing expires here: a deleted group would restart its generations.
CONFIG = GroupsConfig(
    initial_rebalance_delay_ms=500, max_group_size=4, offsets_retention_check_interval_ms=1_000_000_000
)
#: The number of events between two reloads and comparisons of the shard.
RELOAD_EVERY = 40


@dataclass(frozen=True, eq=False)
class Asked:
    """A request at the coordinator, used as its token."""

    number: int
    client: SimulatedClient
    request: Message


class Simulation:
    def __init__(self, seed: int, clients: int = 10, groups: int = 2) -> None:
        self.rng = random.Random(seed)
        self.now = 1_000_000
        self.is_calm = False
        self.events = 0
        self._heap: list[tuple[int, int, tuple[object, ...]]] = []
        self._sequence = 0
        self._offset = 0
        self.log: list[LogRecord] = []
        self.high_watermark = 0
        self.shard = self.loaded(self.log)
        #: Replies that wait for the high watermark.
        self.parked: list[tuple[int, Asked, Message]] = []
        self.open: set[Asked] = set()
        self.owners: dict[tuple[str, int, int], str] = {}
        self.assignments: dict[tuple[str, int, str], list[int]] = {}
        self.acknowledged: dict[tuple[str, int], int] = {}
        self.generations: dict[str, int] = {}
        #: The highest generation of each group with an assignment in a response: it is committed.
        self.reported: dict[str, int] = {}
        self.epoch = 0
        for i in range(clients):
            # Four of ten clients are static, and two of these have the same instance id.
            instance = f"i{i // 6}" if i % 3 == 0 else None
            version = self.rng.choice([1, 3, 5, 8, 9]) if instance is None else self.rng.choice([5, 9, 9])
            client = SimulatedClient(f"c{i}", f"g{i % groups}", version, instance, self, is_alive=False)
            self.after(self.rng.randrange(5_000), client, "start")

    # The clients' view.

    def after(self, delay_ms: int, client: SimulatedClient, step: str, *what: object) -> None:
        self._push(delay_ms, "step", client, step, *what)

    def send(self, client: SimulatedClient, request: Message) -> None:
        asked = Asked(client.requests, client, request)
        if self.is_calm or self.rng.random() > 0.03:
            self._push(self.rng.randrange(1, 50), "arrive", asked)
        if not self.is_calm and self.rng.random() < 0.02 and not isinstance(request, OffsetCommitRequest):
            # The same bytes again, from a closed connection. (Not commits: an old one
            # would rightly undo a new one.)
            self._push(self.rng.randrange(1, 30_000), "arrive", Asked(-client.requests, client, request))

    def owns(self, client: SimulatedClient, partitions: list[int]) -> None:
        group_id, generation_id = client.group_id, client.generation_id
        who = client.instance_id or client.member_id
        reported = self.assignments.setdefault((group_id, generation_id, who), partitions)
        assert reported == partitions, f"{who} got {reported} and then {partitions} in generation {generation_id}"
        for partition in partitions:
            owner = self.owners.setdefault((group_id, generation_id, partition), who)
            assert owner == who, f"{owner} and {who} own partition {partition} in generation {generation_id}"
        self.reported[group_id] = max(self.reported.get(group_id, 0), generation_id)

    def committed(self, group_id: str, partition: int, offset: int) -> None:
        place = (group_id, partition)
        self.acknowledged[place] = max(self.acknowledged.get(place, -1), offset)

    def next_offset(self) -> int:
        self._offset += 1
        return self._offset

    # Events.

    def run(self, events: int) -> None:
        for _ in range(events):
            self.step()
        self.check_reload()

    def run_calm(self, ms: int) -> None:
        """Runs without faults: the live clients should form stable groups."""
        self.is_calm = True
        end = self.now + ms
        while self._heap and self._heap[0][0] <= end:
            self.step()

    def step(self) -> None:
        deadline = self.shard.deadline()
        if deadline is not None and (not self._heap or deadline <= self._heap[0][0]):
            self.now = max(self.now, deadline)
            self.shard.expire(self.now)
        else:
            at, _, event = heapq.heappop(self._heap)
            self.now = max(self.now, at)
            self._happen(*event)
        self._take()
        self.events += 1
        if not self.is_calm and self.rng.random() < 0.003:
            self.crash()
        self.check()

    def crash(self) -> None:
        """Crashes the leader, losing some uncommitted records. Pending requests get no response. Reloads the log."""
        lost = self.rng.randrange(self.high_watermark, len(self.log) + 1)
        del self.log[lost:]
        self.high_watermark = len(self.log)
        self.parked.clear()
        self.open.clear()
        self.epoch += 1
        self.generations.clear()
        self.shard = self.loaded(self.log)

    def _happen(self, kind: object, *what: object) -> None:
        if kind == "step":
            client, step, *rest = what
            assert isinstance(client, SimulatedClient) and isinstance(step, str)
            client.step(step, *rest)
        elif kind == "arrive":
            (asked,) = what
            assert isinstance(asked, Asked)
            self.open.add(asked)
            self.shard.handle(self._message(asked), self.now)
        elif kind == "commit":
            epoch, offset = what
            assert isinstance(offset, int)
            if epoch == self.epoch:
                self.high_watermark = max(self.high_watermark, offset)
                self._release()
        else:
            asked, response = what
            assert isinstance(asked, Asked) and isinstance(response, Message)
            asked.client.answered(asked.number, asked.request, response)

    def _message(self, asked: Asked) -> GroupRequest:
        client = asked.client
        uuid = f"{self.rng.getrandbits(64):016x}"
        return GroupRequest(asked, asked.request, client.version, client.name, "/127.0.0.1", uuid)

    def _take(self) -> None:
        output = self.shard.take()
        for record in output.records:
            self.log.append(encode_record(record))
        if output.records:
            self._push(self.rng.randrange(20), "commit", self.epoch, len(self.log))
        for token, response in output.replies:
            assert isinstance(token, Asked)
            assert token in self.open, f"{token.client.name} gets two responses"
            self.open.remove(token)
            self.parked.append((len(self.log), token, response))
        self._release()

    def _release(self) -> None:
        waiting, self.parked = self.parked, []
        for offset, asked, response in waiting:
            if offset > self.high_watermark:
                self.parked.append((offset, asked, response))
            elif self.is_calm or self.rng.random() > 0.03:
                self._push(self.rng.randrange(1, 50), "answer", asked, response)

    def _push(self, delay_ms: int, *event: object) -> None:
        self._sequence += 1
        heapq.heappush(self._heap, (self.now + delay_ms, self._sequence, event))

    # Invariants.

    def loaded(self, log: list[LogRecord]) -> GroupShard:
        return load(CONFIG, log, self.now)

    def check(self) -> None:
        for group in self.shard.state.groups.values():
            check_group(group)
            last = max(self.generations.get(group.group_id, 0), self.reported.get(group.group_id, 0))
            assert group.generation_id >= last, f"{group.group_id} decreased from generation {last}"  # type: ignore[attr-defined]
            self.generations[group.group_id] = group.generation_id  # type: ignore[attr-defined]
        for (group_id, partition), offset in self.acknowledged.items():
            kept = self.shard.state.offsets.get(group_id, "t", partition)
            assert kept is not None and kept.offset >= offset, f"offset {offset} of {group_id}-{partition} is lost"
        if self.events % RELOAD_EVERY == 0:
            self.check_reload()

    def check_reload(self) -> None:
        latest: dict[bytes, bytes | None] = {}
        for key, value in self.log:
            latest.pop(key, None)
            latest[key] = value
        for log in (self.log, list(latest.items())):
            self._check_same(self.loaded(log))

    def _check_same(self, other: GroupShard) -> None:
        ours, theirs = self.shard.state, other.state
        assert _offsets(ours.offsets.groups()) == _offsets(theirs.offsets.groups())
        assert ours.groups.keys() == theirs.groups.keys()
        for group_id, group in ours.groups.items():
            loaded = theirs.groups[group_id]
            assert group.durable == loaded.durable  # type: ignore[attr-defined]
            if group.state is ClassicGroupState.STABLE and len(group.members) <= CONFIG.max_group_size:  # type: ignore[attr-defined]
                assert _living(group) == _living(loaded), f"{group_id} differs from its log"


def _offsets(groups: object) -> dict[object, object]:
    """Returns offsets without their position in the log, since a replay does not count the gaps of compaction."""
    found: dict[object, object] = {}
    for group_id, topics in groups:  # type: ignore[attr-defined]
        for topic, partitions in topics.items():
            for partition, committed in partitions.items():
                found[group_id, topic, partition] = committed[:-1]
    return found


def _living(group: ClassicGroup) -> object:
    members = {m.member_id: (m.group_instance_id, m.assignment) for m in group.members.values()}
    return group.state, group.generation_id, group.leader_id, group.protocol_name, members, group.static_members


def check_group(group: ClassicGroup) -> None:
    members = list(group.members.values())
    waits_join = [m for m in members if m.awaiting_join is not None]
    waits_sync = [m for m in members if m.awaiting_sync is not None]
    assert group.awaiting_join_count == len(waits_join)
    assert not waits_join or group.state is ClassicGroupState.PREPARING_REBALANCE
    assert not waits_sync or group.state is ClassicGroupState.COMPLETING_REBALANCE
    assert group.static_members == {m.group_instance_id: m.member_id for m in members if m.group_instance_id}
    assert all(m.member_id == member_id for member_id, m in group.members.items())
    assert not group.pending_joins.keys() & group.members.keys()
    assert group.pending_syncs <= group.members.keys()
    assert (group.leader_id in group.members) if members else group.leader_id is None
    assert all(m.session.deadline_ms != NEVER or m.keeps_its_session() for m in members)
    if group.state is ClassicGroupState.EMPTY:
        assert not members
    if group.state is ClassicGroupState.PREPARING_REBALANCE:
        assert group.join_timer.deadline_ms != NEVER
    else:
        assert group.join_timer.deadline_ms == NEVER
    if group.state in (ClassicGroupState.COMPLETING_REBALANCE, ClassicGroupState.STABLE):
        assert all(group.protocol_name in m.protocols for m in members)
        assert (group.sync_timer.deadline_ms != NEVER) == bool(group.pending_syncs)
