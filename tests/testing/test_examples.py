"""The service in examples/payments: each program finds its bug, and finds none in the fixed service."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from compat_tests.go_programs import GO_ENVIRONMENT
from compat_tests.needed_tools import needed

pytestmark = pytest.mark.usefixtures("processes")

#: Go compiles its own packages first, where no other program has had it do so.
_DEADLINE_S = 240
PAYMENTS = Path(__file__).resolve().parents[2] / "examples" / "payments"
PYTEST = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:anyio", "-p", "no:hypothesispytest"]
PYTEST += ["-c", "/dev/null", "-o", "asyncio_mode=auto"]
#: The program, its folder, and its output for the bug.
PROGRAMS = {
    "faults": ([*PYTEST, "--rootdir", ".", "test_payments.py"], ".", "At index 1 diff: b'order 1' != b'order 2'"),
    "simulation": ([sys.executable, "simulate.py", "--seeds", "3"], ".", "seed 3: paid twice: order 8; not paid: 0"),
    "node": (["node", "--test", "payments.test.mjs"], "other_languages", "3 !== 2"),
    "java": (["java", "PaymentsTest.java"], "other_languages", "payments: 2 expected, 3 found"),
    "go": (["go", "test", "-count=1", "./..."], "other_languages", "2 orders, 3 payments"),
}


CASES = [*((name, False) for name in PROGRAMS), ("faults", True), ("simulation", True), ("node", True)]


@pytest.mark.parametrize(("name", "idempotent"), CASES)
def test_a_lost_answer_shows_the_bug(name: str, idempotent: bool) -> None:
    command, folder, words = PROGRAMS[name]
    if command[0] in ("go", "java", "node"):
        needed(command[0])
    environment = {
        **os.environ,
        **GO_ENVIRONMENT,
        "PAYMENTS_IDEMPOTENT": str(int(idempotent)),
        "PYTHON": sys.executable,
    }
    done = subprocess.run(
        command,
        cwd=PAYMENTS / folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=_DEADLINE_S,
        check=False,
    )
    reported = done.stdout + done.stderr
    assert (done.returncode == 0) is idempotent, reported
    assert (words in reported) is not idempotent, reported
