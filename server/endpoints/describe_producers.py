"""DescribeProducers: the active producers of partitions (KIP-664).

The state of each producer in a partition's log (KIP-664): epoch, last sequence and time, and the start of an open
transaction. Any replica answers, not only the leader.

Contract: `protocol/messages/describe_producers.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...metadata.acls import Operation, ResourceType
from ...protocol.errors import ErrorCode
from ...protocol.messages.describe_producers import (
    ActiveProducer,
    DescribeProducersRequest,
    DescribeProducersResponse,
    DescribeProducersResponsePartition,
    DescribeProducersResponseTopic,
)
from ...replication.controller.topic_names import check_name
from ..access.authorization.requirements import WORDS, Each
from ..network.api_endpoint import ApiEndpoint
from ..network.portions import ONCE, Portioning

if TYPE_CHECKING:
    from ..network.call import Call
    from ..services import Services


_TOPICS = Each(Operation.READ, ResourceType.TOPIC)


def handle(services: Services, call: Call[DescribeProducersRequest]) -> DescribeProducersResponse:
    request = call.request
    response = DescribeProducersResponse()
    for topic in request.topics:
        if check_name(topic.name) is None and _TOPICS.denies(services.access.authorizer, call, topic.name):
            error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            rejected = [
                DescribeProducersResponsePartition(index, error, WORDS[error]) for index in topic.partition_indexes
            ]
            response.topics.append(DescribeProducersResponseTopic(topic.name, rejected))
            continue
        responses = [_describe(services, topic.name, index) for index in topic.partition_indexes]
        response.topics.append(DescribeProducersResponseTopic(topic.name, responses))
    return response


def _describe(services: Services, topic: str, index: int) -> DescribeProducersResponsePartition:
    hosted = services.partitions.hosted.get((topic, index))
    if hosted is not None and hosted.offline:
        return DescribeProducersResponsePartition(index, ErrorCode.KAFKA_STORAGE_ERROR)
    if hosted is None:
        invalid = check_name(topic)
        if invalid is not None:
            return DescribeProducersResponsePartition(index, invalid.code, invalid.message)
        error = services.replicas.leaders.absent_error(topic, index)
        known = services.metadata.image.topic(topic) is not None
        return DescribeProducersResponsePartition(
            index, error, None if known else "This server does not host this topic-partition."
        )
    producers = hosted.open_log().producers.by_id.values()
    return DescribeProducersResponsePartition(
        index,
        ErrorCode.NONE,
        None,
        [
            ActiveProducer(
                one.producer_id,
                one.epoch,
                one.last_sequence,
                one.last_timestamp,
                one.coordinator_epoch,
                one.transaction_first_offset,
            )
            for one in producers
        ],
    )


ENDPOINT: ApiEndpoint[DescribeProducersRequest, DescribeProducersResponse] = ApiEndpoint(
    handle=handle,
    authorization=(_TOPICS,),
    portionings=(Portioning(("topics", "partition_indexes"), ("topics", "partitions"), ONCE),),
)
