"""DescribeTopicPartitions: topics by name, a page of partitions at a time (KIP-966).

A page ends after as many partitions as the client wants, and as max.request.partition.size.limit allows; then the response
has a cursor for the next request. Topics come in the order of their names.

Contract: `protocol/messages/describe_topic_partitions.py`.
"""

from __future__ import annotations

from collections.abc import Iterable

from ...metadata.acls import Operation, ResourceType
from ...metadata.image import NO_LEADER, PartitionImage, TopicImage
from ...metadata.internal_topics import INTERNAL_TOPICS
from ...protocol.errors import ErrorCode
from ...protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
    TopicPartitionsCursor,
)
from ...replication.controller.topic_names import topic_name_fault
from ..access.authorization.authorized_operations import authorized_operations
from ..access.authorization.requirements import Each
from ..controller.cluster_view import ClusterView
from ..network.api_endpoint import ApiEndpoint
from ..network.call import Call
from ..network.work_in_turns import work_in_turns
from ..runtime.sliced_work import Steps, in_order
from ..services import Services

_TOPICS = Each(Operation.DESCRIBE, ResourceType.TOPIC)
_START = TopicPartitionsCursor(topic_name="", partition_index=0)


def handle(services: Services, call: Call[DescribeTopicPartitionsRequest]) -> None:
    work_in_turns(call, _page(services, call, call.request), call.reply)


def _page(
    services: Services, call: Call[DescribeTopicPartitionsRequest], request: DescribeTopicPartitionsRequest
) -> Steps[DescribeTopicPartitionsResponse]:
    view = ClusterView(services.metadata.image, call.listener)
    cursor = request.cursor or _START
    asked: dict[str, None] = {}
    for number, topic in enumerate(request.topics):
        asked[topic.name] = None
        request.topics[number] = None  # type: ignore[call-overload]  # to free a million at once takes long
        yield
    if cursor.partition_index < 0 or (request.cursor is not None and asked and cursor.topic_name not in asked):
        return (yield from _error_response(asked))
    wanted = (name for name in asked or view.image.topics.by_name if name >= cursor.topic_name)
    names = yield from in_order(wanted)
    limit = services.config.get("max.request.partition.size.limit")
    page = _Page(services, call, view, max(min(limit, request.response_partition_limit), 1))
    hidden: list[DescribeTopicPartitionsResponseTopic] = []
    for name in names:
        yield
        if _TOPICS.denies(services.access.authorizer, call, name, log_denied=bool(asked)):
            if asked:
                error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
                hidden.append(DescribeTopicPartitionsResponseTopic(error_code=error, name=name))
        elif not page.is_full:
            start = cursor.partition_index if name == cursor.topic_name else 0
            page.add(name, start, tells_missing=bool(asked))
        elif not asked or services.access.authorizer is None:
            break  # a full page, and no denied name to report
    page.response.topics += hidden
    return page.response


def _error_response(names: Iterable[str]) -> Steps[DescribeTopicPartitionsResponse]:
    response = DescribeTopicPartitionsResponse()
    for name in names:
        response.topics.append(DescribeTopicPartitionsResponseTopic(error_code=ErrorCode.INVALID_REQUEST, name=name))
        yield
    return response


class _Page:
    """A response that is being filled with `limit` partitions at the most."""

    def __init__(
        self, services: Services, call: Call[DescribeTopicPartitionsRequest], view: ClusterView, limit: int
    ) -> None:
        self.response = DescribeTopicPartitionsResponse()
        self._services = services
        self._call = call
        self._view = view
        self._left = limit

    @property
    def is_full(self) -> bool:
        return self.response.next_cursor is not None

    def add(self, name: str, start: int, *, tells_missing: bool) -> None:
        """Adds a topic's partitions from `start` on, or the place where the next page begins."""
        if self._left == 0:
            self.response.next_cursor = TopicPartitionsCursor(topic_name=name, partition_index=0)
            return
        topic = self._view.image.topic(name)
        if topic is None:
            if tells_missing:
                self.response.topics.append(self._missing(name))
            return
        end = min(len(topic.partitions), start + self._left)
        self.response.topics.append(self._topic(topic, start, end))
        if end < len(topic.partitions):
            self.response.next_cursor = TopicPartitionsCursor(topic_name=name, partition_index=end)
            return
        self._left -= max(0, end - start)

    def _operations(self, name: str) -> int:
        return authorized_operations(self._services.access.authorizer, self._call, ResourceType.TOPIC, name)

    def _topic(self, topic: TopicImage, start: int, end: int) -> DescribeTopicPartitionsResponseTopic:
        return DescribeTopicPartitionsResponseTopic(
            name=topic.name,
            topic_id=topic.id,
            is_internal=topic.name in INTERNAL_TOPICS,
            partitions=[self._partition(index, topic.partitions[index]) for index in range(start, end)],
            topic_authorized_operations=self._operations(topic.name),
        )

    def _partition(self, index: int, partition: PartitionImage) -> DescribeTopicPartitionsResponsePartition:
        return DescribeTopicPartitionsResponsePartition(
            partition_index=index,
            leader_id=partition.leader if self._view.is_reachable(partition.leader) else NO_LEADER,
            leader_epoch=partition.leader_epoch,
            replica_nodes=list(partition.replicas),
            isr_nodes=list(partition.isr),
            eligible_leader_replicas=list(partition.elr),
            last_known_elr=list(partition.last_known_elr),
            offline_replicas=self._view.offline_replicas(partition),
        )

    def _missing(self, name: str) -> DescribeTopicPartitionsResponseTopic:
        legal = topic_name_fault(name) is None
        return DescribeTopicPartitionsResponseTopic(
            error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if legal else ErrorCode.INVALID_TOPIC_EXCEPTION,
            name=name,
            is_internal=name in INTERNAL_TOPICS,
            topic_authorized_operations=self._operations(name),
        )


ENDPOINT: ApiEndpoint[DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse] = ApiEndpoint(
    handle=handle, authorization=(_TOPICS,), is_sliced=True
)
