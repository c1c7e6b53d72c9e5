"""A broker whose closed segments are in a folder. A module may have other `properties`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from compat_tests.odradek_process import OdradekProcess

from . import tiered
from .cluster import check_log


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The store."""
    return tmp_path / "store"


@pytest.fixture
def properties(folder: Path) -> dict[str, str]:
    return tiered.properties(folder)


@pytest.fixture
def broker(tmp_path: Path, properties: dict[str, str]) -> Iterator[OdradekProcess]:
    with OdradekProcess(tmp_path / "node", properties) as started:
        yield started
    check_log(started)
