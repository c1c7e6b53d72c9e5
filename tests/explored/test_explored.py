"""The nearest states of each configuration hold the invariants, and each invariant finds a bug that is put in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from odradek.coordinator import transaction_ends, transaction_shard
from odradek.coordinator.groups.classic.group import ClassicGroup
from odradek.coordinator.groups.consumer.group import ConsumerGroup
from odradek.coordinator.groups.shard import GroupShard
from odradek.coordinator.groups.share import assignor, targets
from odradek.coordinator.result import Output
from odradek.coordinator.transaction import TransactionStatus
from odradek.coordinator.transaction_shard import TransactionShard
from odradek.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from odradek.replication import divergence
from odradek.replication.replica_role import ReplicaRole

from tests.explored import groups, replicas, transactions
from tests.explored.configurations import CONFIGURATIONS
from tests.explored.explorer import Report, Violation, World, explore

#: Most of a minute for all tests.
pytestmark = pytest.mark.slow

#: Few enough for `make test`: `python -m tests.explored` goes on.
STATES = 250
#: Within so many states each bug is found.
STATES_FOR_A_BUG = 20_000

Inject = Callable[[pytest.MonkeyPatch], None]


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_invariants_hold_in_the_nearest_states(name: str) -> None:
    report = explore(CONFIGURATIONS[name](), STATES)
    assert report.states == STATES or report.is_whole
    assert report.depth >= 4


def test_whole_configuration_is_explored() -> None:
    assert explore(CONFIGURATIONS["replicas"](), 1_000) == Report(177, 379, 20, is_whole=True)


def all_have_committed(world: replicas.ReplicaWorld) -> bool:
    return all(node.role.high_watermark == 1 for node in world.nodes.values())


def isr_has_shrunk_and_grown(world: replicas.ReplicaWorld) -> bool:
    partition = replicas.partition_of(world.image)
    return partition.partition_epoch >= 2 and len(partition.isr) == 3


def another_leads(world: replicas.ReplicaWorld) -> bool:
    return len(world.leaders) > 1 and len(world.committed) > 0


def transaction_is_complete(world: transactions.TransactionWorld) -> bool:
    is_ended = all(leader.ended.get(("first", 1)) == {True} for leader in world.leaders.values())
    return is_ended and world.shard.state.transactions["x"].state is TransactionStatus.COMPLETE_COMMIT


def second_has_aborted(world: transactions.TransactionWorld) -> bool:
    has_aborted = all(leader.ended.get(("first", 1)) == {False} for leader in world.leaders.values())
    return has_aborted and world.producers["second"].step == "done"


def both_own_one(world: groups.GroupWorld) -> bool:
    return all(len(member.owned) == 1 for member in world.members.values())


def both_own_one_after_a_move(world: groups.GroupWorld) -> bool:
    return both_own_one(world) and world.budget.moves == 0


GOALS: list[tuple[str, Callable[[Any], bool], int]] = [
    ("replicas", all_have_committed, STATES),
    ("replicas-isr-change", isr_has_shrunk_and_grown, 20_000),
    ("replicas-election", another_leads, 20_000),
    ("transaction", transaction_is_complete, 1_000),
    ("transaction-of-one-fenced", second_has_aborted, 5_000),
    ("classic-group-rebalance", both_own_one, 20_000),
    ("consumer-group", both_own_one_after_a_move, 5_000),
    ("share-group", both_own_one, 5_000),
]


@pytest.mark.parametrize(("name", "holds", "states"), GOALS, ids=[f"{name}-{goal.__name__}" for name, goal, _ in GOALS])
def test_configuration_reaches_its_goal(name: str, holds: Callable[[Any], bool], states: int) -> None:
    """A world that stands still holds every invariant."""
    world: Any = CONFIGURATIONS[name]()
    original = type(world).apply

    def apply(self: Any, choice: Any) -> None:
        original(self, choice)
        assert not holds(self), "reached"

    kind = type("Until", (type(world),), {"apply": apply})
    world.__class__ = kind
    with pytest.raises(Violation, match="reached"):
        explore(world, states)


# ---- injected bugs


def leads_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """A leader goes on after another was elected."""
    original = ReplicaRole.apply

    def apply(self: ReplicaRole, registration: Any, now_ms: int) -> bool:
        was_leader = self.is_leader
        changed = original(self, registration, now_ms)
        self.is_leader = self.is_leader or was_leader
        return changed

    monkeypatch.setattr(ReplicaRole, "apply", apply)


def commits_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def advance(self: ReplicaRole, now_ms: int) -> bool:
        self.high_watermark = self.log_end_offset
        return True

    monkeypatch.setattr(ReplicaRole, "_advance", advance)


def believes_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    def follow(self: ReplicaRole, high_watermark: int) -> bool:
        self.high_watermark = high_watermark + 1
        return True

    monkeypatch.setattr(ReplicaRole, "follow", follow)


def commits_what_it_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    def follow(self: ReplicaRole, high_watermark: int) -> bool:
        self.high_watermark = self.log_end_offset
        return True

    monkeypatch.setattr(ReplicaRole, "follow", follow)


def never_diverges(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(divergence, "diverging", lambda *arguments: None)


def completes_after_one_marker(monkeypatch: pytest.MonkeyPatch) -> None:
    original = transaction_ends.markers_written

    def written(state: Any, message: Any, now: int) -> None:
        transaction = state.transactions.get(message.transactional_id)
        if transaction is not None:
            transaction.unwritten &= message.partitions
        original(state, message, now)

    monkeypatch.setattr(transaction_shard, "markers_written", written)


def aborts_what_is_decided(monkeypatch: pytest.MonkeyPatch) -> None:
    """A coordinator that takes over aborts the transactions that it finds decided."""
    original = TransactionShard.loaded

    def loaded(self: TransactionShard, now: int) -> None:
        original(self, now)
        self.state.replies[:] = [one._replace(committed=False) for one in self.state.replies]  # type: ignore[call-arg, union-attr]

    monkeypatch.setattr(TransactionShard, "loaded", loaded)
    monkeypatch.setattr(transaction_shard, "awaits", lambda *arguments: True)


class WithoutResponse(transactions.TransactionWorld):
    """The response to the end is lost."""

    def _receive(self, index: int) -> None:
        if self.responses[index][2] == "end":
            del self.responses[index]
        else:
            super()._receive(index)


def decides_by_partition(monkeypatch: pytest.MonkeyPatch) -> None:
    original = transaction_ends.send_markers

    def send(state: Any, transaction: Any) -> None:
        original(state, transaction)
        markers = state.replies.pop()
        state.replies += [
            markers._replace(partitions=(place,), committed=place[1] == 0) for place in markers.partitions
        ]

    monkeypatch.setattr(transaction_ends, "send_markers", send)
    monkeypatch.setattr(transaction_shard, "send_markers", send)
    monkeypatch.setattr(transaction_shard, "awaits", lambda *arguments: True)


def ends_without_a_record(monkeypatch: pytest.MonkeyPatch) -> None:
    def end(state: Any, message: Any, now: int) -> None:
        state.reply(message, EndTxnResponse())

    monkeypatch.setitem(transaction_shard.OPERATIONS, EndTxnRequest, end)


def gives_what_others_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ConsumerGroup, "is_held", lambda self, topic_id, index: False, raising=False)


def repeats_generations(monkeypatch: pytest.MonkeyPatch) -> None:
    original = ClassicGroup.next_generation

    def next_generation(self: ClassicGroup, now: int) -> None:
        original(self, now)
        self.generation_id = 1

    monkeypatch.setattr(ClassicGroup, "next_generation", next_generation)


def assigns_unknown_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    original = assignor.simple
    every = {groups.T: frozenset({0, 1})}
    monkeypatch.setattr(targets, "simple", lambda members, assignable: original(members, every))


def changes_without_a_record(monkeypatch: pytest.MonkeyPatch) -> None:
    original = GroupShard.take

    def take(self: GroupShard) -> Output:
        for group in self.state.every(ConsumerGroup):
            group.epoch += 1
        return original(self)

    monkeypatch.setattr(GroupShard, "take", take)


def lowers_epochs(monkeypatch: pytest.MonkeyPatch) -> None:
    original = GroupShard.take

    def take(self: GroupShard) -> Output:
        output = original(self)
        for reply in output.replies:
            response: Any = reply.response
            if response.member_epoch > 2:
                response.member_epoch = 1
        return output

    monkeypatch.setattr(GroupShard, "take", take)


BUGS: list[tuple[Inject, Callable[[], World], str]] = [
    (leads_on, lambda: replicas.ReplicaWorld(replicas.Budget(records=0, fenced=1)), "has two leaders"),
    (commits_alone, lambda: replicas.ReplicaWorld(replicas.Budget()), "lacks acknowledged"),
    (never_diverges, lambda: replicas.ReplicaWorld(replicas.Budget(records=2, fenced=1)), "lacks acknowledged"),
    (believes_too_much, lambda: replicas.ReplicaWorld(replicas.Budget()), "lacks what it has committed"),
    (commits_what_it_fetched, lambda: replicas.ReplicaWorld(replicas.Budget()), "differs below its high watermark"),
    (
        completes_after_one_marker,
        lambda: transactions.TransactionWorld(transactions.Budget(moves=0, fences=False)),
        "records without a marker",
    ),
    (
        aborts_what_is_decided,
        lambda: transactions.TransactionWorld(transactions.Budget(fences=False, again=0, places=1)),
        "whose commit was acknowledged is not",
    ),
    (
        decides_by_partition,
        lambda: WithoutResponse(transactions.Budget(moves=0, fences=False)),
        "one partition has a commit and the other an abort",
    ),
    (
        ends_without_a_record,
        lambda: transactions.TransactionWorld(transactions.Budget(moves=0, again=0, places=1)),
        "whose commit was acknowledged is not",
    ),
    (gives_what_others_hold, lambda: groups.ConsumerWorld(groups.Budget(moves=0)), "have two owners"),
    (lowers_epochs, lambda: groups.ConsumerWorld(groups.Budget(moves=0)), "decreased"),
    (changes_without_a_record, lambda: groups.ConsumerWorld(groups.Budget()), "has another epoch"),
    (assigns_unknown_partitions, lambda: groups.ShareWorld(groups.Budget(moves=0)), "has not initialized"),
    (repeats_generations, lambda: groups.ClassicWorld(groups.Budget(8, moves=0)), "two owners in generation"),
]


@pytest.mark.parametrize(("inject", "world", "words"), BUGS, ids=[inject.__name__ for inject, _, _ in BUGS])
def test_injected_bug_is_found(
    inject: Inject, world: Callable[[], World], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    inject(monkeypatch)
    with pytest.raises(Violation, match=words):
        explore(world(), STATES_FOR_A_BUG)
