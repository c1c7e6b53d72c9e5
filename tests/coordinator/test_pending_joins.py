"""Ids that a coordinator gave and clients never join with: their memory has a limit, and others can still join."""

from __future__ import annotations

import random
import sys

import pytest
from odradek.coordinator.groups.classic.group import MAX_PENDING_JOIN_BYTES, PENDING_JOIN_BYTES, ClassicGroup
from odradek.coordinator.groups.shard import GroupShard
from odradek.coordinator.groups_config import GroupsConfig
from odradek.coordinator.result import GroupRequest
from odradek.coordinator.timers import MOST_OBSOLETE
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from odradek.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from odradek.protocol.schema import Message

from tests.coordinator.harness.kinds import new_shard

CONFIG = GroupsConfig(initial_rebalance_delay_ms=0)
#: The memory of an id of a client "c".
ID_BYTES = sys.getsizeof("c-" + 32 * "0") + PENDING_JOIN_BYTES


class Clients:
    """The clients of one shard. Time stands still but for `pass_time`."""

    def __init__(self) -> None:
        self.shard: GroupShard = new_shard(CONFIG)
        self.now = 1_000
        self.requests = 0
        self.responses: dict[int, Message] = {}

    def ask(self, request: Message, version: int, client_id: str = "c") -> int:
        self.requests += 1
        self.shard.handle(
            GroupRequest(self.requests, request, version, client_id, "/h", f"{self.requests:032x}"), self.now
        )
        self._take()
        return self.requests

    def join(self, member_id: str = "", client_id: str = "c") -> int:
        protocols = [JoinGroupRequestProtocol("range", b"")]
        # The longest session that a client may ask for by default.
        request = JoinGroupRequest("g", CONFIG.max_session_timeout_ms, 60_000, member_id, None, "consumer", protocols)
        return self.ask(request, 5, client_id)

    def new_id(self, client_id: str = "c") -> str:
        response = self.responses.pop(self.join(client_id=client_id))
        assert response.error_code == ErrorCode.MEMBER_ID_REQUIRED  # type: ignore[attr-defined]
        member_id: str = response.member_id  # type: ignore[attr-defined]
        return member_id

    def leave(self, member_id: str) -> None:
        self.responses.pop(self.ask(LeaveGroupRequest("g", members=[MemberIdentity(member_id)]), 3))

    def pass_time(self, ms: int) -> None:
        self.now += ms
        self.shard.expire(self.now)
        self._take()

    def _take(self) -> None:
        for token, response in self.shard.take().replies:
            assert isinstance(token, int)
            self.responses[token] = response

    @property
    def group(self) -> ClassicGroup:
        group = self.shard.state.find(ClassicGroup, "g")
        assert group is not None
        return group

    @property
    def queued_timers(self) -> int:
        return len(self.shard.state.timers._queue)


def pending_bytes(group: ClassicGroup) -> int:
    return sum(sys.getsizeof(member_id) + PENDING_JOIN_BYTES for member_id in group.pending_joins)


@pytest.mark.parametrize("client_id", ["c", "c" * 32_000, "c" * 8_000 + "\N{SNOWMAN}" * 8_000])
def test_ids_without_a_join_take_limited_memory(client_id: str) -> None:
    clients = Clients()
    most = MAX_PENDING_JOIN_BYTES // (sys.getsizeof(client_id) + PENDING_JOIN_BYTES) + 1
    ids = [clients.new_id(client_id) for _ in range(2 * most + 50)]
    assert MAX_PENDING_JOIN_BYTES // 2 < pending_bytes(clients.group) <= MAX_PENDING_JOIN_BYTES
    kept = list(clients.group.pending_joins)
    assert kept == ids[-len(kept) :], "the oldest are forgotten"
    assert clients.queued_timers <= 2 * len(kept) + 2 * MOST_OBSOLETE


def test_forgotten_id_is_unknown_and_its_client_joins_with_the_next() -> None:
    clients = Clients()
    first = clients.new_id()
    for _ in range(MAX_PENDING_JOIN_BYTES // ID_BYTES):
        last = clients.new_id()
    assert first not in clients.group.pending_joins
    response = clients.responses[clients.join(first)]
    assert response.error_code == ErrorCode.UNKNOWN_MEMBER_ID  # type: ignore[attr-defined]
    clients.join(last)
    assert list(clients.group.members) == [last]


def test_rebalance_ends_in_time_while_a_client_asks_for_ids_in_a_loop() -> None:
    clients = Clients()
    token = clients.join(clients.new_id())
    clients.pass_time(0)
    assert clients.responses[token].error_code == 0  # type: ignore[attr-defined]
    clients.new_id()
    again = clients.join(clients.new_id())
    first_again = clients.join(next(iter(clients.group.members)))
    assert not {again, first_again} & clients.responses.keys(), "the first id may still join"
    for _ in range(60):
        for _ in range(200):
            clients.new_id()
        clients.pass_time(1_000)
    assert {clients.responses[token].error_code for token in (again, first_again)} == {0}  # type: ignore[attr-defined]
    assert len(clients.group.members) == 2


def test_client_that_joins_and_leaves_in_a_loop_does_not_fill_the_queue_of_timers() -> None:
    clients = Clients()
    for _ in range(5 * MOST_OBSOLETE):
        clients.leave(clients.new_id())
    assert not clients.group.pending_joins
    assert clients.queued_timers <= 2 * MOST_OBSOLETE


@pytest.mark.parametrize("seed", range(8))
def test_memory_of_ids_is_counted_exactly(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ids are forgotten in every way: joined with, left, expired, forced out, or removed with their group."""
    monkeypatch.setattr("odradek.coordinator.groups.classic.group.MAX_PENDING_JOIN_BYTES", 20 * ID_BYTES)
    rng, clients = random.Random(seed), Clients()
    for _ in range(600):
        step = rng.randrange(10)
        group = clients.shard.state.find(ClassicGroup, "g")
        known = [*group.pending_joins, *group.members] if group is not None else []
        if step < 5 or not known:
            clients.new_id("c" * rng.randint(1, 500))
        elif step < 7:
            clients.join(rng.choice(known))
        elif step < 9:
            clients.leave(rng.choice(known))
        else:
            clients.pass_time(rng.choice([0, 1_000, 100_000, 2_000_000]))
        if (group := clients.shard.state.find(ClassicGroup, "g")) is not None:
            assert group._pending_join_bytes == pending_bytes(group) <= 20 * ID_BYTES
            assert all(timer.is_set for timer in group.pending_joins.values())
