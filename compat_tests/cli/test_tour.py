"""The tour in the documentation matches the output of the commands."""

from __future__ import annotations

from pathlib import Path

from compat_tests.cli.three_node_cluster import three_nodes
from compat_tests.cli.tour import PAGE, recorded


def test_recorded_tour_is_what_the_commands_print(tmp_path: Path) -> None:
    """Uses its own cluster, without topics of other tests. `python -m compat_tests.cli.tour` records the tour again."""
    with three_nodes(tmp_path / "three") as bootstrap:
        assert recorded(bootstrap) == PAGE.read_text(encoding="utf-8")
