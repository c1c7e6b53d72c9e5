"""A client of the consumer protocol (KIP-848) in a group that changes its protocol. Some subscribe by a pattern.

A client may use newly assigned partitions only after its next heartbeat, which reports its previous ones. In KIP-848
the coordinator trusts that report, so the client uses no new partition before the response.
"""

from __future__ import annotations

from typing import Any

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.assignments import TopicPartitions
from odradek.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from odradek.protocol.schema import Message

from tests.coordinator.group_simulation import START_ANEW, topics_of
from tests.coordinator.migrating_clients import (
    CONSUMER_SESSION_MS,
    GROUP,
    REBALANCE_TIMEOUT_MS,
    MigratingClient,
    TopicIdPartition,
    World,
)

#: RE2. The topics of the simulation are ta, tb, and later tc.
PATTERN = "t[a-c]"


class ConsumerClient(MigratingClient):
    session_ms = CONSUMER_SESSION_MS

    def __init__(self, world: World, number: int, life: int, instance_id: str | None) -> None:
        super().__init__(world, number, life, instance_id)
        self.member_id = self.name
        self.by_pattern = world.rng.random() < 0.3
        self.wanted: set[TopicIdPartition] = set()
        self.must_say_all = True
        self.takes_up_later = False

    @property
    def topics(self) -> set[str]:
        return set(self.world.image.topics.by_name) if self.by_pattern else super().topics

    def lose_all(self) -> None:
        super().lose_all()
        self.wanted.clear()
        self.epoch, self.must_say_all, self.takes_up_later = 0, True, False

    def act(self, is_lossy: bool) -> None:
        rng = self.world.rng
        if not (self.is_lazy and is_lossy):
            self.owned &= self.wanted
        says_all = self.must_say_all or rng.random() < 0.3
        request = ConsumerGroupHeartbeatRequest(
            group_id=GROUP,
            member_id=self.member_id,
            member_epoch=self.epoch,
            instance_id=self.instance_id,
            rebalance_timeout_ms=REBALANCE_TIMEOUT_MS if says_all else -1,
            subscribed_topic_names=([] if self.by_pattern else list(self.TOPICS)) if says_all else None,
            subscribed_topic_regex=(PATTERN if self.by_pattern else "") if says_all else None,
            topic_partitions=[TopicPartitions(topic_id=t, partitions=p) for t, p in topics_of(self.owned).items()],
        )
        # After a lost response the next heartbeat has all fields.
        self.must_say_all = True
        self.world.send(self, request, 1, is_lossy)
        # The coordinator responds to heartbeats at once.
        self.waits_for = None

    def leave(self, is_lossy: bool) -> None:
        epoch = -2 if self.instance_id is not None else -1
        request = ConsumerGroupHeartbeatRequest(
            group_id=GROUP, member_id=self.member_id, member_epoch=epoch, instance_id=self.instance_id
        )
        self.world.send(self, request, 1, is_lossy)

    def answered(self, request: Message, response: Any) -> None:
        assert isinstance(response, ConsumerGroupHeartbeatResponse) and isinstance(
            request, ConsumerGroupHeartbeatRequest
        )
        if request.member_epoch < 0:
            return  # the client has left
        error = ErrorCode(response.error_code)
        self.heard_at = self.world.now
        # Without members of this protocol the group is a classic one. A joining member upgrades it.
        if error in START_ANEW or (error is ErrorCode.GROUP_ID_NOT_FOUND and request.member_epoch > 0):
            self.lose_all()
            self.fine_at = self.world.now
            return
        assert error is ErrorCode.NONE, f"{self.name} gets an unexpected error: {error.name}, {response.error_message}"
        assert response.member_epoch >= self.epoch, "an epoch decreased"
        self.epoch, self.must_say_all = response.member_epoch, False
        if response.assignment is not None:
            parts = response.assignment.topic_partitions
            self.wanted = {(topic.topic_id, index) for topic in parts for index in topic.partitions}
            self.takes_up_later = not self.world.is_calm and self.world.rng.random() < 0.3
            if self.owned - self.wanted:
                self.dawdle()
        else:
            self.takes_up_later = False
        if not self.takes_up_later:
            self.owned |= self.wanted
        if self.owned <= self.wanted:
            self.fine_at = self.world.now
        self.world.given(self)
