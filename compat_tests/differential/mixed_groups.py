"""Groups with members of both the classic and the consumer protocol (KIP-848), for every
`group.consumer.migration.policy`.
"""

from __future__ import annotations

from typing import Any

from .scenario import Given, Scenario, Step, ask, prepare, scenario
from .scenarios.consumer_groups import beat, described, in_group, join, owning
from .scenarios.group_migration import consumes, in_classic_group, synced
from .scenarios.groups import member
from .setup_steps import topic_of_groups as topic

#: The generation in the last JoinGroup response to the classic member.
GENERATION: Any = "@n"


def classic_joins(*owned: int, name: str = "m", version: int = 9, first: bool = True, **more: Any) -> list[Step]:
    """Joins a classic member to a group; from version 4 on the first response gives it its id."""
    steps = []
    member_id = f"@{name}"
    if first:
        steps = [
            ask(
                "JoinGroup",
                version=version,
                **member("", protocols=(consumes(*owned),), **more),
                keep={name: "member_id"},
            )
        ]
    if not first or (version >= 4 and "group_instance_id" not in more):
        fields = member(member_id, protocols=(consumes(*owned),), **more)
        steps.append(ask("JoinGroup", version=version, **fields, keep={"n": "generation_id"}))
    elif first:
        steps[0] = Step("ask", "JoinGroup", steps[0].fields, version, keep={name: "member_id", "n": "generation_id"})
    return steps


def sync(member_id: str = "@m", **more: Any) -> Step:
    return ask("SyncGroup", version=5, **synced(member_id, GENERATION, **more))


def heartbeat(member_id: str = "@m", **more: Any) -> Step:
    return ask("Heartbeat", group_id="$g", generation_id=GENERATION, member_id=member_id, **more)


def has(count: int) -> Any:
    """Returns a check that a response assigns so many partitions, or is an error."""

    def check(response: Any) -> bool:
        given = response.assignment
        return response.error_code != 0 or (
            given is not None and sum(len(one.partitions) for one in given.topic_partitions) == count
        )

    return check


def gives_back() -> list[Step]:
    """Has the consumer member `a`, which owns both partitions, give up one when the coordinator revokes it."""
    return [
        beat("a", "@e", on="other", topic_partitions=owning(0, 1), until=has(1)),  # type: ignore[arg-type]
        heartbeat(),
        prepare(
            "ConsumerGroupHeartbeat",
            on="other",
            keep={"e": "member_epoch"},
            group_id="$g",
            member_id="a",
            member_epoch="@e",
            topic_partitions=owning(0),
        ),
    ]


def leaves(member_id: str = "@m", **more: Any) -> Step:
    return ask("LeaveGroup", version=5, group_id="$g", members=[{"member_id": member_id, **more}])


def shown() -> list[Step]:
    return [described(), ask("DescribeGroups", groups=["$g"])]


#: Scenarios in which the coordinator revokes partitions of a member.
MIXED_AND_REVOKED: list[Scenario] = [
    scenario(
        "JoinGroup",
        "a classic member joins a consumer group, gets its part and leaves",
        topic(partitions=2),
        in_group("a"),
        classic_joins(),
        sync(),
        heartbeat(),
        gives_back(),
        heartbeat(),
        sync(),
        classic_joins(first=False),
        sync(),
        heartbeat(),
        shown(),
        leaves(),
        heartbeat(),
        beat("a", "@e", on="other", topic_partitions=owning(0), until=has(2)),  # type: ignore[arg-type]
        shown(),
        versions="9",
    ),
    scenario(
        "JoinGroup",
        "a classic member that joined a consumer group is left alone with its part",
        topic(partitions=2),
        in_group("a"),
        classic_joins(),
        sync(),
        gives_back(),
        classic_joins(first=False),
        sync(),
        beat("a", -1, on="other"),
        heartbeat(),
        sync(),
        shown(),
        classic_joins(1, first=False),
        sync(assignments=[{"member_id": "@m", "assignment": Given((0, 1))}]),
        heartbeat(),
        shown(),
        leaves(),
        shown(),
        versions="9",
    ),
    scenario(
        "JoinGroup",
        "an old classic client without an id joins a consumer group",
        topic(partitions=2),
        in_group("a"),
        classic_joins(version=3),
        sync(),
        gives_back(),
        heartbeat(),
        classic_joins(first=False, version=3),
        sync(),
        heartbeat(),
        versions="3",
    ),
    scenario(
        "JoinGroup",
        "a static classic member joins a consumer group and comes back",
        topic(partitions=2),
        in_group("a"),
        classic_joins(group_instance_id="i"),
        sync(group_instance_id="i"),
        gives_back(),
        heartbeat(group_instance_id="i"),
        classic_joins(first=False, group_instance_id="i"),
        sync(group_instance_id="i"),
        classic_joins(group_instance_id="i", name="m2"),
        sync("@m", group_instance_id="i"),
        sync("@m2", group_instance_id="i"),
        heartbeat("@m2", group_instance_id="i"),
        shown(),
        beat("a", -1, on="other"),
        heartbeat("@m2", group_instance_id="i"),
        shown(),
        versions="9",
    ),
    scenario(
        "ConsumerGroupHeartbeat",
        "a consumer member joins a classic group, gets its part, and the classic member leaves",
        topic(partitions=2),
        in_classic_group(),
        join("a", on="other", keep={"e": "member_epoch"}),
        ask("Heartbeat", group_id="$g", generation_id=1, member_id="@m"),
        ask("SyncGroup", version=5, **synced("@m", 1)),
        ask("JoinGroup", version=9, **member("@m", protocols=(consumes(0),)), keep={"n": "generation_id"}),
        sync(),
        heartbeat(),
        beat("a", "@e", on="other", topic_partitions=[], until=has(1)),  # type: ignore[arg-type]
        heartbeat(),
        shown(),
        leaves(),
        beat("a", "@e", on="other", topic_partitions=owning(1), until=has(2)),  # type: ignore[arg-type]
        shown(),
        versions="1",
    ),
]

MIXED: list[Scenario] = [
    scenario(
        "JoinGroup",
        "a classic member that joined a consumer group is left alone before it synchronised",
        topic(partitions=2),
        in_group("a"),
        classic_joins(),
        beat("a", -1, on="other"),
        sync(),
        heartbeat(),
        shown(),
        classic_joins(first=False),
        sync(assignments=[{"member_id": "@m", "assignment": Given((0, 1))}]),
        heartbeat(),
        shown(),
        versions="9",
    ),
    scenario(
        "JoinGroup",
        "a static member of a consumer group comes back as a classic member",
        topic(partitions=2),
        in_group("a", instance_id="i"),
        classic_joins(group_instance_id="i"),
        sync(group_instance_id="i"),
        heartbeat(group_instance_id="i"),
        shown(),
        versions="9",
    ),
    scenario(
        "JoinGroup",
        "two classic members join a consumer group that its first member leaves",
        topic(partitions=3),
        in_group("a"),
        classic_joins(),
        sync(),
        classic_joins(name="k"),
        sync("@k"),
        heartbeat(),
        beat("a", -1, on="other"),
        heartbeat("@k"),
        heartbeat(),
        versions="9",
    ),
    scenario(
        "ConsumerGroupHeartbeat",
        "a consumer member takes the group over from an empty classic one",
        topic(partitions=2),
        in_classic_group(),
        leaves(),
        join("a", on="other"),
        classic_joins(),
        sync(),
        heartbeat(),
        shown(),
        versions="1",
    ),
]
