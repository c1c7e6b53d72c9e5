"""A small budget of rounds; the large one is `python -m compat_tests.histories run --hours 2`."""

from __future__ import annotations

from pathlib import Path

import pytest

from compat_tests.faults.network import why_not
from compat_tests.histories.bugs import BUGS
from compat_tests.histories.operation import FAIL, OK, RISE, SHARE_POLL, TXN, read
from compat_tests.histories.rounds import PYTHON_WORKLOADS, Plan, execute

_KEPT = ("kill", "reassign", "deaf-clients")
pytestmark = pytest.mark.skipif(bool(why_not()), reason=why_not())


def judged(seed: int, plan: Plan, directory: Path) -> None:
    outcome = execute(seed, plan, directory)
    assert outcome.is_good, outcome
    kinds = {(operation.f, operation.type) for operation in read(directory / "history.jsonl")}
    assert {(TXN, OK), (TXN, FAIL), (SHARE_POLL, OK), (RISE, OK)} <= kinds


def test_history_of_all_workloads_under_faults_has_no_anomaly(tmp_path: Path) -> None:
    judged(1, Plan(seconds=20, names=_KEPT, workloads=PYTHON_WORKLOADS), tmp_path)


@pytest.mark.parametrize("seed", [2, 3])
def test_history_of_a_longer_round_under_all_faults_has_no_anomaly(seed: int, tmp_path: Path) -> None:
    judged(seed, Plan(seconds=60), tmp_path)


@pytest.mark.parametrize("bug", BUGS)
def test_bug_that_is_put_into_the_brokers_is_found(bug: str, tmp_path: Path) -> None:
    outcome = execute(1, BUGS[bug].plan, tmp_path)
    assert outcome.verdict is not None
    assert outcome.verdict.found & BUGS[bug].found_as, outcome
