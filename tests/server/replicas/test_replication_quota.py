"""Replication throttling."""

from __future__ import annotations

from odradek.server.replicas.replication_quota import is_listed


def test_listed_replicas_match_by_partition_and_broker_or_all() -> None:
    assert is_listed(["0:1", "3:2"], 3, 2)
    assert not is_listed(["0:1", "3:2"], 3, 1)
    assert is_listed(["*"], 7, 9)
    assert not is_listed([], 0, 1)
