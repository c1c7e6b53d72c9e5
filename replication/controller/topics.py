"""Topics: CreateTopics and DeleteTopics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from ...metadata.internal_topics import CLUSTER_METADATA_TOPIC
from ...metadata.mirror_keys import MIRROR_TOPIC_ID
from ...protocol.behaviour_versions import DELETE_TOPICS_WITH_DELETION_DISABLED
from ...protocol.errors import ErrorCode
from ...protocol.internal.cluster_metadata import PartitionRecord, RemoveTopicRecord, TopicRecord
from ...protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ...protocol.messages.delete_topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicsResponse
from ...protocol.schema import Message
from ...protocol.uuids import ZERO_UUID, uuid_from_text
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
from .result import MAX_PARTITIONS_PER_REQUEST, ApiError, ControllerResult, RequestError, in_own_words
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
    for topic in request.topics:
        if counts[topic.name] > 1 or topic.name == CLUSTER_METADATA_TOPIC:
            continue
        made = _created(state, topic, version)
        if isinstance(made, ApiError):
            response.topics.append(_error_response(topic.name, made))
        else:
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


def _created(state: ControllerState, topic: CreatableTopic, version: int) -> _NewTopic | ApiError:
    for check in (_check_absent, _check_name, _check_collision):
        error = check(state, topic)
        if error is not None:
            return error
    configs = new_topic_configs(state, topic)
    if isinstance(configs, ApiError):
        return configs
    topic_id = _id_of(state, topic)
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


def _id_of(state: ControllerState, topic: CreatableTopic) -> bytes | ApiError:
    """Returns a new id. A mirror has its source's."""
    wanted = next((config.value for config in topic.configs if config.name == MIRROR_TOPIC_ID), None)
    if not wanted:
        return random_uuid(state.rng)
    try:
        topic_id = uuid_from_text(wanted)
    except ValueError:
        return ApiError(ErrorCode.INVALID_CONFIG, f"{MIRROR_TOPIC_ID} must be the id of a topic.")
    if state.image.topic_by_id(topic_id) is not None:
        message = f"A topic with the id {wanted} exists: the source's topic is mirrored already, or is of this cluster."
        return ApiError(ErrorCode.INVALID_REQUEST, message)
    return topic_id


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


def delete_topics(state: ControllerState, request: DeleteTopicsRequest, version: int) -> ControllerResult:
    """Handles DeleteTopics, by name or, from version 6, by id. A topic named twice, in whatever way, is not deleted."""
    if state.values.get("delete.topic.enable") is not True:
        is_known = version in DELETE_TOPICS_WITH_DELETION_DISABLED
        code = ErrorCode.TOPIC_DELETION_DISABLED if is_known else ErrorCode.INVALID_REQUEST
        raise RequestError(code, "Topic deletion is disabled.")
    response = DeleteTopicsResponse()
    by_id = Counter(t.topic_id for t in request.topics if t.name is None and t.topic_id != ZERO_UUID)
    by_name = Counter([*request.topic_names, *_named(request)])
    response.responses += _contradictions(request)
    response.responses += _duplicates(by_name, by_id)
    ids = _existing_ids(state, by_id, response)
    for name in (name for name, count in by_name.items() if count == 1):
        _add_named(state, name, by_id, ids, response)
    records: list[Message] = []
    for topic_id, name in ids.items():
        error = None
        if state.rejects_mutation(len(state.image.topics.by_id[topic_id].partitions)):
            error = in_own_words(ErrorCode.THROTTLING_QUOTA_EXCEEDED)
        else:
            records.append(RemoveTopicRecord(topic_id=topic_id))
        response.responses.append(_deletion(name, topic_id, error))
    return ControllerResult(records, response)


def _named(request: DeleteTopicsRequest) -> list[str]:
    return [topic.name for topic in request.topics if topic.name is not None and topic.topic_id == ZERO_UUID]


def _contradictions(request: DeleteTopicsRequest) -> Iterable[DeletableTopicResult]:
    for topic in request.topics:
        if topic.name is None and topic.topic_id == ZERO_UUID:
            message = "Neither topic name nor id were specified."
        elif topic.name is not None and topic.topic_id != ZERO_UUID:
            message = "You may not specify both topic name and topic id."
        else:
            continue
        yield _deletion(topic.name, topic.topic_id, ApiError(ErrorCode.INVALID_REQUEST, message))


def _duplicates(by_name: Counter[str], by_id: Counter[bytes]) -> Iterable[DeletableTopicResult]:
    for name, count in by_name.items():
        if count > 1:
            yield _deletion(name, ZERO_UUID, ApiError(ErrorCode.INVALID_REQUEST, "Duplicate topic name."))
    for topic_id, count in by_id.items():
        if count > 1:
            yield _deletion(None, topic_id, ApiError(ErrorCode.INVALID_REQUEST, "Duplicate topic id."))


def _existing_ids(state: ControllerState, by_id: Counter[bytes], response: DeleteTopicsResponse) -> dict[bytes, str]:
    """Returns the existing topics of ids that occur once, with their names; adds the errors of the others to the
    response.
    """
    found: dict[bytes, str] = {}
    for topic_id in (topic_id for topic_id, count in by_id.items() if count == 1):
        topic = state.image.topic_by_id(topic_id)
        if topic is None:
            response.responses.append(_deletion(None, topic_id, in_own_words(ErrorCode.UNKNOWN_TOPIC_ID)))
        else:
            found[topic_id] = topic.name
    return found


def _add_named(
    state: ControllerState,
    name: str,
    by_id: Counter[bytes],
    ids: dict[bytes, str],
    response: DeleteTopicsResponse,
) -> None:
    topic = state.image.topic(name)
    if topic is None:
        error = in_own_words(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        response.responses.append(_deletion(name, ZERO_UUID, error))
    elif topic.id in by_id:
        ids.pop(topic.id, None)
        message = "The provided topic name maps to an ID that was already supplied."
        response.responses.append(_deletion(name, topic.id, ApiError(ErrorCode.INVALID_REQUEST, message)))
    else:
        ids[topic.id] = name


def _deletion(name: str | None, topic_id: bytes, error: ApiError | None) -> DeletableTopicResult:
    code, message = error or (ErrorCode.NONE, None)
    return DeletableTopicResult(name=name, topic_id=topic_id, error_code=code, error_message=message)
