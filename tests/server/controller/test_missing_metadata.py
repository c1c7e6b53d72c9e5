"""Partitions on the disk that the metadata does not know: the leftovers of a deletion, or lost metadata."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from odradek.server.controller.metadata_log import MetadataLost
from odradek.server.controller.opening import _check_partitions


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
        with pytest.raises(MetadataLost, match=f"lacks the topics of {unknown} partitions"):
            _check_partitions(quorum_log, image, [directory])
    else:
        _check_partitions(quorum_log, image, [directory])
