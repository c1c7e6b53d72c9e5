"""Features and their levels (KIP-584)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from ..protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ..protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from .errors import check
from .session import Admin

_SOFTWARE, _SOFTWARE_VERSION = "odradek-cli", "1"


class Levels(NamedTuple):
    lowest: int
    highest: int


@dataclass(slots=True)
class FeatureLevels:
    """A feature that is not in use has no `finalized`."""

    supported: Levels | None = None
    finalized: Levels | None = None


class Change(IntEnum):
    """The kind of a change of a level. An unsafe downgrade loses metadata of the newer level."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


def describe_features(admin: Admin, node_id: int | None = None) -> dict[str, FeatureLevels]:
    """Levels by feature, as a node or any broker supports them. None from brokers before Apache Kafka 2.7."""
    request = ApiVersionsRequest(client_software_name=_SOFTWARE, client_software_version=_SOFTWARE_VERSION)
    response: ApiVersionsResponse = admin.repeated(lambda: admin.ask(request, node_id))
    check("features", response.error_code)
    found: dict[str, FeatureLevels] = {}
    for one in response.supported_features:
        found.setdefault(one.name, FeatureLevels()).supported = Levels(one.min_version, one.max_version)
    for level in response.finalized_features:
        levels = Levels(level.min_version_level, level.max_version_level)
        found.setdefault(level.name, FeatureLevels()).finalized = levels
    return found


def update_features(admin: Admin, changes: Mapping[str, tuple[int, Change]], *, validate_only: bool = False) -> None:
    """Sets the levels of features. Raises ResponseError."""
    updates = [
        FeatureUpdateKey(
            feature=name, max_version_level=level, allow_downgrade=change is not Change.UPGRADE, upgrade_type=change
        )
        for name, (level, change) in changes.items()
    ]
    response = admin.ask(UpdateFeaturesRequest(feature_updates=updates, validate_only=validate_only))
    check("features", response.error_code, response.error_message)
    for one in response.results:
        check(f"feature {one.feature}", one.error_code, one.error_message)
