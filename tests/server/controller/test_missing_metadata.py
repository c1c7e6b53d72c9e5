"""Metadata that is missing: partitions on the disk without a topic, and a damaged log without another voter."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from odradek.client.wording import counted
from odradek.server.controller import metadata_survey, repair_decisions, repairing
from odradek.server.controller.metadata_log import MetadataLost
from odradek.server.controller.metadata_opening import _check_partitions, _is_alone


@pytest.mark.parametrize(
    ("known", "unknown", "is_clean", "is_lost"),
    [
        (3, 0, False, False),
        (3, 3, False, False),
        (3, 4, False, True),
        (1, 2, False, True),
        (0, 1, False, True),
        # After a clean stop no deletion is left half done.
        (3, 1, True, True),
        (3, 0, True, False),
    ],
)
def test_more_unknown_than_known_partitions_or_any_after_a_clean_stop_mean_lost_metadata(
    tmp_path: Path, known: int, unknown: int, is_clean: bool, is_lost: bool
) -> None:
    topics = ["known"] * known + ["unknown"] * unknown
    replicas = [SimpleNamespace(topic=t, suffix="", path=str(tmp_path / f"{t}-{n}")) for n, t in enumerate(topics)]
    replicas.append(SimpleNamespace(topic="unknown", suffix="delete", path=str(tmp_path / "unknown-9.x-delete")))
    directory: Any = SimpleNamespace(replicas=lambda: replicas, had_clean_shutdown=is_clean)
    image: Any = SimpleNamespace(
        topics=SimpleNamespace(by_id={}), topic=lambda name: "an image" if name == "known" else None
    )
    quorum_log: Any = SimpleNamespace(directory=tmp_path / "__cluster_metadata-0", end_offset=7)
    if is_lost:
        with pytest.raises(MetadataLost, match=f"lacks the topics of {counted(unknown, 'partition')} on"):
            _check_partitions(quorum_log, image, [directory])
    else:
        _check_partitions(quorum_log, image, [directory])


@pytest.mark.parametrize(
    ("configured", "in_log", "has_bootstrap_servers", "is_alone"),
    [
        ([], {1}, False, True),
        ([], {1}, True, True),
        ([], set(), False, True),
        # The voters are unknown, and there are other nodes to find them from.
        ([], set(), True, False),
        ([], {1, 2}, True, False),
        (["1@a:9"], set(), False, True),
        (["1@a:9", "2@b:9"], {1}, False, False),
    ],
)
def test_node_is_alone_only_if_nothing_names_another_voter(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    configured: list[str],
    in_log: set[int],
    has_bootstrap_servers: bool,
    is_alone: bool,
) -> None:
    """A damaged metadata log is begun again only where no other node has its records."""
    monkeypatch.setattr(metadata_survey, "survey", lambda directory: SimpleNamespace(voters=in_log))
    monkeypatch.setattr(repair_decisions, "survey", lambda directory: SimpleNamespace(voters=in_log))
    monkeypatch.setattr(repairing, "survey", lambda directory: SimpleNamespace(voters=in_log))
    values = {
        "controller.quorum.voters": configured,
        "controller.quorum.bootstrap.servers": ["b:9"] if has_bootstrap_servers else [],
    }
    config: Any = SimpleNamespace(is_controller=True, node_id=1, get=values.get)
    assert _is_alone(config, tmp_path) == is_alone
