"""UpdateFeatures (key 57): raises or lowers the finalized levels of features, as `metadata.version`.

All brokers and controllers must support the level. Lowering must be asked for as safe or unsafe (KIP-584, KIP-778).

Versions 0-2, all flexible. Additions by version:
- 1: kinds of change instead of a permission; validate only
- 2: one error for all, nothing for each feature
"""

from __future__ import annotations

from ..schema import BOOL, ERROR_TEXT, INT8, INT16, INT32, STRING, Message, Request, array, message, struct, wire


@struct
class FeatureUpdateKey(Message):
    feature: str = wire(STRING)
    max_version_level: int = wire(INT16)
    allow_downgrade: bool = wire(BOOL, "0")
    upgrade_type: int = wire(INT8, "1+", default=1)


@message("0-2", flexible="0+", key=57)
class UpdateFeaturesRequest(Request["UpdateFeaturesResponse"]):
    timeout_ms: int = wire(INT32, default=60000)
    feature_updates: list[FeatureUpdateKey] = wire(array(FeatureUpdateKey))
    validate_only: bool = wire(BOOL, "1+")


@struct
class UpdatableFeatureResult(Message):
    feature: str = wire(STRING)
    error_code: int = wire(INT16)
    error_message: str | None = wire(ERROR_TEXT, nullable="0+")


@message("0-2", flexible="0+", key=57)
class UpdateFeaturesResponse(Message):
    throttle_time_ms: int = wire(INT32)
    error_code: int = wire(INT16)
    error_message: str | None = wire(ERROR_TEXT, nullable="0+")
    results: list[UpdatableFeatureResult] = wire(array(UpdatableFeatureResult), "0-1")
