"""The topology of an application, in requests and in records: subtopologies and their topics."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ....protocol.internal.streams_group_records import (
    CopartitionGroup,
    StreamsGroupTopologyValue,
    Subtopology,
    TopicConfig,
    TopologyTopic,
)
from ....protocol.messages.streams_group_heartbeat import HeartbeatSubtopology, HeartbeatTopology
from ....protocol.messages.streams_topics import StreamsTopic


def as_record(topology: HeartbeatTopology) -> StreamsGroupTopologyValue:
    return StreamsGroupTopologyValue(
        epoch=topology.epoch, subtopologies=[_subtopology_record(one) for one in topology.subtopologies]
    )


def _subtopology_record(subtopology: HeartbeatSubtopology) -> Subtopology:
    return Subtopology(
        subtopology_id=subtopology.subtopology_id,
        source_topics=subtopology.source_topics,
        source_topic_regex=subtopology.source_topic_regex,
        repartition_sink_topics=subtopology.repartition_sink_topics,
        repartition_source_topics=_topics(subtopology.repartition_source_topics),
        state_changelog_topics=_topics(subtopology.state_changelog_topics),
        copartition_groups=[
            CopartitionGroup(
                source_topics=group.source_topics,
                source_topic_regex=group.source_topic_regex,
                repartition_source_topics=group.repartition_source_topics,
            )
            for group in subtopology.copartition_groups
        ],
    )


def _topics(infos: Iterable[StreamsTopic]) -> list[TopologyTopic]:
    return [
        TopologyTopic(
            name=info.name,
            partitions=info.partitions,
            replication_factor=info.replication_factor,
            topic_configs=[TopicConfig(key=config.key, value=config.value) for config in info.topic_configs],
        )
        for info in infos
    ]


def is_same(value: StreamsGroupTopologyValue, other: StreamsGroupTopologyValue) -> bool:
    """Returns whether two topologies are equal, in any order of their subtopologies."""
    return value.epoch == other.epoch and _by_id(value) == _by_id(other)


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
