"""The quotas of copies to the remote store and of reads from it (KIP-956)."""

from __future__ import annotations

from odradek.server.remote.remote_quota import UNLIMITED, RemoteQuota

NOW_MS = 1_700_000_000_000


def test_transfers_wait_while_the_rate_is_above_the_quota() -> None:
    quota = RemoteQuota(1000, windows=11, window_s=1)
    assert quota.wait_ms(NOW_MS) == 0
    quota.record(50_000, NOW_MS)
    assert quota.wait_ms(NOW_MS + 200) == 1000, "a window at most: the quota may be raised meanwhile"
    assert quota.wait_ms(NOW_MS + 11_000) == 0
    quota.most_per_second = 1_000_000
    assert quota.wait_ms(NOW_MS + 200) == 0


def test_burst_waits_until_its_rate_is_down_to_the_quota() -> None:
    quota = RemoteQuota(1000, windows=11, window_s=1)
    quota.record(5_000, NOW_MS)
    now_ms = NOW_MS
    while wait_ms := quota.wait_ms(now_ms):
        now_ms += wait_ms
    assert now_ms == NOW_MS + 5_000


def test_unlimited_quota_never_waits() -> None:
    quota = RemoteQuota(UNLIMITED, windows=2, window_s=1)
    quota.record(1 << 60, NOW_MS)
    assert quota.wait_ms(NOW_MS) == 0
