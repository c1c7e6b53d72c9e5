"""OffsetCommit, OffsetFetch, OffsetDelete."""

from __future__ import annotations

from typing import Any

from ..scenario import Step, ask, prepare, scenario
from ..setup_steps import NO_SUCH_ID, topic
from .groups import stable


def commit(
    *parts: tuple[int, int],
    group: str = "$g",
    member_id: Any = "",
    generation: int = -1,
    name: str = "$t",
    topic_id: Any = "@t",
    metadata: str | None = "",
    **more: Any,
) -> dict[str, Any]:
    partitions = [
        {
            "partition_index": index,
            "committed_offset": offset,
            "committed_metadata": metadata,
            "committed_leader_epoch": 3,
        }
        for index, offset in parts
    ]
    return {
        "group_id": group,
        "generation_id_or_member_epoch": generation,
        "member_id": member_id,
        "topics": [{"name": name, "topic_id": topic_id, "partitions": partitions}],
        **more,
    }


def fetch(
    *partitions: int, group: str = "$g", name: str = "$t", topic_id: Any = "@t", everything: bool = False, **more: Any
) -> Step:
    one = {"name": name, "partition_indexes": list(partitions)}
    topics = None if everything else [one]
    new = None if everything else [{**one, "topic_id": topic_id}]
    return ask("OffsetFetch", group_id=group, topics=topics, groups=[{"group_id": group, "topics": new, **more}])


def delete(*partitions: int, group: str = "$g", name: str = "$t") -> Step:
    wanted = [{"partition_index": index} for index in partitions]
    return ask("OffsetDelete", group_id=group, topics=[{"name": name, "partitions": wanted}])


def committed(*parts: tuple[int, int], **more: Any) -> Step:
    return prepare("OffsetCommit", version=8, **commit(*parts, **more))


COMMIT = [
    scenario(
        "OffsetCommit",
        "by a consumer without a group protocol",
        topic(partitions=2),
        ask("OffsetCommit", **commit((0, 5), (1, 7), metadata="mine")),
        fetch(0, 1),
    ),
    scenario(
        "OffsetCommit",
        "the last one counts",
        topic(),
        ask("OffsetCommit", **commit((0, 5))),
        ask("OffsetCommit", **commit((0, 2))),
        fetch(0),
    ),
    scenario(
        "OffsetCommit",
        "metadata is kept, up to its greatest length",
        topic(partitions=3),
        ask("OffsetCommit", **commit((0, 1), metadata=None)),
        ask("OffsetCommit", **commit((1, 1), metadata="x" * 4096)),
        ask("OffsetCommit", **commit((2, 1), metadata="x" * 4097)),
        fetch(0, 1, 2),
    ),
    scenario(
        "OffsetCommit",
        "by a member of the group",
        topic(),
        stable(),
        ask("OffsetCommit", **commit((0, 5), member_id="@m", generation=1)),
        fetch(0),
    ),
    scenario(
        "OffsetCommit",
        "wrong generations and members",
        topic(),
        stable(),
        ask("OffsetCommit", **commit((0, 5), member_id="@m", generation=2)),
        ask("OffsetCommit", **commit((0, 5), member_id="@m", generation=0)),
        ask("OffsetCommit", **commit((0, 5), member_id="x", generation=1)),
        ask("OffsetCommit", **commit((0, 5))),
        ask("OffsetCommit", **commit((0, 5), member_id="@m", generation=-1)),
    ),
    scenario(
        "OffsetCommit",
        "a generation in a group that is not there",
        topic(),
        ask("OffsetCommit", **commit((0, 5), member_id="x", generation=1)),
        ask("OffsetCommit", **commit((0, 5), generation=4)),
    ),
    scenario(
        "OffsetCommit",
        "a static member by the wrong instance",
        topic(),
        stable(),
        ask("OffsetCommit", **commit((0, 5), member_id="@m", generation=1, group_instance_id="i")),
        versions="7+",
    ),
    scenario("OffsetCommit", "a group without a name", topic(), ask("OffsetCommit", **commit((0, 5), group=""))),
    scenario(
        "OffsetCommit",
        "partitions and topics that are not there",
        topic(),
        ask("OffsetCommit", **commit((0, 1), (7, 5))),
        ask("OffsetCommit", **commit((0, 5), name="$none", topic_id=NO_SUCH_ID)),
        ask("OffsetCommit", **commit((0, 5), name="", topic_id=bytes(16))),
    ),
    scenario("OffsetCommit", "offsets below zero", topic(), ask("OffsetCommit", **commit((0, -1))), fetch(0)),
    scenario(
        "OffsetCommit",
        "nothing",
        topic(),
        ask("OffsetCommit", **commit()),
        ask("OffsetCommit", group_id="$g", topics=[]),
    ),
    scenario(
        "OffsetCommit",
        "a retention of its own",
        topic(),
        ask("OffsetCommit", **commit((0, 5), retention_time_ms=100_000)),
        fetch(0),
        versions="2-4",
    ),
]
FETCH = [
    scenario(
        "OffsetFetch",
        "of what was committed",
        topic(partitions=3),
        committed((0, 5), (2, 9), metadata="m"),
        fetch(0, 1, 2),
    ),
    scenario(
        "OffsetFetch",
        "of everything",
        topic(partitions=3),
        committed((0, 5), (2, 9)),
        fetch(everything=True),
        versions="2+",
    ),
    scenario("OffsetFetch", "of a group that is not there", topic(), fetch(0, group="$none")),
    scenario(
        "OffsetFetch", "everything of a group that is not there", fetch(group="$none", everything=True), versions="2+"
    ),
    scenario("OffsetFetch", "of a group without a name", topic(), fetch(0, group="")),
    scenario(
        "OffsetFetch",
        "of partitions and topics that are not there",
        topic(),
        committed((0, 5)),
        fetch(0, 8),
        fetch(0, name="$none", topic_id=NO_SUCH_ID),
        fetch(0, name="", topic_id=bytes(16)),
    ),
    scenario(
        "OffsetFetch",
        "stable offsets",
        topic(),
        committed((0, 5)),
        ask(
            "OffsetFetch",
            group_id="$g",
            require_stable=True,
            topics=[{"name": "$t", "partition_indexes": [0]}],
            groups=[{"group_id": "$g", "topics": [{"name": "$t", "topic_id": "@t", "partition_indexes": [0]}]}],
        ),
        versions="7+",
    ),
    scenario(
        "OffsetFetch",
        "of several groups",
        topic(),
        committed((0, 5)),
        committed((0, 6), group="$h"),
        ask(
            "OffsetFetch",
            groups=[
                {"group_id": name, "topics": [{"name": "$t", "topic_id": "@t", "partition_indexes": [0]}]}
                for name in ("$h", "$g", "$none")
            ],
        ),
        versions="8+",
    ),
    scenario(
        "OffsetFetch",
        "by a member",
        topic(),
        stable(),
        committed((0, 5), member_id="@m", generation=1),
        fetch(0, member_id="@m", member_epoch=1),
        fetch(0, member_id="x", member_epoch=7),
        versions="9+",
    ),
    scenario(
        "OffsetFetch",
        "no topics and no partitions",
        topic(),
        committed((0, 5)),
        fetch(),
        ask("OffsetFetch", group_id="$g", topics=[], groups=[{"group_id": "$g", "topics": []}]),
    ),
]
DELETE = [
    scenario(
        "OffsetDelete",
        "of an empty group",
        topic(partitions=2),
        committed((0, 5), (1, 6)),
        delete(0),
        fetch(0, 1),
        delete(0),
    ),
    scenario(
        "OffsetDelete",
        "of a group with members",
        topic(),
        stable(),
        committed((0, 5), member_id="@m", generation=1),
        delete(0),
    ),
    scenario("OffsetDelete", "of a group that is not there", topic(), delete(0, group="$none"), delete(0, group="")),
    scenario(
        "OffsetDelete", "of what is not there", topic(), committed((0, 5)), delete(7), delete(0, name="$none"), delete()
    ),
]
SCENARIOS = [*COMMIT, *FETCH, *DELETE]
