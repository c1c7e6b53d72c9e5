"""A client of the classic protocol, cooperative (KIP-429) or eager, like the consumers of Kafka's clients.

The cooperative client keeps its partitions while it joins, and reports them. It revokes partitions that it is no longer
assigned, and joins again. The eager client revokes all partitions before it joins. Both support cooperative-sticky, as
during a rolling upgrade from one to the other. The leader assigns by the partitions that members report.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import Any

from odradek.coordinator.groups.consumer.consumer_protocol import by_id, read_assignment, read_subscription
from odradek.protocol.codec import encode
from odradek.protocol.errors import ErrorCode
from odradek.protocol.internal.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolAssignmentTopicPartition,
    ConsumerProtocolSubscription,
    ConsumerProtocolSubscriptionTopicPartition,
)
from odradek.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from odradek.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from odradek.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from odradek.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from odradek.protocol.schema import Message

from tests.coordinator.group_simulation import topics_of
from tests.coordinator.migrating_clients import (
    CLASSIC_SESSION_MS,
    GROUP,
    REBALANCE_TIMEOUT_MS,
    MigratingClient,
    TopicIdPartition,
    World,
    name_of,
)
from tests.coordinator.sticky_leader import Named, assign

NO_GENERATION = -1


class Step(Enum):
    MUST_JOIN = auto()
    MUST_SYNC = auto()
    STABLE = auto()


class ClassicClient(MigratingClient):
    session_ms = CLASSIC_SESSION_MS

    def __init__(self, world: World, number: int, life: int, instance_id: str | None) -> None:
        super().__init__(world, number, life, instance_id)
        rng = world.rng
        self.is_cooperative = rng.random() < 0.7
        self.join_version = rng.choice([5, 9] if instance_id is not None else [3, 9])
        self.metadata_version = rng.choice([1, 3])
        self.epoch = NO_GENERATION
        self.synced_epoch = NO_GENERATION
        self.protocol: str | None = None
        self.step = Step.MUST_JOIN
        #: Only for the leader: the partitions that members reported, and those that it assigned.
        self.claims: dict[str, set[Named]] = {}
        self.assigned: set[Named] | None = None

    def lose_all(self) -> None:
        self.epoch = self.synced_epoch  # the epoch of its owned partitions
        super().lose_all()
        self.step, self.epoch, self.synced_epoch = Step.MUST_JOIN, NO_GENERATION, NO_GENERATION
        self.assigned = None

    def act(self, is_lossy: bool) -> None:
        if self.waits_for is not None:
            if not is_lossy or self.world.rng.random() > 0.05:
                return
            self.cut_off()
            self.step = Step.MUST_JOIN
        if self.step is Step.STABLE and self.assigned not in (None, self._partitions()):
            self.step = Step.MUST_JOIN
        if self.step is Step.MUST_SYNC:
            self._sync(is_lossy)
        elif self.step is Step.STABLE or (self.is_lazy and is_lossy and self.epoch != NO_GENERATION):
            self._heartbeat(is_lossy)
        else:
            self._join(is_lossy)

    def leave(self, is_lossy: bool) -> None:
        """Sends LeaveGroup. Static members leave without a request, since they may return."""
        if self.member_id and self.instance_id is None:
            leaver = MemberIdentity(member_id=self.member_id)
            self.world.send(self, LeaveGroupRequest(group_id=GROUP, members=[leaver]), 5, is_lossy)

    def answered(self, request: Message, response: Any) -> None:
        if isinstance(response, JoinGroupResponse):
            self._joined(response)
        elif isinstance(response, SyncGroupResponse):
            self._synced(response)
        elif isinstance(response, HeartbeatResponse):
            self._beaten(ErrorCode(response.error_code))

    # Requests.

    def _join(self, is_lossy: bool) -> None:
        if not self.is_cooperative:
            self.owned.clear()
        subscription = ConsumerProtocolSubscription(
            topics=list(self.TOPICS), owned_partitions=self._claimed(), generation_id=self.epoch
        )
        version = self.metadata_version
        said = version.to_bytes(2, "big") + encode(subscription, version)
        names = ["cooperative-sticky"] if self.is_cooperative else ["cooperative-sticky", "range"]
        request = JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=CLASSIC_SESSION_MS,
            rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name=name, metadata=said) for name in names],
        )
        self.world.send(self, request, self.join_version, is_lossy)

    def _claimed(self) -> list[ConsumerProtocolSubscriptionTopicPartition]:
        return [
            ConsumerProtocolSubscriptionTopicPartition(topic=name_of(topic_id), partitions=indexes)
            for topic_id, indexes in topics_of(self.owned).items()
        ]

    def _sync(self, is_lossy: bool) -> None:
        assignments = []
        if self.claims:
            self.assigned = self._partitions()
            given = assign(self.claims, self.assigned)
            assignments = [
                SyncGroupRequestAssignment(member_id=member_id, assignment=_as_bytes(places))
                for member_id, places in given.items()
            ]
        request = SyncGroupRequest(
            group_id=GROUP,
            generation_id=self.epoch,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type="consumer",
            protocol_name=self.protocol,
            assignments=assignments,
        )
        self.world.send(self, request, 5, is_lossy)

    def _heartbeat(self, is_lossy: bool) -> None:
        request = HeartbeatRequest(
            group_id=GROUP, generation_id=self.epoch, member_id=self.member_id, group_instance_id=self.instance_id
        )
        self.world.send(self, request, 4, is_lossy)

    def _partitions(self) -> set[Named]:
        topics = (self.world.image.topic(name) for name in self.TOPICS)
        return {(topic.name, index) for topic in topics if topic is not None for index in topic.partitions}

    # Responses.

    def _joined(self, response: JoinGroupResponse) -> None:
        error = ErrorCode(response.error_code)
        if error is ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = response.member_id
            self.heard_at = self.fine_at = self.world.now
        elif error is ErrorCode.NONE:
            assert response.generation_id >= self.synced_epoch, f"{self.name}: a generation decreased"
            self.member_id, self.epoch = response.member_id, response.generation_id
            self.heard_at = self.fine_at = self.world.now
            self.step, self.protocol = Step.MUST_SYNC, response.protocol_name
            is_leader = response.leader == response.member_id and not response.skip_assignment
            self.claims = {m.member_id: _claims(m.metadata) for m in response.members} if is_leader else {}
            self.assigned = None
        else:
            self._rejected(error)

    def _synced(self, response: SyncGroupResponse) -> None:
        error = ErrorCode(response.error_code)
        if error is not ErrorCode.NONE:
            self._rejected(error)
            return
        named = read_assignment(bytes(response.assignment)).assigned_partitions
        given: set[TopicIdPartition] = {
            (t, index) for t, indexes in by_id(self.world.image, named).items() for index in indexes
        }
        self.step = Step.MUST_JOIN if self.owned - given else Step.STABLE
        self.owned, self.synced_epoch = given, self.epoch
        self.heard_at = self.fine_at = self.world.now
        self.world.given(self)

    def _beaten(self, error: ErrorCode) -> None:
        if error not in (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS):
            self._rejected(error)
            return
        self.heard_at = self.world.now
        if self.step is Step.STABLE and error is ErrorCode.NONE:
            self.fine_at = self.world.now
        elif self.step is Step.STABLE:
            self.step = Step.MUST_JOIN
            self.dawdle()

    def _rejected(self, error: ErrorCode) -> None:
        if error is ErrorCode.REBALANCE_IN_PROGRESS:
            self.step = Step.MUST_JOIN
            return
        known = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.FENCED_INSTANCE_ID)
        assert error in known, f"{self.name} gets an unexpected error: {error.name}"
        self.lose_all()
        if error is not ErrorCode.ILLEGAL_GENERATION:
            self.member_id = ""


def _as_bytes(places: set[Named]) -> bytes:
    topics: dict[str, list[int]] = {}
    for topic, index in sorted(places):
        topics.setdefault(topic, []).append(index)
    parts = [ConsumerProtocolAssignmentTopicPartition(topic=t, partitions=i) for t, i in topics.items()]
    return b"\0\1" + encode(ConsumerProtocolAssignment(assigned_partitions=parts), 1)


def _claims(metadata: bytes) -> set[Named]:
    owned = read_subscription(bytes(metadata)).owned_partitions
    return {(one.topic, index) for one in owned for index in one.partitions}
