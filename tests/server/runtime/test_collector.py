"""The garbage collector of a process: pauses, objects that are excluded, and free lists."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.server.harness.collector_cases import CASES, DEADLINE_S, outcome

pytestmark = pytest.mark.usefixtures("processes")
ROOT = Path(__file__).resolve().parents[3]
NAMES = [case.__name__ for case in CASES]


@pytest.fixture(scope="module")
def outcomes() -> dict[str, str]:
    """The traceback of each case that failed: they share a process, and each has a fork of it."""
    command = [sys.executable, "-m", "tests.server.harness.collector_cases"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=2 * DEADLINE_S, check=True)
    found: dict[str, str] = json.loads(done.stdout)
    assert list(found) == NAMES
    return found


@pytest.mark.parametrize("name", NAMES)
def test_collector_of_a_process_with_one_thread(outcomes: dict[str, str], name: str) -> None:
    assert outcomes[name] == ""


def test_case_that_fails_has_its_traceback() -> None:
    def fails() -> None:
        raise ValueError("this case")

    assert outcome(fails).endswith("ValueError: this case\n")
