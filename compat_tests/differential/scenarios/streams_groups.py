"""Streams groups (KIP-1071): StreamsGroupHeartbeat, StreamsGroupDescribe, descriptions of topologies (KIP-1331).

The scenarios of their offsets are in streams_offsets.py.
"""

from __future__ import annotations

from typing import Any

from ..scenario import Step, ask, prepare, scenario
from ..setup_steps import topic

GROUP_RESOURCE = 32
READER = {"subtopology_id": "0", "source_topics": ["$t"], "repartition_sink_topics": ["$g-shuffled"]}
COUNTER = {
    "subtopology_id": "1",
    "repartition_source_topics": [{"name": "$g-shuffled"}],
    "state_changelog_topics": [
        {"name": "$g-counts", "topic_configs": [{"key": "cleanup.policy", "value": "compact"}]},
    ],
}


def topology(*subtopologies: Any, epoch: int = 0) -> dict[str, Any]:
    return {"epoch": epoch, "subtopologies": list(subtopologies or (READER, COUNTER))}


def roles(active: dict[str, list[int]] | None, standby: dict[str, list[int]] | None = None) -> dict[str, Any]:
    """Returns the tasks that a member reports; None for no report."""
    if active is None:
        return {}
    said = [
        [{"subtopology_id": name, "partitions": partitions} for name, partitions in tasks.items()]
        for tasks in (active, standby or {})
    ]
    return {"active_tasks": said[0], "standby_tasks": said[1], "warmup_tasks": []}


def joining(member: str = "member-a", **more: Any) -> dict[str, Any]:
    return {
        "group_id": "$g",
        "member_id": member,
        "member_epoch": 0,
        "endpoint_information_epoch": -1,
        "rebalance_timeout_ms": 60_000,
        "topology": topology(),
        "process_id": f"process-of-{member}",
        "client_tags": [],
        **roles({}),
        **more,
    }


def beating(
    member: str = "member-a", epoch: int = 2, active: dict[str, list[int]] | None = None, **more: Any
) -> dict[str, Any]:
    standby = more.pop("standby", None)
    return {"group_id": "$g", "member_id": member, "member_epoch": epoch, **roles(active, standby), **more}


def join(member: str = "member-a", **more: Any) -> Step:
    return ask("StreamsGroupHeartbeat", **joining(member, **more))


def beat(member: str = "member-a", epoch: int = 2, active: dict[str, list[int]] | None = None, **more: Any) -> Step:
    return ask("StreamsGroupHeartbeat", **beating(member, epoch, active, **more))


def at_once(**configs: str) -> list[Step]:
    """Configures the group to assign without delay. Each key has its own request, since older brokers lack some."""
    every = {"streams.initial.rebalance.delay.ms": "0", "streams.assignment.interval.ms": "0"} | {
        name.replace("_", "."): value for name, value in configs.items()
    }
    steps = []
    for name, value in every.items():
        change = {"name": name, "config_operation": 0, "value": value}
        resource = {"resource_type": GROUP_RESOURCE, "resource_name": "$g", "configs": [change]}
        steps.append(prepare("IncrementalAlterConfigs", resources=[resource]))
    return steps


def topics(partitions: int = 2) -> list[Step]:
    """Makes the input, and the internal topics as the coordinator makes them. Waits until coordinators have all three."""
    return [
        *topic(partitions=partitions),
        *topic("$g-shuffled", partitions=partitions, keep="shuffled"),
        *topic("$g-counts", partitions=partitions, keep="counts"),
        prepare("StreamsGroupHeartbeat", **joining(group_id="$probe"), until=knows_topics),
    ]


def knows_topics(response: Any) -> bool:
    return not {1, 2, 3} & {status.status_code for status in response.status or ()}


def has_wrong_topics(response: Any) -> bool:
    return any(status.status_code == 2 for status in response.status or ())


def has_tasks(response: Any) -> bool:
    return bool(response.active_tasks)


JOINED = topology(
    {"subtopology_id": "0", "source_topics": ["$t", "$u"], "copartition_groups": [{"source_topics": [0, 1]}]}
)
READY = [*at_once(), *topics()]
#: All tasks of two partitions, and the half that one of two members keeps.
ALL = {"0": [0, 1], "1": [0, 1]}
HALF = {"0": [0], "1": [0]}

WRONG = [
    scenario(
        "StreamsGroupHeartbeat",
        "requests that are wrong",
        join(""),
        join(group_id=""),
        join(instance_id=""),
        join(rack_id=""),
        join(rebalance_timeout_ms=-1),
        join(topology=None),
        join(active_tasks=[{"subtopology_id": "0", "partitions": [0]}]),
        join(standby_tasks=None),
        join(warmup_tasks=None),
        join(topology=topology({**READER, "source_topic_regex": ["a.*"]})),
        join(topology=topology({**COUNTER, "state_changelog_topics": [{"name": "$g-counts", "partitions": 3}]})),
        join(topology=topology({**READER, "source_topics": ["__consumer_offsets"]})),
        join(topology=topology({**READER, "source_topics": ["not/a/topic"]})),
        beat(epoch=-2),
        beat(epoch=-3),
        beat(epoch=5),
        beat(epoch=-1),
        beat(epoch=5, active_tasks=[]),
        beat(epoch=5, topology=topology()),
    ),
    scenario(
        "StreamsGroupHeartbeat",
        "topologies that no topics could fit",
        READY,
        join(topology=topology(COUNTER)),
        join(topology=topology({**READER, "source_topics": []})),
        join(topology=topology({**COUNTER, "repartition_sink_topics": ["$g-shuffled"]})),
    ),
    scenario(
        "StreamsGroupHeartbeat",
        "members that are not who they say",
        READY,
        join(),
        beat(epoch=7),
        beat(epoch=1),
        beat("member-b", 2),
        beat("member-b", -1),
        beat(epoch=2, active={"7": [0]}),
        beat(epoch=2, active={"0": [9]}),
        beat(epoch=2, instance_id="nobody"),
        join("member-b", topology=topology(READER)),
        join("member-b", topology=topology(epoch=1)),
    ),
    scenario(
        "StreamsGroupHeartbeat",
        "a group of another kind",
        prepare(
            "JoinGroup",
            version=3,
            group_id="$g",
            session_timeout_ms=10_000,
            rebalance_timeout_ms=10_000,
            protocol_type="consumer",
            protocols=[{"name": "range", "metadata": b"\0\1"}],
            member_id="",
        ),
        join(),
        beat(epoch=5),
        beat(epoch=-1),
    ),
]

TOPICS = [
    scenario("StreamsGroupHeartbeat", "source topics are missing", at_once(), join(), beat()),
    scenario(
        "StreamsGroupHeartbeat",
        "internal topics are made",
        at_once(),
        topic(partitions=3),
        prepare("StreamsGroupHeartbeat", **joining(group_id="$probe", topology=topology(READER)), until=knows_topics),
        join(topology=topology({**COUNTER, "source_topics": ["$t"], "repartition_source_topics": []})),
        ask("StreamsGroupHeartbeat", **beating(), until=has_tasks),
        ask("StreamsGroupDescribe", group_ids=["$g"]),
    ),
    scenario(
        "StreamsGroupHeartbeat",
        "an internal topic has other partitions",
        at_once(),
        topic(partitions=2),
        topic("$g-shuffled", partitions=3, keep="shuffled"),
        prepare("StreamsGroupHeartbeat", **joining(group_id="$probe"), until=has_wrong_topics),
        join(),
    ),
    scenario(
        "StreamsGroupHeartbeat",
        "topics that are joined have other partitions",
        at_once(),
        topic(partitions=2),
        topic("$u", partitions=3, keep="u"),
        prepare("StreamsGroupHeartbeat", **joining(group_id="$probe", topology=JOINED), until=has_wrong_topics),
        join(topology=JOINED),
    ),
]

ASSIGNMENTS = [
    scenario("StreamsGroupHeartbeat", "the first assignment is delayed", topics(), join(), beat(epoch=1)),
    scenario(
        "StreamsGroupHeartbeat",
        "a first member is given all tasks, and the next half of them",
        READY,
        join(),
        beat(epoch=2, active=ALL),
        join("member-b"),
        beat("member-b", 3, {}),
        beat(epoch=2),
        beat(epoch=2, active=ALL),
        beat(epoch=2, active=HALF),
        beat("member-b", 3, {}),
        ask("StreamsGroupDescribe", group_ids=["$g"]),
        beat(epoch=3),
        beat(epoch=-1),
        beat("member-b", 3),
        ask("StreamsGroupDescribe", group_ids=["$g", "$none", ""]),
    ),
    scenario(
        "StreamsGroupHeartbeat",
        "copies of what has state are in other processes",
        at_once(streams_num_standby_replicas="1"),
        topics(),
        join(),
        join("member-b"),
        beat(epoch=2),
        beat(epoch=2, active=HALF),
        beat("member-b", 3),
        beat(epoch=3),
        beat("member-b", 3),
    ),
    scenario(
        "StreamsGroupHeartbeat",
        "a static member leaves for a while",
        READY,
        join(instance_id="i"),
        join("member-b", instance_id="i"),
        beat(epoch=-2, instance_id="i"),
        ask("StreamsGroupDescribe", group_ids=["$g"]),
        join("member-b", instance_id="i", process_id="process-of-member-a"),
        beat(epoch=2, instance_id="i"),
        beat("member-b", epoch=-1, instance_id="i"),
    ),
    scenario(
        "StreamsGroupHeartbeat",
        "who serves what",
        READY,
        join(user_endpoint={"host": "one", "port": 1}),
        beat(epoch=2, endpoint_information_epoch=0),
        join("member-b", user_endpoint={"host": "two", "port": 2}),
        beat(epoch=2, endpoint_information_epoch=0),
        beat(epoch=2, active=HALF, endpoint_information_epoch=1),
        beat("member-b", 3, endpoint_information_epoch=1),
    ),
    scenario(
        "StreamsGroupHeartbeat",
        "the whole application is to end",
        READY,
        join(),
        join("member-b"),
        beat(epoch=2, shutdown_application=True),
        beat("member-b", 3),
    ),
    scenario(
        "StreamsGroupHeartbeat",
        "an older topology",
        READY,
        join(topology=topology(epoch=3)),
        join("member-b", topology=topology(epoch=2)),
    ),
]


DESCRIPTIONS = [
    scenario(
        "StreamsGroupDescribe",
        "groups that are there, of another kind, and not there",
        READY,
        prepare("StreamsGroupHeartbeat", **joining(rack_id="r", client_tags=[{"key": "zone", "value": "z"}])),
        prepare("OffsetCommit", group_id="$c", generation_id_or_member_epoch=-1, topics=[]),
        ask("StreamsGroupDescribe", group_ids=["$g", "$none"], include_authorized_operations=True),
        ask("StreamsGroupDescribe", group_ids=["$g"], include_topology_description=True),
    ),
]


def node(name: str, node_type: int, **more: Any) -> dict[str, Any]:
    return {"name": name, "node_type": node_type, **more}


SOURCE = node("read", 1, source_topics=["$t", "$t"], successors=["count"])
PROCESSOR = node("count", 2, stores=["counts"], successors=["write", "write"], sink_topic="$nowhere")
SINK = node("write", 3, sink_topic="$out", stores=["none"], source_topics=["none"])


def description(*nodes: Any, processor: Any = PROCESSOR) -> dict[str, Any]:
    subtopology = {"subtopology_id": "0", "nodes": list(nodes or (SOURCE, PROCESSOR, SINK))}
    return {"subtopologies": [subtopology], "global_stores": [{"source": SOURCE, "processor": processor}]}


def update(**more: Any) -> Step:
    said = {"group_id": "$g", "member_id": "member-a", "topology_epoch": 0, "topology_description": description()}
    return ask("StreamsGroupTopologyDescriptionUpdate", **(said | more))


DESCRIBED = ask("StreamsGroupDescribe", group_ids=["$g"], include_topology_description=True)

UPDATES = [
    scenario(
        "StreamsGroupTopologyDescriptionUpdate",
        "a description is kept, told and replaced",
        READY,
        join(),
        DESCRIBED,
        update(),
        DESCRIBED,
        ask("StreamsGroupDescribe", group_ids=["$g"]),
        beat(epoch=2),
        join("member-b"),
        update(member_id="member-b"),
        update(topology_description={"subtopologies": [], "global_stores": []}),
        DESCRIBED,
        prepare("StreamsGroupHeartbeat", **beating("member-a", -1)),
        prepare("StreamsGroupHeartbeat", **beating("member-b", -1)),
        DESCRIBED,
        ask("DeleteGroups", groups_names=["$g"]),
        DESCRIBED,
        join("member-c"),
        DESCRIBED,
    ),
    scenario(
        "StreamsGroupTopologyDescriptionUpdate",
        "descriptions that are wrong",
        READY,
        update(),
        prepare("StreamsGroupHeartbeat", **joining()),
        prepare("OffsetCommit", group_id="$c", generation_id_or_member_epoch=-1, topics=[]),
        update(group_id=""),
        update(member_id=""),
        update(member_id="member-b"),
        update(group_id="$none"),
        update(group_id="$c"),
        update(topology_epoch=1),
        update(topology_epoch=-1),
        update(topology_description=description(node("odd", 7))),
        update(topology_description=description(processor=SINK)),
        DESCRIBED,
    ),
]

SCENARIOS = [*WRONG, *TOPICS, *ASSIGNMENTS, *DESCRIPTIONS, *UPDATES]
