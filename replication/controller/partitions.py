"""CreatePartitions, and the first state of a new partition."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ...metadata.image import TOPIC_RESOURCE, TopicImage
from ...metadata.mirror_keys import MIRROR_NAME, MIRROR_PARTITIONS
from ...protocol.errors import ErrorCode
from ...protocol.internal.cluster_metadata import PartitionRecord
from ...protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from ...protocol.schema import Message
from ..mirror.read_only import read_only
from .placement import UsableBroker, place
from .result import MAX_RECORDS_PER_REQUEST, ApiError, ControllerResult, RequestError
from .state import ControllerState


def create_partitions(state: ControllerState, request: CreatePartitionsRequest, version: int) -> ControllerResult:
    """Handles CreatePartitions. A topic named twice gets one error and no change; the others are independent."""
    counts = Counter(topic.name for topic in request.topics)
    response = CreatePartitionsResponse()
    for name, count in counts.items():
        if count > 1:
            response.results.append(_result(name, ApiError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")))
    records: list[Message] = []
    for topic in request.topics:
        if counts[topic.name] == 1:
            made = _grown(state, topic, MAX_RECORDS_PER_REQUEST - len(records))
            response.results.append(_result(topic.name, made if isinstance(made, ApiError) else None))
            if not isinstance(made, ApiError):
                records += made
    return ControllerResult(records, response, validate_only=request.validate_only)


def _result(name: str, error: ApiError | None) -> CreatePartitionsTopicResult:
    code, message = error or (ErrorCode.NONE, None)
    return CreatePartitionsTopicResult(name=name, error_code=code, error_message=message)


def _grown(state: ControllerState, asked: CreatePartitionsTopic, most: int) -> list[PartitionRecord] | ApiError:
    """Returns the records of the added partitions.

    Raises RequestError for more than `most` partitions before it places any: a four-byte count must not cost memory
    for two billion. Kafka returns the same error after it has placed them.
    """
    topic = state.image.topic(asked.name)
    if topic is None:
        return ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    error = _check_mirror(state, asked) or _check_increase(topic, asked) or _check_number_of_assignments(topic, asked)
    if error is not None:
        return error
    if asked.count - len(topic.partitions) > most:
        raise RequestError(ErrorCode.UNKNOWN_SERVER_ERROR)
    if state.rejects_mutation(asked.count - len(topic.partitions)):
        return ApiError(ErrorCode.THROTTLING_QUOTA_EXCEEDED)
    replicas = _replicas(state, topic, asked)
    if isinstance(replicas, ApiError):
        return replicas
    made: list[PartitionRecord] = []
    for index, brokers in enumerate(replicas, len(topic.partitions)):
        record = new_partition(state, topic.id, index, brokers)
        if record is None:
            return _nobody_active(index, brokers, asked)
        made.append(record)
    return made


def _check_mirror(state: ControllerState, asked: CreatePartitionsTopic) -> ApiError | None:
    """Checks that a mirror has no more partitions than its source, as its link has noted."""
    configs = state.image.config(TOPIC_RESOURCE, asked.name)
    link = configs.get(MIRROR_NAME, "")
    if not link or asked.count == int(configs.get(MIRROR_PARTITIONS, "0")):
        return None
    return ApiError(ErrorCode.POLICY_VIOLATION, read_only(asked.name, link))


def _check_increase(topic: TopicImage, asked: CreatePartitionsTopic) -> ApiError | None:
    now = len(topic.partitions)
    if asked.count > now:
        return None
    if asked.count == now:
        return ApiError(ErrorCode.INVALID_PARTITIONS, f"Topic already has {now} partition(s).")
    return ApiError(
        ErrorCode.INVALID_PARTITIONS,
        f"The topic {asked.name} currently has {now} partition(s); {asked.count} would not be an increase.",
    )


def _check_number_of_assignments(topic: TopicImage, asked: CreatePartitionsTopic) -> ApiError | None:
    additional = asked.count - len(topic.partitions)
    if asked.assignments is None or len(asked.assignments) == additional:
        return None
    return ApiError(
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        f"Attempted to add {additional} additional partition(s), but only {len(asked.assignments)} assignment(s) "
        "were specified.",
    )


def _replicas(
    state: ControllerState, topic: TopicImage, asked: CreatePartitionsTopic
) -> Sequence[Sequence[int]] | ApiError:
    replication_factor = len(topic.partitions[0].replicas)
    if asked.assignments is None:
        return place(asked.count - len(topic.partitions), replication_factor, usable_brokers(state), state.rng)
    for assignment in asked.assignments:
        error = check_assignment(state, assignment.broker_ids, replication_factor)
        if error is not None:
            return error
    return [assignment.broker_ids for assignment in asked.assignments]


def _nobody_active(index: int, brokers: Sequence[int], asked: CreatePartitionsTopic) -> ApiError:
    if asked.assignments is not None:
        return all_fenced_in_assignment(index)
    return all_fenced_in_placement(len(brokers))


def all_fenced_in_assignment(index: int) -> ApiError:
    return ApiError(
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        f"All brokers specified in the manual partition assignment for partition {index} are fenced or in controlled "
        "shutdown.",
    )


def all_fenced_in_placement(replication_factor: int) -> ApiError:
    return ApiError(
        ErrorCode.INVALID_REPLICATION_FACTOR,
        f"Unable to replicate the partition {replication_factor} time(s): All brokers are currently fenced or in "
        "controlled shutdown.",
    )


def check_assignment(
    state: ControllerState, broker_ids: Sequence[int], replication_factor: int | None
) -> ApiError | None:
    """Checks a manual assignment of one partition. `replication_factor` is that of the others, None for the first."""
    code = ErrorCode.INVALID_REPLICA_ASSIGNMENT
    if not broker_ids:
        return ApiError(code, "The manual partition assignment includes an empty replica list.")
    previous = None
    for broker_id in sorted(broker_ids):
        if state.image.broker(broker_id) is None:
            return ApiError(
                code,
                f"The manual partition assignment includes broker {broker_id}, but no such broker is registered.",
            )
        if broker_id == previous:
            return ApiError(code, f"The manual partition assignment includes the broker {broker_id} more than once.")
        previous = broker_id
    if replication_factor is not None and len(broker_ids) != replication_factor:
        return ApiError(
            code,
            f"The manual partition assignment includes a partition with {len(broker_ids)} replica(s), but this is not "
            f"consistent with previous partitions, which have {replication_factor} replica(s).",
        )
    return None


def new_partition(
    state: ControllerState, topic_id: bytes, index: int, replicas: Sequence[int]
) -> PartitionRecord | None:
    """Returns the record of a partition with these replicas; None if none of their brokers is active."""
    isr = [broker_id for broker_id in replicas if state.is_active(broker_id)]
    if not isr:
        return None
    return PartitionRecord(
        partition_id=index,
        topic_id=topic_id,
        replicas=list(replicas),
        isr=isr,
        leader=isr[0],
        leader_epoch=0,
        partition_epoch=0,
        directories=[state.default_directory(broker_id) for broker_id in replicas],
    )


def usable_brokers(state: ControllerState) -> list[UsableBroker]:
    """Returns the brokers that may get new replicas: not those with all directories cordoned (KIP-1066)."""
    return [
        UsableBroker(broker.id, broker.rack, broker.fenced)
        for broker in state.image.cluster.brokers.values()
        if not broker.directories or set(broker.directories) - set(broker.cordoned_directories)
    ]
