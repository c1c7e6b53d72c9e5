"""Some rounds of faults: `python -m compat_tests.mirror.faults` runs many."""

from __future__ import annotations

from pathlib import Path

import pytest

from compat_tests.mirror.faults import Rounds


@pytest.mark.slow
def test_rounds_of_faults_lose_nothing(tmp_path: Path) -> None:
    with Rounds(tmp_path, 4) as rounds:
        for number in range(3):
            rounds.run(number)
