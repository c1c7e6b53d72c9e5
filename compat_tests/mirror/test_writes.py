"""Rounds of faults fail where a side does not take the records that it must take."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from compat_tests.mirror import faults
from compat_tests.odradek_process import OdradekProcess
from compat_tests.recipes import make_topic


class _Side:
    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap


def test_records_that_are_not_acknowledged_fail_the_round(
    odradek: OdradekProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rounds = faults.Rounds(tmp_path, 1)
    make_topic(odradek.bootstrap, faults.TOPIC, faults.PARTITIONS)
    taking: Any = _Side(odradek.bootstrap)
    rounds.write_all(taking, b"1-after")
    assert len(rounds.acknowledged) > 0
    make_topic(odradek.bootstrap, "other", faults.PARTITIONS, {"max.message.bytes": "100"})
    monkeypatch.setattr(faults, "TOPIC", "other")
    monkeypatch.setattr(faults, "_DEADLINE_S", 2)
    with pytest.raises(AssertionError, match=r"0 of 300 records '2-after' are acknowledged"):
        rounds.write_all(taking, b"2-after")
