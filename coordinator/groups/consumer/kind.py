"""Consumer groups (KIP-848): the coordinator assigns, each member reconciles at its own pace."""

from __future__ import annotations

from ....protocol.internal.consumer_group_records import ConsumerGroupMetadataKey
from ....protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from ....protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ....protocol.messages.heartbeat import HeartbeatRequest
from ....protocol.messages.join_group import JoinGroupRequest
from ....protocol.messages.leave_group import LeaveGroupRequest
from ....protocol.messages.sync_group import SyncGroupRequest
from ...timers import Event
from ..assigned_group import replays
from ..kind import Kind
from ..shard_state import ShardState
from . import classic_members, heartbeat, migration
from .commits import RULES
from .describe import describe_groups
from .group import ConsumerGroup
from .member import ConsumerMemberState
from .record_types import RECORD_TYPES
from .targets import restore, sessions
from .writing import delete_group


def _metadata_changed(state: ShardState, group: ConsumerGroup, topics: frozenset[str]) -> None:
    group.has_outdated_regexes = True
    if not topics.isdisjoint(group.subscribed_topics()):
        group.is_outdated = True


def _expired(state: ShardState, event: Event, now_ms: int) -> None:
    """A member was silent for its session, or did not give back, join or sync in time."""
    group = state.find(ConsumerGroup, event[1])
    assert group is not None, "a deleted group takes its timers along"
    member = group.members[event[2]]
    if event[0] != "consumer revocation" or member.state is ConsumerMemberState.UNREVOKED_PARTITIONS:
        migration.remove_or_downgrade(state, group, [member.member_id], now_ms)


CONSUMER = Kind(
    name=ConsumerGroup.kind,
    operations={
        ConsumerGroupHeartbeatRequest: heartbeat.heartbeat,
        ConsumerGroupDescribeRequest: describe_groups,
    },
    replays=replays(ConsumerGroup, ConsumerGroupMetadataKey),
    record_types=RECORD_TYPES,
    error_responses={},
    offsets=RULES,
    restore=restore,
    sessions=sessions,
    expired=_expired,
    delete=delete_group,
    validate_deletion=ConsumerGroup.validate_deletion,
    metadata_changed=_metadata_changed,
    classic_requests={
        JoinGroupRequest: classic_members.join_consumer_group,
        SyncGroupRequest: classic_members.sync,
        HeartbeatRequest: classic_members.heartbeat,
        LeaveGroupRequest: classic_members.leave,
    },
    joins=(ConsumerGroupHeartbeatRequest,),
)
