"""ApiVersions (key 18): which keys and versions are served, and which features.

The first request on a connection. A version that we do not have is answered in version 0 with UNSUPPORTED_VERSION and
our versions of this API (KIP-511); the response header is always version 0, since the client cannot know our versions
yet. Client software names must be plain (INVALID_REQUEST else). Features tell the finalized levels of the cluster
(KIP-584).

Versions 0-5, flexible from 3. Additions by version:
- 3: client software name and version (KIP-511); features
- 4: a feature may start at level 0 (KAFKA-17011)
- 5: the client sends the cluster id and node id that it expects, REBOOTSTRAP_REQUIRED if they differ (KIP-1242)
"""

from __future__ import annotations

from ..schema import BOOL, INT16, INT32, INT64, STRING, Message, Request, array, message, struct, wire


@message("0-5", flexible="3+", key=18)
class ApiVersionsRequest(Request["ApiVersionsResponse"]):
    client_software_name: str = wire(STRING, "3+")
    client_software_version: str = wire(STRING, "3+")
    cluster_id: str | None = wire(STRING, "5+", nullable="5+", default=None)
    node_id: int = wire(INT32, "5+", default=-1)


@struct
class ApiVersion(Message):
    api_key: int = wire(INT16)
    min_version: int = wire(INT16)
    max_version: int = wire(INT16)


@struct
class SupportedFeatureKey(Message):
    name: str = wire(STRING, "3+")
    min_version: int = wire(INT16, "3+")
    max_version: int = wire(INT16, "3+")


@struct
class FinalizedFeatureKey(Message):
    name: str = wire(STRING, "3+")
    max_version_level: int = wire(INT16, "3+")
    min_version_level: int = wire(INT16, "3+")


@message("0-5", flexible="3+", key=18)
class ApiVersionsResponse(Message):
    error_code: int = wire(INT16)
    api_keys: list[ApiVersion] = wire(array(ApiVersion))
    throttle_time_ms: int = wire(INT32, "1+")
    supported_features: list[SupportedFeatureKey] = wire(array(SupportedFeatureKey), "3+", tag=0)
    finalized_features_epoch: int = wire(INT64, "3+", tag=1, default=-1)
    finalized_features: list[FinalizedFeatureKey] = wire(array(FinalizedFeatureKey), "3+", tag=2)
    zk_migration_ready: bool = wire(BOOL, "3+", tag=3)
