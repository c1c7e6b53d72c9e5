"""Seeded simulation of a group that changes its protocol online (KIP-848).

Clients of both protocols (migrating_classic.py, migrating_consumer.py) join, leave, crash, return with the other
protocol, pause, and react slowly. Requests and responses are lost. Topics grow and are created. Other coordinators load
the log at any moment, some of it compacted. After every event no partition may have two owners, by the guarantees of
each protocol. No epoch may decrease, and committed offsets must be present.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

from odradek.coordinator.groups.classic.group import ClassicGroup, ClassicGroupState
from odradek.coordinator.groups.consumer.group import ConsumerGroup, ConsumerGroupState
from odradek.coordinator.groups.shard import GroupShard
from odradek.coordinator.groups_config import GroupsConfig
from odradek.coordinator.result import GroupRequest
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.offset_commit import OffsetCommitResponse
from odradek.protocol.schema import Message

from tests.coordinator.group_logs import LogRecord, compacted, load_batches
from tests.coordinator.group_simulation import GROUP, GroupSimulation, image_of, survivor
from tests.coordinator.harness.kinds import encode_record
from tests.coordinator.migrating_classic import ClassicClient
from tests.coordinator.migrating_clients import (
    CONSUMER_SESSION_MS,
    MigratingClient,
    TopicIdPartition,
    commit_of,
    name_of,
)
from tests.coordinator.migrating_consumer import ConsumerClient
from tests.coordinator.simulation import check_group

CONFIG = GroupsConfig(
    initial_rebalance_delay_ms=500,
    consumer_session_timeout_ms=CONSUMER_SESSION_MS,
    consumer_heartbeat_interval_ms=1_000,
    consumer_assignment_interval_ms=500,
    offsets_retention_check_interval_ms=1_000_000_000,
)
#: Rounds per seed, each with a faulty and a calm phase.
ROUNDS = 2


@dataclass(eq=False)
class Asked:
    """A request at the coordinator, used as its token."""

    client: MigratingClient
    request: Message
    is_response_lost: bool


class MigrationSimulation(GroupSimulation):
    CONFIG = CONFIG

    def __init__(self, seed: int, clients: int = 4) -> None:
        #: The appended batches, and the number of them in closed segments.
        self.batches: list[list[LogRecord]] = []
        self.closed = 0
        self.image = image_of({"ta": 4, "tb": 2})
        self.is_calm = False
        super().__init__(seed, {"ta": 4, "tb": 2})
        #: The fraction of new clients with the new protocol.
        self.share = 0.5
        self.clients: list[MigratingClient] = [self._born(number, 0) for number in range(clients)]
        self.lives = clients
        self.committed: dict[TopicIdPartition, int] = {}
        self.offset = 0
        self.last_epoch = 0
        #: The highest epoch with an assignment in a response: it does not decrease when coordinators change.
        self.reported_epoch = 0
        self.kinds: list[str] = []

    @property
    def group(self) -> Any:
        return self.shard.state.groups.get(GROUP)

    # Events.

    def run(self, steps: int) -> None:
        moves = self.moves()
        rngs = [*moves.values(), 100 - sum(moves.values())]
        for _ in range(steps):
            self.pass_time(self.rng.randrange(50, 600))
            client = self.rng.choice(self.clients)
            if not client.is_alive:
                if self.rng.random() < 0.3:
                    self.begin(client)
            elif client.silent_until <= self.now:
                (move,) = self.rng.choices([*moves, self.heartbeat], rngs)
                move(client)
            self.check()

    def run_calm(self) -> None:
        self.is_calm = True
        super().run_calm()
        self.is_calm = False

    def moves(self) -> dict[Callable[[Any], None], int]:
        return {
            self.crash: 2,
            self.leave: 4,
            self.move: 3,
            self._be_silent: 1,
            self._change_a_topic: 1,
            self._commit: 8,
            self._turn_the_tide: 2,
            self._visit: 5,
            self._close_the_segment: 1,
        }

    def heartbeat(self, client: Any, is_lossy: bool = True) -> None:
        client.act(is_lossy)

    def begin(self, client: Any) -> None:
        self.lives += 1
        self.clients[client.number] = self._born(client.number, self.lives, client)

    def _born(self, number: int, life: int, before: MigratingClient | None = None) -> MigratingClient:
        kind: type[MigratingClient] = ConsumerClient if self.rng.random() < self.share else ClassicClient
        client = kind(self, number, life, f"i{number}" if number < 2 else None)
        if before is not None:
            client.before = before.before
            if client.instance_id is not None and isinstance(before, kind) and self.rng.random() < 0.3:
                # An instance may have its previous member id.
                client.member_id = before.member_id if kind is ConsumerClient else ""
        return client

    def crash(self, client: Any) -> None:
        client.end()

    def leave(self, client: Any) -> None:
        client.owned.clear()
        client.leave(is_lossy=True)
        client.end()

    def _be_silent(self, client: MigratingClient) -> None:
        client.silent_until = self.now + self.rng.randrange(20_000)

    def _turn_the_tide(self, client: MigratingClient) -> None:
        """Changes the fraction of clients with the new protocol. At 0 all of them leave."""
        self.share = self.rng.choice([0.0, 0.0, 0.0, 0.3, 1.0])
        for one in self.clients if self.share == 0.0 else ():
            if isinstance(one, ConsumerClient) and one.is_alive:
                self.leave(one)

    def _visit(self, client: MigratingClient) -> None:
        """Replaces a client by a client with the new protocol that leaves at once, possibly several times.

        So the group changes its protocol repeatedly in the middle of a rebalance.
        """
        dead = [one for one in self.clients if not one.is_alive]
        number = self.rng.choice(dead or [client]).number
        while self.rng.random() < 0.8:
            if self.clients[number].is_alive:
                self.leave(self.clients[number])
                self.check()
            share, self.share = self.share, 1.0
            self.begin(self.clients[number])
            self.share = share
            self.clients[number].act(is_lossy=True)
            self.check()
            if self.rng.random() < 0.3:
                return
            self.leave(self.clients[number])
            if self.rng.random() < 0.2:
                self.move()

    def _change_a_topic(self, client: MigratingClient) -> None:
        name = self.rng.choice(["tb", "tc"])
        if self.counts.get(name, 0) < 4:
            self.change_topics(self.counts | {name: self.counts.get(name, 0) + 1})

    def _close_the_segment(self, client: MigratingClient) -> None:
        self.closed = len(self.batches)

    def move(self, client: Any = None) -> None:
        """Moves the group to another coordinator, which loads the log. Pending requests fail."""
        if self.rng.random() < 0.3:
            closed = compacted(self.batches[: self.closed])
            self.batches[: self.closed] = closed
            self.closed = len(closed)
        super().move()
        for one in self.clients:
            if one.waits_for is not None:
                one.cut_off()
        self.last_epoch = self.reported_epoch

    def change_topics(self, counts: dict[str, int]) -> None:
        self.image = image_of(counts)
        super().change_topics(counts)

    def give_up(self) -> None:
        for client in self.clients:
            if client.is_alive:
                client.stop_in_time()

    # Requests and responses.

    def send(self, client: MigratingClient, request: Message, version: int, is_lossy: bool) -> None:
        client.waits_for = None
        if is_lossy and self.rng.random() < 0.05:
            return
        asked = Asked(client, request, is_lossy and self.rng.random() < 0.07)
        client.waits_for = asked
        self._handle(asked, version)

    def _handle(self, token: object, version: int) -> None:
        request = token.request if isinstance(token, Asked) else token
        assert isinstance(request, Message)
        uuid = f"{self.rng.getrandbits(128):032x}"
        self.shard.handle(GroupRequest(token, request, version, "c", "/h", uuid), self.now)
        self.take()

    def take(self) -> list[Message]:
        output = self.shard.take()
        if output.records:
            records = [encode_record(record) for record in output.records]
            if self.batches and len(self.batches) > self.closed and self.rng.random() < 0.2:
                self.batches[-1] += records  # decided in the same turn
            else:
                self.batches.append(records)
        for token, response in output.replies:
            if isinstance(token, Asked):
                self._respond(token, response)
        return [reply.response for reply in output.replies]

    def _respond(self, asked: Asked, response: Message) -> None:
        client = asked.client
        if client.waits_for is not asked:
            return  # the client no longer waits for it
        client.waits_for = None
        if not asked.is_response_lost:
            client.answered(asked.request, response)

    def given(self, client: MigratingClient) -> None:
        self.handed_out += len(client.owned)
        self.reported_epoch = max(self.reported_epoch, client.epoch)

    def _commit(self, client: MigratingClient) -> None:
        """Commits owned partitions, or those owned when the client was stopped."""
        is_stopped = self.rng.random() < 0.3
        now = (client.member_id, client.epoch, client.owned)
        member_id, epoch, owned = client.before if is_stopped else now
        for place in sorted(owned):
            self.offset += 1
            request = commit_of(member_id, epoch, None if is_stopped else client.instance_id, place, self.offset)
            self.shard.handle(GroupRequest(self, request, 9), self.now)
            (response,) = self.take()
            assert isinstance(response, OffsetCommitResponse)
            if response.topics[0].partitions[0].error_code == ErrorCode.NONE:
                self.committed[place] = self.offset
                others = [one for one in self.clients if one.is_alive and one is not client and place in one.owned]
                assert not others, f"{member_id} committed {place}, which {others[0].name} owns"

    # Invariants.

    def check(self) -> None:
        self._check_owners()
        self._check_offsets()
        group = self.group
        if isinstance(group, ConsumerGroup):
            for member in group.members.values():
                for place in member.held():
                    assert group.holders[place] == member.member_id, f"{place} has two holders"
        elif isinstance(group, ClassicGroup):
            check_group(group)
        if group is None or not group.members:
            self.last_epoch = self.reported_epoch = 0  # a group of another kind may start over
            return
        if not self.kinds or self.kinds[-1] != group.kind:
            self.kinds.append(group.kind)
        epoch = _epoch(group)
        assert epoch >= self.last_epoch, f"the group epoch decreased from {self.last_epoch} to {epoch}"
        self.last_epoch = epoch

    def _check_owners(self) -> None:
        owners: dict[TopicIdPartition, MigratingClient] = {}
        for client in self.clients:
            for place in client.owned if client.is_alive else ():
                other = owners.setdefault(place, client)
                assert other is client, f"{other.name} and {client.name} own {place}"

    def _check_offsets(self) -> None:
        for place, offset in self.committed.items():
            kept = self.shard.state.offsets.get(GROUP, name_of(place[0]), place[1])
            assert kept is not None and kept.offset == offset, f"offset {offset} of {place} is missing: {kept}"

    def check_converged(self) -> None:
        alive = [client for client in self.clients if client.is_alive]
        group = self.group
        if not alive or group is None:
            return
        is_new = any(isinstance(client, ConsumerClient) for client in alive)
        assert group.kind == ("consumer" if is_new else "classic"), f"the group is {group.kind}"
        assert group.state in (ConsumerGroupState.STABLE, ClassicGroupState.STABLE), f"the group is {group.state.value}"
        assert len(group.members) == len(alive), f"members are {list(group.members)}"
        owned = {place for client in alive for place in client.owned}
        topics = {self.image.topics.by_name[name] for client in alive for name in client.topics}
        missing = {(topic.id, index) for topic in topics for index in topic.partitions} - owned
        assert not missing, f"{missing} have no owner"
        loads = [len(client.owned) for client in alive]
        assert min(loads) > 0, f"loads are {loads}"
        if len({frozenset(client.topics) for client in alive}) == 1:
            assert max(loads) - min(loads) <= 1, f"loads are {loads}"

    def check_reload(self) -> None:
        before, after = self.group, self.loaded().state.groups.get(GROUP)
        assert type(before) is type(after)
        for name in SURVIVES[type(before)]:
            assert survivor(getattr(before, name)) == survivor(getattr(after, name)), name

    def loaded(self) -> GroupShard:
        return load_batches(self.CONFIG, self.batches, self.now, self.image)

    def execute(self, steps: int) -> Self:
        """Alternates faulty phases, each of which ends during a protocol change, and calm phases."""
        for _ in range(ROUNDS):
            self.run(steps // ROUNDS)
            self._visit(self.clients[0])
            self._rest()
            # In the converged group the members with the new protocol leave, and the coordinator moves.
            for client in self.clients:
                if isinstance(client, ConsumerClient) and client.is_alive:
                    self.leave(client)
            self.move()
            self._rest()
        return self

    def _rest(self) -> None:
        self.run_calm()
        self.check_converged()
        self.check_reload()


#: The attributes that must survive a reload.
SURVIVES: dict[type[Any], tuple[str, ...]] = {
    type(None): (),
    ClassicGroup: ("durable",),
    ConsumerGroup: (
        "epoch", "target_epoch", "metadata_hash", "members", "targets", "static_members", "holders", "regexes",
    ),
}  # fmt: skip


def _epoch(group: ClassicGroup | ConsumerGroup) -> int:
    return group.generation_id if isinstance(group, ClassicGroup) else group.epoch
