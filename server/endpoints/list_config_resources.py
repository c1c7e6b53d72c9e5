"""ListConfigResources: resources that may have a configuration (KIP-714, KIP-1142).

The response names whatever can have a configuration, of the types in the request, or of all: topics, brokers and their
loggers, groups and client metrics subscriptions that have one. An unknown type is UNSUPPORTED_VERSION.

Contract: `protocol/messages/list_config_resources.py`.
"""

from __future__ import annotations

from collections.abc import Iterable

from ...metadata.acls import Operation
from ...metadata.configs import ConfigResourceType
from ...metadata.image import MetadataImage
from ...protocol.errors import ErrorCode
from ...protocol.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from ..access.authorization.usual_requirements import on_cluster
from ..network.api_endpoint import ApiEndpoint
from ..network.call import Call
from ..services import Services

_KNOWN = {
    0: (ConfigResourceType.CLIENT_METRICS,),
    1: (
        ConfigResourceType.GROUP,
        ConfigResourceType.CLIENT_METRICS,
        ConfigResourceType.BROKER_LOGGER,
        ConfigResourceType.BROKER,
        ConfigResourceType.TOPIC,
    ),
}


def handle(services: Services, call: Call[ListConfigResourcesRequest]) -> ListConfigResourcesResponse:
    known = _KNOWN[call.version]
    asked = call.request.resource_types or known
    if not set(asked) <= set(known):
        return ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    return ListConfigResourcesResponse(
        config_resources=[
            ConfigResource(name, resource_type)
            for resource_type in known
            if resource_type in asked
            for name in sorted(_names(services.metadata.image, resource_type))
        ]
    )


def _names(image: MetadataImage, resource_type: ConfigResourceType) -> Iterable[str]:
    match resource_type:
        case ConfigResourceType.TOPIC:
            return image.topics.by_name
        case ConfigResourceType.BROKER | ConfigResourceType.BROKER_LOGGER:
            return (str(broker.id) for broker in image.cluster.brokers.values() if not broker.fenced)
        case _:
            return (name for kind, name in image.configs if kind == resource_type)


ENDPOINT: ApiEndpoint[ListConfigResourcesRequest, ListConfigResourcesResponse] = ApiEndpoint(
    handle=handle, authorization=(on_cluster(Operation.DESCRIBE_CONFIGS),)
)
