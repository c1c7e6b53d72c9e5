"""AssignReplicasToDirs (KIP-858): a broker reports the log directories of its replicas."""

from __future__ import annotations

from ...metadata.image import BrokerImage, TopicImage
from ...protocol.errors import ErrorCode
from ...protocol.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    AssignReplicasToDirsResponseDirectory,
)
from ...protocol.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsResponsePartition as AssignedPartitionResponse,
)
from ...protocol.messages.assign_replicas_to_dirs import AssignReplicasToDirsResponseTopic as AssignedTopicResponse
from ...protocol.schema import Message
from .brokers import check_epoch
from .leadership import Move, leadership_record
from .partition_change import PartitionChange
from .result import ControllerResult
from .state import ControllerState


def assign_replicas_to_directories(
    state: ControllerState, request: AssignReplicasToDirsRequest, version: int
) -> ControllerResult:
    """Assigns replicas to directories. A replica assigned to a lost directory leaves the ISR."""
    broker = check_epoch(state, request.broker_id, request.broker_epoch)
    response = AssignReplicasToDirsResponse()
    records: list[Message] = []
    stranded: set[tuple[bytes, int]] = set()
    for directory in request.directories:
        assigned = AssignReplicasToDirsResponseDirectory(id=directory.id)
        online = broker.has_online_directory(directory.id)
        for asked in directory.topics:
            topic = state.image.topic_by_id(asked.topic_id)
            result = AssignedTopicResponse(topic_id=asked.topic_id)
            for index in (partition.partition_index for partition in asked.partitions):
                error = _check_hosted(topic, index, broker)
                result.partitions.append(AssignedPartitionResponse(partition_index=index, error_code=error))
                if error == ErrorCode.NONE and topic is not None:
                    records += _moved(state, topic, index, broker, directory.id)
                    stranded |= set() if online else {(topic.id, index)}
            assigned.topics.append(result)
        response.directories.append(assigned)
    records += _left_behind(state, broker, stranded)
    return ControllerResult(records, response, atomic=False)


def _check_hosted(topic: TopicImage | None, index: int, broker: BrokerImage) -> ErrorCode:
    if topic is None:
        return ErrorCode.UNKNOWN_TOPIC_ID
    partition = topic.partitions.get(index)
    if partition is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return ErrorCode.NONE if broker.id in partition.replicas else ErrorCode.NOT_LEADER_OR_FOLLOWER


def _moved(
    state: ControllerState, topic: TopicImage, index: int, broker: BrokerImage, directory: bytes
) -> list[Message]:
    change = PartitionChange(state, topic, index)
    change.directories[broker.id] = directory
    record = change.record()
    return [record] if record is not None else []


def _left_behind(state: ControllerState, broker: BrokerImage, stranded: set[tuple[bytes, int]]) -> list[Message]:
    changes = (
        leadership_record(state, state.image.topics.by_id[topic_id], index, Move(leaves=broker.id))
        for topic_id, index in sorted(stranded)
    )
    return [record for record in changes if record is not None]
