"""Control: the checker finds Apache Kafka's known anomaly of a delayed EndTxn, in both brokers and under version 1 only."""

from __future__ import annotations

from pathlib import Path

import pytest

from compat_tests.histories.delayed_end import TARGETS, execute

_FOUND = {True: {"G1a"}, False: {"lost-write", "poll-skip", "unseen"}}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("late_commit", [True, False], ids=["late commit", "late abort"])
@pytest.mark.parametrize("version", [1, 2])
def test_late_end_reaches_the_next_transaction_under_version_1(
    target: str, version: int, late_commit: bool, tmp_path: Path
) -> None:
    verdict = execute(target, version, late_commit=late_commit, directory=tmp_path)
    assert verdict.found == (_FOUND[late_commit] if version == 1 else set()), verdict
