"""The topology of an application, in requests and in records: subtopologies and their topics."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ....protocol.internal.streams_group_records import (
    CopartitionGroup,
    StreamsGroupTopologyValue,
    Subtopology,
    TopicConfig,
    TopicInfo,
)
from ....protocol.messages.streams_group_heartbeat import Subtopology as SubtopologyInRequest
from ....protocol.messages.streams_group_heartbeat import TopicInfo as TopicInfoInRequest
from ....protocol.messages.streams_group_heartbeat import Topology as TopologyInRequest


def as_record(topology: TopologyInRequest) -> StreamsGroupTopologyValue:
    return StreamsGroupTopologyValue(
        epoch=topology.epoch, subtopologies=[_subtopology(one) for one in topology.subtopologies]
    )


def _subtopology(one: SubtopologyInRequest) -> Subtopology:
    return Subtopology(
        subtopology_id=one.subtopology_id,
        source_topics=one.source_topics,
        source_topic_regex=one.source_topic_regex,
        repartition_sink_topics=one.repartition_sink_topics,
        repartition_source_topics=_topics(one.repartition_source_topics),
        state_changelog_topics=_topics(one.state_changelog_topics),
        copartition_groups=[
            CopartitionGroup(
                source_topics=group.source_topics,
                source_topic_regex=group.source_topic_regex,
                repartition_source_topics=group.repartition_source_topics,
            )
            for group in one.copartition_groups
        ],
    )


def _topics(infos: Iterable[TopicInfoInRequest]) -> list[TopicInfo]:
    return [
        TopicInfo(
            name=info.name,
            partitions=info.partitions,
            replication_factor=info.replication_factor,
            topic_configs=[TopicConfig(key=config.key, value=config.value) for config in info.topic_configs],
        )
        for info in infos
    ]


def is_same(one: StreamsGroupTopologyValue, other: StreamsGroupTopologyValue) -> bool:
    """Returns whether two topologies are equal, in any order of their subtopologies."""
    return one.epoch == other.epoch and _by_id(one) == _by_id(other)


def _by_id(topology: StreamsGroupTopologyValue) -> dict[str, Subtopology]:
    return {one.subtopology_id: one for one in topology.subtopologies}


def input_topics(subtopology: Subtopology) -> Iterator[str]:
    """Yields the topics that the tasks read, except changelogs. The tasks correspond to their partitions."""
    yield from subtopology.source_topics
    for topic in subtopology.repartition_source_topics:
        yield topic.name


def required_topics(topology: StreamsGroupTopologyValue) -> set[str]:
    changelogs = {topic.name for one in topology.subtopologies for topic in one.state_changelog_topics}
    return {topic for one in topology.subtopologies for topic in input_topics(one)} | changelogs


def subtopology_of(topology: StreamsGroupTopologyValue, topic: str) -> str | None:
    """Returns the subtopology that reads from `topic`, or None."""
    for one in topology.subtopologies:
        if topic in input_topics(one):
            return one.subtopology_id
    return None
