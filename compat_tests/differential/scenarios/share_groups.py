"""Share groups: ShareGroupHeartbeat, ShareGroupDescribe, their offsets, and the APIs of tools on them (KIP-932)."""

from __future__ import annotations

from typing import Any

from ..scenario import Step, ask, prepare, scenario
from ..setup_steps import produced, topic
from .groups import joined
from .offsets import commit, fetch
from .share_states import begun, read, setup_steps

ASSIGNED = lambda response: response.error_code != 0 or (response.assignment and response.assignment.topic_partitions)  # noqa: E731


def beat(member_id: str = "a", epoch: Any = 0, *, group: str = "$g", names: Any = None, **more: Any) -> Step:
    fields = {"group_id": group, "member_id": member_id, "member_epoch": epoch}
    if names is not None:
        fields["subscribed_topic_names"] = list(names)
    until = more.pop("until", None)
    return ask("ShareGroupHeartbeat", until=until, **{**fields, **more})


def join(member_id: str = "a", names: Any = ("$t",), **more: Any) -> Step:
    return beat(member_id, 0, names=names, **more)


def assigned(member_id: str = "a", **more: Any) -> Step:
    """Sends the join of a member until it has partitions. Meanwhile the persister initializes their states."""
    fields = {"group_id": "$g", "member_id": member_id, "member_epoch": 0, "subscribed_topic_names": ["$t"]}
    return prepare("ShareGroupHeartbeat", **{**fields, **more}, until=ASSIGNED, keep={"e": "member_epoch"})


def leaves(member_id: str = "a") -> Step:
    return beat(member_id, -1)


def described(*groups: str) -> Step:
    return ask("ShareGroupDescribe", group_ids=list(groups or ("$g",)))


def offsets(*partitions: int, group: str = "$g", name: str = "$t") -> Step:
    """Describes the offsets of these partitions; without any, of all partitions of the group."""
    topics = [{"topic_name": name, "partitions": list(partitions)}] if partitions else None
    return ask("DescribeShareGroupOffsets", groups=[{"group_id": group, "topics": topics}])


def alter(offset: int = 2, *, group: str = "$g", name: str = "$t", partition: int = 0) -> Step:
    parts = [{"partition_index": partition, "start_offset": offset}]
    return ask("AlterShareGroupOffsets", group_id=group, topics=[{"topic_name": name, "partitions": parts}])


def forget(*names: str, group: str = "$g") -> Step:
    topics = [{"topic_name": name} for name in names or ("$t",)]
    return ask("DeleteShareGroupOffsets", group_id=group, topics=topics)


SCENARIOS = [
    scenario(
        "ShareGroupHeartbeat",
        "a member joins, is assigned, and leaves",
        setup_steps(partitions=3),
        assigned(),
        join(),
        beat(epoch="@e"),
        leaves(),
        leaves(),
        described(),
    ),
    scenario(
        "ShareGroupHeartbeat",
        "members share what there is",
        setup_steps(),
        assigned("a"),
        assigned("b"),
        join("a"),
        join("b"),
    ),
    scenario("ShareGroupHeartbeat", "a subscribed topic that is not there", join(names=("$none",)), beat(epoch=1)),
    scenario(
        "ShareGroupHeartbeat",
        "heartbeats that are not well formed",
        topic(),
        join(""),
        join(" "),
        join(group=""),
        join(group=" "),
        join(rack_id=""),
        join(names=()),
        join(names=None),
        beat(epoch=-2),
        beat(epoch=1),
        leaves(),
    ),
    scenario(
        "ShareGroupHeartbeat",
        "epochs that are not the member's",
        setup_steps(),
        assigned(),
        beat(epoch=99),
        beat("b", 1),
        beat("b", -1),
        join("a", rack_id="r"),
    ),
    scenario(
        "ShareGroupHeartbeat",
        "a classic group is no share group",
        topic(),
        joined(),
        join(),
        leaves(),
        beat(epoch=1),
    ),
    scenario(
        "ShareGroupDescribe",
        "groups that are there and that are not",
        setup_steps(partitions=2),
        assigned(),
        described("$g", "$none", ""),
        leaves(),
        described(),
    ),
    scenario("ShareGroupDescribe", "a classic group is not described", topic(), joined(), described()),
    scenario(
        "DescribeShareGroupOffsets",
        "where a group is",
        setup_steps(partitions=2),
        assigned(),
        produced(b"1", b"2", b"3"),
        begun(9, 1),
        offsets(),
        offsets(0, 1),
        offsets(0, name="$none"),
        offsets(group="$none"),
        offsets(0, group="$none"),
    ),
    scenario("DescribeShareGroupOffsets", "no group at all", ask("DescribeShareGroupOffsets", groups=[])),
    scenario(
        "AlterShareGroupOffsets",
        "a group without members is moved",
        setup_steps(partitions=2),
        assigned(),
        produced(b"1", b"2", b"3"),
        alter(),
        leaves(),
        alter(),
        offsets(0),
        alter(partition=9),
        alter(name="$none"),
        alter(group=""),
        read(7),
    ),
    scenario("AlterShareGroupOffsets", "a group that is not there", setup_steps(), alter(), described(), offsets(0)),
    scenario("AlterShareGroupOffsets", "a classic group is not moved", topic(), joined(), alter()),
    scenario(
        "DeleteShareGroupOffsets",
        "a group without members forgets topics",
        setup_steps(),
        assigned(),
        forget(),
        leaves(),
        forget("$t", "$none"),
        forget(),
        offsets(),
        forget(group=""),
        forget(group="$none"),
    ),
    scenario(
        "DeleteGroups",
        "share groups",
        setup_steps(),
        assigned(),
        ask("DeleteGroups", groups_names=["$g"]),
        leaves(),
        ask("DeleteGroups", groups_names=["$g", "$none"]),
        ask("DeleteGroups", groups_names=["$g"]),
        read(7),
        described(),
    ),
    scenario(
        "OffsetCommit",
        "share groups commit nothing",
        setup_steps(),
        assigned(),
        ask("OffsetCommit", **commit((0, 1))),
        versions="8+",
    ),
    scenario("OffsetFetch", "share groups have committed nothing", setup_steps(), assigned(), fetch(0), versions="8+"),
]
