"""Share groups request by request: the records in Kafka's order."""

from __future__ import annotations

from odradek.coordinator.groups.shard import GroupShard
from odradek.coordinator.groups_config import GroupsConfig
from odradek.coordinator.result import GroupRequest, MetadataChanged
from odradek.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest

from tests.coordinator.group_simulation import image_of
from tests.coordinator.harness.kinds import new_shard

CONFIG = GroupsConfig(share_assignment_interval_ms=60_000)


def said(shard: GroupShard, member: str, epoch: int) -> list[str]:
    """Returns the records of a heartbeat as the names of their keys, with a minus for a tombstone."""
    request = ShareGroupHeartbeatRequest("g", member, epoch, subscribed_topic_names=["t"] if epoch == 0 else None)
    shard.handle(GroupRequest(1, request, 1, "c", "/h", "0" * 32), 1_000_000)
    names = [(type(one.key).__name__, one.value is None) for one in shard.take().records]
    return ["-" * is_gone + name.removeprefix("ShareGroup").removesuffix("Key") for name, is_gone in names]


def test_join_of_empty_group_skips_assignment_interval() -> None:
    shard = new_shard(CONFIG)
    shard.handle(MetadataChanged(image_of({"t": 4})), 0)
    assert "TargetAssignmentMetadata" in said(shard, "a", 0)
    gone = ["-CurrentMemberAssignment", "-TargetAssignmentMember", "-MemberMetadata", "Metadata"]
    assert "TargetAssignmentMetadata" not in said(shard, "b", 0)
    assert said(shard, "a", -1) == gone
    assert said(shard, "b", -1) == [*gone, "TargetAssignmentMetadata"]
    assert "TargetAssignmentMetadata" in said(shard, "c", 0)
