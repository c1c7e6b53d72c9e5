"""The partition counts of a topology's internal topics, derived from their inputs.

A repartition topic without a configured count has as many partitions as the widest input of the subtopology that
writes to it. Copartitioned topics must have equal counts. A changelog has one partition per task.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import IntEnum

from ....protocol.internal.streams_group_records import StreamsGroupTopologyValue, Subtopology
from .topology import input_topics

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
