"""The base of simulations of groups with server-side assignment: a shard and its log, time, requests and responses."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from typing import Any, ClassVar, Self

from immutables import Map
from odradek.coordinator.groups.assigned_group import AssignedGroup
from odradek.coordinator.groups.shard import GroupShard
from odradek.coordinator.groups_config import GroupsConfig
from odradek.coordinator.result import GroupRequest, MetadataChanged
from odradek.metadata.image import MetadataImage, PartitionImage, TopicImage, TopicsImage
from odradek.protocol.errors import ErrorCode
from odradek.protocol.schema import Message

from tests.coordinator.group_logs import LogRecord, load
from tests.coordinator.harness.kinds import encode_record

GROUP = "g"
#: Duration of the calm phase: several sessions, and time for retries.
CALM_S = 60
#: Errors after which a client resets its state and joins.
START_ANEW = (ErrorCode.UNRELEASED_INSTANCE_ID, ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID)


def image_of(counts: dict[str, int]) -> MetadataImage:
    """Returns an image with these topics -> partition counts. A topic's id is its name."""
    partition = PartitionImage((1,), (1,), 1, 0, 0, (bytes(16),))
    topics = [
        TopicImage(name, name.encode().ljust(16, b"."), Map(dict.fromkeys(range(count), partition)))
        for name, count in counts.items()
    ]
    return MetadataImage(topics=TopicsImage(Map({t.name: t for t in topics}), Map({t.id: t for t in topics})))


class Client:
    """A client: a member while it is alive. Subclasses add the assignment of their kind."""

    def __init__(self, number: int, instance_id: str | None = None) -> None:
        self.number, self.instance_id = number, instance_id
        self.lives = 0
        self.is_alive = False
        self.heard_at = 0
        self.epoch = 0

    @property
    def member_id(self) -> str:
        return f"m{self.number}-{self.lives}"

    def start_anew(self) -> None:
        """Resets the client, so that it joins with its next heartbeat."""
        self.epoch = 0


class GroupSimulation:
    """The base simulation. A subclass per kind defines client actions, invariants (`check`), and client timeouts."""

    CONFIG: ClassVar[GroupsConfig]
    #: The attributes that must survive a reload, besides those of every kind.
    SURVIVES: ClassVar[tuple[str, ...]]

    def __init__(self, seed: int, counts: dict[str, int]) -> None:
        self.rng = random.Random(seed)
        self.now = 1_000_000
        self.counts = counts
        self.clients: list[Any] = []
        #: Assigned partitions, to verify that the simulation assigns any.
        self.handed_out = 0
        self.log: list[LogRecord] = []
        self.shard = self.loaded()

    @property
    def group(self) -> Any:
        """Returns the only group; None before it exists."""
        found = self.shard.state.groups.get(GROUP)
        assert found is None or isinstance(found, AssignedGroup)
        return found

    def execute(self, steps: int) -> Self:
        """Runs with faults, then calmly. Then checks that the group has converged and that a reload gives the same."""
        self.run(steps)
        self.run_calm()
        self.check_converged()
        self.check_reload()
        return self

    # Events.

    def run(self, steps: int) -> None:
        moves = self.moves()
        rngs = [*moves.values(), 100 - sum(moves.values())]
        for _ in range(steps):
            self.pass_time(self.rng.randrange(50, 600))
            client = self.rng.choice(self.clients)
            if client.is_alive:
                (move,) = self.rng.choices([*moves, self.heartbeat], rngs)
                move(client)
            else:
                self.begin(client)
            self.besides()
            self.check()

    def run_calm(self) -> None:
        """Runs without faults: every live client sends heartbeats, and nothing is lost."""
        for _ in range(CALM_S):
            self.pass_time(1_000)
            for client in self.clients:
                if client.is_alive:
                    self.heartbeat(client, is_lossy=False)
                    self.check()
            self.besides(is_calm=True)

    def begin(self, client: Any) -> None:
        """Starts a client. A static member may return under its previous member id."""
        client.lives += client.instance_id is None or self.rng.random() < 0.5
        client.is_alive, client.heard_at = True, self.now
        client.start_anew()

    def crash(self, client: Any) -> None:
        client.is_alive = False
        client.start_anew()

    # Subclasses override these.

    def moves(self) -> dict[Callable[[Any], None], int]:
        """Returns client actions other than a heartbeat, with their probability in percent."""
        return {self.crash: 3, self.leave: 2, self.move: 2}

    def heartbeat(self, client: Any, is_lossy: bool = True) -> None:
        raise NotImplementedError

    def leave(self, client: Any) -> None:
        raise NotImplementedError

    def besides(self, is_calm: bool = False) -> None:
        """Runs events that are independent of client actions."""

    def check(self) -> None:
        raise NotImplementedError

    def give_up(self) -> None:
        """Stops the clients that must stop on their own at this time."""

    # The coordinator.

    def ask(self, request: Message, version: int = 1) -> Any:
        self.shard.handle(GroupRequest(1, request, version, "c", "/h"), self.now)
        (response,) = self.take()
        return response

    def take(self) -> list[Message]:
        output = self.shard.take()
        self.log += [encode_record(record) for record in output.records]
        return [reply.response for reply in output.replies]

    def change_topics(self, counts: dict[str, int]) -> None:
        changed = frozenset(name for name, _ in counts.items() ^ self.counts.items())
        self.counts = counts
        self.shard.handle(MetadataChanged(image_of(counts), changed), self.now)
        self.take()

    def pass_time(self, ms: int) -> None:
        end = self.now + ms
        while (deadline := self.shard.deadline()) is not None and deadline <= end:
            self.now = max(self.now, deadline)
            self.give_up()
            self.shard.expire(self.now)
            self.take()
            self.check()
        self.now = end
        self.give_up()

    def move(self, client: Any = None) -> None:
        """Moves the group to another coordinator, which loads the log."""
        self.check_reload()
        self.shard = self.loaded()

    def check_converged(self) -> None:
        """Checks the invariants at the end of the calm phase."""
        raise NotImplementedError

    def check_reload(self) -> None:
        before, after = self.group, self.loaded().state.groups.get(GROUP)
        assert type(before) is type(after)
        for name in ("target_epoch", "members", "targets", *self.SURVIVES) if before is not None else ():
            assert survivor(getattr(before, name)) == survivor(getattr(after, name)), name

    def loaded(self) -> GroupShard:
        return load(self.CONFIG, self.log, self.now, image_of(self.counts))


def survivor(value: Any) -> Any:
    """Returns a comparable value: the attributes of an object without its own equality."""
    return vars(value) if type(value).__eq__ is object.__eq__ else value


def topics_of(places: Iterable[tuple[bytes, int]]) -> dict[bytes, list[int]]:
    topics: dict[bytes, list[int]] = {}
    for topic_id, index in sorted(places):
        topics.setdefault(topic_id, []).append(index)
    return topics
