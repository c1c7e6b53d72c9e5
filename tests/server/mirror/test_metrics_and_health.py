"""Lags and states of mirrored partitions in Prometheus, and links that cannot follow in health."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from contextlib import closing

import odradek
import pytest
from odradek.admin import mirrors, topic_changes

from tests.server.harness.data_path import wait_until
from tests.server.harness.http import http, scrape
from tests.server.harness.mirror_pair import Pair, admin_of, produce

pytestmark = pytest.mark.usefixtures("sockets")


@pytest.fixture
def watched() -> Iterator[Pair]:
    with (
        odradek.Broker() as source,
        odradek.Broker(config={"odradek.metrics.port": 0}) as here,
        closing(admin_of(source)) as there,
        closing(admin_of(here)) as admin,
    ):
        yield Pair(source, here, there, admin)


def failing(broker: odradek.Broker) -> dict[str, str]:
    _, _, body = asyncio.run(http(broker, "GET /health/ready HTTP/1.1\r\nHost: x\r\n\r\n"))
    found: dict[str, str] = json.loads(body)["failing"]
    return found


def test_lags_states_and_failures_are_shown(watched: Pair) -> None:
    assert not [name for name in asyncio.run(scrape(watched.here)) if name.startswith("odradek_mirror")]
    produce(watched.source, "orders", 7)
    produce(watched.source, "others", 2)
    watched.create_link(topics="orders|others")
    watched.wait_for("orders", lambda one: one.offset == 7 and one.source_end == 7)
    watched.wait_for("others", lambda one: one.source_end == 2)
    found = asyncio.run(scrape(watched.here))
    place = '{link="dr",partition="0",topic="orders"}'
    assert [found[f"odradek_mirror_lag_{unit}{place}"] for unit in ("records", "bytes", "seconds")] == [0, 0, 0]
    assert found['odradek_mirror_partitions{link="dr",state="following"}'] == 2
    assert (
        found['odradek_mirror_source_up{link="dr"}'] == 1 and found['odradek_mirror_fetched_bytes_total{link="dr"}'] > 0
    )
    assert not failing(watched.here)
    topic_changes.delete_topics(watched.there, ["others"])
    wait_until(lambda: "stopped: 1 partition, such as others-0" in failing(watched.here).get("mirror dr", ""))
    watched.source.kill()
    wait_until(lambda: "cannot be read" in failing(watched.here).get("mirror dr", ""))
    found = asyncio.run(scrape(watched.here))
    assert found['odradek_mirror_source_up{link="dr"}'] == 0
    assert mirrors.read_report(watched.admin, "dr").error
    mirrors.delete_link(watched.admin, "dr", dry_run=False)
    wait_until(lambda: not failing(watched.here))


def test_throttle_limits_what_a_broker_fetches_and_is_lifted_as_it_runs(watched: Pair) -> None:
    produce(watched.source, "orders", 500)
    watched.create_link(topics="orders", throttle_bytes_per_second="500")
    watched.wait_for("orders", lambda one: one.offset == 500)
    began = time.monotonic()
    follower = watched.here.server.mirror.made.links["dr"]
    assert follower.fetched_bytes > 5_000, "more than the rate allows in the next seconds"
    produce(watched.source, "orders", 5)
    watched.wait_for("orders", lambda one: one.offset == 505)
    assert time.monotonic() - began > 3, "the rate is that of five seconds"
    produce(watched.source, "orders", 500)
    watched.wait_for("orders", lambda one: one.offset == 1005)
    produce(watched.source, "orders", 5)
    mirrors.set_throttle(watched.admin, "dr", 0, dry_run=False)
    watched.wait_for("orders", lambda one: one.offset == 1010)
    assert watched.here.server.mirror.made.links["dr"] is follower, "the link goes on with the new rate"
