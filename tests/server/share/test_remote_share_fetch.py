"""Share groups read records that only the remote store has, beside those of the local log (KIP-405, KIP-932)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import odradek
import pytest
from confluent_kafka import Producer
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.share_fetch import ShareFetchPartitionData
from odradek.protocol.records.batch import read_header
from odradek.server.partitions.remote_port import RemoteRecords
from odradek.server.share.share_batches import ShareBatch, aborted_ranges
from odradek.server.share.share_remote_reads import ShareRemoteReads
from odradek.storage.segments.aborted import AbortedTransaction

from compat_tests.recipes import eventually, make_topic
from compat_tests.tiers import stores, tiered
from tests.server.harness.dead_letter_queue import dead_letter_records, upgrade
from tests.server.harness.hosted import batch
from tests.server.harness.share_groups import SETTINGS, configure, member
from tests.server.harness.share_member import ACCEPT, REJECT, Member

pytestmark = pytest.mark.usefixtures("sockets")

COUNT = 3000
GROUP = tiered.TOPIC
DEAD_LETTERS = {"errors.deadletterqueue.auto.create.topics.enable": True}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "store"


@pytest.fixture
def bootstrap(tmp_path: Path, folder: Path) -> Iterator[str]:
    """A broker whose store a test holds or fails."""
    settings = stores.controlled(folder) | {"log.dirs": str(tmp_path / "data")}
    with odradek.Broker(config=SETTINGS | settings | DEAD_LETTERS) as running:
        yield running.bootstrap_servers


@pytest.fixture
def topic_id(bootstrap: str) -> bytes:
    return make_topic(bootstrap, tiered.TOPIC, partitions=2, configs=tiered.TIERED_TOPIC)


@pytest.fixture
def local_start(bootstrap: str, topic_id: bytes, tmp_path: Path) -> int:
    """Has the store alone hold the first records of partition 0. Returns the local log start offset."""
    tiered.produce(bootstrap, tiered.values_of(COUNT))
    return tiered.await_local_start(tmp_path / "data", COUNT // 2)


@pytest.fixture
def one(bootstrap: str, topic_id: bytes, local_start: int) -> Iterator[Member]:
    configure(bootstrap, GROUP)
    with member(bootstrap, GROUP, topic_id, partitions=2) as made:
        yield made


def parts_of(response: Any) -> dict[int, Any]:
    assert response.error_code == 0, response
    return {part.partition_index: part for topic in response.responses for part in topic.partitions}


def acquired(part: Any) -> list[tuple[int, int]]:
    return [(one.first_offset, one.last_offset) for one in part.acquired_records]


def take_all(one: Member, end: int) -> list[int]:
    """Acquires and accepts records of partition 0 up to an offset. Returns their offsets."""
    found: list[int] = []
    acks: list[tuple[int, int, int]] = []
    deadline = time.monotonic() + 60
    while (not found or found[-1] < end - 1) and time.monotonic() < deadline:
        part = parts_of(one.fetch(acks)).get(0)
        acks = []
        if part is not None:
            assert part.error_code == 0 and part.acknowledge_error_code == 0, part
            ranges = acquired(part)
            found += [offset for first, last in ranges for offset in range(first, last + 1)]
            acks = [(first, last, ACCEPT) for first, last in ranges]
    one.fetch(acks, wait_ms=0)
    return found


def test_records_of_the_store_and_of_the_local_log_are_acquired_in_order(
    bootstrap: str, one: Member, local_start: int
) -> None:
    assert take_all(one, COUNT) == list(range(COUNT)) and local_start >= COUNT // 2
    tiered.produce(bootstrap, [b"later"])
    assert [acquired(part) for part in parts_of(one.fetch(wait_ms=30_000)).values()] == [[(COUNT, COUNT)]]


def test_fetch_without_wait_gets_the_records_of_the_store(one: Member, local_start: int) -> None:
    eventually(lambda: acquired(parts_of(one.fetch(wait_ms=0)).get(0, ShareFetchPartitionData())),
               what="records are acquired")  # fmt: skip


def test_records_of_other_partitions_come_at_once_while_the_store_is_slow(
    bootstrap: str, one: Member, folder: Path, local_start: int
) -> None:
    (folder / stores.HOLD).touch()
    try:
        assert not any(acquired(part) for part in parts_of(one.fetch(wait_ms=100)).values())
        for turn in range(3):
            tiered.produce(bootstrap, [b"local"], partition=1)
            began = time.monotonic()
            parts = parts_of(one.fetch(wait_ms=30_000))
            assert acquired(parts[1]) == [(turn, turn)] and time.monotonic() - began < 15
            assert 0 not in parts or not acquired(parts[0])
    finally:
        (folder / stores.HOLD).unlink()
    assert take_all(one, local_start)[:1] == [0]


def test_failing_store_is_an_error_of_its_partition_only(
    bootstrap: str, one: Member, folder: Path, local_start: int
) -> None:
    tiered.produce(bootstrap, [b"local"], partition=1)
    (folder / stores.FAIL).touch()
    parts: dict[int, Any] = {}
    while 0 not in parts or not parts[0].error_code:
        parts |= {index: part for index, part in parts_of(one.fetch(wait_ms=30_000)).items() if index not in parts or
                  part.error_code}  # fmt: skip
    assert parts[0].error_code == ErrorCode.REPLICA_NOT_AVAILABLE and acquired(parts[1]) == [(0, 0)]
    (folder / stores.FAIL).unlink()
    assert take_all(one, local_start)[0] == 0


def test_members_share_the_records_of_the_store(bootstrap: str, topic_id: bytes, one: Member, local_start: int) -> None:
    with member(bootstrap, GROUP, topic_id, partitions=2) as other:
        found: list[int] = []
        deadline = time.monotonic() + 60
        while len(found) < local_start and time.monotonic() < deadline:
            for reader in (one, other):
                part = parts_of(reader.fetch(max_records=100)).get(0)
                if part is not None:
                    ranges = acquired(part)
                    found += [offset for first, last in ranges for offset in range(first, last + 1)]
                    for first, last in ranges:
                        reader.acknowledge((first, last, ACCEPT))
    assert sorted(found)[:local_start] == list(range(local_start)) and len(found) == len(set(found))


def test_aborted_records_of_the_store_are_left_out_with_read_committed(
    bootstrap: str, topic_id: bytes, tmp_path: Path
) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "t", "batch.size": 20_000})
    producer.init_transactions(30)
    committed: list[int] = []
    offset = 0
    for number in range(9):
        producer.begin_transaction()
        for value in tiered.values_of(300):
            producer.produce(tiered.TOPIC, value, partition=0)
        producer.flush(30)
        if number % 3 == 1:
            producer.abort_transaction(30)
        else:
            producer.commit_transaction(30)
            committed += range(offset, offset + 300)
        offset += 301
    tiered.await_local_start(tmp_path / "data", offset // 2)
    configure(bootstrap, GROUP, share_isolation_level="read_committed")
    with member(bootstrap, GROUP, topic_id) as one:
        markers = set(range(300, offset, 301))
        assert [found for found in take_all(one, offset) if found not in markers] == committed


def test_group_that_starts_at_a_time_begins_in_the_store(bootstrap: str, topic_id: bytes, tmp_path: Path) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "batch.size": 20_000})
    now_ms, old_ms = int(time.time() * 1000), 7_200_000
    for number, value in enumerate(tiered.values_of(COUNT)):
        producer.produce(tiered.TOPIC, value, partition=0, timestamp=now_ms - (old_ms if number < 100 else 0))
        producer.poll(0)
    assert producer.flush(30) == 0
    tiered.await_local_start(tmp_path / "data", COUNT // 2)
    configure(bootstrap, GROUP, share_auto_offset_reset="by_duration:PT1H")
    with member(bootstrap, GROUP, topic_id) as one:
        assert take_all(one, 200)[0] == 100


def test_dead_letters_have_copies_of_records_that_only_the_store_has(
    bootstrap: str, topic_id: bytes, one: Member, local_start: int
) -> None:
    assert upgrade(bootstrap).error_code == 0
    queue = f"dlq.{GROUP}"
    copies = {"errors_deadletterqueue_copy_record_enable": "true", "errors_deadletterqueue_topic_name": queue}
    configure(bootstrap, GROUP, **copies)
    values = tiered.values_of(COUNT)
    ranges = eventually(
        lambda: acquired(parts_of(one.fetch(max_records=50)).get(0, ShareFetchPartitionData())),
        what="records are acquired",
    )
    assert ranges[0][0] == 0 and ranges[-1][1] < local_start
    one.acknowledge((0, 4, REJECT))
    found = eventually(lambda: len(found := dead_letter_records(bootstrap, queue)) == 5 and found, what="dead letters")
    assert [dead_letter.value for dead_letter in found] == values[:5]


# The reads of one fetch.


class Port:
    """A store whose reads a test ends."""

    fetch_max_wait_ms = 1

    def __init__(self) -> None:
        self.finished: dict[int, RemoteRecords] = {}
        self.begun: dict[int, Callable[[RemoteRecords], None]] = {}
        self.withdrawn: list[int] = []
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
        return self.finished.pop(offset, None)

    def read(self, hosted: Any, offset: int, max_bytes: int, *, isolated: bool, done: Any) -> Callable[[], object]:
        self.begun[offset] = done
        return lambda: self.withdrawn.append(offset)


class Led:
    """A share partition."""

    hosted = None


LED: Any = Led()
TEN = RemoteRecords(0, b"batches", 10)


async def test_records_that_another_member_acquired_first_leave_the_rest_of_a_read() -> None:
    port, resumed = Port(), list[int]()
    reads = ShareRemoteReads(port, lambda: resumed.append(1), 0)  # type: ignore[arg-type]
    assert reads.result(LED, 0, 100, isolated=False) is None
    port.begun[0](TEN)
    assert resumed == [1]
    assert reads.result(LED, 4, 100, isolated=False) is TEN and list(port.begun) == [0]
    assert reads.result(LED, 10, 100, isolated=False) is None and list(port.begun) == [0, 10]


async def test_read_that_ended_after_its_fetch_is_taken_without_a_wait() -> None:
    port = Port()
    port.finished[3] = TEN
    reads = ShareRemoteReads(port, lambda: None, 0)  # type: ignore[arg-type]
    assert reads.result(LED, 3, 100, isolated=False) is TEN and not reads.wait_longer() and not port.begun


async def test_wait_for_the_store_ends_and_begins_no_other_read() -> None:
    port, resumed = Port(), list[int]()
    reads = ShareRemoteReads(port, lambda: resumed.append(1), 0)  # type: ignore[arg-type]
    reads.result(LED, 0, 100, isolated=False)
    assert reads.wait_longer()
    reads._end()
    assert resumed == [1] and port.withdrawn == [0] and not reads.wait_longer()
    assert reads.result(LED, 5, 100, isolated=False) is None and list(port.begun) == [0]


async def test_fetch_that_has_waited_long_enough_does_not_wait_longer_for_the_store() -> None:
    port = Port()
    reads = ShareRemoteReads(port, lambda: None, port.fetch_max_wait_ms)  # type: ignore[arg-type]
    reads.result(LED, 0, 100, isolated=False)
    assert not reads.wait_longer() and port.withdrawn == []
    reads.withdraw()
    assert port.withdrawn == [0]


def test_transaction_that_ended_before_the_batches_hides_none_of_them() -> None:
    encoded = batch(10, offset=30, producer_id=5, producer_epoch=0, base_sequence=0, transactional=True)
    header = read_header(encoded, 0)
    assert (header.base_offset, header.last_offset) == (30, 39)
    batches = [ShareBatch(30, 39, 0, 100, header)]
    ended, open_one = AbortedTransaction(5, 10, 20, 20), AbortedTransaction(5, 25, 45, 45)
    assert aborted_ranges([ended], batches) == []
    assert aborted_ranges([ended, open_one], batches) == [(30, 39)]
