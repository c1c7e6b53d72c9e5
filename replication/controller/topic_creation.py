"""CreateTopics: new topics with their ids, their configs and the replicas of their partitions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Set
from typing import NamedTuple

from ...metadata.internal_topics import CLUSTER_METADATA_TOPIC
from ...metadata.mirror_keys import MIRROR_TOPIC_ID
from ...protocol.errors import ErrorCode
from ...protocol.internal.cluster_metadata import PartitionRecord, TopicRecord
from ...protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ...protocol.schema import Message
from ...protocol.uuids import RESERVED_UUIDS, uuid_from_text, uuid_to_text
from ..random_source import random_uuid
from .configs import new_topic_configs, shown_topic_configs
from .partitions import (
    all_fenced_in_assignment,
    all_fenced_in_placement,
    check_assignment,
    new_partition,
    usable_brokers,
)
from .placement import place
from .policies import TopicCreation, violation
from .result import MAX_PARTITIONS_PER_REQUEST, ApiError, ControllerResult, RequestError
from .state import ControllerState
from .topic_names import check_collision, check_name

#: The versions whose response contains the configs of created topics.
_WITH_CONFIGS = CreatableTopicResult.versions_with("configs")


class _NewTopic(NamedTuple):
    """A valid topic to create."""

    result: CreatableTopicResult
    records: list[Message]


def create_topics(state: ControllerState, request: CreateTopicsRequest, version: int) -> ControllerResult:
    """Handles CreateTopics. Each topic succeeds or fails independently."""
    if sum(_asked_partitions(state, topic) for topic in request.topics) > MAX_PARTITIONS_PER_REQUEST:
        raise RequestError(ErrorCode.POLICY_VIOLATION, "Excessively large number of partitions per request.")
    counts = Counter(topic.name for topic in request.topics)
    response = CreateTopicsResponse()
    records: list[Message] = []
    #: The image does not contain the request's own topics yet.
    new_ids: set[bytes] = set()
    for topic in request.topics:
        if counts[topic.name] > 1 or topic.name == CLUSTER_METADATA_TOPIC:
            continue
        made = _created(state, topic, version, new_ids)
        if isinstance(made, ApiError):
            response.topics.append(_error_response(topic.name, made))
        else:
            new_ids.add(made.result.topic_id)
            response.topics.append(made.result)
            records += made.records
    response.topics += [_error_response(name, error) for name, error in _rejected_by_name(counts)]
    return ControllerResult(records, response, validate_only=request.validate_only)


def _asked_partitions(state: ControllerState, topic: CreatableTopic) -> int:
    return len(topic.assignments) or max(0, _or_default(state, topic.num_partitions, "num.partitions"))


def _rejected_by_name(counts: Counter[str]) -> Iterable[tuple[str, ApiError]]:
    """Yields the errors of duplicate and reserved names. Kafka puts them last in the response."""
    for name, count in counts.items():
        if count > 1:
            yield name, ApiError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
    if counts[CLUSTER_METADATA_TOPIC] == 1:
        message = f"Creation of internal topic {CLUSTER_METADATA_TOPIC} is prohibited."
        yield CLUSTER_METADATA_TOPIC, ApiError(ErrorCode.INVALID_REQUEST, message)


def _error_response(name: str, error: ApiError) -> CreatableTopicResult:
    return CreatableTopicResult(name=name, error_code=error.code, error_message=error.message, configs=[])


def _created(state: ControllerState, topic: CreatableTopic, version: int, new_ids: Set[bytes]) -> _NewTopic | ApiError:
    for check in (_check_absent, _check_name, _check_collision):
        error = check(state, topic)
        if error is not None:
            return error
    configs = new_topic_configs(state, topic)
    if isinstance(configs, ApiError):
        return configs
    topic_id = _id_of(state, topic, new_ids)
    if isinstance(topic_id, ApiError):
        return topic_id
    partitions = _assigned(state, topic_id, topic) if topic.assignments else _placed(state, topic_id, topic)
    error = partitions if isinstance(partitions, ApiError) else _check_policy(state, topic, partitions)
    if error is not None:
        return error
    assert not isinstance(partitions, ApiError)
    if state.rejects_mutation(len(partitions)):
        return ApiError(ErrorCode.THROTTLING_QUOTA_EXCEEDED)
    result = CreatableTopicResult(name=topic.name, topic_id=topic_id, error_message=None, configs=[])
    if version in _WITH_CONFIGS:
        result.num_partitions = len(partitions)
        result.replication_factor = len(partitions[0].replicas)
        result.configs = shown_topic_configs(state, topic)
    return _NewTopic(result, [TopicRecord(name=topic.name, topic_id=topic_id), *configs, *partitions])


def _id_of(state: ControllerState, topic: CreatableTopic, new_ids: Set[bytes]) -> bytes | ApiError:
    """Returns a new id, or for a mirror the id of the source's topic."""
    wanted = next((config.value for config in topic.configs if config.name == MIRROR_TOPIC_ID), None)
    if not wanted:
        return random_uuid(state.rng)
    try:
        topic_id = uuid_from_text(wanted)
    except ValueError:
        return ApiError(ErrorCode.INVALID_CONFIG, f"{MIRROR_TOPIC_ID} must be the id of a topic.")
    return _check_reserved(topic_id) or _check_unused(state, topic_id, new_ids) or topic_id


def _check_reserved(topic_id: bytes) -> ApiError | None:
    """A record with such an id would be of no topic, or of the metadata log itself."""
    if topic_id not in RESERVED_UUIDS:
        return None
    message = f"{MIRROR_TOPIC_ID} must be the id of a topic; {uuid_to_text(topic_id)} is a reserved id."
    return ApiError(ErrorCode.INVALID_CONFIG, message)


def _check_unused(state: ControllerState, topic_id: bytes, new_ids: Set[bytes]) -> ApiError | None:
    text = uuid_to_text(topic_id)
    if state.image.topic_by_id(topic_id) is not None:
        message = f"A topic with the id {text} exists: the source's topic is mirrored already, or is of this cluster."
    elif topic_id in new_ids:
        message = f"Another topic of the request has the id {text}. Create one of them."
    else:
        return None
    return ApiError(ErrorCode.INVALID_REQUEST, message)


def _check_absent(state: ControllerState, topic: CreatableTopic) -> ApiError | None:
    if state.image.topic(topic.name) is None:
        return None
    return ApiError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{topic.name}' already exists.")


def _check_name(_state: ControllerState, topic: CreatableTopic) -> ApiError | None:
    return check_name(topic.name)


def _check_collision(state: ControllerState, topic: CreatableTopic) -> ApiError | None:
    return check_collision(topic.name, state.colliding_names)


def _assigned(state: ControllerState, topic_id: bytes, topic: CreatableTopic) -> list[PartitionRecord] | ApiError:
    """Returns the partitions of a topic with a manual assignment."""
    error = _check_nothing_else_said(topic)
    made: dict[int, PartitionRecord] = {}
    replication_factor = None
    for assignment in topic.assignments:
        index = assignment.partition_index
        error = (
            error
            or _check_named_once(index, made)
            or check_assignment(state, assignment.broker_ids, replication_factor)
        )
        if error is not None:
            return error
        replication_factor = len(assignment.broker_ids)
        record = new_partition(state, topic_id, index, assignment.broker_ids)
        if record is None:
            return all_fenced_in_assignment(index)
        made[index] = record
    return _check_consecutive(made) or [made[index] for index in sorted(made)]


def _check_policy(state: ControllerState, topic: CreatableTopic, partitions: list[PartitionRecord]) -> ApiError | None:
    policy = state.policies.create_topic
    if policy is None:
        return None
    is_assigned = bool(topic.assignments)
    creation = TopicCreation(
        topic.name,
        None if is_assigned else len(partitions),
        None if is_assigned else len(partitions[0].replicas),
        {one.partition_id: tuple(one.replicas) for one in partitions} if is_assigned else None,
        {config.name: config.value for config in topic.configs if config.value is not None},
    )
    return violation(policy.validate, creation)


def _check_nothing_else_said(topic: CreatableTopic) -> ApiError | None:
    said = "A manual partition assignment was specified, but "
    if topic.replication_factor != -1:
        return ApiError(ErrorCode.INVALID_REQUEST, said + "replication factor was not set to -1.")
    if topic.num_partitions != -1:
        return ApiError(ErrorCode.INVALID_REQUEST, said + "numPartitions was not set to -1.")
    return None


def _check_named_once(index: int, partitions: dict[int, PartitionRecord]) -> ApiError | None:
    if index not in partitions:
        return None
    message = f"Found multiple manual partition assignments for partition {index}"
    return ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)


def _check_consecutive(partitions: dict[int, PartitionRecord]) -> ApiError | None:
    if sorted(partitions) == list(range(len(partitions))):
        return None
    message = "partitions should be a consecutive 0-based integer sequence"
    return ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)


def _placed(state: ControllerState, topic_id: bytes, topic: CreatableTopic) -> list[PartitionRecord] | ApiError:
    """Returns the partitions of a topic with replicas placed by the controller. -1 means the broker's default."""
    error = _check_replication_factor(topic) or _check_partitions(topic)
    if error is not None:
        return error
    partitions = _or_default(state, topic.num_partitions, "num.partitions")
    replication_factor = _or_default(state, topic.replication_factor, "default.replication.factor")
    placed = place(partitions, replication_factor, usable_brokers(state), state.rng)
    if isinstance(placed, ApiError):
        return ApiError(
            placed.code, f"Unable to replicate the partition {replication_factor} time(s): {placed.message}"
        )
    made: list[PartitionRecord] = []
    for index, replicas in enumerate(placed):
        record = new_partition(state, topic_id, index, replicas)
        if record is None:
            return all_fenced_in_placement(replication_factor)
        made.append(record)
    return made


def _check_replication_factor(topic: CreatableTopic) -> ApiError | None:
    if topic.replication_factor > 0 or topic.replication_factor == -1:
        return None
    message = "Replication factor must be larger than 0, or -1 to use the default value."
    return ApiError(ErrorCode.INVALID_REPLICATION_FACTOR, message)


def _check_partitions(topic: CreatableTopic) -> ApiError | None:
    if topic.num_partitions > 0 or topic.num_partitions == -1:
        return None
    return ApiError(ErrorCode.INVALID_PARTITIONS, "Number of partitions was set to an invalid non-positive value.")


def _or_default(state: ControllerState, said: int, key: str) -> int:
    value = state.values.get(key) if said == -1 else said
    assert isinstance(value, int)
    return value
