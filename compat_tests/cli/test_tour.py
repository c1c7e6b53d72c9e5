"""The tour in the documentation is what the commands print."""

from __future__ import annotations

from pathlib import Path

from compat_tests.cli.three import three_nodes
from compat_tests.cli.tour import PAGE, recorded


def test_recorded_tour_is_what_the_commands_print(tmp_path: Path) -> None:
    """A cluster of its own: topics of other tests are in no list. Record it again by `python -m compat_tests.cli.tour`."""
    with three_nodes(tmp_path / "three") as bootstrap:
        assert recorded(bootstrap) == PAGE.read_text(encoding="utf-8")
