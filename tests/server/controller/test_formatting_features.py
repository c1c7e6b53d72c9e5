"""The levels of features that a new directory is formatted with."""

from __future__ import annotations

from pathlib import Path

import odradek
import pytest
from odradek.cli.main import main
from odradek.metadata.features import FEATURES, UnknownLevel, formatted_levels
from odradek.protocol.messages.api_versions import ApiVersionsRequest

from compat_tests.wire import WireClient


def test_levels_that_are_not_asked_for_are_the_usual_ones() -> None:
    usual = {name: feature.formatted for name, feature in FEATURES.items()}
    assert formatted_levels({}) == usual
    assert formatted_levels({"share.version": 2, "group.version": 0}) == usual | {
        "share.version": 2,
        "group.version": 0,
    }


def test_feature_above_metadata_version_is_omitted_or_rejected() -> None:
    elr = "eligible.leader.replicas.version"
    assert formatted_levels({"metadata.version": 20})[elr] == 0
    with pytest.raises(
        UnknownLevel, match=f"{elr} could not be set to 1 because it depends on metadata.version level 23"
    ):
        formatted_levels({"metadata.version": 20, elr: 1})
    assert formatted_levels({"metadata.version": 22})[elr] == 0
    assert (
        formatted_levels({"metadata.version": 23})[elr] == formatted_levels({"metadata.version": 23, elr: 1})[elr] == 1
    )


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"share.version": 3}, "No feature:share.version with feature level 3"),
        ({"metadata.version": 3}, "No feature:metadata.version with feature level 3"),
        ({"kraft.version": 0}, "No feature:kraft.version with feature level 0"),
        ({"no.such": 1}, "Unsupported feature: no.such. Supported features are: eligible.leader.replicas.version, "),
    ],
)
def test_levels_that_there_are_not_are_refused(asked: dict[str, int], words: str) -> None:
    with pytest.raises(UnknownLevel, match=words):
        formatted_levels(asked)


@pytest.mark.usefixtures("sockets")
def test_a_broker_begins_with_the_levels_that_its_directory_was_formatted_with(tmp_path: Path) -> None:
    directory = ["--data-dir", str(tmp_path / "data")]
    assert main(["format", *directory, "--feature", "share.version=2", "-f", "transaction.version=1"]) == 0
    with odradek.Broker(data_dir=tmp_path / "data") as broker, WireClient(broker.bootstrap_servers) as client:
        reported = client.call(ApiVersionsRequest("test", "1"), 4)
    levels = {one.name: one.max_version_level for one in reported.finalized_features}
    assert (levels["share.version"], levels["transaction.version"]) == (2, 1)
    assert {one.name: one.max_version for one in reported.supported_features}["share.version"] == 2


@pytest.mark.parametrize("wrong", ["share.version", "share.version=x", "share.version=9", "=1"])
def test_a_level_that_cannot_be_formats_nothing(wrong: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["format", "--data-dir", str(tmp_path / "data"), "--feature", wrong]) != 0
    assert wrong.partition("=")[0] in capsys.readouterr().err
    assert not (tmp_path / "data").exists()
