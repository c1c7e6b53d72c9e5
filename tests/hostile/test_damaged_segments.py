"""Closed segments damaged while a broker runs: the records around the damage stay readable, and the broker logs it."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import odradek
import pytest
from kafka import KafkaConsumer, TopicPartition
from kafka.errors import CorruptRecordError
from odradek.protocol.errors import ErrorCode
from odradek.server.observability.damage_families import damage
from odradek.storage.repair.verification import SegmentVerifier

from tests.hostile.damaged_files import DAMAGES, RottingTopic, segments_of
from tests.server.harness.data_path import delete_records, wait_until

pytestmark = pytest.mark.usefixtures("sockets")

#: Damage to one batch, which leaves the other batches of the segment readable.
ONE_BATCH = set(DAMAGES) - {"zeros", "halved", "emptied", "removed"}
CORRUPT = int(ErrorCode.CORRUPT_MESSAGE)


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def broker(data_dir: Path) -> Iterator[odradek.Broker]:
    with odradek.Broker(data_dir=data_dir, config={"log.message.timestamp.type": "CreateTime"}) as running:
        yield running


def forget_open_files(topic: RottingTopic) -> None:
    """Closes open files: the broker could still read a removed file that it has open."""
    for segment in topic.hosted.log.segments[:-1]:
        segment.close()


@pytest.mark.parametrize("kind", DAMAGES)
def test_damage_met_by_a_reader_hides_nothing_else(broker: odradek.Broker, kind: str) -> None:
    topic = RottingTopic(broker)
    segments = segments_of(topic.folder)
    damaged = segments[len(segments) // 2]
    first, following = topic.range_of(damaged)
    forget_open_files(topic)
    DAMAGES[kind](damaged)

    topic.read_around()
    wait_until(lambda: topic.hosted.log.damage, "what is read is verified")
    got, lost = topic.read_around()

    assert lost
    assert all(first <= offset < following for offset in lost)
    assert got == {offset: value for offset, value in topic.sent.items() if offset not in lost}
    if kind in ONE_BATCH:
        assert len(lost) <= 3


@pytest.mark.parametrize("kind", DAMAGES)
def test_scrubbed_damage_is_answered_with_corrupt_message(
    broker: odradek.Broker, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    topic = RottingTopic(broker)
    damaged = segments_of(topic.folder)[2]
    first, following = topic.range_of(damaged)
    DAMAGES[kind](damaged)

    with caplog.at_level(logging.ERROR, "odradek.damage"):
        topic.scrub()

    (found,) = topic.hosted.log.damage
    assert first <= found.first_offset < found.next_offset <= following
    lines = [record.getMessage() for record in caplog.records if "damaged" in record.getMessage()]
    assert f"{topic.name}-0: offsets {found.first_offset} to {found.next_offset - 1} are damaged" in lines[0]
    forget_open_files(topic)
    assert topic.read(found.first_offset)[0] == topic.read(found.next_offset - 1)[0] == CORRUPT
    error, before = topic.read(max(first - 6, 0), 1 << 20)
    assert error == 0
    assert max(before) < found.first_offset, "a fetch ends where the damage begins"
    got, lost = topic.read_around()
    assert lost == set(range(found.first_offset, found.next_offset))
    assert got == {offset: value for offset, value in topic.sent.items() if offset not in lost}
    if kind in ONE_BATCH:
        assert len(lost) == 3


def test_large_fetch_of_a_file_cut_short_keeps_the_connection(broker: odradek.Broker) -> None:
    topic = RottingTopic(broker, batches=400, internal_segment_bytes="262144")
    damaged = segments_of(topic.folder)[0]
    DAMAGES["halved"](damaged)

    error, records = topic.read(0, 1 << 20)

    assert (error, min(records)) == (0, 0)
    got, lost = topic.read_around()
    assert got.keys() | lost == topic.sent.keys()
    assert lost


def test_damage_survives_a_restart_and_offsets_go_on(data_dir: Path, broker: odradek.Broker) -> None:
    topic = RottingTopic(broker)
    DAMAGES["payload"](segments_of(topic.folder)[1])
    DAMAGES["zeros"](segments_of(topic.folder)[3])
    topic.scrub()
    known = list(topic.hosted.log.damage)
    assert len(known) == 2
    topic.path.close()
    broker.stop()

    with odradek.Broker(data_dir=data_dir) as again:
        topic.broker, topic.path = again, type(topic.path)(again)
        assert list(topic.hosted.log.damage) == known
        topic.produce()
        got, lost = topic.read_around()
        assert lost == {offset for one in known for offset in range(one.first_offset, one.next_offset)}
        assert got == {offset: value for offset, value in topic.sent.items() if offset not in lost}
        topic.path.close()


def test_timestamp_lookup_says_where_it_cannot_know(broker: odradek.Broker) -> None:
    topic = RottingTopic(broker)
    segments = segments_of(topic.folder)
    first, following = topic.range_of(segments[2])
    DAMAGES["emptied"](segments[2])
    topic.scrub()

    before = topic.path.list_offset(topic.name, 1_000_000 + first - 3)
    inside = topic.path.list_offset(topic.name, 1_000_000 + first)
    after = topic.path.list_offset(topic.name, 1_000_000 + following + 30)

    assert (before.error_code, before.offset) == (0, first - 3)
    assert inside.error_code == CORRUPT
    assert (after.error_code, after.offset) == (0, following + 30)


def test_damaged_segments_can_be_deleted(broker: odradek.Broker) -> None:
    topic = RottingTopic(broker)
    segments = segments_of(topic.folder)
    for kind, segment in zip(("removed", "halved", "payload"), segments[1:], strict=False):
        DAMAGES[kind](segment)
    topic.scrub()
    assert len(topic.hosted.log.damage) == 3
    _, following = topic.range_of(segments[3])

    assert delete_records(topic.path, topic.name, following) == (0, following)
    topic.run(broker.server.replicas.maintenance.delete_old_segments)

    assert not topic.hosted.log.damage
    assert topic.hosted.log.segments[0].base_offset == following
    assert topic.read_around(following)[1] == set()


def test_cleaner_goes_on_around_damage(broker: odradek.Broker) -> None:
    topic = RottingTopic(broker, cleanup_policy="compact", min_cleanable_dirty_ratio="0.01")
    segments = segments_of(topic.folder)
    first, following = topic.range_of(segments[2])
    DAMAGES["payload"](segments[2])
    (damaged,) = {segments[2]: segments[2].read_bytes()}.items()

    def clean() -> bool:
        return bool(topic.run(broker.server.replicas.cleaner.clean_one))

    assert not clean(), "it meets the damage"
    wait_until(lambda: topic.hosted.log.damage)
    assert clean()

    (found,) = topic.hosted.log.damage
    assert segments[2].read_bytes() == damaged[1], "it stays as it is"
    assert sum(file.stat().st_size for file in segments_of(topic.folder)[:2]) < 16_384
    topic.scrub()
    assert list(topic.hosted.log.damage) == [found]
    got, lost = topic.read_around(first)
    assert lost == set(range(found.first_offset, found.next_offset))
    assert set(range(first, following)) - lost <= got.keys()


def test_wrong_indexes_are_built_again(broker: odradek.Broker) -> None:
    topic = RottingTopic(broker)
    index = segments_of(topic.folder)[2].with_suffix(".index")
    good = index.read_bytes()
    swapped = bytearray(good)
    swapped[4:8], swapped[12:16] = good[12:16], good[12:16]
    index.write_bytes(bytes(swapped))

    topic.scrub()

    assert broker.server.node.damage.indexes_rebuilt == 1
    assert index.read_bytes() == good
    assert not topic.hosted.log.damage
    assert topic.read_around() == (topic.sent, set())


def test_index_that_passes_over_records_hides_none(broker: odradek.Broker) -> None:
    topic = RottingTopic(broker)
    segment = segments_of(topic.folder)[2]
    first, _ = topic.range_of(segment)
    index = segment.with_suffix(".index")
    data = bytearray(index.read_bytes())
    data[4:8] = data[-4:]
    index.write_bytes(bytes(data))
    topic.hosted.log.segment_of(first).forget_indexes()
    topic.hosted.log.segment_of(first)._hints = None

    got = {offset: topic.read(offset, 1)[1] for offset in range(first + 1, first + 30)}

    assert all(offset in records for offset, records in got.items())
    wait_until(lambda: index.read_bytes() != bytes(data))


def test_kafka_python_raises_at_damage_and_goes_on_behind_it(broker: odradek.Broker) -> None:
    topic = RottingTopic(broker)
    DAMAGES["payload"](segments_of(topic.folder)[2])
    topic.scrub()
    (found,) = topic.hosted.log.damage
    consumer = KafkaConsumer(bootstrap_servers=broker.bootstrap_servers, consumer_timeout_ms=60_000)
    place = TopicPartition(topic.name, 0)
    consumer.assign([place])
    consumer.seek_to_beginning()
    got: dict[int, bytes] = {}

    with pytest.raises(CorruptRecordError):
        for message in consumer:
            got[message.offset] = message.value
    assert max(got) == found.first_offset - 1
    consumer.seek(place, found.next_offset)
    while len(got) < len(topic.sent) - 3:
        message = next(consumer)
        got[message.offset] = message.value
    consumer.close()

    lost = range(found.first_offset, found.next_offset)
    assert got == {offset: value for offset, value in topic.sent.items() if offset not in lost}


def test_damage_is_a_metric(broker: odradek.Broker) -> None:
    topic = RottingTopic(broker)
    DAMAGES["payload"](segments_of(topic.folder)[2])
    topic.scrub()
    (found,) = topic.hosted.log.damage
    topic.read(found.first_offset)

    samples = {
        (sample.name, sample.labels.get("next_offset")): sample.value
        for family in damage(broker.server)
        for sample in family.samples
    }

    assert samples["odradek_damage_ranges", None] == 1
    assert samples["odradek_damage_offsets", None] == 3
    assert samples["odradek_damage_bytes", None] == found.size
    assert samples["odradek_damage_first_offset", str(found.next_offset)] == found.first_offset
    assert samples["odradek_damage_ranges_found_total", None] == 1
    assert samples["odradek_damage_reads_refused_total", None] == 1
    assert samples["odradek_scrub_rounds_total", None] == 1
    assert samples["odradek_scrub_bytes_total", None] >= topic.hosted.log.size


def test_stop_while_a_segment_is_verified_closes_its_file_behind_the_piece(
    broker: odradek.Broker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    topic = RottingTopic(broker)
    reads, goes_on = threading.Event(), threading.Event()
    read, failures, files = SegmentVerifier._read, list[OSError](), list[SegmentVerifier]()

    def slow(verifier: SegmentVerifier, position: int, size: int) -> Any:
        files.append(verifier)
        reads.set()
        assert goes_on.wait(30)
        try:
            return read(verifier, position, size)
        except OSError as failure:
            failures.append(failure)
            raise

    monkeypatch.setattr(SegmentVerifier, "_read", slow)
    loop, scrubber = broker._running().loop, broker.server.replicas.scrubber
    loop.call_soon_threadsafe(scrubber.inspect, topic.hosted, 0)
    assert reads.wait(30)
    stopped = asyncio.run_coroutine_threadsafe(scrubber.stop(), loop)
    wait_until(lambda: not scrubber._tasks, "the task is cancelled")
    goes_on.set()
    stopped.result(30)

    assert failures == []
    assert files[0]._fd == -1
    assert "a bug" not in caplog.text
