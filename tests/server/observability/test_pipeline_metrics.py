"""Metrics of pipelines: what the commits of a group say of its last batch, for alerts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping

import odradek
import pytest
from odradek.admin.connection import Connection
from odradek.admin.group_offsets import commit
from odradek.admin.pipeline_progress import PipelineKind, PipelineProgress

from tests.server.harness.http import Samples, scrape

pytestmark = pytest.mark.usefixtures("processes")

LIMIT = 3


@pytest.fixture
async def broker() -> AsyncIterator[odradek.Broker]:
    async with odradek.Broker(config={"odradek.metrics.port": 0, "odradek.metrics.lag.series": LIMIT}) as running:
        await asyncio.to_thread(running.topic("orders").send, b"1", b"2", b"3")
        yield running


def commit_text(broker: odradek.Broker, group: str, offset: int, text: str) -> None:
    with Connection({"bootstrap.servers": broker.bootstrap_servers}).admin() as admin:
        commit(admin, group, {("orders", 0): offset}, {("orders", 0): text})


def of_pipelines(samples: Samples) -> Mapping[str, float]:
    return {name: value for name, value in samples.items() if name.startswith("odradek_pipeline_")}


async def test_commits_of_a_pipeline_are_its_metrics(broker: odradek.Broker) -> None:
    archive = PipelineProgress(PipelineKind.archive, "orders", 5_000, rows_per_s=2.5, dead_letters=7)
    query = PipelineProgress(PipelineKind.query, "sums", 6_500, 3, error="orders-0: offset 1 is gone")
    for group, progress in {"odradek-archive-orders": archive, "nightly": query}.items():
        await asyncio.to_thread(commit_text, broker, group, 1, progress.text())
    found = await scrape(broker)
    labels = '{group="odradek-archive-orders",kind="archive"}'
    assert of_pipelines(found) == {
        f"odradek_pipeline_progress_timestamp_seconds{labels}": 5.0,
        f"odradek_pipeline_failed{labels}": 0,
        f"odradek_pipeline_dead_letters_total{labels}": 7,
        f"odradek_pipeline_rows_per_second{labels}": 2.5,
        'odradek_pipeline_progress_timestamp_seconds{group="nightly",kind="query"}': 6.5,
        'odradek_pipeline_failed{group="nightly",kind="query"}': 1,
    }
    assert found['odradek_group_lag_sum{group="nightly",kind="classic"}'] == 2


async def test_metadata_of_other_programs_has_no_metrics_and_many_groups_have_few(broker: odradek.Broker) -> None:
    for number, text in enumerate(
        ["", "hello", '{"odradek":1}', '{"odradek":1,"kind":"query","name":"a","at_ms":1e999}']
    ):
        await asyncio.to_thread(commit_text, broker, f"other-{number}", 1, text)
    for at_ms in range(1_000, 1_000 * (LIMIT + 3), 1_000):
        text = PipelineProgress(PipelineKind.query, "q", at_ms).text()
        await asyncio.to_thread(commit_text, broker, f"q{at_ms}", 1, text)
    found = of_pipelines(await scrape(broker))
    times = [value for name, value in found.items() if name.startswith("odradek_pipeline_progress_timestamp_seconds")]
    assert sorted(times) == [3.0, 4.0, 5.0]
