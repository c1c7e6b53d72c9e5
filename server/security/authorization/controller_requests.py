"""Authorization of requests that the active controller decides, with the principal and host of the client that sent them.

A request is denied as a whole, or some of its items are: these are taken out, and added to the response. A request or a
resource without a rule here is denied. Requests of the controller's own node, without a client, are not checked.
"""

from __future__ import annotations

import dataclasses
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from ....metadata.acls import Operation, ResourceType
from ....metadata.configs import ResourceType as ConfigType
from ....metadata.image import MetadataImage
from ....protocol.errors import ErrorCode
from ....protocol.messages import alter_configs as legacy
from ....protocol.messages import incremental_alter_configs as incremental
from ....protocol.messages.create_delegation_token import CreateDelegationTokenRequest
from ....protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopicResult
from ....protocol.messages.create_topics import CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse
from ....protocol.messages.delete_topics import DeletableTopicResult, DeleteTopicsRequest
from ....protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from ....protocol.messages.renew_delegation_token import RenewDelegationTokenRequest
from ....protocol.schema import Message
from ....protocol.uuids import ZERO_UUID
from ....replication.controller.controller import error_response
from ....replication.controller.result import RequestError
from ....replication.controller.state import CLUSTER_METADATA_TOPIC
from .cluster_operations import CONTROLLER_OPERATIONS, DENIED_ON_CLUSTER, rejected
from .sessions import AuthorizationSession

log = logging.getLogger("odradek.authorizer")

#: Kafka's words.
ERROR_WORDS = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "Topic authorization failed.",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "Group authorization failed.",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: DENIED_ON_CLUSTER,
}


class Checked(NamedTuple):
    """`request`: the part that may be decided; None if there is none, and `response` is the whole response.

    `finish` turns the response of that part into that of the request.
    """

    request: Message | None
    response: Message | None = None
    finish: Callable[[Any], Any] = lambda response: response


def check(session: AuthorizationSession, request: Any, image: MetadataImage, *, deletes_topics: bool) -> Checked:
    """Checks a request. `image`: what the controller decides on; `deletes_topics`: the value of `delete.topic.enable`."""
    session.api = type(request).__name__.removesuffix("Request")
    operation = CONTROLLER_OPERATIONS.get(session.api)
    if operation is not None:
        if session.allows_on_cluster(operation):
            return Checked(request)
        return Checked(None, error_response(request, rejected(session.api, operation)))
    match request:
        case CreateTopicsRequest():
            return _create_topics(session, request)
        case DeleteTopicsRequest():
            return _delete_topics(session, request, image) if deletes_topics else Checked(request)
        case CreatePartitionsRequest():
            return _create_partitions(session, request)
        case legacy.AlterConfigsRequest():
            return _alter_configs(session, request, legacy.AlterConfigsResourceResponse)
        case incremental.IncrementalAlterConfigsRequest():
            return _alter_configs(session, request, incremental.AlterConfigsResourceResponse)
        case CreateDelegationTokenRequest():
            if may_create_token(session, request):
                return Checked(request)
            return Checked(None, error_response(request, RequestError(ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED)))
        case ExpireDelegationTokenRequest() | RenewDelegationTokenRequest():
            return Checked(request)  # the decision compares the client with the token's owner and renewers
    log.error("a bug: no rule authorizes %s: %s is denied", session.api, session.principal)
    return Checked(
        None, error_response(request, RequestError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, DENIED_ON_CLUSTER))
    )


def may_create_token(session: AuthorizationSession, request: CreateDelegationTokenRequest) -> bool:
    """Returns whether the client may have a token for its owner: everyone may for themselves (KIP-373)."""
    if not request.owner_principal_name:
        return True
    owner = f"{request.owner_principal_type}:{request.owner_principal_name}"
    return owner == session.principal or session.allows(Operation.CREATE_TOKENS, ResourceType.USER, owner)


def _create_topics(session: AuthorizationSession, request: CreateTopicsRequest) -> Checked:
    counts = Counter(topic.name for topic in request.topics)
    names = [name for name, count in counts.items() if count == 1 and name != CLUSTER_METADATA_TOPIC]
    has_cluster = session.allows_on_cluster(Operation.CREATE, log_denied=False)
    creatable = set(names) if has_cluster else session.allowed_names(Operation.CREATE, ResourceType.TOPIC, names)
    shown = session.allowed_names(Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC, names, log_denied=False)
    denied = set(names) - creatable
    error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    results = [
        CreatableTopicResult(name=name, error_code=error, error_message="Authorization failed.", configs=[])
        for name in names
        if name in denied
    ]

    def finish(response: CreateTopicsResponse) -> CreateTopicsResponse:
        for topic in response.topics:
            if topic.error_code == ErrorCode.NONE and topic.name not in shown:
                topic.topic_config_error_code = error
                topic.num_partitions = topic.replication_factor = -1
                topic.configs = []
        response.topics += results
        return response

    kept = [topic for topic in request.topics if topic.name not in denied]
    return _without(request, "topics", kept, finish)


def _create_partitions(session: AuthorizationSession, request: CreatePartitionsRequest) -> Checked:
    counts = Counter(topic.name for topic in request.topics)
    names = [name for name, count in counts.items() if count == 1]
    denied = set(names) - session.allowed_names(Operation.ALTER, ResourceType.TOPIC, names)
    error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    results = [CreatePartitionsTopicResult(name=name, error_code=error) for name in names if name in denied]
    kept = [topic for topic in request.topics if topic.name not in denied]
    return _without(request, "topics", kept, _adding("results", results))


def _delete_topics(session: AuthorizationSession, request: DeleteTopicsRequest, image: MetadataImage) -> Checked:
    """Unlike other requests it names what the client may not describe as unauthorized, whether it exists or not."""
    if session.allows_on_cluster(Operation.DELETE, log_denied=False):
        return Checked(request)
    states = request.topics
    named = Counter([*request.topic_names, *(s.name for s in states if s.name is not None and s.topic_id == ZERO_UUID)])
    ids = Counter(state.topic_id for state in states if state.name is None and state.topic_id != ZERO_UUID)
    names = {name for name, count in named.items() if count == 1}
    of_ids = {i: found.name for i, n in ids.items() if n == 1 and (found := image.topic_by_id(i)) is not None}
    asked = names | set(of_ids.values())
    describable = session.allowed_names(Operation.DESCRIBE, ResourceType.TOPIC, asked)
    deletable = session.allowed_names(Operation.DELETE, ResourceType.TOPIC, asked)
    denied_ids = {topic_id: name for topic_id, name in of_ids.items() if name not in deletable}
    denied = {n for n in names if n not in describable or (n not in deletable and image.topic(n) is not None)}
    results = [_not_deleted(name if name in describable else None, i) for i, name in denied_ids.items()]
    results += [_not_deleted(name, ZERO_UUID) for name in denied]
    kept = dataclasses.replace(
        request,
        topic_names=[name for name in request.topic_names if name not in denied],
        topics=[
            s
            for s in states
            if not (s.name is None and s.topic_id in denied_ids)
            and not (s.topic_id == ZERO_UUID and s.name is not None and s.name in denied)
        ],
    )
    return Checked(kept, finish=_adding("responses", results))


def _not_deleted(name: str | None, topic_id: bytes) -> DeletableTopicResult:
    error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return DeletableTopicResult(name=name, topic_id=topic_id, error_code=error, error_message=ERROR_WORDS[error])


def _alter_configs(session: AuthorizationSession, request: Any, result_class: Callable[..., Any]) -> Checked:
    counts = Counter((resource.resource_type, resource.resource_name) for resource in request.resources)
    results: list[Any] = []
    kept: list[Any] = []
    for resource in request.resources:
        kind, name = resource.resource_type, resource.resource_name
        error = config_error(session, Operation.ALTER_CONFIGS, kind, name) if counts[kind, name] == 1 else None
        if error is None:
            kept.append(resource)
        else:
            words = ERROR_WORDS.get(error) or f"Unexpected resource type {ConfigType.named(kind)}."
            results.append(result_class(error, words, kind, name))
    return _without(request, "resources", kept, _adding("responses", results))


def config_error(session: AuthorizationSession, operation: Operation, kind: int, name: str) -> ErrorCode | None:
    """Returns why the client may not do that with the configuration of a resource; None if it may.

    INVALID_REQUEST for a type of resource that has no rule.
    """
    if kind in (ConfigType.BROKER, ConfigType.CLIENT_METRICS):
        is_allowed, error = session.allows_on_cluster(operation), ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    elif kind == ConfigType.TOPIC:
        is_allowed = session.allows(operation, ResourceType.TOPIC, name)
        error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    elif kind == ConfigType.GROUP:
        is_allowed = session.allows(operation, ResourceType.GROUP, name)
        error = ErrorCode.GROUP_AUTHORIZATION_FAILED
    else:
        return ErrorCode.INVALID_REQUEST
    return None if is_allowed else error


def _without(request: Any, field: str, kept: Sequence[Any], finish: Callable[[Any], Any]) -> Checked:
    return Checked(dataclasses.replace(request, **{field: list(kept)}), finish=finish)


def _adding(field: str, results: Iterable[Any]) -> Callable[[Any], Any]:
    def finish(response: Any) -> Any:
        getattr(response, field).extend(results)
        return response

    return finish
