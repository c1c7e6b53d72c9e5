"""Classic groups: JoinGroup, SyncGroup, Heartbeat, LeaveGroup, DescribeGroups, ListGroups, DeleteGroups."""

from __future__ import annotations

from typing import Any

from ..scenario import Step, ask, prepare, receive, scenario, send

_RANGE = {"name": "range", "metadata": b"\0\1"}
#: A half of what a record of `__consumer_offsets` can hold (max.message.bytes), and a little more.
_HALF = b"x" * 600_000
_ROUND = {"name": "roundrobin", "metadata": b"\0\2"}


def member(
    member_id: Any = "",
    *,
    group: str = "$g",
    protocols: tuple[Any, ...] = (_RANGE,),
    kind: str = "consumer",
    session: int = 10_000,
    **more: Any,
) -> dict[str, Any]:
    return {
        "group_id": group,
        "session_timeout_ms": session,
        "rebalance_timeout_ms": 10_000,
        "member_id": member_id,
        "protocol_type": kind,
        "protocols": list(protocols),
        **more,
    }


def assignment(member_id: Any = "@m", generation: int = 1, *pairs: tuple[Any, bytes], **more: Any) -> dict[str, Any]:
    return {
        "group_id": "$g",
        "generation_id": generation,
        "member_id": member_id,
        "protocol_type": "consumer",
        "protocol_name": "range",
        "assignments": [{"member_id": one, "assignment": data} for one, data in pairs],
        **more,
    }


def joined(member_name: str = "m", *, on: str = "main", **more: Any) -> list[Step]:
    """Joins the first member of a group. The first response gives it its member id (KIP-394), the second request has it."""
    return [
        prepare("JoinGroup", version=5, on=on, **member("", **more), keep={member_name: "member_id"}),
        prepare("JoinGroup", version=5, on=on, **member(f"@{member_name}", **more)),
    ]


def stable(**more: Any) -> list[Step]:
    """Makes a group of one member with an assignment, in generation 1."""
    return [*joined(**more), prepare("SyncGroup", version=3, **assignment("@m", 1, ("@m", b"mine")))]


def beat(member_id: Any = "@m", generation: int = 1, **more: Any) -> Step:
    return ask("Heartbeat", group_id="$g", generation_id=generation, member_id=member_id, **more)


def leave(member_id: Any = "@m", instance: str | None = None, *, on: str = "main") -> Step:
    who = {"member_id": member_id, "group_instance_id": instance, "reason": "done"}
    return ask("LeaveGroup", on=on, group_id="$g", member_id=member_id, members=[who])


JOIN = [
    scenario(
        "JoinGroup",
        "a first member is told its name first",
        ask("JoinGroup", **member(), keep={"m": "member_id"}),
        ask("JoinGroup", **member("@m")),
        versions="4+",
    ),
    scenario(
        "JoinGroup",
        "a first member joins at once",
        ask("JoinGroup", **member(), keep={"m": "member_id"}),
        beat(generation=1),
        versions="0-3",
    ),
    scenario("JoinGroup", "a member that nobody knows", ask("JoinGroup", **member("stranger"))),
    scenario(
        "JoinGroup",
        "a member that nobody knows, in a group that is there",
        stable(),
        ask("JoinGroup", on="other", **member("stranger")),
    ),
    scenario("JoinGroup", "a group without a name", ask("JoinGroup", **member(group=""))),
    scenario(
        "JoinGroup",
        "session time-outs out of bounds",
        ask("JoinGroup", **member(session=1)),
        ask("JoinGroup", **member(session=10_000_000)),
    ),
    scenario(
        "JoinGroup",
        "no protocols and no kind",
        ask("JoinGroup", **member(protocols=())),
        ask("JoinGroup", **member(kind="")),
    ),
    scenario("JoinGroup", "another kind of group", stable(), ask("JoinGroup", on="other", **member(kind="connect"))),
    scenario(
        "JoinGroup", "no protocol in common", stable(), ask("JoinGroup", on="other", **member(protocols=(_ROUND,)))
    ),
    scenario("JoinGroup", "the leader joins again unchanged", stable(), ask("JoinGroup", **member("@m"))),
    scenario(
        "JoinGroup",
        "a second member waits for the first",
        stable(),
        prepare("JoinGroup", version=5, on="other", **member(), keep={"o": "member_id"}),
        send("JoinGroup", on="other", **member("@o", protocols=(_ROUND, _RANGE))),
        prepare("Heartbeat", group_id="$g", generation_id=1, member_id="@m", until=lambda a: a.error_code == 27),
        ask("JoinGroup", **member("@m")),
        receive(on="other"),
        send("SyncGroup", on="other", **assignment("@o", 2)),
        ask("SyncGroup", **assignment("@m", 2, ("@m", b"a"), ("@o", b"b"))),
        receive(on="other"),
        ask("JoinGroup", on="other", **member("@o", protocols=(_ROUND, _RANGE))),
        versions="1+",
    ),
    scenario(
        "JoinGroup",
        "the protocol that most members like best is chosen",
        joined(protocols=(_ROUND, _RANGE)),
        prepare("JoinGroup", version=5, on="other", **member(protocols=(_ROUND, _RANGE)), keep={"o": "member_id"}),
        send("JoinGroup", on="other", **member("@o", protocols=(_ROUND, _RANGE))),
        prepare("Heartbeat", group_id="$g", generation_id=1, member_id="@m", until=lambda a: a.error_code == 27),
        ask("JoinGroup", **member("@m", protocols=(_ROUND, _RANGE))),
        receive(on="other"),
    ),
    scenario(
        "JoinGroup",
        "a static member",
        ask("JoinGroup", **member(group_instance_id="i"), keep={"m": "member_id"}),
        versions="5+",
    ),
    scenario(
        "JoinGroup",
        "a static member that comes back takes its place",
        ask("JoinGroup", **member(group_instance_id="i"), keep={"m": "member_id"}),
        ask("SyncGroup", **assignment("@m", 1, ("@m", b"x"), group_instance_id="i")),
        ask("JoinGroup", on="again", **member(group_instance_id="i"), keep={"n": "member_id"}),
        ask("SyncGroup", on="again", **assignment("@n", 1, group_instance_id="i")),
        ask("JoinGroup", **member("@m", group_instance_id="i")),
        beat("@m", group_instance_id="i"),
        beat("@n", group_instance_id="i"),
        versions="5+",
    ),
    scenario(
        "JoinGroup",
        "a static member whose name is wrong",
        ask("JoinGroup", **member(group_instance_id="i"), keep={"m": "member_id"}),
        ask("JoinGroup", **member("@m", group_instance_id="j")),
        ask("JoinGroup", **member("stranger", group_instance_id="i")),
        versions="5+",
    ),
    scenario(
        "JoinGroup",
        "a static member returns with metadata that no record can hold",
        ask("JoinGroup", **member(group_instance_id="i"), keep={"m": "member_id"}),
        ask("SyncGroup", **assignment("@m", 1, ("@m", _HALF), group_instance_id="i")),
        ask(
            "JoinGroup", on="again", **member(group_instance_id="i", protocols=({"name": "range", "metadata": _HALF},))
        ),
        beat("@m", group_instance_id="i"),
        ask("JoinGroup", on="again", **member(group_instance_id="i"), keep={"n": "member_id"}),
        beat("@m", group_instance_id="i"),
        beat("@n", group_instance_id="i"),
        versions="5+",
    ),
    scenario(
        "JoinGroup",
        "any text may be an instance id",
        ask("JoinGroup", **member(group="$1", group_instance_id="a b")),
        ask("JoinGroup", **member(group="$2", group_instance_id="")),
        ask("JoinGroup", **member(group="$3", group_instance_id="x" * 250)),
        versions="5+",
    ),
]
SYNC = [
    scenario(
        "SyncGroup",
        "the leader gives and takes",
        joined(),
        ask("SyncGroup", **assignment("@m", 1, ("@m", b"mine"))),
        ask("SyncGroup", **assignment("@m", 1)),
    ),
    scenario(
        "SyncGroup",
        "an assignment that leaves the member out is empty",
        joined(),
        ask("SyncGroup", **assignment("@m", 1)),
    ),
    scenario(
        "SyncGroup",
        "an assignment for a stranger",
        joined(),
        ask("SyncGroup", **assignment("@m", 1, ("stranger", b"x"), ("@m", b"y"))),
    ),
    scenario(
        "SyncGroup",
        "wrong generations and members",
        stable(),
        ask("SyncGroup", **assignment("@m", 0)),
        ask("SyncGroup", **assignment("@m", 2)),
        ask("SyncGroup", **assignment("stranger", 1)),
        ask("SyncGroup", **assignment("", 1)),
    ),
    scenario(
        "SyncGroup",
        "a group that is not there",
        ask("SyncGroup", **assignment("x", 1)),
        ask("SyncGroup", **{**assignment("x", 1), "group_id": ""}),
    ),
    scenario(
        "SyncGroup",
        "another protocol",
        stable(),
        ask("SyncGroup", **{**assignment("@m", 1), "protocol_name": "roundrobin"}),
        ask("SyncGroup", **{**assignment("@m", 1), "protocol_type": "connect"}),
        versions="5+",
    ),
    scenario(
        "SyncGroup",
        "no protocol named",
        stable(),
        ask("SyncGroup", **{**assignment("@m", 1), "protocol_name": None, "protocol_type": None}),
        versions="5+",
    ),
    scenario(
        "SyncGroup",
        "during a rebalance",
        stable(),
        prepare("JoinGroup", version=5, on="other", **member(), keep={"o": "member_id"}),
        send("JoinGroup", on="other", version=5, **member("@o")),
        prepare("Heartbeat", group_id="$g", generation_id=1, member_id="@m", until=lambda a: a.error_code == 27),
        ask("SyncGroup", **assignment("@m", 1)),
        leave(),
        receive(on="other", compared=False),
    ),
]
BEAT = [
    scenario("Heartbeat", "of a member", stable(), beat()),
    scenario("Heartbeat", "before the assignment", joined(), beat()),
    scenario(
        "Heartbeat",
        "wrong generations and members",
        stable(),
        beat(generation=0),
        beat(generation=2),
        beat("stranger"),
        beat(""),
    ),
    scenario(
        "Heartbeat",
        "a group that is not there",
        beat("x"),
        ask("Heartbeat", group_id="", generation_id=1, member_id="x"),
    ),
    scenario(
        "Heartbeat", "a static member by the wrong instance", stable(), beat(group_instance_id="i"), versions="3+"
    ),
    scenario(
        "Heartbeat",
        "a member that was silent too long is gone",
        stable(session=1000),
        prepare("DescribeGroups", version=5, groups=["$g"], until=lambda a: a.groups[0].group_state == "Empty"),
        beat(),
        versions="4+",
    ),
]
LEAVE = [
    scenario("LeaveGroup", "the only member", stable(), leave(), leave(), ask("DescribeGroups", groups=["$g"])),
    scenario("LeaveGroup", "a stranger", stable(), leave("stranger"), leave("")),
    scenario(
        "LeaveGroup",
        "a group that is not there",
        leave("x"),
        ask("LeaveGroup", group_id="", member_id="x", members=[{"member_id": "x", "group_instance_id": None}]),
    ),
    scenario(
        "LeaveGroup",
        "static members by their instance",
        prepare("JoinGroup", version=5, **member(group_instance_id="i"), keep={"m": "member_id"}),
        leave("", "i"),
        leave("", "i"),
        leave("x", "j"),
        versions="3+",
    ),
    scenario(
        "LeaveGroup",
        "a static member under another name",
        prepare("JoinGroup", version=5, **member(group_instance_id="i"), keep={"m": "member_id"}),
        leave("other", "i"),
        versions="3+",
    ),
    scenario(
        "LeaveGroup",
        "several members and none",
        stable(),
        ask(
            "LeaveGroup",
            group_id="$g",
            members=[{"member_id": "x", "group_instance_id": None}, {"member_id": "@m", "group_instance_id": None}],
        ),
        ask("LeaveGroup", group_id="$g", members=[]),
        versions="3+",
    ),
    scenario(
        "LeaveGroup",
        "the others are told to rebalance",
        stable(),
        prepare("JoinGroup", version=5, on="other", **member(), keep={"o": "member_id"}),
        send("JoinGroup", on="other", version=5, **member("@o")),
        prepare("Heartbeat", group_id="$g", generation_id=1, member_id="@m", until=lambda a: a.error_code == 27),
        leave(),
        receive(on="other"),
    ),
]
DESCRIBE = [
    scenario("DescribeGroups", "a stable group", stable(), ask("DescribeGroups", groups=["$g"])),
    scenario("DescribeGroups", "a group that waits for its assignment", joined(), ask("DescribeGroups", groups=["$g"])),
    scenario(
        "DescribeGroups", "groups that are not there", stable(), ask("DescribeGroups", groups=["$none", "$g", ""])
    ),
    scenario(
        "DescribeGroups",
        "the same group twice and none",
        stable(),
        ask("DescribeGroups", groups=["$g", "$g"]),
        ask("DescribeGroups", groups=[]),
    ),
    scenario(
        "DescribeGroups",
        "authorized operations",
        stable(),
        ask("DescribeGroups", groups=["$g", "$none"], include_authorized_operations=True),
        versions="3+",
    ),
    scenario(
        "DescribeGroups",
        "a static member",
        prepare("JoinGroup", version=5, **member(group_instance_id="i")),
        ask("DescribeGroups", groups=["$g"]),
        versions="4+",
    ),
    scenario(
        "ListGroups",
        "groups by their states",
        stable(),
        ask("ListGroups", states_filter=["NoSuchState"]),
        ask("ListGroups", states_filter=["dead"]),
        versions="4+",
    ),
    scenario(
        "ListGroups",
        "groups by their kinds",
        ask("ListGroups", types_filter=["share"]),
        ask("ListGroups", types_filter=["nosuchtype"]),
        ask("ListGroups", types_filter=["STREAMS"]),
        versions="5+",
    ),
    scenario(
        "DeleteGroups",
        "an empty group",
        stable(),
        prepare("LeaveGroup", version=2, group_id="$g", member_id="@m"),
        ask("DeleteGroups", groups_names=["$g"]),
        ask("DeleteGroups", groups_names=["$g"]),
        ask("DescribeGroups", groups=["$g"]),
    ),
    scenario(
        "DeleteGroups",
        "a group with members, one that is not there, one without a name",
        stable(),
        ask("DeleteGroups", groups_names=["$g", "$none", ""]),
    ),
    scenario(
        "DeleteGroups",
        "the same group twice and none",
        ask("DeleteGroups", groups_names=["$x", "$x"]),
        ask("DeleteGroups", groups_names=[]),
    ),
]
SCENARIOS = [*JOIN, *SYNC, *BEAT, *LEAVE, *DESCRIBE]
