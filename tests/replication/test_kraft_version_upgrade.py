"""UpdateFeatures of kraft.version: the controller's decision, and the quorum's validation (KIP-853)."""

from __future__ import annotations

import random

import pytest
from odradek.metadata.image import EMPTY_IMAGE
from odradek.metadata.metadata_version import DEFAULT
from odradek.protocol.errors import ErrorCode
from odradek.protocol.internal.cluster_metadata import FeatureLevelRecord
from odradek.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from odradek.replication.controller.controller import Controller
from odradek.replication.controller.result import ControllerResult

WHY = "Invalid upgrade of kraft.version to 1 because not all of the voters support it"


def asked(kraft_version: int, *, error_text: str | None = None, validate_only: bool = False) -> ControllerResult:
    """Returns the result of raising it to 1, together with group.version, on a quorum with that version."""
    controller = Controller(1, "cluster", {}, random.Random(1), lambda level: error_text)
    controller.load(EMPTY_IMAGE, 0, kraft_version)
    levels = [FeatureLevelRecord(name="metadata.version", feature_level=DEFAULT)]
    controller.replay(controller.activate(levels, transaction_open=False), 1, 0)
    updates = [FeatureUpdateKey(name, 1, upgrade_type=1) for name in ("kraft.version", "group.version")]
    return controller.handle(UpdateFeaturesRequest(feature_updates=updates, validate_only=validate_only), 2)


def test_result_raises_kraft_version_and_records_hold_other_features() -> None:
    result = asked(0)
    assert result.kraft_version == 1
    assert result.records == [FeatureLevelRecord(name="group.version", feature_level=1)]
    assert result.response.error_code == ErrorCode.NONE  # type: ignore[attr-defined]


def test_quorum_error_rejects_whole_request() -> None:
    result = asked(0, error_text=WHY)
    assert (result.kraft_version, result.records) == (0, [])
    assert result.response.error_code == ErrorCode.INVALID_UPDATE_VERSION  # type: ignore[attr-defined]
    assert result.response.error_message.endswith(WHY)  # type: ignore[attr-defined]


@pytest.mark.parametrize(("kraft_version", "validate_only"), [(1, False), (0, True)], ids=["is raised", "only asked"])
def test_current_level_raises_nothing(kraft_version: int, validate_only: bool) -> None:
    result = asked(kraft_version, validate_only=validate_only)
    assert result.kraft_version == 0
    assert result.response.error_code == ErrorCode.NONE  # type: ignore[attr-defined]
