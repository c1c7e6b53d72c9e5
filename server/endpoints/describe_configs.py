"""DescribeConfigs: values, sources and meaning of keys (KIP-133, KIP-226, KIP-569).

Every key of a topic, broker, group or client metrics subscription: its value, where that comes from and, when asked, from
where else it could come and what the key means. A topic must exist; groups and subscriptions need not. A broker answers for
itself, and for "", the dynamic default of all brokers. Its loggers are shown with their levels.

One resource of an unknown type fails all of them, as in Kafka.

Contract: `protocol/messages/describe_configs.py`.
"""

from __future__ import annotations

from collections.abc import Callable

from ...metadata.acls import Operation
from ...metadata.acls import ResourceType as AclResourceType
from ...metadata.configs import ConfigResourceType
from ...metadata.configs import describe as entries_of
from ...metadata.configs.documentation import documentation
from ...protocol.errors import ErrorCode
from ...protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from ...replication.controller.topic_names import check_name
from ..access.authorization.requirements import WORDS, Each
from ..controller.config_changes import RejectedResource, broker_id_of
from ..controller.config_decisions import config_error
from ..controller.logger_levels import logger_levels
from ..network.api_endpoint import ApiEndpoint
from ..network.call import Call
from ..network.portions import ONCE, Portioning, by_resource
from ..services import NodeServices

Entries = list[DescribeConfigsResourceResult]

# Kafka's general words for INVALID_REQUEST.
_MALFORMED = (
    "This most likely occurs because of a request being malformed by the client library or the message was sent to an "
    "incompatible broker. See the broker logs for more details."
)


def handle(services: NodeServices, call: Call[DescribeConfigsRequest]) -> DescribeConfigsResponse:
    request = call.request
    if any(resource.resource_type not in _DESCRIBED for resource in request.resources):
        rejected = RejectedResource(ErrorCode.INVALID_REQUEST, _MALFORMED)
        return DescribeConfigsResponse(results=[_validation_error(each, rejected) for each in request.resources])
    return DescribeConfigsResponse(results=[_described(services, call, resource) for resource in request.resources])


def _described(
    services: NodeServices, call: Call[DescribeConfigsRequest], resource: DescribeConfigsResource
) -> DescribeConfigsResult:
    try:
        _check_authorized(services, call, resource)
        entries = _DESCRIBED[ConfigResourceType(resource.resource_type)](services, resource.resource_name)
    except RejectedResource as rejected:
        return _validation_error(resource, rejected)
    if resource.configuration_keys:
        wanted = set(resource.configuration_keys)
        entries = [entry for entry in entries if entry.name in wanted]
    for entry in entries:
        if not call.request.include_synonyms:
            entry.synonyms = []
        if call.request.include_documentation and resource.resource_type != ConfigResourceType.BROKER_LOGGER:
            entry.documentation = documentation(resource.resource_type, entry.name)
    return DescribeConfigsResult(
        resource_type=resource.resource_type, resource_name=resource.resource_name, configs=entries
    )


def _check_authorized(
    services: NodeServices, call: Call[DescribeConfigsRequest], resource: DescribeConfigsResource
) -> None:
    if services.access.authorizer is None:
        return
    kind = resource.resource_type
    kind = ConfigResourceType.BROKER if kind == ConfigResourceType.BROKER_LOGGER else kind
    session = services.access.authorizer.session(call)
    error = config_error(session, Operation.DESCRIBE_CONFIGS, kind, resource.resource_name)
    if error is not None:
        raise RejectedResource(error, WORDS[error])


def _validation_error(resource: DescribeConfigsResource, rejected: RejectedResource) -> DescribeConfigsResult:
    return DescribeConfigsResult(
        error_code=rejected.error,
        error_message=rejected.message,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )


def _topic(services: NodeServices, name: str) -> Entries:
    fault = check_name(name)
    if fault is not None:
        raise RejectedResource(fault.code, fault.message)
    if name not in services.metadata.image.topics.by_name:
        raise RejectedResource(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "")
    return entries_of.describe_topic(
        services.metadata.image.config(ConfigResourceType.TOPIC, name), services.config.values
    )


def _broker(services: NodeServices, name: str) -> Entries:
    if not name:
        return entries_of.describe_broker_defaults(services.config.values)
    _check_id(services, name, "or empty string, but received")
    return entries_of.describe_broker(services.config.values)


def _broker_loggers(services: NodeServices, name: str) -> Entries:
    if not name:
        raise RejectedResource(ErrorCode.INVALID_REQUEST, "Broker id must not be empty")
    _check_id(services, name, "but received")
    source = entries_of.ConfigSource.BROKER_LOGGER
    return [
        DescribeConfigsResourceResult(name=logger, value=level, config_source=source)
        for logger, level in sorted(logger_levels().items())
    ]


def _check_id(services: NodeServices, name: str, words: str) -> None:
    broker_id = broker_id_of(name, "Broker")
    if broker_id != services.node_id:
        message = f"Unexpected broker id, expected {services.node_id} {words} {name}"
        raise RejectedResource(ErrorCode.INVALID_REQUEST, message)


def _client_metrics(services: NodeServices, name: str) -> Entries:
    if not name:
        raise RejectedResource(ErrorCode.INVALID_REQUEST, "Client metrics subscription name must not be empty")
    return entries_of.describe_client_metrics(services.metadata.image.config(ConfigResourceType.CLIENT_METRICS, name))


def _group(services: NodeServices, name: str) -> Entries:
    if not name:
        raise RejectedResource(ErrorCode.INVALID_REQUEST, "Group name must not be empty")
    return entries_of.describe_group(
        services.metadata.image.config(ConfigResourceType.GROUP, name), services.config.values
    )


_DESCRIBED: dict[int, Callable[[NodeServices, str], Entries]] = {
    ConfigResourceType.TOPIC: _topic,
    ConfigResourceType.BROKER: _broker,
    ConfigResourceType.BROKER_LOGGER: _broker_loggers,
    ConfigResourceType.CLIENT_METRICS: _client_metrics,
    ConfigResourceType.GROUP: _group,
}


ENDPOINT: ApiEndpoint[DescribeConfigsRequest, DescribeConfigsResponse] = ApiEndpoint(
    handle=handle,
    authorization=tuple(
        Each(Operation.DESCRIBE_CONFIGS, kind, by=config_error)
        for kind in (AclResourceType.TOPIC, AclResourceType.GROUP, AclResourceType.CLUSTER)
    ),
    portionings=(Portioning(("resources",), ("results",), ONCE, by_resource, first=1),),
    most_items=100_000,
)
