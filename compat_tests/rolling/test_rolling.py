"""A small matrix of rolling restarts: nothing is lost, no call hangs, and silences are short."""

from __future__ import annotations

from pathlib import Path

from compat_tests.rolling.matrix import Run

CLIENTS = ("classic", "consumer", "copier", "offsets", "admin")
#: A session of 45 s that ends in full would show; a slow machine does not.
MOST_SILENCE_S = 25.0


def test_two_rolls_lose_nothing_and_leave_no_call_waiting(tmp_path: Path) -> None:
    run = Run("odradek", CLIENTS, tmp_path, print)
    result = run.execute(rolls=2, interval_s=6)
    assert all(row.is_good for row in result.rows.values()), result.rows
    assert all(row.produced > 100 for kind, row in result.rows.items() if kind in ("classic", "consumer", "copier"))
    assert max(row.silence_s for row in result.rows.values()) < MOST_SILENCE_S, result.rows
    # Leaders answer their clients for one heartbeat interval.
    assert min(result.stops_s) > 2, result.stops_s
