"""ApiVersions (key 18), versions 0-5, flexible from 3."""

from __future__ import annotations

from ..schema import BOOL, INT16, INT32, INT64, STRING, Message, array, message, struct, wire


@message("0-5", flexible="3+", key=18)
class ApiVersionsRequest(Message):
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
