"""Fixtures of the command line's tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.harness.clusters import asked


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Path]:
    """Yields the cluster's directory, and stops what still runs in it."""
    yield tmp_path / "cluster"
    asked("stop", tmp_path / "cluster")
