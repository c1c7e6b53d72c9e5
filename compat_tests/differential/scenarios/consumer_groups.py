"""Consumer groups of KIP-848: ConsumerGroupHeartbeat, ConsumerGroupDescribe, and the APIs of offsets and tools on them."""

from __future__ import annotations

from typing import Any

from ..scenario import Step, ask, prepare, scenario
from ..setup_steps import NO_SUCH_ID
from ..setup_steps import topic_of_groups as topic
from .groups import member
from .offsets import commit, delete, fetch

#: A condition before the next step: brokers may compute assignments and resolve patterns after a response.
ASSIGNED = lambda response: response.error_code != 0 or (response.assignment and response.assignment.topic_partitions)  # noqa: E731


def epoch(at_least: int) -> Any:
    return lambda response: response.error_code != 0 or response.member_epoch >= at_least


def says(member_id: str = "a", member_epoch: int = 0, *, group: str = "$g", **more: Any) -> dict[str, Any]:
    return {"group_id": group, "member_id": member_id, "member_epoch": member_epoch, **more}


def joins(member_id: str = "a", *, names: Any = ("$t",), **more: Any) -> dict[str, Any]:
    fields = {"rebalance_timeout_ms": 30_000, "topic_partitions": []}
    if names is not None:
        fields["subscribed_topic_names"] = list(names)
    return says(member_id, 0, **{**fields, **more})


def join(member_id: str = "a", *, on: str = "main", keep: Any = None, until: Any = None, **more: Any) -> Step:
    return ask("ConsumerGroupHeartbeat", on=on, keep=keep, until=until, **joins(member_id, **more))


def beat(member_id: str = "a", member_epoch: int = 1, *, on: str = "main", until: Any = None, **more: Any) -> Step:
    return ask("ConsumerGroupHeartbeat", on=on, until=until, **says(member_id, member_epoch, **more))


def owning(*partitions: int, name: str = "@t") -> list[dict[str, Any]]:
    return [{"topic_id": name, "partitions": list(partitions)}] if partitions else []


def in_group(member_id: str = "a", **more: Any) -> list[Step]:
    """Joins a member that gets all partitions, at epoch 1 or 2."""
    return [
        prepare("ConsumerGroupHeartbeat", version=1, **joins(member_id, **more), keep={"e": "member_epoch"}),
        prepare(
            "ConsumerGroupHeartbeat",
            version=1,
            **says(member_id, "@e", **({"group": more["group"]} if "group" in more else {})),  # type: ignore[arg-type]
        ),
    ]


def described(*groups: str, **more: Any) -> Step:
    return ask("ConsumerGroupDescribe", group_ids=list(groups or ("$g",)), **more)


HEARTBEAT = [
    scenario("ConsumerGroupHeartbeat", "a member joins", topic(partitions=3), join(), beat()),
    scenario(
        "ConsumerGroupHeartbeat",
        "a member is given its id",
        topic(partitions=1),
        join("", keep={"m": "member_id"}),
        beat("@m"),
        versions="0",
    ),
    scenario("ConsumerGroupHeartbeat", "a member must have an id", topic(), join(""), join(" "), versions="1+"),
    scenario("ConsumerGroupHeartbeat", "a topic that is not there", join(names=("$none",)), beat()),
    scenario("ConsumerGroupHeartbeat", "no topics at all", join(names=()), beat()),
    scenario(
        "ConsumerGroupHeartbeat",
        "requests that are not well formed",
        topic(),
        join(group=""),
        join(group=" "),
        join(instance_id=""),
        join(rack_id=""),
        join(rebalance_timeout_ms=-1),
        join(topic_partitions=owning(0)),
        join(topic_partitions=None),
        join(names=None),
        join(server_assignor="nobody"),
        beat("a", -3),
        beat("a", -2),
        beat("", 1),
        beat("a", -1, group=""),
    ),
    scenario(
        "ConsumerGroupHeartbeat",
        "members and groups that are not there",
        topic(),
        beat("a", 1),
        beat("a", -1),
        beat("a", -2, instance_id="i"),
        join(),
        beat("x", 1),
        beat("x", -1),
        beat("a", 1, instance_id="i"),
        beat("a", -2, instance_id="i"),
    ),
    scenario(
        "ConsumerGroupHeartbeat",
        "epochs that are not the member's",
        topic(partitions=2),
        join(),
        beat("a", 7),
        beat("a", 1, topic_partitions=owning(0, 1)),
        join("b", on="other"),
        beat("a", 1, until=epoch(1)),
        beat("b", 1, on="other"),
    ),
    scenario(
        "ConsumerGroupHeartbeat",
        "a second member takes its share",
        topic(partitions=4),
        join("a"),
        join("b", on="other"),
        beat("a", 1, until=ASSIGNED),
        beat("b", 2, on="other"),
        beat("a", 1, topic_partitions=owning(0, 1), until=epoch(2)),
        beat("b", 2, on="other", until=ASSIGNED),
        beat("a", 2),
    ),
    # The member sent its heartbeat before its assignment arrived. Partitions that it does not report are free at once.
    scenario(
        "ConsumerGroupHeartbeat",
        "a member is taken at its word that it owns nothing yet",
        topic(partitions=4),
        join("a"),
        join("b", on="other"),
        beat("a", 1, topic_partitions=owning(), until=epoch(2)),
        beat("b", 2, on="other", until=ASSIGNED),
        described(),
    ),
    scenario(
        "ConsumerGroupHeartbeat",
        "ranges",
        topic(partitions=5),
        join("a", server_assignor="range"),
        join("b", on="other", server_assignor="range"),
        beat("a", 1, until=ASSIGNED),
        beat("a", 1, topic_partitions=owning(0, 1, 2), until=epoch(2)),
        beat("b", 2, on="other", until=ASSIGNED),
        described(),
    ),
    scenario(
        "ConsumerGroupHeartbeat",
        "a member leaves and the other has it all",
        topic(partitions=2),
        join("a"),
        join("b", on="other"),
        beat("b", -1, on="other"),
        beat("b", 2, on="other"),
        beat("a", 1, until=epoch(3)),
        described(),
        beat("a", -1),
        described(),
        join("c"),
    ),
    scenario(
        "ConsumerGroupHeartbeat",
        "a subscription changes",
        topic(partitions=1),
        topic(name="$u", keep="u", partitions=2),
        join("a"),
        beat("a", 1, subscribed_topic_names=["$t", "$u"], until=epoch(2)),
        beat("a", 2, subscribed_topic_names=["$u"], until=epoch(2)),
        beat("a", 2, topic_partitions=owning(0, 1, name="@u"), until=epoch(3)),
        described(),
    ),
    scenario(
        "ConsumerGroupHeartbeat",
        "a member says it all again",
        topic(partitions=2),
        join("a"),
        beat("a", 1, rebalance_timeout_ms=30_000, subscribed_topic_names=["$t"], topic_partitions=owning(0, 1)),
        join("a"),
        beat("a", 1),
    ),
    scenario(
        "ConsumerGroupHeartbeat",
        "a static member goes and comes back",
        topic(partitions=2),
        join("a", instance_id="i"),
        join("b", instance_id="i", on="other"),
        beat("a", -2, instance_id="i"),
        join("b", instance_id="i", on="other"),
        beat("a", 1, instance_id="i"),
        beat("b", 1, instance_id="i", on="other"),
        described(),
        beat("b", -1, instance_id="i", on="other"),
        beat("b", -1, instance_id="i", on="other"),
    ),
    scenario(
        "ConsumerGroupHeartbeat",
        "a pattern",
        topic(partitions=1),
        join(names=None, subscribed_topic_regex="("),
        join(names=None, subscribed_topic_regex="$t"),
        beat("a", 1, until=ASSIGNED),
        described(),
        beat("a", 2, subscribed_topic_regex=""),
        versions="1+",
    ),
    scenario("ConsumerGroupHeartbeat", "a rack", topic(), join(rack_id="r"), beat()),
    scenario(
        "ConsumerGroupHeartbeat",
        "a classic group with nobody in it becomes a consumer group",
        topic(),
        prepare("OffsetCommit", version=9, **commit((0, 5))),
        join(),
        fetch(0, member_id="a", member_epoch=1),
    ),
]
DESCRIBE = [
    scenario(
        "ConsumerGroupDescribe",
        "a group of one",
        topic(partitions=2),
        in_group(rack_id="r"),
        described(),
        described(include_authorized_operations=True),
    ),
    scenario(
        "ConsumerGroupDescribe",
        "groups that are not there, or of another kind",
        prepare("JoinGroup", version=5, **member("", group="$c"), keep={"m": "member_id"}),
        prepare("JoinGroup", version=5, **member("@m", group="$c")),
        described("$none"),
        described("$c"),
        described(""),
        described("$none", "$c"),
        ask("DescribeGroups", groups=["$none"]),
    ),
    scenario(
        "ConsumerGroupDescribe",
        "a group that everybody has left",
        topic(),
        in_group(),
        prepare("ConsumerGroupHeartbeat", version=1, **says("a", -1)),
        described(),
    ),
]
OFFSETS = [
    scenario(
        "OffsetCommit",
        "by members of a consumer group",
        topic(),
        in_group(),
        ask("OffsetCommit", **commit((0, 5), member_id="a", generation=1)),
        ask("OffsetCommit", **commit((0, 6), member_id="a", generation=0)),
        ask("OffsetCommit", **commit((0, 7), member_id="a", generation=9)),
        ask("OffsetCommit", **commit((0, 8), member_id="a", generation=-1)),
        ask("OffsetCommit", **commit((0, 9), member_id="x", generation=1)),
        ask("OffsetCommit", **commit((0, 9), member_id="", generation=-1)),
        ask("OffsetFetch", version=8, groups=[{"group_id": "$g", "topics": None}]),
    ),
    scenario(
        "OffsetCommit",
        "to a consumer group that everybody has left",
        topic(),
        in_group(),
        prepare("ConsumerGroupHeartbeat", version=1, **says("a", -1)),
        ask("OffsetCommit", **commit((0, 5), member_id="a", generation=1)),
        ask("OffsetCommit", **commit((0, 6))),
    ),
    scenario(
        "OffsetFetch",
        "members of a consumer group fetch",
        topic(),
        in_group(),
        prepare("OffsetCommit", version=9, **commit((0, 5), member_id="a", generation=1)),
        fetch(0, member_id="a", member_epoch=1),
        fetch(0, member_id="a", member_epoch=2),
        fetch(0, member_id="x", member_epoch=1),
        fetch(0, member_id="", member_epoch=-1),
        fetch(0),
    ),
    scenario(
        "OffsetDelete",
        "of a consumer group",
        topic(),
        topic(name="$u", keep="u"),
        in_group(),
        prepare("OffsetCommit", version=9, **commit((0, 5), member_id="a", generation=1)),
        delete(0),
        delete(0, name="$u"),
        prepare("ConsumerGroupHeartbeat", version=1, **says("a", -1)),
        delete(0),
    ),
]
TOOLS = [
    scenario(
        "ListGroups",
        "of the new kind",
        topic(),
        in_group(),
        # Filters that match would list the groups of all scenarios; these match none.
        ask("ListGroups", types_filter=["Consumer"], states_filter=["dead"]),
        ask("ListGroups", types_filter=["consumer"], states_filter=["PreparingRebalance"]),
        versions="5+",
    ),
    scenario(
        "DescribeGroups",
        "a consumer group is described by the old API",
        topic(),
        in_group(),
        ask("DescribeGroups", groups=["$g"]),
    ),
    scenario(
        "DeleteGroups",
        "a consumer group is deleted",
        topic(),
        in_group(),
        ask("DeleteGroups", groups_names=["$g"]),
        prepare("ConsumerGroupHeartbeat", version=1, **says("a", -1)),
        ask("DeleteGroups", groups_names=["$g"]),
        ask("DeleteGroups", groups_names=["$g"]),
        described(),
    ),
    scenario(
        "Heartbeat",
        "a heartbeat to a consumer group",
        topic(),
        in_group(),
        ask("Heartbeat", group_id="$g", generation_id=1, member_id="a"),
        ask("Heartbeat", group_id="$g", generation_id=1, member_id="x"),
    ),
    scenario(
        "SyncGroup",
        "a member of a consumer group syncs",
        topic(),
        in_group(),
        ask(
            "SyncGroup", group_id="$g", generation_id=1, member_id="a", protocol_type="consumer", protocol_name="range"
        ),
    ),
    scenario(
        "LeaveGroup",
        "a member of a consumer group leaves",
        topic(),
        in_group(instance_id="i"),
        ask("LeaveGroup", group_id="$g", member_id="x", members=[{"member_id": "x"}]),
        ask("LeaveGroup", group_id="$g", member_id="a", members=[{"member_id": "a", "group_instance_id": "i"}]),
        described(),
    ),
    scenario(
        "ConsumerGroupDescribe",
        "an id that no topic has",
        in_group(names=()),
        ask("ConsumerGroupHeartbeat", **says("a", 1, topic_partitions=[{"topic_id": NO_SUCH_ID, "partitions": [0]}])),
        described(),
    ),
]
SCENARIOS = [*HEARTBEAT, *DESCRIBE, *OFFSETS, *TOOLS]
