"""DeleteTopics: topics and their configs are removed, by name or by id."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from ...protocol.behaviour_versions import DELETE_TOPICS_WITH_DELETION_DISABLED
from ...protocol.errors import ErrorCode
from ...protocol.internal.cluster_metadata import RemoveTopicRecord
from ...protocol.messages.delete_topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicsResponse
from ...protocol.schema import Message
from ...protocol.uuids import ZERO_UUID
from .result import ApiError, ControllerResult, RequestError, in_own_words
from .state import ControllerState


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
