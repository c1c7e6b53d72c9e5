"""Changes of topics: creation, deletion, more partitions, deletion of records."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ..protocol.errors import ErrorCode
from ..protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from ..protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from ..protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from ..protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from .errors import check
from .places import Place
from .session import Admin
from .topics import describe_topics, leaders_of

#: Limit of the time in which brokers learn of a topic, and in which controllers end a change.
_KNOWN_S, _POLL_S = 10.0, 0.1
_TIMEOUT_MS = 30_000

#: Replaced by the broker's default since Apache Kafka 2.4 (KIP-464).
DEFAULT_COUNT = -1


@dataclass(frozen=True, slots=True)
class NewTopic:
    num_partitions: int = DEFAULT_COUNT
    replication_factor: int = DEFAULT_COUNT
    configs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TopicResult:
    """The outcome of a change for one topic. `error_code` is 0 where it was done."""

    name: str
    error_code: int
    error_message: str | None = None


def create_topics(admin: Admin, topics: Mapping[str, NewTopic], *, validate_only: bool = False) -> list[TopicResult]:
    request = CreateTopicsRequest(
        topics=[
            CreatableTopic(
                name=name,
                num_partitions=one.num_partitions,
                replication_factor=one.replication_factor,
                assignments=[],
                configs=[CreatableTopicConfig(key, value) for key, value in one.configs.items()],
            )
            for name, one in topics.items()
        ],
        timeout_ms=_TIMEOUT_MS,
        validate_only=validate_only,
    )

    def step() -> list[TopicResult]:
        found = admin.ask_controller(request).topics
        return _results(TopicResult(one.name, one.error_code, one.error_message) for one in found)

    return admin.repeated(step, is_query=False)


def _results(outcomes: Iterable[TopicResult]) -> list[TopicResult]:
    """Raises ResponseError where a broker is not the controller any more: no topic was changed."""
    results = list(outcomes)
    for one in results:
        if one.error_code == ErrorCode.NOT_CONTROLLER:
            check(f"topic {one.name}", one.error_code, one.error_message)
    return results


def wait_for_topics(admin: Admin, names: Iterable[str]) -> None:
    """Returns when a broker shows the topics with leaders, or after the limit: other brokers learn of them later."""
    wanted = list(names)
    deadline = time.monotonic() + _KNOWN_S
    while time.monotonic() < deadline:
        found = describe_topics(admin, wanted)
        if all(not one.error_code and all(each.leader_id >= 0 for each in one.partitions) for one in found):
            return
        time.sleep(_POLL_S)


def delete_topics(admin: Admin, names: Sequence[str]) -> list[TopicResult]:
    request = DeleteTopicsRequest(
        topics=[DeleteTopicState(name=name) for name in names], topic_names=list(names), timeout_ms=_TIMEOUT_MS
    )

    def step() -> list[TopicResult]:
        found = admin.ask_controller(request).responses
        return _results(TopicResult(one.name or "", one.error_code, one.error_message) for one in found)

    return admin.repeated(step, is_query=False)


def create_partitions(admin: Admin, counts: Mapping[str, int], *, validate_only: bool = False) -> list[TopicResult]:
    """Raises the number of partitions of topics to these counts."""
    topics = [CreatePartitionsTopic(name, count, None) for name, count in counts.items()]
    request = CreatePartitionsRequest(topics=topics, timeout_ms=_TIMEOUT_MS, validate_only=validate_only)

    def step() -> list[TopicResult]:
        found = admin.ask_controller(request).results
        return _results(TopicResult(one.name, one.error_code, one.error_message) for one in found)

    return admin.repeated(step, is_query=False)


def delete_records(admin: Admin, offsets: Mapping[Place, int]) -> None:
    """Deletes the records before an offset of each partition. Raises ResponseError for the first that keeps them."""
    leaders = admin.repeated(lambda: leaders_of(admin, offsets))
    for node, places in leaders.items():
        by_topic: dict[str, list[DeleteRecordsPartition]] = defaultdict(list)
        for topic, index in places:
            by_topic[topic].append(DeleteRecordsPartition(index, offsets[topic, index]))
        topics = [DeleteRecordsTopic(name, partitions) for name, partitions in by_topic.items()]
        response = admin.ask(DeleteRecordsRequest(topics=topics, timeout_ms=_TIMEOUT_MS), node)
        for found in response.topics:
            for one in found.partitions:
                check(f"{found.name}-{one.partition_index}", one.error_code)
