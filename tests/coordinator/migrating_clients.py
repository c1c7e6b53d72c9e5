"""The base of simulated clients of both protocols, in a group that changes its protocol.

A client owns a partition from the response that assigns it until it revokes it or stops on its own. As its protocol
requires, it stops when its session expires, or when it does not complete a rebalance within the rebalance timeout.
"""

from __future__ import annotations

import random
from typing import Any, ClassVar, Protocol

from odradek.metadata.image import MetadataImage
from odradek.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from odradek.protocol.schema import Message

GROUP = "g"
#: The session timeouts of the two protocols differ, so that a mix-up is detected.
CLASSIC_SESSION_MS, CONSUMER_SESSION_MS, REBALANCE_TIMEOUT_MS = 12_000, 9_000, 15_000
#: Topic id and partition.
TopicIdPartition = tuple[bytes, int]


class World(Protocol):
    now: int
    rng: random.Random
    is_calm: bool

    @property
    def image(self) -> MetadataImage: ...
    def send(self, client: MigratingClient, request: Message, version: int, is_lossy: bool) -> None: ...
    def given(self, client: MigratingClient) -> None: ...


class MigratingClient:
    session_ms: ClassVar[int]
    #: The topics that the client subscribes to by name.
    TOPICS: ClassVar[tuple[str, ...]] = ("ta", "tb")

    def __init__(self, world: World, number: int, life: int, instance_id: str | None) -> None:
        self.world, self.number, self.instance_id = world, number, instance_id
        self.name = f"m{number}-{life}"
        self.member_id = ""
        self.epoch = 0
        self.is_alive = True
        self.owned: set[TopicIdPartition] = set()
        #: The member id, epoch and partitions when it was last stopped: it may try to commit them.
        self.before: tuple[str, int, set[TopicIdPartition]] = ("", 0, set())
        #: The pending request.
        self.waits_for: object | None = None
        #: The time of the last request with a response, and of the last response that requires no action.
        self.heard_at = self.fine_at = world.now
        #: The times until which it ignores rebalances, and until which it sends nothing.
        self.lazy_until = self.silent_until = 0

    @property
    def topics(self) -> set[str]:
        """Returns the currently subscribed topics."""
        return set(self.TOPICS)

    def act(self, is_lossy: bool) -> None:
        raise NotImplementedError

    def leave(self, is_lossy: bool) -> None:
        """Leaves the group, with a request if its protocol has one."""
        raise NotImplementedError

    def answered(self, request: Message, response: Any) -> None:
        raise NotImplementedError

    def lose_all(self) -> None:
        """Drops all partitions and starts over."""
        if self.owned:
            self.before = (self.member_id, self.epoch, set(self.owned))
        self.owned.clear()

    def end(self) -> None:
        self.lose_all()
        self.is_alive = False
        self.waits_for = None

    def cut_off(self) -> None:
        """Breaks the connection with a pending request."""
        self.waits_for = None
        self.heard_at = self.fine_at = self.world.now

    def stop_in_time(self) -> None:
        now = self.world.now
        if self.waits_for is not None:
            self.heard_at = self.fine_at = now
        elif now - self.heard_at >= self.session_ms or now - self.fine_at >= REBALANCE_TIMEOUT_MS:
            self.lose_all()
            self.heard_at = self.fine_at = now

    def dawdle(self) -> None:
        """Makes the client slow to react, sometimes."""
        if self.world.rng.random() < 0.1:
            self.lazy_until = self.world.now + self.world.rng.randrange(20_000)

    @property
    def is_lazy(self) -> bool:
        return self.world.now < self.lazy_until


def commit_of(
    member_id: str, epoch: int, instance_id: str | None, place: TopicIdPartition, offset: int
) -> OffsetCommitRequest:
    topic_id, index = place
    partition = OffsetCommitRequestPartition(partition_index=index, committed_offset=offset)
    topic = OffsetCommitRequestTopic(name=name_of(topic_id), topic_id=topic_id, partitions=[partition])
    return OffsetCommitRequest(
        group_id=GROUP,
        member_id=member_id,
        group_instance_id=instance_id,
        generation_id_or_member_epoch=epoch,
        topics=[topic],
    )


def name_of(topic_id: bytes) -> str:
    return topic_id.decode().strip(".")
