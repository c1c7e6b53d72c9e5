"""Replication throttling."""

from __future__ import annotations

from odradek.server.replicas.replication_quota import ReplicationRate, is_listed


def test_rate_covers_remembered_samples() -> None:
    rate = ReplicationRate(samples=3, sample_ms=1000)
    assert rate.bytes_per_second(10_000) == 0
    rate.record(500, 10_000)
    rate.record(500, 10_900)
    assert rate.bytes_per_second(10_900) == 1000, "less than one sample counts as one"
    rate.record(3000, 11_500)
    assert rate.bytes_per_second(12_000) == 2000
    assert rate.bytes_per_second(13_000) == 3000 / 1.5, "the first sample is dropped"
    assert rate.bytes_per_second(60_000) == 0


def test_listed_replicas_match_by_partition_and_broker_or_all() -> None:
    assert is_listed(["0:1", "3:2"], 3, 2)
    assert not is_listed(["0:1", "3:2"], 3, 1)
    assert is_listed(["*"], 7, 9)
    assert not is_listed([], 0, 1)
