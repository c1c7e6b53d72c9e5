"""Fetches of a link that gathers records for a second: few in steady traffic, and no pause while it catches up."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from itertools import pairwise

import odradek
import pytest
from kafka import KafkaProducer
from odradek.admin.config_changes import alter_configs
from odradek.admin.configs import ALL_BROKERS
from odradek.metadata.mirror_keys import LINGER, link_key
from odradek.protocol.messages.fetch import FetchRequest
from odradek.replication.mirror.link import MOST_LINGER_MS
from odradek.server.mirror.link import PERIOD_S
from odradek.server.mirror.requests import SourceRequests

from tests.server.harness.data_path import wait_until
from tests.server.harness.mirror_pair import Pair, admin_of, produce

pytestmark = pytest.mark.usefixtures("sockets")

RECORDS = 300
#: Some ten batches of one record.
FETCH_BYTES = 1024


@pytest.fixture
def fetches(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The times of all Fetches of links, in seconds."""
    sent: list[float] = []
    send = SourceRequests.send

    def noted(requests: SourceRequests, endpoint: object, request: object, *more: object, **named: object) -> None:
        if isinstance(request, FetchRequest):
            sent.append(time.monotonic())
        send(requests, endpoint, request, *more, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(SourceRequests, "send", noted)
    return sent


@pytest.fixture
def pair_of_small_fetches() -> Iterator[Pair]:
    with (
        odradek.Broker() as source,
        odradek.Broker(config={"replica.fetch.max.bytes": FETCH_BYTES}) as here,
        closing(admin_of(source)) as there,
        closing(admin_of(here)) as admin,
    ):
        yield Pair(source, here, there, admin)


def test_steady_records_gather_until_the_pause_is_taken_away(pair: Pair, fetches: list[float]) -> None:
    produce(pair.source, "orders", 1)
    pair.create_link(topics="orders", fetch_linger_ms=str(MOST_LINGER_MS))
    pair.wait_for("orders", lambda one: one.offset == 1 and one.state == "following")
    follower = pair.here.server.mirror.made.links["dr"]
    began, before = time.monotonic(), len(fetches)
    with closing(KafkaProducer(bootstrap_servers=pair.source.bootstrap_servers)) as producer:
        for _ in range(RECORDS):
            producer.send("orders", b"value").get(30)
    pair.wait_for("orders", lambda one: one.offset == RECORDS + 1)
    seconds = time.monotonic() - began
    # Each round of the link sends one, too.
    assert len(fetches) - before <= seconds / (MOST_LINGER_MS / 1000) + seconds / PERIOD_S + 3
    change = {link_key("dr", LINGER): ("SET", "0")}
    alter_configs(pair.admin, "broker", ALL_BROKERS, change, dry_run=False)
    wait_until(lambda: follower.link.linger_ms == 0)
    assert pair.here.server.mirror.made.links["dr"] is follower, "the link goes on with the new pause"


def test_link_that_catches_up_does_not_pause(pair_of_small_fetches: Pair, fetches: list[float]) -> None:
    pair = pair_of_small_fetches
    produce(pair.source, "orders", RECORDS, batch_size=0)
    pair.create_link(topics="orders", fetch_linger_ms=str(MOST_LINGER_MS))
    pair.wait_for("orders", lambda one: one.offset == RECORDS)
    assert len(fetches) > 20, "there are many responses"
    paused = sum(later - earlier >= MOST_LINGER_MS / 1000 for earlier, later in pairwise(fetches))
    assert paused < len(fetches) / 4
