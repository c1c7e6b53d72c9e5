"""UpdateFeatures (key 57), versions 0-2, flexible from 0."""

from __future__ import annotations

from ..schema import BOOL, INT8, INT16, INT32, STRING, Message, array, message, struct, wire


@struct
class FeatureUpdateKey(Message):
    feature: str = wire(STRING)
    max_version_level: int = wire(INT16)
    allow_downgrade: bool = wire(BOOL, "0")
    upgrade_type: int = wire(INT8, "1+", default=1)


@message("0-2", flexible="0+", key=57)
class UpdateFeaturesRequest(Message):
    timeout_ms: int = wire(INT32, default=60000)
    feature_updates: list[FeatureUpdateKey] = wire(array(FeatureUpdateKey))
    validate_only: bool = wire(BOOL, "1+")


@struct
class UpdatableFeatureResult(Message):
    feature: str = wire(STRING)
    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, nullable="0+")


@message("0-2", flexible="0+", key=57)
class UpdateFeaturesResponse(Message):
    throttle_time_ms: int = wire(INT32)
    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, nullable="0+")
    results: list[UpdatableFeatureResult] = wire(array(UpdatableFeatureResult), "0-1")
