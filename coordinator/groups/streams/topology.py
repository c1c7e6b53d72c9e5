"""The topology of an application, in requests and in records: subtopologies and their topics."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum

from ....metadata.image import MetadataImage
from ....protocol.internal.streams_group_records import (
    CopartitionGroup,
    StreamsGroupTopologyValue,
    Subtopology,
    TopicConfig,
    TopicInfo,
)
from ....protocol.messages.streams_groups import Subtopology as SubtopologyInRequest
from ....protocol.messages.streams_groups import TopicInfo as TopicInfoInRequest
from ....protocol.messages.streams_groups import Topology as TopologyInRequest
from ....protocol.messages.topics import CreatableTopic, CreatableTopicConfig


def as_record(topology: TopologyInRequest) -> StreamsGroupTopologyValue:
    return StreamsGroupTopologyValue(
        epoch=topology.epoch, subtopologies=[_subtopology_record(one) for one in topology.subtopologies]
    )


def _subtopology_record(one: SubtopologyInRequest) -> Subtopology:
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


# The partition counts of a topology's internal topics, derived from their inputs.
#
# A repartition topic without a configured count has as many partitions as the widest input of the subtopology that
# writes to it. Copartitioned topics must have equal counts. A changelog has one partition per task.


#: Topic -> its partition count; None if unknown.
CountOf = Callable[[str], int | None]


class Status(IntEnum):
    """The statuses in a heartbeat response."""

    STALE_TOPOLOGY = 0
    MISSING_SOURCE_TOPICS = 1
    INCORRECTLY_PARTITIONED_TOPICS = 2
    MISSING_INTERNAL_TOPICS = 3
    SHUTDOWN_APPLICATION = 4
    ASSIGNMENT_DELAYED = 5
    MISSING_CLIENT_TAGS = 6


class TopicsNotReady(Exception):
    """The topics do not match the topology (yet): members get a status and no tasks."""

    def __init__(self, status: Status, words: str) -> None:
        super().__init__(words)
        self.status = status


class InvalidTopology(Exception):
    """The topology is invalid with any topics."""


def decide(topology: StreamsGroupTopologyValue, existing: Mapping[str, int]) -> dict[str, int]:
    """Returns internal topic -> partitions. `existing`: the counts of existing topics, including all source topics."""
    decided: dict[str, int] = {}

    def count_of(topic: str) -> int | None:
        return existing.get(topic, decided.get(topic))

    decided.update(_repartition_counts(topology, count_of))
    _copartition(topology, count_of, decided)
    for subtopology in topology.subtopologies:
        count = task_count(subtopology, count_of)
        decided.update({topic.name: count for topic in subtopology.state_changelog_topics})
    return decided


def task_count(subtopology: Subtopology, count_of: CountOf) -> int:
    counts = [count for topic in input_topics(subtopology) if (count := count_of(topic)) is not None]
    if not counts:
        raise InvalidTopology(f"No source topics found for subtopology {subtopology.subtopology_id}")
    return max(counts)


def _repartition_counts(topology: StreamsGroupTopologyValue, count_of: CountOf) -> dict[str, int]:
    sources = [topic for one in topology.subtopologies for topic in one.repartition_source_topics]
    counts = {topic.name: topic.partitions for topic in sources if topic.partitions != 0}
    while True:
        open_sinks, progress = False, False
        for subtopology in topology.subtopologies:
            for sink in subtopology.repartition_sink_topics:
                if sink in counts:
                    continue
                count = _widest_input(subtopology, counts, count_of)
                if count is None:
                    open_sinks = True
                else:
                    counts[sink], progress = count, True
        if not open_sinks:
            break
        if not progress:
            raise InvalidTopology(
                "Failed to compute number of partitions for all repartition topics. There may be loops in the topology "
                "that cannot be resolved."
            )
    if any(topic.name not in counts for topic in sources):
        raise InvalidTopology(
            "Failed to compute number of partitions for all repartition topics, because a repartition source topic is "
            "never used as a sink topic."
        )
    return counts


def _widest_input(subtopology: Subtopology, counts: Mapping[str, int], count_of: CountOf) -> int | None:
    known = [counts.get(topic.name) for topic in subtopology.repartition_source_topics]
    known += [count_of(topic) for topic in subtopology.source_topics]
    return max((count for count in known if count is not None), default=None)


def _copartition(topology: StreamsGroupTopologyValue, count_of: CountOf, decided: dict[str, int]) -> None:
    sources = [topic for one in topology.subtopologies for topic in one.repartition_source_topics]
    fixed = {topic.name for topic in sources if topic.partitions != 0}
    flexible = {topic.name for topic in sources if topic.partitions == 0}
    for subtopology in topology.subtopologies:
        for group in subtopology.copartition_groups:
            names = [subtopology.source_topics[i] for i in group.source_topics]
            names += [subtopology.repartition_source_topics[i].name for i in group.repartition_source_topics]
            if names:
                decided.update(_agreed(sorted(set(names)), fixed, flexible, count_of))


def _agreed(names: Iterable[str], fixed: set[str], flexible: set[str], count_of: CountOf) -> dict[str, int]:
    """Returns the counts of the repartition topics among copartitioned topics."""
    counts = {name: count for name in names if (count := count_of(name)) is not None}
    repartition = {name: count for name, count in counts.items() if name in fixed or name in flexible}
    others = {name: count for name, count in counts.items() if name not in repartition}
    if others:
        agreed = _equal(others, others)
    elif fixed:
        agreed = _equal({name: count for name in sorted(fixed) if (count := count_of(name)) is not None}, repartition)
    else:
        agreed = max(repartition.values())
    for name, count in repartition.items():
        if name in fixed and count != agreed:
            raise TopicsNotReady(
                Status.INCORRECTLY_PARTITIONED_TOPICS,
                f"Number of partitions [{count}] of repartition topic [{name}] doesn't match number of partitions "
                f"[{agreed}] of the source topic.",
            )
    return dict.fromkeys(repartition, agreed)


def _equal(counts: Mapping[str, int], shown: Mapping[str, int]) -> int:
    if len(set(counts.values())) > 1:
        reported = ", ".join(f"{name}={count}" for name, count in sorted(shown.items()))
        words = f"Following topics do not have the same number of partitions: [{{{reported}}}]"
        raise TopicsNotReady(Status.INCORRECTLY_PARTITIONED_TOPICS, words)
    return next(iter(counts.values()))


# A topology configured with the existing topics: numbers of tasks, internal topics, and missing topics.


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


def _subtopology(one: Subtopology, counts: Mapping[str, int]) -> ConfiguredSubtopology:
    inputs = {*one.source_topics, *(topic.name for topic in one.repartition_source_topics)}
    return ConfiguredSubtopology(task_count(one, counts.get), bool(one.state_changelog_topics), tuple(sorted(inputs)))


def _creatable(topic: TopicInfo, decided: int) -> CreatableTopic:
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
