"""UpdateFeatures: raises and lowers finalized levels (KIP-584). The updates of a request are atomic."""

from __future__ import annotations

from collections.abc import Callable

from ...metadata.features import ELIGIBLE_LEADER_REPLICAS, FEATURES, KRAFT_VERSION, supported_features
from ...metadata.image import METADATA_VERSION
from ...metadata.metadata_version import changes_records
from ...protocol.errors import ErrorCode
from ...protocol.internal.cluster_metadata import FeatureLevelRecord
from ...protocol.messages.update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from ...protocol.schema import Message
from .min_isr import min_isr_records
from .result import ControllerResult
from .state import ControllerState

_UPGRADE, _SAFE_DOWNGRADE, _UNSAFE_DOWNGRADE = 1, 2, 3
#: Later versions have one result for the whole request.
_WITH_RESULTS = UpdateFeaturesResponse.versions_with("results")

_Check = Callable[[ControllerState, FeatureUpdateKey], str | None]


def update_features(state: ControllerState, request: UpdateFeaturesRequest, version: int) -> ControllerResult:
    response = UpdateFeaturesResponse(error_message=None)
    asked = {update.feature: update.max_version_level for update in request.feature_updates}
    metadata_version = asked.get(METADATA_VERSION, state.image.features.metadata_version)
    for update in request.feature_updates:
        message = _validation_error(state, update, metadata_version)
        if message is not None:
            response.error_code = ErrorCode.INVALID_UPDATE_VERSION
            response.error_message = (
                f"The update failed for all features since the following feature had an error: {message}"
            )
            return ControllerResult([], response)
    if version in _WITH_RESULTS:
        response.results = [
            # Kafka sends this text.
            UpdatableFeatureResult(feature=update.feature, error_message="NONE")
            for update in request.feature_updates
        ]
    records = [record for update in request.feature_updates for record in _records(state, update)]
    kraft_version = max(
        (u.max_version_level for u in request.feature_updates if _raises_kraft_version(state, u)), default=0
    )
    return ControllerResult(records, response, validate_only=request.validate_only, kraft_version=kraft_version)


def _raises_kraft_version(state: ControllerState, update: FeatureUpdateKey) -> bool:
    return update.feature == KRAFT_VERSION and update.max_version_level > state.kraft_version


def _records(state: ControllerState, update: FeatureUpdateKey) -> list[Message]:
    if update.feature == KRAFT_VERSION:
        return []  # control records of the quorum hold it
    made: list[Message] = [FeatureLevelRecord(name=update.feature, feature_level=update.max_version_level)]
    if update.feature == ELIGIBLE_LEADER_REPLICAS and update.max_version_level > 0 and not state.elr_enabled:
        made += min_isr_records(state)
    return made


def _validation_error(state: ControllerState, update: FeatureUpdateKey, metadata_version: int) -> str | None:
    """`metadata_version`: the level after the whole request, on which other features may depend."""
    faults = (check(state, update) for check in _CHECKS)
    fault = next((one for one in faults if one is not None), None) or _missing_dependency(update, metadata_version)
    if fault is not None:
        return f"Invalid update version {update.max_version_level} for feature {update.feature}. {fault}"
    if _raises_kraft_version(state, update):
        return state.kraft_upgrade_error(update.max_version_level)
    return _metadata_version_error(state, update) if update.feature == METADATA_VERSION else None


def _check_upgrade_type(_state: ControllerState, update: FeatureUpdateKey) -> str | None:
    if update.upgrade_type in (_UPGRADE, _SAFE_DOWNGRADE, _UNSAFE_DOWNGRADE):
        return None
    return "The controller does not support the given upgrade type."


def _check_not_negative(_state: ControllerState, update: FeatureUpdateKey) -> str | None:
    return "A feature version cannot be less than 0." if update.max_version_level < 0 else None


def _check_supported(state: ControllerState, update: FeatureUpdateKey) -> str | None:
    name, level = update.feature, update.max_version_level
    local = supported_features().get(name, (0, 0))
    reason = _reason(f"Local controller {state.node_id}", local, level)
    for broker_id, broker in sorted(state.image.cluster.brokers.items()):
        reason = reason or _reason(f"Broker {broker_id}", broker.features.get(name, (0, 0)), level)
    for controller_id, controller in sorted(state.image.cluster.controllers.items()):
        if controller_id != state.node_id:
            reason = reason or _reason(f"Controller {controller_id}", controller.features.get(name, (0, 0)), level)
    return reason


def _reason(who: str, supported: tuple[int, int], level: int) -> str | None:
    low, high = supported
    if low <= level <= high:
        return None
    if high == 0:
        return f"{who} does not support this feature."
    return f"{who} only supports versions {low}-{high}" if low != high else f"{who} only supports versions {low}"


def _check_direction(state: ControllerState, update: FeatureUpdateKey) -> str | None:
    current = _current(state, update.feature)
    if update.max_version_level < current and update.upgrade_type == _UPGRADE:
        return (
            "Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe "
            "downgrade."
        )
    if update.max_version_level > current and update.upgrade_type != _UPGRADE:
        return "Can't downgrade to a newer version."
    return None


def _current(state: ControllerState, name: str) -> int:
    return state.kraft_version if name == KRAFT_VERSION else state.image.features.level(name)


def _check_kraft_version(state: ControllerState, update: FeatureUpdateKey) -> str | None:
    """Checks an update of kraft.version. It defines the format of the quorum's log, so it never decreases."""
    if update.feature == KRAFT_VERSION and update.max_version_level < state.kraft_version:
        return "Can't downgrade the version of this feature."
    return None


def _missing_dependency(update: FeatureUpdateKey, metadata_version: int) -> str | None:
    if update.feature not in FEATURES:
        return f"Feature {update.feature} not found."
    needed = FEATURES[update.feature].needs_metadata_version
    if update.max_version_level == 0 or metadata_version >= needed:
        return None
    return (
        f"{update.feature} could not be set to {update.max_version_level} because it depends on "
        f"{METADATA_VERSION} level {needed}"
    )


_CHECKS: tuple[_Check, ...] = (
    _check_upgrade_type,
    _check_not_negative,
    _check_supported,
    _check_direction,
    _check_kraft_version,
)


def _metadata_version_error(state: ControllerState, update: FeatureUpdateKey) -> str | None:
    current, new = state.image.features.metadata_version, update.max_version_level
    if new >= current or not changes_records(new, current):
        return None
    if update.upgrade_type == _UNSAFE_DOWNGRADE:
        why = "Unsafe metadata downgrade is not supported in this version."
    else:
        why = "Refusing to perform the requested downgrade because it might delete metadata information."
    return f"Unsupported metadata.version downgrade from {current} to {new}. {why}"
