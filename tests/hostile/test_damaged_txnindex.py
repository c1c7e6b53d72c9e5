"""Damage to `.txnindex`: after a verification, readers with read_committed see exactly the committed records."""

from __future__ import annotations

import asyncio
import logging
import random
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import odradek
import pytest
from odradek.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from odradek.protocol.records.batch import iter_headers
from odradek.storage.compaction.cleaning_job import finish, job
from odradek.storage.compaction.dirty_range import look
from odradek.storage.log.config import LogConfig
from odradek.storage.repair.verification import Job, SegmentVerifier
from odradek.storage.segments.damage import SegmentSuspected

from tests.harness.examples import examples
from tests.hostile.damaged_files import DAMAGES, RottingTopic
from tests.hostile.transaction_history import (
    NOW_MS,
    History,
    committed_values,
    expected_values,
    read_all,
    remove_snapshots,
)
from tests.server.harness.data_path import batch_of

ENTRY_BYTES = 34
CONFIG = {"transaction.partition.verification.enable": "false"}


def flip(at: int, mask: int = 1) -> Callable[[Path], None]:
    """Flips bits of one byte; a negative position counts from the end."""

    def damage(index: Path) -> None:
        data = bytearray(index.read_bytes())
        data[at] ^= mask
        index.write_bytes(data)

    return damage


def cut(index: Path) -> None:
    index.write_bytes(index.read_bytes()[:-7])


def cut_entry(index: Path) -> None:
    index.write_bytes(index.read_bytes()[:-ENTRY_BYTES])


def add_entry(index: Path) -> None:
    index.write_bytes(index.read_bytes()[-ENTRY_BYTES:] + index.read_bytes())


#: Damage that leaves an implausible file.
IMPLAUSIBLE: dict[str, Callable[[Path], None]] = {
    "version": flip(1),
    "producer-id-negative": flip(2, 0x80),
    "first-offset-behind-marker": flip(12, 0x10),
    "last-offset-outside": flip(20, 0x10),
    "last-stable-offset-too-large": flip(28, 0x10),
    "cut": cut,
    "entry-twice": add_entry,
}
PLAUSIBLE: dict[str, Callable[[Path], None]] = {
    "producer-id": flip(9, 0x40),
    "first-offset": flip(17),
    "last-offset": flip(-9),
    "cut-to-whole-entries": cut_entry,
    "emptied": lambda index: index.write_bytes(b""),
    "removed": Path.unlink,
}


# ---- a running broker


class TransactionalTopic(RottingTopic):
    """A topic with small segments. Producers 1 to 3 commit and abort in turns; their transactions overlap."""

    def __init__(self, broker: odradek.Broker) -> None:
        super().__init__(broker, batches=0, internal_segment_bytes="2048")
        self._sequences = dict.fromkeys((1, 2, 3), 0)
        for number in range(18):
            for who in (1, 2, 3):
                self.write(who, b"%d-%d" % (who, number))
            self.end(1 + number % 3, committed=number % 4 == 0)
        for who in (1, 2, 3):
            self.end(who, committed=True)
        #: Computed from the markers alone, not from the index.
        self.committed = expected_values(read_all(self.hosted.log))

    def write(self, who: int, value: bytes) -> None:
        kind = {"producer_id": who, "producer_epoch": 0, "base_sequence": self._sequences[who], "transactional": True}
        self._sequences[who] += 1
        batch, named = batch_of(value * 20, **kind), f"t-{who}"
        # Version 11 is the last in which the broker trusts the client to have added the partition.
        response = self.path.produce(self.name, batch, acks=-1, version=11, transactional_id=named)
        assert response.error_code == 0

    def end(self, who: int, *, committed: bool) -> None:
        marker = WritableTxnMarker(who, 0, committed, [WritableTxnMarkerTopic(self.name, [0])], 0)
        (response,) = self.path.client.call(WriteTxnMarkersRequest([marker]), 1).markers
        assert response.topics[0].partitions[0].error_code == 0

    def read_committed(self) -> list[bytes]:
        values: list[bytes] = []
        offset = 0
        while offset < self.hosted.log.log_end_offset:
            data = self.path.fetch(self.name, offset, isolation_level=1)
            assert data.error_code == 0
            records = bytes(data.records)
            aborted = [(one.producer_id, one.first_offset) for one in data.aborted_transactions]
            values += committed_values(records, aborted)
            offset = max(header.next_offset for _, header in iter_headers(records))
        return values

    def indexes(self) -> list[Path]:
        return sorted(self.folder.glob("*.txnindex"))


@pytest.fixture(scope="module")
def topic(sockets: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TransactionalTopic]:
    with odradek.Broker(data_dir=tmp_path_factory.mktemp("data"), config=CONFIG) as broker:
        made = TransactionalTopic(broker)
        assert made.committed == made.read_committed()
        assert len(made.indexes()) > 3
        yield made
        made.path.close()


def forget(topic: TransactionalTopic) -> None:
    """Drops the state in memory, as a start does."""
    for segment in topic.hosted.log.segments:
        segment.has_aborted, segment.is_verified = None, False


@pytest.mark.parametrize("kind", IMPLAUSIBLE)
def test_implausible_index_is_rebuilt_before_a_reader_uses_it(
    topic: TransactionalTopic, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    index = topic.indexes()[1]
    good, rebuilt = index.read_bytes(), topic.broker.server.node.damage.indexes_rebuilt
    IMPLAUSIBLE[kind](index)
    forget(topic)

    with caplog.at_level(logging.WARNING, "odradek.damage"):
        assert topic.read_committed() == topic.committed

    assert index.read_bytes() == good
    assert topic.broker.server.node.damage.indexes_rebuilt == rebuilt + 1
    (line,) = [record.getMessage() for record in caplog.records if record.name != "odradek.turns"]
    assert index.stem in line
    assert ".txnindex" in line


def test_verifications_of_a_segment_wait_for_each_other(
    topic: TransactionalTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second verification would find the damage that the first is about to repair, and rebuild the index again."""
    scrubber, rebuilt = topic.broker.server.replicas.scrubber, topic.broker.server.node.damage.indexes_rebuilt
    verify, under_way, most = scrubber._verify_in_pieces, Counter[Any](), 0

    async def counted(hosted: Any, segment: Any, bytes_per_second: int) -> None:
        nonlocal most
        under_way[segment] += 1
        most = max(most, under_way[segment])
        await verify(hosted, segment, bytes_per_second)
        under_way[segment] -= 1

    async def three_rounds() -> None:
        await asyncio.gather(*(scrubber.round() for _ in range(3)))

    monkeypatch.setattr(scrubber, "_verify_in_pieces", counted)
    IMPLAUSIBLE["version"](topic.indexes()[1])
    forget(topic)
    asyncio.run_coroutine_threadsafe(three_rounds(), topic.broker._running().loop).result(60)
    assert most == 1
    assert topic.broker.server.node.damage.indexes_rebuilt == rebuilt + 1


@pytest.mark.parametrize("number", [0, 2, -1])
@pytest.mark.parametrize("kind", IMPLAUSIBLE | PLAUSIBLE)
def test_damaged_index_is_rebuilt_by_verification(topic: TransactionalTopic, kind: str, number: int) -> None:
    index = topic.indexes()[number]
    good, rebuilt = index.read_bytes(), topic.broker.server.node.damage.indexes_rebuilt
    (IMPLAUSIBLE | PLAUSIBLE)[kind](index)
    forget(topic)

    topic.scrub()

    assert index.read_bytes() == good
    assert topic.read_committed() == topic.committed
    assert topic.broker.server.node.damage.indexes_rebuilt == rebuilt + 1


@pytest.mark.usefixtures("sockets")
def test_removed_indexes_are_rebuilt_after_a_clean_restart(tmp_path: Path) -> None:
    with odradek.Broker(data_dir=tmp_path, config=CONFIG) as broker:
        topic = TransactionalTopic(broker)
        committed, indexes = topic.committed, {index: index.read_bytes() for index in topic.indexes()}
        topic.path.close()
    for index in indexes:
        index.unlink()

    with odradek.Broker(data_dir=tmp_path, config=CONFIG) as broker:
        topic.broker, topic.path = broker, type(topic.path)(broker)
        topic.scrub()
        assert topic.read_committed() == committed
        assert {index: index.read_bytes() for index in topic.indexes()} == indexes
        topic.path.close()


# ---- logs


@pytest.mark.parametrize("seed", range(examples(5)))
@pytest.mark.parametrize("is_compacted", [False, True])
@pytest.mark.parametrize("has_snapshots", [False, True])
def test_right_index_stays_as_it_is(tmp_path: Path, seed: int, is_compacted: bool, has_snapshots: bool) -> None:
    history = History(tmp_path / "t-0", random.Random(seed))
    entries = history.entries()
    assert len(entries) > 5
    if not has_snapshots:
        remove_snapshots(history.log)

    assert history.verify(is_compacted=is_compacted) == 0
    assert history.entries() == entries


@pytest.mark.parametrize("is_compacted", [False, True])
@pytest.mark.parametrize("has_snapshots", [False, True])
def test_lost_indexes_are_rebuilt_with_and_without_snapshots(
    tmp_path: Path, is_compacted: bool, has_snapshots: bool
) -> None:
    rng = random.Random(7)
    history = History(tmp_path / "t-0", rng)
    entries = history.entries()
    if not has_snapshots:
        remove_snapshots(history.log)
    for index in history.indexes():
        index.unlink()

    assert history.verify(is_compacted=is_compacted) > 3

    assert [one[:3] for one in history.entries()] == [one[:3] for one in entries]
    assert history.read_committed(rng) == history.expected
    assert history.verify(is_compacted=is_compacted) == 0


@pytest.mark.parametrize("has_snapshots", [False, True])
@pytest.mark.parametrize("seed", range(examples(3)))
def test_flipped_bits_never_change_the_committed_records_after_verification(
    tmp_path: Path, seed: int, has_snapshots: bool
) -> None:
    rng = random.Random(seed)
    history = History(tmp_path / "t-0", rng, steps=60)
    if not has_snapshots:
        remove_snapshots(history.log)
    assert history.read_committed(rng) == history.expected
    for _ in range(40):
        index = rng.choice(history.indexes())
        flip(rng.randrange(index.stat().st_size), 1 << rng.randrange(8))(index)
        history.verify()
        assert history.read_committed(rng) == history.expected


def test_implausible_index_of_a_damaged_segment_is_rebuilt(tmp_path: Path) -> None:
    history = History(tmp_path / "t-0", random.Random(3))
    index = history.indexes()[1]
    entries = history.entries()
    cut(index)
    segment = history.log.segment_of(int(index.stem))
    segment.has_aborted = None
    with pytest.raises(SegmentSuspected):
        history.entries()
    DAMAGES["payload"](index.with_suffix(".log"))

    assert history.verify() == 1

    assert len(index.read_bytes()) % ENTRY_BYTES == 0
    assert {one.last_offset for one in history.entries()} <= {one.last_offset for one in entries}


@pytest.mark.parametrize("seed", range(examples(3)))
def test_index_of_a_compacted_log_is_right_and_rebuilt(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    history = History(tmp_path / "t-0", rng)
    log = history.log
    log.config = LogConfig(segment_bytes=1500, compact=True, delete=False, min_cleanable_dirty_ratio=0.0)
    dirt = look(log, None, 60, NOW_MS)
    cleaning = job(log, dirt, NOW_MS, 10_000)
    assert finish(log, cleaning, cleaning.run(), NOW_MS)
    before = history.read_committed(rng)
    assert history.verify(is_compacted=True) == 0

    for index in history.indexes():
        index.unlink()
    history.forget()

    assert history.verify(is_compacted=True) > 0
    assert history.read_committed(rng) == before


def test_entries_appended_during_a_verification_are_kept(tmp_path: Path) -> None:
    history = History(tmp_path / "t-0", random.Random(1), steps=4)
    log, active = history.log, history.log.active
    history.write(1)
    history.end(1, committed=False)
    verifier = SegmentVerifier(
        Job(log.directory, active.base_offset, active.next_offset, active.size, False, False)
    ).run()
    assert verifier.aborted is not None
    history.indexes()[-1].unlink()
    end = active.next_offset
    history.write(2)
    history.end(2, committed=False)
    assert log.active is active

    assert log.correct_aborted(active, verifier.aborted, end, is_wrong=True)

    assert [one[:3] for one in history.entries()][-2:] == [(1, end - 2, end - 1), (2, end, end + 1)]
    assert history.verify() == 0
