"""The blocks of docs/testing-frameworks.md that need few packages run as published."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.testing.frameworks import LARGE, SMALL, SPARK, run, titles


@pytest.mark.usefixtures("processes")
def test_recipes_run(tmp_path: Path) -> None:
    done = run(sys.executable, tmp_path, list(SMALL))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "5 passed" in done.stdout


def test_every_block_is_run_somewhere() -> None:
    assert sorted(titles()) == sorted([*SMALL, *LARGE, *SPARK])
