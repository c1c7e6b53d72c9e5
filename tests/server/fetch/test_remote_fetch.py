"""A Fetch of records that only a remote store has: its reads, its waits and its responses; and which topics have such."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from odradek.metadata.image import TOPIC_RESOURCE
from odradek.protocol.errors import ErrorCode
from odradek.protocol.internal.cluster_metadata import ConfigRecord
from odradek.protocol.isolation import READ_COMMITTED
from odradek.server.config.broker_config import BrokerConfig
from odradek.server.fetch.fetch_response import is_remote
from odradek.server.partitions.remote_port import RemoteRecords
from odradek.server.partitions.topic_settings import SettingsByTopic
from odradek.storage.segments.aborted import AbortedTransaction

from tests.server.harness.fetching import FOLLOWER, ONE, Harness, ask, produced
from tests.server.harness.hosted import NOW_MS
from tests.server.harness.images import image_with
from tests.server.harness.virtual_time import after_ms, simulated, turns

WAIT_MS = 300
#: The log starts at 1, and its first local record is 4 of 6.
START, LOCAL, END = 1, 4, 6
RECORDS = b"batches of the store"


class Port:
    """A remote store whose reads the test answers."""

    fetch_max_wait_ms = WAIT_MS

    def __init__(self) -> None:
        self.reads: list[tuple[int, int, int, bool]] = []
        self.done: list[Callable[[RemoteRecords], None]] = []
        self.withdrawn: list[int] = []
        #: Fetches that were answered before their reads had ended.
        self.expired = 0
        #: For how long the quota allows no read.
        self.throttle_ms = 0
        #: How long each fetch waited for the quota.
        self.throttled: list[int] = []
        self.lent: list[Any] = []

    def throttled_ms(self) -> int:
        return self.throttle_ms

    def fetch_throttled(self, wait_ms: int) -> None:
        self.throttled.append(wait_ms)

    def lent_to(self, connection: Any) -> None:
        self.lent.append(connection)

    def take_finished(self, hosted: Any, offset: int, max_bytes: int, *, isolated: bool) -> RemoteRecords | None:
        return None

    def fetch_expired(self) -> None:
        self.expired += 1

    def read(self, hosted: Any, offset: int, max_bytes: int, *, isolated: bool, done: Any) -> Callable[[], object]:
        self.reads.append((hosted.index, offset, max_bytes, isolated))
        self.done.append(done)
        return lambda: self.withdrawn.append(hosted.index)


class Tiered(Harness):
    """Leads partitions whose first records are in the store only."""

    def __init__(self, path: Path, count: int = 1, **options: Any) -> None:
        super().__init__(path, count, **options)
        for hosted in self.hosted:
            for offset in range(END):
                hosted.append(produced(), NOW_MS)
                if offset == LOCAL - 1:
                    hosted.log.roll(NOW_MS)
            hosted.log.config = replace(hosted.log.config, remote_storage=True)
            hosted.log.remove_first(1, NOW_MS)
            hosted.advance_log_start_offset(START)
            assert (hosted.log_start_offset, hosted.log.local_log_start_offset) == (START, LOCAL)
        self.port: Any = Port()
        self.partitions.remote = self.port


@pytest.mark.parametrize(
    ("offset", "expected"), [(START - 1, False), (START, True), (LOCAL - 1, True), (LOCAL, False), (END, False)]
)
def test_records_before_the_local_ones_are_in_the_store(offset: int, expected: bool, tmp_path: Path) -> None:
    async def story() -> None:
        harness = Tiered(tmp_path)
        hosted = harness.hosted[0]
        assert is_remote(hosted, offset) == expected
        harness.fetch(ask(offset=offset), max_wait_ms=0)
        assert len(harness.port.reads) == expected
        assert len(harness.responses) == (not expected)
        if not expected:
            assert harness.data()[0].error_code == (ErrorCode.OFFSET_OUT_OF_RANGE if offset < START else 0)

    simulated(story)


@pytest.mark.parametrize("isolation", [0, READ_COMMITTED])
def test_records_of_the_store_are_answered_as_they_come(isolation: int, tmp_path: Path) -> None:
    async def story() -> None:
        harness = Tiered(tmp_path)
        harness.fetch(ask(offset=2, max_bytes=70), isolation=isolation, max_wait_ms=20, min_bytes=10_000)
        assert harness.port.reads == [(0, 2, 70, bool(isolation))]
        await after_ms(100)
        assert harness.responses == [], "it waits for the store longer than the client has asked for"
        aborted = [AbortedTransaction(0, 2, 3, 0), AbortedTransaction(8, 2, 5, 0)]
        harness.port.done[0](RemoteRecords(0, RECORDS, 4, aborted))
        await turns()
        (one,) = harness.data()
        assert (one.error_code, one.records, one.log_start_offset) == (0, RECORDS, START)
        assert (one.high_watermark, one.last_stable_offset) == (END, END)
        found = one.aborted_transactions and [(x.producer_id, x.first_offset) for x in one.aborted_transactions]
        assert found == ([(0, 2), (8, 2)] if isolation else None)
        await after_ms(2 * WAIT_MS)
        assert len(harness.responses) == 1 and harness.port.withdrawn == []

    simulated(story)


def test_fetch_reads_all_partitions_at_once_and_answers_what_has_come(tmp_path: Path) -> None:
    async def story() -> None:
        harness = Tiered(tmp_path, 3)
        harness.fetch(ask(0, START), ask(1, START), ask(2, LOCAL), isolation=READ_COMMITTED)
        assert [index for index, *_ in harness.port.reads] == [0, 1]
        harness.port.done[1](RemoteRecords(0, RECORDS, 4))
        await after_ms(WAIT_MS - 0.1)
        assert harness.responses == []
        await after_ms(2)
        assert harness.port.withdrawn == [0]
        assert harness.sizes() == {0: 0, 1: len(RECORDS), 2: 2 * ONE}
        assert [one.error_code for one in harness.data()] == [0, 0, 0]
        assert [one.aborted_transactions for one in harness.data()] == [[], [], []]

    simulated(story)


@pytest.mark.parametrize("error", [ErrorCode.NONE, ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.OFFSET_OUT_OF_RANGE])
def test_error_of_the_store_is_the_partitions(error: ErrorCode, tmp_path: Path) -> None:
    async def story() -> None:
        harness = Tiered(tmp_path)
        harness.fetch(ask(offset=2))
        harness.port.done[0](RemoteRecords(error, b"", 2))
        await turns()
        (one,) = harness.data()
        assert (one.error_code, one.records or b"") == (error, b"")
        assert one.high_watermark == (-1 if error else END)
        assert harness.hosted[0].counters.failed_fetches == int(bool(error))

    simulated(story)


@pytest.mark.parametrize(("following", "size"), [(LOCAL, 2 * ONE), (LOCAL + 1, ONE), (2, 0)])
def test_store_without_records_there_leads_to_the_local_ones(following: int, size: int, tmp_path: Path) -> None:
    """Compaction has left nothing between the two."""

    async def story() -> None:
        harness = Tiered(tmp_path)
        harness.fetch(ask(offset=2))
        harness.port.done[0](RemoteRecords(0, b"", following))
        await turns()
        assert harness.sizes() == {0: size}

    simulated(story)


@pytest.mark.parametrize(
    ("throttle_ms", "max_wait_ms", "min_bytes", "answered_ms"),
    [(200, 100, 1, 100), (200, 100, 0, 100), (200, 1000, 1, 200), (200, 1000, 0, 200), (200, 0, 1, 0)],
)
def test_fetch_over_the_quota_of_reads_waits_as_long_as_the_client_or_the_quota_says(
    throttle_ms: int, max_wait_ms: int, min_bytes: int, answered_ms: int, tmp_path: Path
) -> None:
    async def story() -> None:
        harness = Tiered(tmp_path)
        harness.port.throttle_ms = throttle_ms
        harness.fetch(ask(offset=2), max_wait_ms=max_wait_ms, min_bytes=min_bytes)
        if answered_ms:
            await after_ms(answered_ms - 10)
            assert harness.responses == [] and harness.port.reads == []
            harness.port.throttle_ms = throttle_ms if answered_ms < throttle_ms else 0
            await after_ms(30)
        if answered_ms == throttle_ms:
            assert [offset for _, offset, *_ in harness.port.reads] == [2], "the read is made when the quota allows it"
            harness.port.done[0](RemoteRecords(0, RECORDS, 4))
            await turns()
        (one,) = harness.data()
        assert (one.error_code, len(one.records or b"")) == (0, len(RECORDS) if answered_ms == throttle_ms else 0)
        await after_ms(2 * throttle_ms)
        assert len(harness.responses) == 1
        assert harness.port.throttled == ([throttle_ms] if max_wait_ms else [])

    simulated(story)


def test_wait_for_the_quota_of_reads_is_counted_once_for_all_partitions_and_looks(tmp_path: Path) -> None:
    async def story() -> None:
        harness = Tiered(tmp_path, 3)
        harness.port.throttle_ms = 200
        harness.fetch(ask(0, offset=2), ask(1, offset=2), ask(2, offset=END), max_wait_ms=5000, min_bytes=10 * ONE)
        await after_ms(100)
        harness.hosted[2].append(produced(), NOW_MS)
        await after_ms(50)
        assert harness.responses == [] and harness.port.throttled == [200]

    simulated(story)


def test_records_of_the_disk_are_answered_at_once_beside_a_throttled_read(tmp_path: Path) -> None:
    async def story() -> None:
        harness = Tiered(tmp_path, 2)
        harness.port.throttle_ms = 1000
        harness.fetch(ask(0, offset=2), ask(1, offset=LOCAL), max_wait_ms=500, min_bytes=1)
        await turns()
        assert harness.sizes() == {0: 0, 1: 2 * ONE}

    simulated(story)


def test_connection_of_a_response_with_records_of_the_store_is_noted(tmp_path: Path) -> None:
    async def story() -> None:
        harness = Tiered(tmp_path)
        harness.fetch(ask(offset=2))
        assert harness.port.lent == []
        harness.port.done[0](RemoteRecords(0, RECORDS, 4))
        await turns()
        assert len(harness.port.lent) == 1

    simulated(story)


def test_limit_of_the_request_holds_for_records_of_the_store(tmp_path: Path) -> None:
    async def story() -> None:
        harness = Tiered(tmp_path, 3)
        harness.fetch(ask(0, START), ask(1, START), ask(2, START), max_bytes=2 * len(RECORDS))
        for done in harness.port.done:
            done(RemoteRecords(0, RECORDS, 4))
        await turns()
        assert harness.sizes() == {0: len(RECORDS), 1: len(RECORDS), 2: 0}
        harness.responses.clear()
        harness.fetch(ask(0, START), ask(1, START), max_bytes=1)
        for done in harness.port.done[3:]:
            done(RemoteRecords(0, RECORDS, 4))
        await turns()
        assert harness.sizes() == {0: len(RECORDS), 1: 0}, "the first batch is whole"

    simulated(story)


def test_records_that_are_deleted_meanwhile_are_not_sent(tmp_path: Path) -> None:
    async def story() -> None:
        harness = Tiered(tmp_path)
        harness.fetch(ask(offset=2))
        harness.hosted[0].advance_log_start_offset(3)
        harness.port.done[0](RemoteRecords(0, RECORDS, 4))
        await turns()
        assert harness.data()[0].error_code == ErrorCode.OFFSET_OUT_OF_RANGE

    simulated(story)


def test_follower_does_not_decide_that_the_store_lacks_an_offset(tmp_path: Path) -> None:
    async def story() -> None:
        harness = Tiered(tmp_path)
        harness.hosted[0].follow_leader(FOLLOWER, epoch=2)
        for epoch, error in ((-1, ErrorCode.NOT_LEADER_OR_FOLLOWER), (2, ErrorCode.OFFSET_OUT_OF_RANGE)):
            harness.fetch(ask(offset=2, epoch=epoch))
            harness.port.done[-1](RemoteRecords(ErrorCode.OFFSET_OUT_OF_RANGE))
            await turns()
            assert harness.data()[0].error_code == error

    simulated(story)


def test_follower_is_sent_behind_the_stores_part(tmp_path: Path) -> None:
    async def story() -> None:
        harness = Tiered(tmp_path, followers=(FOLLOWER,))
        harness.fetch(ask(offset=2), replica=FOLLOWER)
        (one,) = harness.data()
        assert one.error_code == ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE and harness.port.reads == []
        assert one.log_start_offset == START and harness.hosted[0].counters.fetches == 0
        harness.responses.clear()
        harness.fetch(ask(offset=LOCAL), replica=FOLLOWER)
        assert harness.sizes() == {0: 2 * ONE}

    simulated(story)


def test_broker_without_tiered_storage_has_no_replica_of_those_records(tmp_path: Path) -> None:
    async def story() -> None:
        harness = Tiered(tmp_path)
        harness.partitions.remote = None
        harness.fetch(ask(offset=2))
        assert harness.data()[0].error_code == ErrorCode.REPLICA_NOT_AVAILABLE

    simulated(story)


# ---- topics


REMOTE = {"remote.storage.enable": "true"}


@pytest.mark.parametrize(
    ("topic", "overrides", "is_tiered"),
    [
        ("t", REMOTE, True),
        ("t", {}, False),
        ("plain", REMOTE, False),
        ("t", REMOTE | {"cleanup.policy": "compact"}, False),
        ("t", REMOTE | {"cleanup.policy": "delete,compact"}, False),
        ("__consumer_offsets", REMOTE, False),
        ("__remote_log_metadata", REMOTE, False),
    ],
)
def test_log_has_a_remote_part_unless_it_is_compacted_or_internal(
    topic: str, overrides: dict[str, str], is_tiered: bool
) -> None:
    settings = SettingsByTopic(BrokerConfig({}))
    assert topic not in settings
    configs = [
        ConfigRecord(TOPIC_RESOURCE, topic, name, value) for name, value in overrides.items() if topic != "plain"
    ]
    found = settings.of(image_with(*configs), topic)
    assert found.log_config.remote_storage == is_tiered
    assert topic in settings and settings.topics() == [topic]
    assert settings.of(image_with(), topic) is found, "they are read once"
    is_changed = settings.refresh(image_with(), topic)
    assert is_changed == (settings.of(image_with(), topic) != found)
    assert is_changed == (is_tiered or "cleanup.policy" in overrides)
    settings.forget(topic)
    assert topic not in settings


def test_topics_without_overrides_share_the_defaults() -> None:
    settings = SettingsByTopic(BrokerConfig({}))
    assert settings.of(image_with(), "a") is settings.of(image_with(), "b")
    assert not settings.refresh(image_with(), "a") and not settings.refresh_defaults()
    changed = image_with(ConfigRecord(TOPIC_RESOURCE, "a", "retention.ms", "5"))
    assert settings.refresh(changed, "a") and not settings.refresh(changed, "a")
    assert settings.of(changed, "a").log_config.retention_ms == 5
    assert settings.of(image_with(), "b").log_config.retention_ms != 5
