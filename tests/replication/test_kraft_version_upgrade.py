"""UpdateFeatures of kraft.version: what the controller decides, and what the quorum has to say to it (KIP-853)."""

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


def asked(kraft_version: int, *, refusal: str | None = None, validate_only: bool = False) -> ControllerResult:
    """Of a controller whose quorum has that version: to have it raised to 1, and group.version with it."""
    controller = Controller(1, "cluster", {}, random.Random(1), lambda level: refusal)
    controller.load(EMPTY_IMAGE, 0, kraft_version)
    levels = [FeatureLevelRecord(name="metadata.version", feature_level=DEFAULT)]
    controller.replay(controller.activate(levels, transaction_open=False), 1, 0)
    updates = [FeatureUpdateKey(name, 1, upgrade_type=1) for name in ("kraft.version", "group.version")]
    return controller.handle(UpdateFeaturesRequest(feature_updates=updates, validate_only=validate_only), 2)


def test_the_quorum_is_to_raise_it_and_the_records_are_of_the_other_features() -> None:
    result = asked(0)
    assert result.kraft_version == 1
    assert result.records == [FeatureLevelRecord(name="group.version", feature_level=1)]
    assert result.response.error_code == ErrorCode.NONE  # type: ignore[attr-defined]


def test_what_the_quorum_refuses_is_refused_with_all_the_rest() -> None:
    result = asked(0, refusal=WHY)
    assert (result.kraft_version, result.records) == (0, [])
    assert result.response.error_code == ErrorCode.INVALID_UPDATE_VERSION  # type: ignore[attr-defined]
    assert result.response.error_message.endswith(WHY)  # type: ignore[attr-defined]


@pytest.mark.parametrize(("kraft_version", "validate_only"), [(1, False), (0, True)], ids=["is raised", "only asked"])
def test_nothing_is_to_be_raised(kraft_version: int, validate_only: bool) -> None:
    result = asked(kraft_version, validate_only=validate_only)
    assert result.kraft_version == 0
    assert result.response.error_code == ErrorCode.NONE  # type: ignore[attr-defined]
