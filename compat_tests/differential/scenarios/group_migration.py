"""Groups that change between the classic and the consumer protocol while they have members (KIP-848)."""

from __future__ import annotations

from typing import Any

from ..scenario import Given, Step, Subscribed, ask, prepare, scenario
from ..setup_steps import topic_of_groups as topic
from .consumer_groups import ASSIGNED, beat, described, in_group, join
from .groups import member
from .offsets import commit


def consumes(*owned: int) -> dict[str, Any]:
    return {"name": "range", "metadata": Subscribed(owned=owned)}


def in_classic_group() -> list[Step]:
    """Joins a classic consumer: Stable in generation 1, with both partitions."""
    wants = member("", protocols=(consumes(),))
    given = {"member_id": "@m", "assignment": Given((0, 1))}
    return [
        prepare("JoinGroup", version=9, **wants, keep={"m": "member_id"}),
        prepare("JoinGroup", version=9, **{**wants, "member_id": "@m"}),
        prepare("SyncGroup", version=5, **synced("@m", 1, assignments=[given])),
    ]


def synced(member_id: str, generation: int, **more: Any) -> dict[str, Any]:
    fields = {"group_id": "$g", "generation_id": generation, "member_id": member_id}
    return {**fields, "protocol_type": "consumer", "protocol_name": "range", **more}


SCENARIOS = [
    scenario(
        "ConsumerGroupHeartbeat",
        "a classic group goes on as a consumer group",
        topic(partitions=2),
        in_classic_group(),
        join("a", on="other"),
        described(),
        ask("Heartbeat", group_id="$g", generation_id=1, member_id="@m"),
        ask("Heartbeat", group_id="$g", generation_id=7, member_id="@m"),
        ask("OffsetCommit", version=9, **commit((0, 5), member_id="@m", generation=1)),
        ask("OffsetCommit", version=9, **commit((0, 5), member_id="@m", generation=9)),
        ask("JoinGroup", version=9, **member("@m", protocols=(consumes(0, 1),))),
        ask("SyncGroup", version=5, **synced("@m", 1)),
        ask("JoinGroup", version=9, **member("@m", protocols=(consumes(0),))),
        ask("SyncGroup", version=5, **synced("@m", 2)),
        ask("SyncGroup", version=5, **synced("@m", 1)),
        ask("SyncGroup", version=5, **synced("@m", 2, protocol_name="roundrobin")),
        beat("a", 2, on="other", until=ASSIGNED),
        ask("Heartbeat", group_id="$g", generation_id=2, member_id="@m"),
        described(),
        ask("DescribeGroups", groups=["$g"]),
    ),
    scenario(
        "ConsumerGroupHeartbeat",
        "a consumer group is a classic group again when its last new member leaves",
        topic(partitions=2),
        in_classic_group(),
        join("a", on="other"),
        beat("a", -1, on="other"),
        described(),
        ask("Heartbeat", group_id="$g", generation_id=2, member_id="@m"),
        ask("JoinGroup", version=9, **member("@m", protocols=(consumes(0, 1),))),
        ask("SyncGroup", version=5, **synced("@m", 3, assignments=[{"member_id": "@m", "assignment": b"x"}])),
        ask("DescribeGroups", groups=["$g"]),
    ),
    scenario(
        "ConsumerGroupHeartbeat",
        "a classic group that is not of consumers stays what it is",
        topic(),
        prepare("JoinGroup", version=5, **member("", kind="connect"), keep={"m": "member_id"}),
        prepare("JoinGroup", version=5, **member("@m", kind="connect")),
        join("a", on="other"),
        beat("a", 1, on="other"),
        beat("a", -1, on="other"),
    ),
    scenario(
        "ConsumerGroupHeartbeat",
        "a classic group whose members say nothing sensible stays what it is",
        topic(),
        prepare(
            "JoinGroup",
            version=5,
            **member("", protocols=({"name": "range", "metadata": b""},)),
            keep={"m": "member_id"},
        ),
        prepare("JoinGroup", version=5, **member("@m", protocols=({"name": "range", "metadata": b""},))),
        join("a", on="other"),
    ),
    scenario(
        "JoinGroup",
        "a consumer group is joined by a classic member",
        topic(partitions=2),
        in_group(),
        ask("JoinGroup", on="other", **member("", protocols=(consumes(),)), keep={"m": "member_id"}),
        ask("JoinGroup", on="other", **member("@m", protocols=(consumes(),))),
        described(),
        versions="4+",
    ),
    scenario(
        "JoinGroup",
        "a consumer group is not joined by whom it does not understand",
        topic(partitions=2),
        in_group(),
        ask("JoinGroup", on="other", **member("x", protocols=(consumes(),), kind="connect")),
        ask("JoinGroup", on="other", **member("x", protocols=({"name": "range", "metadata": b""},))),
        ask("JoinGroup", on="other", **member("x", protocols=())),
        ask("JoinGroup", on="other", **member("x", protocols=(consumes(),), group_instance_id="i")),
        versions="5+",
    ),
]
