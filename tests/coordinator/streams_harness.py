"""A shard with streams groups, driven request by request."""

from __future__ import annotations

from typing import Any

from odradek.coordinator.groups.streams.group import StreamsGroup
from odradek.coordinator.groups_config import GroupsConfig, StreamsGroupsConfig
from odradek.coordinator.result import GroupRequest, MetadataChanged
from odradek.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from odradek.protocol.messages.streams_group_heartbeat import (
    HeartbeatSubtopology,
    HeartbeatTopology,
    StreamsGroupHeartbeatRequest,
)
from odradek.protocol.messages.streams_members import TaskIds
from odradek.protocol.messages.streams_topics import StreamsTopic

from tests.coordinator.group_logs import LogRecord
from tests.coordinator.group_simulation import image_of
from tests.coordinator.harness.kinds import decode_record, encode_record, new_shard

TOPICS = {"in": 2, "shuffled": 2, "counts": 2}
JOINED = ["MemberMetadata", "Topology", "Metadata", "TargetAssignmentMember", "TargetAssignmentMetadata"]
CURRENT = "CurrentMemberAssignment"


def topology(epoch: int = 0) -> HeartbeatTopology:
    """Returns a topology that reads `in`, repartitions it and counts it."""
    reader = HeartbeatSubtopology(subtopology_id="0", source_topics=["in"], repartition_sink_topics=["shuffled"])
    counter = HeartbeatSubtopology(
        subtopology_id="1",
        repartition_source_topics=[StreamsTopic(name="shuffled")],
        state_changelog_topics=[StreamsTopic(name="counts")],
    )
    return HeartbeatTopology(epoch=epoch, subtopologies=[reader, counter])


class Harness:
    def __init__(self, **config: Any) -> None:
        at_once = {"initial_rebalance_delay_ms": 0, "assignment_interval_ms": 0}
        self.shard = new_shard(GroupsConfig(streams=StreamsGroupsConfig(**(at_once | config))))
        self.now = 1_000
        self.log: list[LogRecord] = []
        self.topics(TOPICS)

    @property
    def group(self) -> StreamsGroup:
        group = self.shard.state.find(StreamsGroup, "g")
        assert group is not None
        return group

    def topics(self, counts: dict[str, int]) -> None:
        self.shard.handle(MetadataChanged(image_of(counts), frozenset({"in", "shuffled", "counts", "other"})), self.now)

    def ask(self, request: Any, version: int = 1) -> tuple[Any, list[str]]:
        """Returns the reply, and the records as the names of their keys, with a minus for a tombstone."""
        self.shard.handle(GroupRequest(1, request, version, "c", "/h"), self.now)
        output = self.shard.take()
        for record in output.records:
            self.log.append(encode_record(record))
            assert decode_record(*self.log[-1]).value == record.value
        ((_, response),) = output.replies
        names = [type(r.key).__name__.removeprefix("StreamsGroup").removesuffix("Key") for r in output.records]
        return response, ["-" * (r.value is None) + name for name, r in zip(names, output.records, strict=True)]

    def beat(self, member: str, epoch: int, owned: dict[str, list[int]] | None = None, **fields: Any) -> Any:
        version = fields.pop("version", 1)
        if epoch == 0:
            fields = {"rebalance_timeout_ms": 30_000, "topology": topology(), "process_id": f"p-{member}"} | fields
            owned = owned or {}
        said = None if owned is None else [TaskIds(name, tasks) for name, tasks in owned.items()]
        copies: list[TaskIds] | None = None if owned is None else []
        roles = {"active_tasks": said, "standby_tasks": copies, "warmup_tasks": copies} | fields
        request = StreamsGroupHeartbeatRequest(group_id="g", member_id=member, member_epoch=epoch, **roles)
        return self.ask(request, version)

    def commit(self, member: str, epoch: int, topic: str, index: int, version: int = 9) -> int:
        partition = OffsetCommitRequestPartition(partition_index=index, committed_offset=5)
        topics = [OffsetCommitRequestTopic(name=topic, topic_id=topic.encode().ljust(16, b"."), partitions=[partition])]
        request = OffsetCommitRequest(
            group_id="g", member_id=member, generation_id_or_member_epoch=epoch, topics=topics
        )
        response, _ = self.ask(request, version)
        code: int = response.topics[0].partitions[0].error_code
        return code
