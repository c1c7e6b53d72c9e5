"""Damage on the disks of three processes, as long as CI can afford; `python -m tests.hostile.rot` runs for hours."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.hostile.rot import Rot

pytestmark = pytest.mark.usefixtures("processes")

SECONDS = float(os.environ.get("ODRADEK_ROT_SECONDS", "4"))


def test_replicas_of_rotting_disks_become_equal_again(tmp_path: Path) -> None:
    rot = Rot(tmp_path, seed=1)
    rot.execute(SECONDS)
    assert rot.blows
