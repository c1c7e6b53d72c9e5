"""The metrics of tiered storage have the names of Apache's."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import pytest
from odradek.server.observability.remote_families import tiered_storage
from odradek.server.remote.remote_counters import RemoteCounters

from tests.tiers.harness.tier_oracle import TierOracle

MEBIBYTE = 1 << 20


def subsystem() -> Any:
    """Returns the parts of the subsystem that its metrics read, with two partitions of a topic that this broker leads."""
    pool = SimpleNamespace(active=1, size=4, queued=2)
    counters = RemoteCounters()
    counters.topic("orders").fetch_bytes = 7
    counters.topic("orders").expired_searches = 2
    counters.expired_fetches, counters.reads, counters.read_ms = 3, 5, 40.5
    work = SimpleNamespace(
        counters=counters, readers=pool, copiers=pool, expirers=pool, followers=pool,
        events=SimpleNamespace(damaged_records=lambda: 14),
    )  # fmt: skip
    one = SimpleNamespace(
        leads=True, hosted=SimpleNamespace(topic="orders"), cache=[1, 2], copy_lag_bytes=0, copy_lag_segments=0,
        delete_lag_bytes=MEBIBYTE, delete_lag_segments=1, size_bytes=lambda: 3 * MEBIBYTE, size_computation_ms=0.5,
    )  # fmt: skip
    reader = SimpleNamespace(budget=SimpleNamespace(used_bytes=11, waiting=12, dropped=13))
    return SimpleNamespace(work=work, logs={0: one, 1: one}, reader=reader)


def samples() -> dict[str, float]:
    return {sample.name: sample.value for family in tiered_storage(subsystem()) for sample in family.samples}


def test_every_metric_of_apache_has_its_counterpart(tier_oracle: TierOracle) -> None:
    names = {family.name for family in tiered_storage(subsystem())}
    for bean in tier_oracle.ask("metrics"):
        found = re.fullmatch(r"([\w.]+):type=(\w+),name=(\w+)", bean)
        assert found is not None, bean
        group, kind, name = (one.lower() for one in found.groups())
        assert f"{group.replace('.', '_')}_{kind}_{name.removesuffix('persec')}" in names, bean


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("kafka_server_brokertopicmetrics_remotedeletelagbytes", 2 * MEBIBYTE),
        ("kafka_server_brokertopicmetrics_remotedeletelagsegments", 2),
        ("kafka_server_brokertopicmetrics_remotelogsizebytes", 6 * MEBIBYTE),
        ("kafka_server_brokertopicmetrics_remotelogsizecomputationtime", 1),
        ("kafka_server_delayedremotefetchmetrics_expires_total", 3),
        ("kafka_server_delayedremotelistoffsetsmetrics_expires_total", 2),
        ("kafka_log_remote_remotelogmanager_remotelogreaderfetchrateandtimems_count", 5),
        ("kafka_log_remote_remotelogmanager_remotelogreaderfetchrateandtimems_sum", 40.5),
        ("kafka_log_remote_remotelogmanager_remotelogmanagertasksavgidlepercent", 0.75),
        ("odradek_remote_fetch_buffer_bytes", 11),
        ("odradek_remote_fetch_waiting", 12),
        ("odradek_remote_fetch_dropped_connections_total", 13),
        ("odradek_remote_log_metadata_damaged_records", 14),
    ],
)
def test_metric_has_the_counters_value(name: str, value: float) -> None:
    assert samples()[name] == value
