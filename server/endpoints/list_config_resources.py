"""ListConfigResources (key 74), versions 0-1: resources that may have a configuration (KIP-714, KIP-1142).

Version 0 names the client metrics subscriptions. Version 1 names whatever can have a configuration, of the types that are
asked for or of all: topics, brokers and their loggers, groups and subscriptions that have one. An unknown type is
UNSUPPORTED_VERSION.
"""

from __future__ import annotations

from collections.abc import Iterable

from ...metadata.acls import Operation
from ...metadata.configs import ResourceType
from ...metadata.image import MetadataImage
from ...protocol.errors import ErrorCode
from ...protocol.messages.configs import ConfigResource, ListConfigResourcesResponse
from ..access.authorization.requirements import on_cluster
from ..network.api_endpoint import ApiEndpoint
from ..network.call import Call
from ..services import Services

_KNOWN = {
    0: (ResourceType.CLIENT_METRICS,),
    1: (
        ResourceType.GROUP,
        ResourceType.CLIENT_METRICS,
        ResourceType.BROKER_LOGGER,
        ResourceType.BROKER,
        ResourceType.TOPIC,
    ),
}


def handle(services: Services, call: Call) -> ListConfigResourcesResponse:
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


def _names(image: MetadataImage, resource_type: ResourceType) -> Iterable[str]:
    match resource_type:
        case ResourceType.TOPIC:
            return image.topics.by_name
        case ResourceType.BROKER | ResourceType.BROKER_LOGGER:
            return (str(broker.id) for broker in image.cluster.brokers.values() if not broker.fenced)
        case _:
            return (name for kind, name in image.configs if kind == resource_type)


ENDPOINT = ApiEndpoint(handle=handle, authorization=(on_cluster(Operation.DESCRIBE_CONFIGS),))
