"""Streams groups (KIP-1071): offset requests that are fenced by member epochs, and groups that had another type."""

from __future__ import annotations

from typing import Any

from ..scenario import Step, ask, prepare, scenario
from .streams_groups import HALF, READY, beat, beating, join, joining
from .transactional_offsets import join as in_group
from .transactional_offsets import offsets
from .transactions import begun


def committed(member: str, epoch: int, *, name: str = "$t", topic_id: Any = "@t", partition: int = 0) -> Step:
    part = {"partition_index": partition, "committed_offset": 5, "committed_metadata": ""}
    topics = [{"name": name, "topic_id": topic_id, "partitions": [part]}]
    return ask("OffsetCommit", group_id="$g", generation_id_or_member_epoch=epoch, member_id=member, topics=topics)


def fetched_by(member: str | None, epoch: int) -> Step:
    topics = [{"name": "$t", "topic_id": "@t", "partition_indexes": [0]}]
    return ask("OffsetFetch", groups=[{"group_id": "$g", "member_id": member, "member_epoch": epoch, "topics": topics}])


def in_transaction(member: str, epoch: int) -> Step:
    return ask("TxnOffsetCommit", **offsets((0, 5), generation_id_or_member_epoch=epoch, member_id=member))


OFFSETS = [
    scenario(
        "OffsetCommit",
        "members of a streams group are fenced by their epochs",
        READY,
        prepare("StreamsGroupHeartbeat", **joining()),
        committed("member-a", 2),
        committed("member-a", 3),
        committed("member-a", 1),
        committed("member-b", 2),
        committed("", -1),
        prepare("StreamsGroupHeartbeat", **joining("member-b")),
        prepare("StreamsGroupHeartbeat", **beating(epoch=2)),
        prepare("StreamsGroupHeartbeat", **beating(epoch=2, active=HALF)),
        committed("member-a", 2),
        committed("member-a", 2, partition=1),
        committed("member-a", 2, name="$g-shuffled", topic_id="@shuffled"),
        versions="8+",
    ),
    scenario(
        "OffsetFetch",
        "members of a streams group are fenced by their epochs",
        READY,
        prepare("StreamsGroupHeartbeat", **joining()),
        committed("member-a", 2),
        fetched_by("member-a", 2),
        fetched_by("member-a", 1),
        fetched_by("member-a", 3),
        fetched_by("member-b", 2),
        fetched_by(None, -1),
        versions="9+",
    ),
    scenario(
        "TxnOffsetCommit",
        "members of a streams group are fenced by their epochs",
        READY,
        prepare("StreamsGroupHeartbeat", **joining()),
        begun(),
        prepare("AddOffsetsToTxn", **in_group()),
        in_transaction("member-a", 2),
        in_transaction("member-a", 3),
        in_transaction("member-a", 1),
        in_transaction("member-b", 2),
        in_transaction("", -1),
        versions="3+",
    ),
    scenario(
        "OffsetDelete",
        "a streams group",
        READY,
        prepare("StreamsGroupHeartbeat", **joining()),
        committed("member-a", 2),
        ask("OffsetDelete", group_id="$g", topics=[{"name": "$t", "partitions": [{"partition_index": 0}]}]),
        prepare("StreamsGroupHeartbeat", **beating(epoch=-1)),
        ask("OffsetDelete", group_id="$g", topics=[{"name": "$t", "partitions": [{"partition_index": 0}]}]),
    ),
    scenario(
        "DeleteGroups",
        "a streams group",
        READY,
        prepare("StreamsGroupHeartbeat", **joining()),
        ask("DeleteGroups", groups_names=["$g"]),
        prepare("StreamsGroupHeartbeat", **beating(epoch=-1)),
        ask("DeleteGroups", groups_names=["$g"]),
        ask("StreamsGroupDescribe", group_ids=["$g"]),
    ),
]

CLASSIC = {
    "group_id": "$g",
    "session_timeout_ms": 10_000,
    "rebalance_timeout_ms": 10_000,
    "member_id": "",
    "protocol_type": "consumer",
    "protocols": [{"name": "range", "metadata": b"\0\1"}],
}
CONSUMER = {
    "group_id": "$g",
    "member_id": "consumer",
    "member_epoch": 0,
    "rebalance_timeout_ms": 10_000,
    "subscribed_topic_names": ["$t"],
    "topic_partitions": [],
}

KINDS = [
    scenario(
        "StreamsGroupHeartbeat",
        "what other kinds of members are told of a streams group",
        READY,
        prepare("StreamsGroupHeartbeat", **joining()),
        ask("JoinGroup", version=3, **CLASSIC),
        ask("ConsumerGroupHeartbeat", version=1, **CONSUMER),
        ask("ConsumerGroupDescribe", version=1, group_ids=["$g"]),
        ask("DescribeGroups", version=6, groups=["$g"]),
        ask("Heartbeat", group_id="$g", generation_id=2, member_id="member-a"),
        ask("LeaveGroup", version=2, group_id="$g", member_id="member-a"),
    ),
    scenario(
        "StreamsGroupHeartbeat",
        "an empty streams group is no group of other members",
        READY,
        prepare("StreamsGroupHeartbeat", **joining()),
        prepare("StreamsGroupHeartbeat", **beating(epoch=-1)),
        ask("ConsumerGroupHeartbeat", version=1, **CONSUMER),
        ask("StreamsGroupDescribe", group_ids=["$g"]),
    ),
    scenario(
        "StreamsGroupHeartbeat",
        "an empty classic group becomes a streams group, and keeps its offsets",
        READY,
        committed("", -1),
        join(),
        fetched_by("member-a", 2),
        ask("StreamsGroupDescribe", group_ids=["$g"]),
        beat(epoch=-1),
        ask("JoinGroup", version=3, **CLASSIC),
        ask("StreamsGroupDescribe", group_ids=["$g"]),
    ),
]

SCENARIOS = [*OFFSETS, *KINDS]
