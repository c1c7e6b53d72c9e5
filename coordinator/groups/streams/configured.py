"""A topology configured with the existing topics: numbers of tasks, internal topics, and missing topics."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from ....metadata.image import MetadataImage
from ....protocol.internal.streams_group_records import StreamsGroupTopologyValue, Subtopology, TopologyTopic
from ....protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig
from .partition_counts import Status, TopicsNotReady, decide, task_count
from .topology import required_topics

#: The number of topic names in a message.
REPORTED_TOPICS = 3


@dataclass(frozen=True, slots=True)
class ConfiguredSubtopology:
    task_count: int
    is_stateful: bool
    inputs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ConfiguredTopology:
    """A topology with its tasks. `problem`: the reason why there are no tasks yet; None if all topics are ready."""

    topology: StreamsGroupTopologyValue
    subtopologies: Mapping[str, ConfiguredSubtopology] = field(default_factory=dict)
    #: Partitions of the internal topics.
    partition_counts: Mapping[str, int] = field(default_factory=dict)
    missing: tuple[CreatableTopic, ...] = ()
    problem: TopicsNotReady | None = None

    @property
    def is_ready(self) -> bool:
        return self.problem is None


def configure(topology: StreamsGroupTopologyValue, image: MetadataImage) -> ConfiguredTopology:
    """Configures a topology with the topics of the image. Raises InvalidTopology."""
    try:
        return _configured(topology, image)
    except TopicsNotReady as problem:
        return ConfiguredTopology(topology, problem=problem)


def _configured(topology: StreamsGroupTopologyValue, image: MetadataImage) -> ConfiguredTopology:
    wanted = required_topics(topology)
    existing = {name: len(topic.partitions) for name in wanted if (topic := image.topic(name)) is not None}
    _validate_missing_sources(topology, existing)
    decided = decide(topology, existing)
    internal = {
        topic.name: _creatable(topic, decided[topic.name])
        for one in topology.subtopologies
        for topic in (*one.repartition_source_topics, *one.state_changelog_topics)
    }
    for name, wanted_topic in internal.items():
        if name in existing and existing[name] != wanted_topic.num_partitions:
            raise TopicsNotReady(
                Status.INCORRECTLY_PARTITIONED_TOPICS,
                f"Existing topic {name} has different number of partitions: expected {wanted_topic.num_partitions}, "
                f"found {existing[name]}",
            )
    missing = tuple(absent for name, absent in internal.items() if name not in existing)
    problem = None
    if missing:
        words = f"Internal topics are missing: {_summary([topic.name for topic in missing])}"
        problem = TopicsNotReady(Status.MISSING_INTERNAL_TOPICS, words)
    counts = {**decided, **existing}
    subtopologies = {one.subtopology_id: _subtopology(one, counts) for one in topology.subtopologies}
    return ConfiguredTopology(
        topology,
        dict(sorted(subtopologies.items())),
        {n: t.num_partitions for n, t in internal.items()},
        missing,
        problem,
    )


def _validate_missing_sources(topology: StreamsGroupTopologyValue, existing: Mapping[str, int]) -> None:
    missing = sorted({name for one in topology.subtopologies for name in one.source_topics if name not in existing})
    if missing:
        raise TopicsNotReady(Status.MISSING_SOURCE_TOPICS, f"Source topics {_summary(missing)} are missing.")


def _subtopology(subtopology: Subtopology, counts: Mapping[str, int]) -> ConfiguredSubtopology:
    inputs = {*subtopology.source_topics, *(topic.name for topic in subtopology.repartition_source_topics)}
    return ConfiguredSubtopology(
        task_count(subtopology, counts.get), bool(subtopology.state_changelog_topics), tuple(sorted(inputs))
    )


def _creatable(topic: TopologyTopic, decided: int) -> CreatableTopic:
    return CreatableTopic(
        name=topic.name,
        num_partitions=topic.partitions or decided,
        replication_factor=topic.replication_factor or -1,
        configs=[CreatableTopicConfig(name=config.key, value=config.value) for config in topic.topic_configs],
    )


def _summary(names: Collection[str]) -> str:
    more = len(names) - REPORTED_TOPICS
    reported = ", ".join(list(names)[:REPORTED_TOPICS])
    return reported + (f" and {more} additional topics" if more > 0 else "")
