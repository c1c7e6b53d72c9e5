"""ShareFetches that wait, and those whose records are only partly in memory."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import odradek
import pytest
from confluent_kafka import Producer
from odradek.server.partitions.sendable_records import NotInPageCache
from odradek.server.share.share_fetch import ShareFetch
from odradek.server.share.share_reader import ShareReader

from compat_tests.recipes import eventually, make_topic
from tests.server.harness.share_group_load import ShareGroupLoad
from tests.server.harness.share_groups import SETTINGS, configure, member, produce
from tests.server.harness.share_member import Member

pytestmark = pytest.mark.usefixtures("sockets")

NAME = "partly-cold"
MOST_RECORDS = 10


@pytest.fixture
def bootstrap() -> Iterator[str]:
    with odradek.Broker(config=SETTINGS) as running:
        yield running.bootstrap_servers


def are_loaded(one: Member) -> bool:
    """Returns whether the response that begins a session lists both partitions."""
    one.session_epoch = 0
    return sum(len(topic.partitions) for topic in one.fetch(wait_ms=0).responses) == 2


def abort_records(bootstrap: str, topic: str) -> None:
    """Writes an aborted batch into partition 1, with more records than a fetch acquires."""
    settings = {"bootstrap.servers": bootstrap, "transactional.id": topic, "linger.ms": 1000, "log_level": 0}
    producer = Producer(settings)
    producer.init_transactions(30)
    producer.begin_transaction()
    for _ in range(2 * MOST_RECORDS):
        producer.produce(topic, b"aborted", partition=1)
    assert producer.flush(30) == 0
    producer.abort_transaction(30)


def second_read_is_cold(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Makes the second read of partition 1, after its aborted records, find nothing in the page cache."""
    read, reads = ShareReader.read, list[int]()

    def injected(self: ShareReader, led: Any, *args: Any) -> Any:
        if led.key.partition == 1:
            reads.append(len(reads))
            if len(reads) == 2:
                raise NotInPageCache(lambda: None)
        return read(self, led, *args)

    monkeypatch.setattr(ShareReader, "read", injected)
    return reads


def test_acquired_records_are_sent_though_next_records_of_other_partition_are_cold(
    bootstrap: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic_id = make_topic(bootstrap, NAME, partitions=2)
    configure(bootstrap, NAME, share_isolation_level="read_committed")
    with member(bootstrap, NAME, topic_id, partitions=2) as one:
        eventually(lambda: are_loaded(one), what="both share partitions are loaded")
        abort_records(bootstrap, NAME)
        produce(bootstrap, NAME, 5)
        reads = second_read_is_cold(monkeypatch)
        assert one.take(max_records=MOST_RECORDS) == [(0, 4, 1)]
        assert len(reads) == 2


def test_waiting_fetches_are_woken_for_their_own_records_only(bootstrap: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each record costs the attempt of the fetch that takes it, and the first attempt of the member's next fetch."""
    records, members, name = 30, 20, "many-members"
    make_topic(bootstrap, name)
    configure(bootstrap, name)
    attempts, attempt = list[ShareFetch](), ShareFetch._attempt

    def counted(self: ShareFetch) -> None:
        attempts.append(self)
        attempt(self)

    with contextlib.closing(ShareGroupLoad(bootstrap, name, members)) as load:
        load.run(1)
        monkeypatch.setattr(ShareFetch, "_attempt", counted)
        load.run(records)
    assert records <= len(attempts) <= 2.5 * records
