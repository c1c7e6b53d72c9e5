"""Log directories of brokers, the replicas in them, and their disks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..protocol.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from .nodes import nodes_or_running
from .session import Admin


@dataclass(frozen=True, slots=True)
class Replica:
    partition_index: int
    partition_size: int
    offset_lag: int
    is_future_key: bool


@dataclass(frozen=True, slots=True)
class TopicReplicas:
    name: str
    partitions: list[Replica]


@dataclass(frozen=True, slots=True)
class LogDirectory:
    """`total_bytes` and `usable_bytes` are None where the broker does not say (before Apache Kafka 3.3)."""

    error_code: int
    log_dir: str
    topics: list[TopicReplicas]
    total_bytes: int | None
    usable_bytes: int | None


@dataclass(frozen=True, slots=True)
class BrokerDirectories:
    """Directories of a broker; none where the user may not see them, with the `error_code`."""

    broker: int
    log_dirs: list[LogDirectory]
    error_code: int = 0


def describe_log_dirs(
    admin: Admin,
    topics: Mapping[str, Sequence[int]] | None = None,
    brokers: Sequence[int] | None = None,
) -> list[BrokerDirectories]:
    """Directories with the replicas of these partitions; None: of all, or of all brokers in the metadata."""
    asked = None if topics is None else [DescribableLogDirTopic(name, list(some)) for name, some in topics.items()]
    request = DescribeLogDirsRequest(topics=asked)
    return admin.repeated(lambda: [_described(admin, node, request) for node in nodes_or_running(admin, brokers)])


def _described(admin: Admin, node: int, request: DescribeLogDirsRequest) -> BrokerDirectories:
    response = admin.ask(request, node)
    found = [
        LogDirectory(
            one.error_code,
            one.log_dir,
            [
                TopicReplicas(
                    topic.name,
                    [
                        Replica(each.partition_index, each.partition_size, each.offset_lag, each.is_future_key)
                        for each in topic.partitions
                    ],
                )
                for topic in one.topics
            ],
            _known(one.total_bytes),
            _known(one.usable_bytes),
        )
        for one in response.results
    ]
    return BrokerDirectories(node, found, response.error_code)


def _known(count: int) -> int | None:
    return count if count >= 0 else None
