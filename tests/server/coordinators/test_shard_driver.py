"""The driver of a coordinator's shard in simulated time, with a scripted shard: when it writes, replies and loads."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from odradek.coordinator.log_order import LogOrder
from odradek.coordinator.result import Output, Record, Reply
from odradek.coordinator.skipped_records import SkippedRecords
from odradek.protocol.errors import ErrorCode
from odradek.protocol.internal.consumer_offsets import OffsetCommitKey, OffsetCommitValue
from odradek.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from odradek.protocol.records.batch import iter_headers
from odradek.protocol.records.compression import Compression
from odradek.protocol.records.errors import CorruptBatch
from odradek.protocol.records.record import Record as BatchRecord
from odradek.protocol.records.record import encode_batch
from odradek.server.coordinators import shard_batches, shard_driver
from odradek.server.coordinators.shard_batches import append_records, error_for_clients
from odradek.server.coordinators.shard_driver import (
    DAMAGE_RELOAD_DELAY_MS,
    LOAD_REPLAY_RECORDS,
    RELOAD_DELAY_MS,
    ShardDriver,
)
from odradek.storage.segments.damage import SegmentSuspected
from odradek.storage.segments.segment import Segment

from tests.coordinator.harness.kinds import encode_record
from tests.server.harness.hosted import NOW_MS, Hosted
from tests.server.harness.noted_background import NotedBackground
from tests.server.harness.shard_driver import Somebody
from tests.server.harness.virtual_time import after_ms, loop_clock, simulated, turns

OWN, SECOND = 0, 2
COMMIT_TIMEOUT_MS = 5000


def record(number: int, *, producer_id: int = -1, producer_epoch: int = -1, size: int = 1) -> Record:
    key = OffsetCommitKey(group="g", topic="t", partition=number)
    return Record(key, OffsetCommitValue(offset=number, metadata="m" * size), 3, producer_id, producer_epoch)


class Scripted:
    """A shard whose decisions are those that the test puts into it."""

    def __init__(self, next_offset: int = 0) -> None:
        self.state = SimpleNamespace(next_offset=next_offset, config=None)
        self.handled: list[tuple[Any, int]] = []
        self.expired: list[int] = []
        self.due: int | None = None
        self.next: list[Callable[[Any], Output]] = []
        self.failure: Exception | None = None
        self._output = Output([], [])

    def handle(self, message: Any, now: int) -> None:
        self.handled.append((message, now))
        if self.failure is not None:
            raise self.failure
        if self.next:
            self._collect_output(self.next.pop(0)(message))

    def expire(self, now: int) -> None:
        self.expired.append(now)
        if self.failure is not None:
            raise self.failure
        self.due = None
        if self.next:
            self._collect_output(self.next.pop(0)(None))

    def _collect_output(self, output: Output) -> None:
        self._output = output
        self.state.next_offset += len(output.records)

    def take(self) -> Output:
        output, self._output = self._output, Output([], [])
        return output

    def deadline(self) -> int | None:
        return self.due


class Loader:
    """A loader that counts the batches, and gives a scripted shard."""

    def __init__(self, driver: Driver) -> None:
        self.fed = 0
        self.replays: list[int] = []
        self.record_count = 0
        self._driver = driver
        self._order = LogOrder(SkippedRecords("orders-0"))

    def feed(self, batches: Any) -> None:
        for _, header in iter_headers(batches):
            self._order.follow(header)
            self.record_count += header.record_count
        self.fed += 1

    def replay_some(self, most: int) -> bool:
        self.replays.append(most)
        return len(self.replays) < 3

    def loaded(self, end_offset: int, now: int) -> Scripted:
        self._driver.loadings.append(end_offset)
        return Scripted(end_offset)


class Driver(ShardDriver):
    _encode = staticmethod(encode_record)
    _error_response = staticmethod(lambda request, version, error: HeartbeatResponse(0, error))

    def __init__(self, partition: Hosted) -> None:
        clock = loop_clock()
        super().__init__(partition, None, clock.now_ms, COMMIT_TIMEOUT_MS)
        self.loadings: list[int] = []
        self.loaders: list[Loader] = []
        self.responses: list[int] = []

    def _new_loader(self) -> Loader:
        self.loaders.append(Loader(self))
        return self.loaders[-1]

    def _message(self, pending: Any, version: int, client: Any) -> Any:
        return pending

    @property
    def scripted(self) -> Scripted:
        assert isinstance(self.shard, Scripted)
        return self.shard

    def ask(self, *records: Record, reply: bool = True) -> None:
        """Submits a request that the shard decides with these records and a reply."""
        self.scripted.next.append(
            lambda token: Output(list(records), [Reply(token, HeartbeatResponse())] if reply and token else [])
        )
        self.submit(
            HeartbeatRequest(group_id="g"), 4, Somebody(), lambda response: self.responses.append(response.error_code)
        )


def partition(path: Path, *followers: int, **options: Any) -> Hosted:
    hosted = Hosted(path, OWN, **options)
    hosted.lead(*followers, isr=(OWN, *followers), now_ms=NOW_MS)
    return hosted


def loaded(path: Path, *followers: int) -> tuple[Hosted, Driver]:
    hosted = partition(path, *followers)
    driver = Driver(hosted)
    driver.load()
    return hosted, driver


def batches(hosted: Hosted) -> list[int]:
    """Returns the number of records in each batch of the log."""
    return [header.record_count for _, header in iter_headers(hosted.log.read(0, 1 << 30).bytes())]


# ---- records


def test_records_are_parted_by_the_limit_of_a_batch_and_by_their_producers(tmp_path: Path) -> None:
    hosted = partition(tmp_path)
    key, value = encode_record(record(0))
    room = len(key) + len(value or b"") + shard_batches.RECORD_FRAME_BYTES
    hosted.rules = hosted.rules.__class__(None, None, False, 1 << 62, 1 << 62, True, 1, 3 * room, 1 << 30, 1 << 30)
    records = [record(number) for number in range(4)]
    records += [record(4, producer_id=7, producer_epoch=1), record(5, producer_id=7, producer_epoch=1)]
    records += [record(6, producer_id=7, producer_epoch=2), record(7, producer_id=0, producer_epoch=0)]
    assert append_records(hosted, records, encode_record, Compression.GZIP, NOW_MS) == (ErrorCode.NONE, 8)
    headers = [header for _, header in iter_headers(hosted.log.read(0, 1 << 30).bytes())]
    assert [header.record_count for header in headers] == [3, 1, 2, 1, 1]
    assert [(header.producer_id, header.producer_epoch, header.is_transactional) for header in headers] == [
        (-1, -1, False),
        (-1, -1, False),
        (7, 1, True),
        (7, 2, True),
        (0, 0, True),
    ]
    assert {header.compression for header in headers} == {Compression.GZIP}
    assert [header.base_sequence for header in headers] == [-1, -1, 0, 0, 0]


def test_records_that_cannot_be_written_have_the_logs_error(tmp_path: Path) -> None:
    hosted = partition(tmp_path)
    hosted.offline = True
    found = append_records(hosted, [record(0)], encode_record, Compression.NONE, NOW_MS)
    assert found == (ErrorCode.KAFKA_STORAGE_ERROR, -1)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.COORDINATOR_NOT_AVAILABLE),
    ],
)
def test_error_of_the_log_becomes_one_that_clients_of_groups_know(error: ErrorCode, expected: ErrorCode) -> None:
    assert error_for_clients(error) is expected


# ---- turns


def test_decisions_of_a_turn_are_one_batch_and_their_replies_follow(tmp_path: Path) -> None:
    async def story() -> None:
        hosted, driver = loaded(tmp_path)
        driver.ask(record(0), record(1))
        driver.ask()
        driver.ask(record(2))
        assert (driver.responses, batches(hosted)) == ([], []), "a read waits for what it could see"
        await turns()
        assert (driver.responses, batches(hosted)) == ([0, 0, 0], [3])
        driver.ask()
        assert driver.responses == [0] * 4, "a reply without records before it does not wait"
        driver.ask(record(3), reply=False)
        await turns()
        assert batches(hosted) == [3, 1] and len(driver.responses) == 4

    simulated(story)


def test_replies_wait_for_the_replicas_for_a_limited_time(tmp_path: Path) -> None:
    async def story() -> None:
        hosted, driver = loaded(tmp_path, SECOND)
        driver.ask(record(0))
        await turns()
        driver.ask()
        assert driver.responses == [], "its response may show what is not committed"
        hosted.follower_fetched(SECOND, 1, 0, 1, NOW_MS)
        assert driver.responses == [0, 0]
        driver.ask(record(1))
        await after_ms(COMMIT_TIMEOUT_MS - 20)
        assert driver.responses == [0, 0]
        await after_ms(40)
        assert driver.responses == [0, 0, ErrorCode.COORDINATOR_NOT_AVAILABLE]
        hosted.follower_fetched(SECOND, 2, 0, 1, NOW_MS)
        await after_ms(2 * COMMIT_TIMEOUT_MS)
        assert len(driver.responses) == 3, "each request has one response"
        driver.ask(record(2))
        await turns()
        hosted.follow_leader(SECOND, epoch=2)
        assert driver.responses[3:] == [ErrorCode.NOT_COORDINATOR]

    simulated(story)


def test_timers_of_the_shard_are_due_at_their_time(tmp_path: Path) -> None:
    async def story() -> None:
        hosted, driver = loaded(tmp_path)
        shard, began = driver.scripted, driver._clock()
        shard.due = began + 500
        driver.ask()
        await after_ms(100)
        shard.due = began + 300
        driver.ask()
        shard.next.append(lambda _: Output([record(0)], []))
        await after_ms(190)
        assert shard.expired == []
        await after_ms(20)
        (expired,) = shard.expired
        assert began + 300 <= expired <= began + 305 and batches(hosted) == [1]
        await after_ms(500)
        assert len(shard.expired) == 1, "the shard has no other deadline"
        shard.due = driver._clock()
        driver.ask()
        assert len(shard.expired) == 1
        await turns()
        assert len(shard.expired) == 2, "what is due already waits for the end of the turn"

    simulated(story)


def test_timer_goes_on_when_the_deadline_has_moved(tmp_path: Path) -> None:
    async def story() -> None:
        _, driver = loaded(tmp_path)
        shard, began = driver.scripted, driver._clock()
        shard.due = began + 300
        driver.ask()
        shard.due = began + 700
        await after_ms(400)
        assert shard.expired == []
        await after_ms(310)
        assert len(shard.expired) == 1

    simulated(story)


def test_clock_that_was_set_makes_timers_due(tmp_path: Path) -> None:
    async def story() -> None:
        _, driver = loaded(tmp_path)
        driver.clock_moved()
        shard, ahead = driver.scripted, [0]
        clock = driver._clock
        driver._clock = lambda: clock() + ahead[0]
        shard.due = driver._clock() + 60_000
        driver.ask()
        driver.clock_moved()
        assert shard.expired == []
        ahead[0] = 59_000
        driver.clock_moved()
        await after_ms(900)
        assert shard.expired == []
        await after_ms(200)
        assert len(shard.expired) == 1

    simulated(story)


# ---- failures


@pytest.mark.parametrize("where", ["request", "message", "timer", "append"])
def test_bug_drops_the_shard_and_its_log_is_loaded_again(
    where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        hosted, driver = loaded(tmp_path)
        driver.ask(record(0))
        await turns()
        shard = driver.scripted
        driver.ask(reply=False)  # waits for a later event
        if where == "append":
            monkeypatch.setattr(driver, "_append", lambda *_: 1 / 0)
            driver.ask(record(1))
            await turns()
        else:
            shard.failure = RuntimeError("a bug")
            if where == "request":
                driver.ask()
            elif where == "message":
                driver.tell(object())
            else:
                shard.due = driver._clock() + 10
                shard.failure = None
                driver.ask()
                driver.responses.pop()
                shard.failure = RuntimeError("a bug")
                await after_ms(15)
        expected = [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]
        if where == "request" or where == "append":
            expected = [ErrorCode.UNKNOWN_SERVER_ERROR, *expected]
        assert driver.responses[1:] == expected
        assert driver.shard is None
        driver.submit(HeartbeatRequest(), 4, Somebody(), lambda response: driver.responses.append(response.error_code))
        assert driver.responses[-1] == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        await after_ms(RELOAD_DELAY_MS - 20)
        assert driver.shard is None
        await after_ms(60)
        assert driver.scripted is not shard and driver.loadings == [0, 1]
        monkeypatch.undo()
        driver.ask(record(1))
        await turns()
        assert driver.responses[-1] == 0 and hosted.log_end_offset == 2

    simulated(story)


@pytest.mark.parametrize(
    ("state", "error"),
    [
        ("offline", ErrorCode.NOT_COORDINATOR),
        ("follower", ErrorCode.NOT_COORDINATOR),
        ("another writer", ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
    ],
)
def test_shard_that_cannot_write_is_dropped_with_the_reason(state: str, error: ErrorCode, tmp_path: Path) -> None:
    async def story() -> None:
        hosted, driver = loaded(tmp_path)
        driver.ask(record(0))
        if state == "offline":
            hosted.offline = True
        elif state == "follower":
            hosted.follow_leader(SECOND, epoch=2)
        else:
            hosted.append_own(encode_batch([BatchRecord(0, NOW_MS, b"k", b"v")]), NOW_MS)
        await turns()
        assert driver.responses == [error] and driver.shard is None
        await after_ms(RELOAD_DELAY_MS + 60)
        if state == "another writer":
            assert driver.loadings == [0, 2]
        else:
            assert driver.loadings == [0], "the next image reports it"
            assert driver._reload is None

    simulated(story)


def test_dropped_shard_neither_writes_nor_wakes(tmp_path: Path) -> None:
    async def story() -> None:
        hosted, driver = loaded(tmp_path)
        shard = driver.scripted
        shard.due = driver._clock() + 100
        driver.ask(record(0))
        driver.resign()
        assert driver.responses == [ErrorCode.NOT_COORDINATOR] and driver.shard is None
        await after_ms(1000)
        assert shard.expired == [] and hosted.log_end_offset == 0 and driver.loadings == [0]
        driver.submit(HeartbeatRequest(), 4, Somebody(), lambda response: driver.responses.append(response.error_code))
        assert driver.responses == [ErrorCode.NOT_COORDINATOR] * 2
        driver.load()
        driver.ask()
        assert driver.responses[-1] == 0

    simulated(story)


def test_shard_that_is_dropped_before_its_next_loading_is_not_loaded(tmp_path: Path) -> None:
    async def story() -> None:
        _, driver = loaded(tmp_path)
        driver._fail(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        driver.resign()
        await after_ms(RELOAD_DELAY_MS + 60)
        assert driver.loadings == [0] and driver.shard is None

    simulated(story)


def test_reply_that_fails_gets_an_error_and_the_others_their_response(tmp_path: Path) -> None:
    async def story() -> None:
        _, driver = loaded(tmp_path)
        taken: list[int] = []

        def reply(response: Any) -> None:
            taken.append(response.error_code)
            if len(taken) == 1:
                raise RuntimeError("cannot be encoded")

        driver.scripted.next.append(lambda token: Output([record(0)], [Reply(token, HeartbeatResponse())]))
        driver.submit(HeartbeatRequest(), 4, Somebody(), reply)
        driver.ask(record(1))
        await turns()
        assert taken == [0, ErrorCode.UNKNOWN_SERVER_ERROR] and driver.responses == [0]

    simulated(story)


def test_new_configuration_reaches_the_shard(tmp_path: Path) -> None:
    async def story() -> None:
        hosted = partition(tmp_path)
        driver = Driver(hosted)
        driver.reconfigure("first")
        assert driver._config == "first"
        driver.load()
        driver.reconfigure("second")
        assert driver.scripted.state.config == "second"

    simulated(story)


# ---- loading


def with_records(path: Path, count: int) -> tuple[Hosted, Driver]:
    hosted = partition(path)
    for number in range(count):
        hosted.append_own(encode_batch([BatchRecord(0, NOW_MS, b"k%d" % number, b"v")]), NOW_MS)
    return hosted, Driver(hosted)


def test_log_is_loaded_in_slices_and_requests_fail_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shard_driver, "LOAD_READ_BYTES", 200)

    async def story() -> None:
        _, driver = with_records(tmp_path, 9)
        driver.load()
        driver.submit(HeartbeatRequest(), 4, Somebody(), lambda response: driver.responses.append(response.error_code))
        assert driver.responses == [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]
        await after_ms(100)
        (loader,) = driver.loaders
        assert loader.fed > 3 and loader.record_count == 9
        assert loader.replays == [LOAD_REPLAY_RECORDS] * 3
        assert driver.loadings == [9] and driver._loading is None
        driver.ask(record(0))
        await turns()
        assert driver.responses[-1] == 0

    simulated(story)


def test_log_of_which_the_records_are_deleted_is_loaded_at_once(tmp_path: Path) -> None:
    async def story() -> None:
        hosted, driver = with_records(tmp_path, 2)
        hosted.advance_log_start_offset(2)
        driver.load()
        assert driver.loadings == [2] and driver.loaders[0].fed == 0

    simulated(story)


def test_loading_ends_with_the_shard(tmp_path: Path) -> None:
    async def story() -> None:
        _, driver = with_records(tmp_path, 2)
        driver.load()
        driver.resign()
        await after_ms(2000)
        assert driver.loadings == [] and driver.shard is None

    simulated(story)


def test_damaged_log_is_loaded_again_until_it_is_healed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    damaged = [True]
    original = shard_driver.check_crc

    def check_crc(*what: Any) -> None:
        if damaged[0]:
            raise CorruptBatch("a wrong CRC")
        original(*what)

    monkeypatch.setattr(shard_driver, "check_crc", check_crc)

    async def story() -> None:
        hosted, driver = with_records(tmp_path, 2)
        noted: list[Any] = []
        hosted.on_damage = lambda replica, damage: noted.append(damage)
        driver.load()
        await after_ms(20)
        driver.submit(HeartbeatRequest(), 4, Somebody(), lambda response: driver.responses.append(response.error_code))
        assert driver.responses == [ErrorCode.COORDINATOR_NOT_AVAILABLE] and len(noted) == 1
        assert caplog.text.count("cannot be loaded yet") == 1
        await after_ms(DAMAGE_RELOAD_DELAY_MS - 60)
        assert len(noted) == 1
        await after_ms(120)
        assert len(noted) == 2
        damaged[0] = False
        await after_ms(DAMAGE_RELOAD_DELAY_MS + 60)
        assert driver.loadings == [2] and not driver._is_damaged

    simulated(story)
    assert caplog.text.count("cannot be loaded yet") == 1


def test_batch_that_ends_behind_the_log_is_damage(tmp_path: Path) -> None:
    """The length of a file does not change by it, and its CRC is right."""

    def replace(segment: Segment) -> None:
        far = encode_batch([BatchRecord(0, NOW_MS, b"k0", b"v")], base_offset=0, last_offset=9)
        assert len(far) == segment.size
        Path(segment.path).write_bytes(far)

    async def story() -> None:
        hosted, driver = with_records(tmp_path, 1)
        replace(hosted.open_log().segments[0])
        noted: list[Any] = []
        hosted.on_damage = lambda replica, damage: noted.append(str(damage))
        driver.load()
        await after_ms(20)
        assert driver.loadings == [] and noted == ["a batch ends at offset 9, and the log at 1"]

    simulated(story)


def with_the_first_offset_again(data: bytearray) -> None:
    """Gives the last batch the offsets of the first one; no CRC covers them."""
    *_, (position, _) = iter_headers(data)
    data[position : position + 8] = bytes(8)


def with_a_greater_length(data: bytearray) -> None:
    """Has the last batch end behind the log."""
    *_, (position, _) = iter_headers(data)
    data[position + 11] += 1


@pytest.mark.parametrize(
    ("damage", "words"), [(with_the_first_offset_again, "out of order"), (with_a_greater_length, "wrong length")]
)
def test_damage_that_no_crc_covers_has_the_segment_healed(
    tmp_path: Path, damage: Callable[[bytearray], None], words: str
) -> None:
    def change(segment: Segment) -> None:
        data = bytearray(Path(segment.path).read_bytes())
        damage(data)
        Path(segment.path).write_bytes(data)

    async def story() -> None:
        hosted, driver = with_records(tmp_path, 3)
        change(hosted.open_log().segments[0])
        noted: list[Any] = []
        hosted.on_damage = lambda replica, damage: noted.append(damage)
        driver.load()
        await after_ms(20)
        (suspected,) = noted
        assert isinstance(suspected, SegmentSuspected) and words in str(suspected)
        assert suspected.base_offset == 0 and driver.loadings == []

    simulated(story)


def test_log_that_cannot_be_loaded_by_a_bug_is_loaded_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        _, driver = with_records(tmp_path, 2)
        driver.background = background = NotedBackground()
        monkeypatch.setattr(Loader, "feed", lambda self, batches: 1 / 0)
        driver.load()
        await after_ms(20)
        driver.submit(HeartbeatRequest(), 4, Somebody(), lambda response: driver.responses.append(response.error_code))
        assert driver.responses == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
        assert background.attempts == ["loading of orders-0 failed"]
        monkeypatch.undo()
        await after_ms(DAMAGE_RELOAD_DELAY_MS + 60)
        assert driver.loadings == [2] and background.attempts[-1] == "loading of orders-0"

    simulated(story)


def test_cold_log_is_read_by_a_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        hosted, driver = with_records(tmp_path, 3)
        runs: list[int] = []

        async def run(work: Callable[[], Any]) -> Any:
            runs.append(1)
            await asyncio.sleep(0.01)
            return work()

        hosted.pools.disk.run = run  # type: ignore[method-assign]
        read = hosted.log.read
        slice_class = type(read(0, 1 << 20))
        monkeypatch.setattr(slice_class, "bytes_nowait", lambda self: None)
        driver.load()
        await after_ms(200)
        assert runs and driver.loaders[0].record_count == 3 and driver.loadings == [3]

    simulated(story)
