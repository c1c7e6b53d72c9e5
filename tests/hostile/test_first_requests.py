"""The first request of an API in a process: the broker imports its modules beside the loop and answers it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from odradek.server.runtime.turn_budget import TURN_BUDGET_S

pytestmark = pytest.mark.usefixtures("processes")


def test_first_requests_of_a_process_hold_the_loop_within_the_budget() -> None:
    program = [sys.executable, "-m", "tests.hostile.first_requests"]
    root = Path(__file__).parents[2]
    least_s: dict[str, float] = {}
    for _ in range(3):  # the least of several processes: a cold cache of a busy processor lengthens a turn
        ended = subprocess.run(program, cwd=root, capture_output=True, text=True, timeout=180, check=True)
        longest_s = {name: float(text) for name, text in map(str.split, ended.stdout.splitlines())}
        print(longest_s)
        assert len(longest_s) == 4
        least_s = {name: min(took_s, least_s.get(name, took_s)) for name, took_s in longest_s.items()}
        if max(least_s.values()) <= TURN_BUDGET_S:
            break
    assert {name: took_s for name, took_s in least_s.items() if took_s > TURN_BUDGET_S} == {}
