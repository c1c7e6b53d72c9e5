"""Topics: lists and descriptions, and the leaders of partitions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from uuid import UUID

from ..client.suggestions import did_you_mean
from ..protocol.errors import ErrorCode
from ..protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
    TopicPartitionsCursor,
)
from ..protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from ..protocol.uuids import ZERO_UUID
from .errors import RequestFailed, ResponseError, check
from .places import Place
from .session import Admin


@dataclass(slots=True)
class Partition:
    error_code: int
    partition_index: int
    leader_id: int
    leader_epoch: int
    replica_nodes: list[int]
    isr_nodes: list[int]
    offline_replicas: list[int]


@dataclass(slots=True)
class Topic:
    """`topic_id` is None from brokers before Apache Kafka 2.8."""

    name: str
    topic_id: UUID | None
    is_internal: bool
    partitions: list[Partition]
    error_code: int = 0

    @property
    def id_in_requests(self) -> bytes:
        """The id in a request that may have ids; brokers without one get the name."""
        return ZERO_UUID if self.topic_id is None else self.topic_id.bytes

    @property
    def leaders(self) -> dict[int, int]:
        """The leader of each partition by its index, -1 for none."""
        return {one.partition_index: one.leader_id for one in self.partitions}


@dataclass(frozen=True, slots=True)
class TopicPage:
    """A page of topics. `next_cursor` is None on the last one."""

    topics: list[Topic]
    next_cursor: TopicPartitionsCursor | None


def list_topics(admin: Admin) -> list[str]:
    return [one.name for one in describe_topics(admin, None)]


def describe_topics(admin: Admin, names: Sequence[str] | None) -> list[Topic]:
    """Topics as Metadata describes them, with an error code of each; None: all. No topic is created."""
    topics = None if names is None else [MetadataRequestTopic(name=name) for name in names]
    request = MetadataRequest(topics=topics, allow_auto_topic_creation=False)
    found = admin.repeated(lambda: admin.ask(request))
    return [_topic(one) for one in found.topics]


def existing_topics(admin: Admin, names: Iterable[str]) -> list[Topic]:
    """Those of the topics that exist."""
    wanted = sorted(names)
    return [topic for topic in describe_topics(admin, wanted) if not topic.error_code] if wanted else []


def described_topics(admin: Admin, names: Iterable[str] | None) -> list[Topic]:
    """Topics and their partitions, sorted. Raises ResponseError for one of `names` that does not exist."""
    wanted = None if names is None else list(names)
    if wanted == []:
        return []
    found = describe_topics(admin, wanted)
    for topic in found:
        if wanted is not None and topic.error_code:
            hint = hint_for_unknown(admin, topic.name, topic.error_code)
            raise ResponseError(f"topic {topic.name}", topic.error_code, None, hint)
        topic.partitions.sort(key=lambda partition: partition.partition_index)
    return sorted(found, key=lambda topic: topic.name)


def hint_for_unknown(admin: Admin, name: str, code: int) -> str:
    """`, did you mean X?` for the code of a topic that does not exist; "" where no topic has a similar name, and for other
    codes.
    """
    if code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return ""
    try:
        known = list_topics(admin.impatient)
    except RequestFailed:
        return ""
    return did_you_mean(name, known)


def describe_topic_page(admin: Admin, most_partitions: int, cursor: TopicPartitionsCursor | None) -> TopicPage:
    """A page of all topics (KIP-966). Raises NotSupported from brokers before Apache Kafka 3.8."""
    request = DescribeTopicPartitionsRequest(topics=[], response_partition_limit=most_partitions, cursor=cursor)
    found = admin.repeated(lambda: admin.ask(request))
    return TopicPage([_topic(one) for one in found.topics], found.next_cursor)


def _topic(topic: MetadataResponseTopic | DescribeTopicPartitionsResponseTopic) -> Topic:
    topic_id = UUID(bytes=topic.topic_id) if topic.topic_id != ZERO_UUID else None
    partitions = [_partition(each) for each in topic.partitions]
    return Topic(topic.name or "", topic_id, topic.is_internal, partitions, topic.error_code)


def _partition(partition: MetadataResponsePartition | DescribeTopicPartitionsResponsePartition) -> Partition:
    return Partition(
        partition.error_code,
        partition.partition_index,
        partition.leader_id,
        partition.leader_epoch,
        partition.replica_nodes,
        partition.isr_nodes,
        partition.offline_replicas,
    )


def leaders_of(admin: Admin, places: Iterable[Place]) -> dict[int, list[Place]]:
    """Partitions by the broker that leads them. Raises ResponseError for one without a leader. Asks once."""
    wanted = set(places)
    names = sorted({topic for topic, _ in wanted})
    made: dict[int, list[Place]] = defaultdict(list)
    for topic in describe_topics(admin.impatient, names) if names else ():
        if any(name == topic.name for name, _ in wanted):
            check(f"topic {topic.name}", topic.error_code)
        for one in topic.partitions:
            place = (topic.name, one.partition_index)
            if place not in wanted:
                continue
            if one.leader_id < 0:
                raise ResponseError(f"{place[0]}-{place[1]}", ErrorCode.LEADER_NOT_AVAILABLE)
            made[one.leader_id].append(place)
            wanted.discard(place)
    for topic_name, index in wanted:
        raise ResponseError(f"{topic_name}-{index}", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return made
