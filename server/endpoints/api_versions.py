"""ApiVersions: the APIs and features of this node.

The response lists the APIs of this listener, computed from `protocol/apis.py` and the files beside this one: it has only
what is implemented. Two entries differ from the list, as in Apache Kafka: Produce has its oldest versions, which are
refused (older librdkafka derives from them which codecs the broker supports); and unstable versions are hidden.

The features (KIP-584) are those that this broker registered with, and the finalized ones of the published image, whose
offset is their epoch. Clients that cannot read level 0 get no feature that begins there (KAFKA-17492). A cluster id or
node id other than the client expects is REBOOTSTRAP_REQUIRED (KIP-1242).

An unknown version gets UNSUPPORTED_VERSION and the versions of ApiVersions itself (KIP-511). A client software name or
version of odd characters is INVALID_REQUEST.

Contract: `protocol/messages/api_versions.py`.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

from ...metadata.features import finalized_features, supported_features
from ...protocol.apis import API_VERSIONS_KEY, APIS, Api
from ...protocol.behaviour_versions import API_VERSIONS_WITH_LEVEL_ZERO
from ...protocol.errors import ErrorCode
from ...protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from ..access.authorization.requirements import Nothing
from ..network.api_endpoint import ApiEndpoint
from ..network.no_request import NO_REQUEST

if TYPE_CHECKING:
    from ..network.call import Call
    from ..services import NodeServices

_WITH_SOFTWARE = ApiVersionsRequest.versions_with("client_software_name")
_WITH_CLUSTER_ID = ApiVersionsRequest.versions_with("cluster_id")
_WITH_FEATURES = ApiVersionsResponse.versions_with("supported_features")
_SOFTWARE_WORD = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def handle(services: NodeServices, call: Call[ApiVersionsRequest]) -> ApiVersionsResponse:
    response = _response(services, call)
    gate = call.connection.sasl_gate
    if gate is not None:
        gate.api_versions_answered(response.error_code)
    return response


def _response(services: NodeServices, call: Call[ApiVersionsRequest]) -> ApiVersionsResponse:
    request = call.request
    if request is NO_REQUEST:  # of a version that is not known
        return ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=[_shown(APIS[API_VERSIONS_KEY])])
    error = _error(request, call.version, services)
    if error:
        return ApiVersionsResponse(error_code=error)
    if call.version in _WITH_SOFTWARE:
        call.connection.software = (request.client_software_name, request.client_software_version)
    response = ApiVersionsResponse(api_keys=[*_all_shown(tuple(call.connection.dispatcher.served))])
    if call.version in _WITH_FEATURES:
        _add_features(response, services, call.version)
    return response


def _error(request: ApiVersionsRequest, version: int, services: NodeServices) -> int:
    if version in _WITH_SOFTWARE:
        words = (request.client_software_name, request.client_software_version)
        if not all(_SOFTWARE_WORD.fullmatch(word) for word in words):
            return ErrorCode.INVALID_REQUEST
    if version in _WITH_CLUSTER_ID:
        if (request.cluster_id is None) != (request.node_id == -1):
            return ErrorCode.INVALID_REQUEST
        if request.cluster_id is not None and (request.cluster_id, request.node_id) != (
            services.cluster_id,
            services.node_id,
        ):
            return ErrorCode.REBOOTSTRAP_REQUIRED
    return ErrorCode.NONE


# Every connection of a client begins with this request, so the items are made once. Responses have lists of their own.


@lru_cache(maxsize=8)  # kinds of listeners
def _all_shown(keys: tuple[int, ...]) -> tuple[ApiVersion, ...]:
    return tuple(_shown(APIS[key]) for key in sorted(keys))


@lru_cache(maxsize=8)
def _supported(ranges: tuple[tuple[str, tuple[int, int]], ...]) -> tuple[SupportedFeatureKey, ...]:
    return tuple(
        SupportedFeatureKey(name=name, min_version=low, max_version=high) for name, (low, high) in sorted(ranges)
    )


@lru_cache(maxsize=8)
def _finalized(levels: tuple[tuple[str, int], ...]) -> tuple[FinalizedFeatureKey, ...]:
    return tuple(
        FinalizedFeatureKey(name=name, min_version_level=level, max_version_level=level) for name, level in levels
    )


def _shown(api: Api) -> ApiVersion:
    return ApiVersion(api_key=api.key, min_version=api.advertised_from, max_version=api.latest_stable_version)


def _add_features(response: ApiVersionsResponse, services: NodeServices, version: int) -> None:
    image = services.metadata.image
    registration = image.broker(services.node_id)
    response.finalized_features_epoch = image.offset
    # A node that is only a controller has no registration; nor has a broker that has not met its cluster yet.
    supported = registration.features if registration is not None else supported_features()
    ranges = tuple(
        (name, levels) for name, levels in supported.items() if levels[0] > 0 or version in API_VERSIONS_WITH_LEVEL_ZERO
    )
    response.supported_features = [*_supported(ranges)]
    finalized = finalized_features(image.features, services.controller.driver.kraft_version)
    response.finalized_features = [*_finalized(tuple(finalized.items()))]


ENDPOINT: ApiEndpoint[ApiVersionsRequest, ApiVersionsResponse] = ApiEndpoint(
    handle=handle,
    authorization=(Nothing("It comes before the authentication."),),
    encodes_many_whole=True,
)
