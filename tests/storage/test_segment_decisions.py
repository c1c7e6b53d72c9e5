"""Decisions about one segment at their limits: its end by the index, its room, its large batches, and leader epochs."""

from __future__ import annotations

import os
import struct
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from odradek.protocol.records.batch import read_header
from odradek.protocol.records.compression import Compression
from odradek.protocol.records.record import Record, encode_batch
from odradek.storage.files.open_files import OpenFiles
from odradek.storage.files.partition_directory import PartitionDirectory
from odradek.storage.log.epochs import FILE_NAME, LeaderEpochs
from odradek.storage.segments import sealed, timestamps
from odradek.storage.segments.batch_walk import Pread
from odradek.storage.segments.index import MAX_RELATIVE_OFFSET, CorruptIndex, OffsetIndex, TimeIndex
from odradek.storage.segments.sealed import SealedEnd, sealed_end
from odradek.storage.segments.segment import Segment
from odradek.storage.segments.timestamps import LargeBatch, latest_record, record_at_or_after

BASE, NOW_MS = 100, 1_700_000_000_000
NAME = f"{BASE:020}"
INTERVAL = 100


def batch(offset: int, count: int = 1, *, last: int | None = None, at: int = 5, **kind: object) -> bytes:
    records = [Record(offset + number, at + number, None, b"v") for number in range(count)]
    end = offset + max(count, 1) - 1 if last is None else last
    return encode_batch(records, base_offset=offset, last_offset=end, leader_epoch=2, **kind)  # type: ignore[arg-type]


THREE = (batch(BASE, 2), batch(BASE + 2, 3), batch(BASE + 5))
SECOND, THIRD = len(THREE[0]), len(THREE[0]) + len(THREE[1])
SIZE = sum(map(len, THREE))


def place(path: Path, *parts: bytes, index: bytes | None = b"") -> PartitionDirectory:
    (path / f"{NAME}.log").write_bytes(b"".join(parts))
    if index is not None:
        (path / f"{NAME}.index").write_bytes(index)
    return PartitionDirectory(str(path))


def entries(*pairs: tuple[int, int]) -> bytes:
    return b"".join(struct.pack(">ii", *pair) for pair in pairs)


# ---- the end of a sealed segment


@pytest.mark.parametrize(
    ("index", "expected"),
    [
        (b"", SealedEnd(BASE + 6, True)),
        (entries((4, SECOND)), SealedEnd(BASE + 6, True)),
        (entries((1, 0), (5, THIRD)), SealedEnd(BASE + 6, True)),
        (entries((5, THIRD)), SealedEnd(BASE + 6, True)),
        (entries((1, 0)), None),
        (entries((4, SECOND))[:-1], None),
        (entries((3, SECOND)), None),
        (entries((4, SECOND + 1)), None),
        (entries((4, SIZE)), None),
        (entries((4, SIZE - 1)), None),
        (entries((4, -1)), None),
        (entries((-1, SECOND)), None),
        (None, None),
    ],
)
def test_sealed_end_is_that_of_the_batches_behind_the_last_entry(
    tmp_path: Path, index: bytes | None, expected: SealedEnd | None
) -> None:
    assert sealed_end(place(tmp_path, *THREE, index=index), BASE, SIZE, INTERVAL) == expected


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ((), SealedEnd(BASE, True)),
        (THREE[:1], SealedEnd(BASE + 2, True)),
        ((*THREE[:2], b"\0"), None),
        ((*THREE[:2], THREE[2][:-1]), None),
        ((*THREE[:2], bytes(61)), None),
        ((THREE[0], THREE[2]), SealedEnd(BASE + 6, False)),
        ((batch(BASE + 1),), SealedEnd(BASE + 2, True)),
        ((batch(BASE - 1),), None),
        ((THREE[1], THREE[0]), None),
        ((THREE[0], batch(BASE + 1)), None),
        ((batch(BASE, 1, last=BASE + 2), THREE[2]), SealedEnd(BASE + 6, False)),
        ((batch(BASE, 0, last=BASE),), SealedEnd(BASE + 1, False)),
    ],
)
def test_sealed_segment_is_read_through_unless_its_batches_are_whole_and_in_order(
    tmp_path: Path, parts: tuple[bytes, ...], expected: SealedEnd | None
) -> None:
    assert sealed_end(place(tmp_path, *parts), BASE, sum(map(len, parts)), INTERVAL) == expected


def test_sealed_segment_is_walked_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = place(tmp_path, *THREE)
    for size in (max(map(len, THREE)), SECOND + 61, SIZE - 1, SIZE):
        monkeypatch.setattr(sealed, "_READ_BYTES", size)
        assert sealed_end(directory, BASE, SIZE, INTERVAL) == SealedEnd(BASE + 6, True)
    monkeypatch.setattr(sealed, "_READ_BYTES", 60)
    assert sealed_end(directory, BASE, SIZE, INTERVAL) is None


# ---- the room in a segment


def made(path: Path, *parts: bytes) -> Segment:
    segment = Segment.create(PartitionDirectory(str(path)), OpenFiles(), BASE, NOW_MS)
    for part in parts:
        segment.append(part, [sealed.read_header(part)], INTERVAL)
    return segment


@pytest.mark.parametrize(("room", "fits"), [(SIZE + 50, True), (SIZE + 49, False)])
def test_batch_fits_up_to_the_size_of_a_segment(tmp_path: Path, room: int, fits: bool) -> None:
    assert made(tmp_path, *THREE).may_take(50, BASE + 6, room, 1000) == fits
    (tmp_path / "empty").mkdir()
    assert made(tmp_path / "empty").may_take(50, BASE + 6, 49, 1000), "an empty segment takes any"


@pytest.mark.parametrize(("relative", "fits"), [(MAX_RELATIVE_OFFSET, True), (MAX_RELATIVE_OFFSET + 1, False)])
def test_batch_fits_up_to_the_largest_relative_offset(tmp_path: Path, relative: int, fits: bool) -> None:
    assert made(tmp_path, *THREE).may_take(50, BASE + relative, 1 << 20, 1000) == fits


@pytest.mark.parametrize(("index_bytes", "entries_left"), [(23, -1), (24, 0), (35, 0), (36, 1), (47, 1), (48, 2)])
def test_time_index_keeps_an_entry_for_the_largest_timestamp(
    tmp_path: Path, index_bytes: int, entries_left: int
) -> None:
    """An entry of the time index takes 12 bytes, one of the offset index 8. One of each is there."""
    segment = made(tmp_path, *THREE)
    assert (len(segment.offset_index), len(segment.time_index)) == (1, 1)
    assert segment.may_take(1, BASE + 6, 1 << 20, index_bytes) == (entries_left > 0)
    assert segment.entries_left == entries_left


def test_index_entry_follows_more_bytes_than_the_interval(tmp_path: Path) -> None:
    sizes = [len(part) for part in THREE]
    for interval, expected in (
        (sizes[0] - 1, 2),
        (sizes[0], 1),
        (sizes[0] + sizes[1] - 1, 1),
        (sizes[0] + sizes[1], 0),
    ):
        folder = tmp_path / str(interval)
        folder.mkdir()
        segment = Segment.create(PartitionDirectory(str(folder)), OpenFiles(), BASE, NOW_MS)
        for part in THREE:
            segment.append(part, [sealed.read_header(part)], interval)
        assert len(segment.offset_index) == expected


def test_interval_of_the_index_begins_anew_with_a_truncation(tmp_path: Path) -> None:
    segment = made(tmp_path, *THREE)
    assert segment.bytes_since_index_entry > 0
    segment.truncate(segment.cut_at(BASE + 2))
    assert (segment.size, segment.next_offset, len(segment.offset_index)) == (SECOND, BASE + 2, 0)
    exact = len(THREE[1])
    for part in THREE[1:]:
        segment.append(part, [sealed.read_header(part)], exact)
    assert len(segment.offset_index) == 0, "no more bytes than the interval"
    segment.truncate(segment.cut_at(BASE + 2))
    for part in THREE[1:]:
        segment.append(part, [sealed.read_header(part)], exact - 1)
    assert len(segment.offset_index) == 1


def test_file_that_is_used_again_outlasts_files_that_are_not(tmp_path: Path) -> None:
    files, found = OpenFiles(limit=3), []
    for number in range(4):
        (tmp_path / str(number)).mkdir()
        found.append(Segment.create(PartitionDirectory(str(tmp_path / str(number))), files, BASE, NOW_MS))
    for segment in found[:3]:
        assert segment.file() is segment.file()
        segment.used = False
    kept = found[0].file()
    found[3].file()
    assert [segment._file is not None for segment in found] == [True, False, True, True]
    assert found[0].file() is kept


def test_age_of_a_segment_is_by_the_first_batch_or_its_creation(tmp_path: Path) -> None:
    segment = made(tmp_path, batch(BASE, at=0), batch(BASE + 1, at=70))
    assert segment.first_timestamp() == 0
    assert segment.waited_ms(NOW_MS + 9, 30) == 30
    (tmp_path / "b").mkdir()
    without = made(tmp_path / "b", batch(BASE, at=-1))
    assert without.waited_ms(NOW_MS + 9, 30) == 9
    without.delete()
    assert not without.exists() and without.modified_ms() == NOW_MS


# ---- records by time


@pytest.mark.parametrize(
    ("codec", "limit", "value"),
    [
        (Compression.NONE, "OPENED_AT_ONCE_RECORDS", 3),
        (Compression.LZ4, "OPENED_AT_ONCE_RECORDS", 3),
        (Compression.LZ4, "OPENED_AT_ONCE_BYTES", None),
        (Compression.LZ4, "DECOMPRESSED_AT_ONCE_BYTES", 24),
    ],
)
def test_large_batch_is_opened_by_a_thread(
    tmp_path: Path, codec: Compression, limit: str, value: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = batch(BASE, 3, at=50, compression=codec)
    segment = made(tmp_path, data)
    exact = len(data) if value is None else value
    monkeypatch.setattr(timestamps, limit, exact)
    assert record_at_or_after([segment], 51, BASE) == (BASE + 1, 51, 2)
    monkeypatch.setattr(timestamps, limit, exact - 1)
    with pytest.raises(LargeBatch) as raised:
        record_at_or_after([segment], 51, BASE)
    assert raised.value.find() == (BASE + 1, 51, 2)


def test_record_is_looked_for_from_an_offset_on(tmp_path: Path) -> None:
    segment = made(tmp_path, batch(BASE, 2, at=50), batch(BASE + 2, 2, at=40), batch(BASE + 4, at=60))
    for timestamp, start, expected in (
        (0, BASE, (BASE, 50, 2)),
        (51, BASE, (BASE + 1, 51, 2)),
        (50, BASE + 1, (BASE + 1, 51, 2)),
        (41, BASE + 2, (BASE + 3, 41, 2)),
        (50, BASE + 2, (BASE + 4, 60, 2)),
        (60, BASE, (BASE + 4, 60, 2)),
    ):
        assert record_at_or_after([segment], timestamp, start) == expected
    assert record_at_or_after([segment], 61, BASE) is None
    assert record_at_or_after([segment], 60, BASE + 5) is None


def test_latest_record_is_the_first_one_with_the_largest_time(tmp_path: Path) -> None:
    assert latest_record([made(tmp_path, batch(BASE, 2, at=50), batch(BASE + 2, at=51), batch(BASE + 3, at=7))]) == (
        BASE + 1,
        51,
        2,
    )
    (tmp_path / "b").mkdir()
    assert latest_record([made(tmp_path / "b", batch(BASE, at=-1))]) is None
    (tmp_path / "c").mkdir()
    assert latest_record([made(tmp_path / "c", batch(BASE, at=0))]) == (BASE, 0, 2)


# ---- files of indexes


@pytest.mark.parametrize(
    ("content", "is_good"),
    [
        (b"", True),
        (entries((0, 0)), True),
        (entries((0, 0), (5, 1)), True),
        (entries((0, 0), (5, 0)), False),
        (entries((0, 0), (0, 0)), False),
        (entries((-1, 5)), False),
        (entries((5, -1)), False),
        (entries((5, 1))[:-1], False),
    ],
)
def test_offset_index_that_ends_with_an_impossible_entry_is_corrupt(
    tmp_path: Path, content: bytes, is_good: bool
) -> None:
    (tmp_path / f"{NAME}.index").write_bytes(content)
    if is_good:
        found = OffsetIndex(PartitionDirectory(str(tmp_path)), BASE)
        relative, position = struct.unpack(">ii", content[-8:]) if content else (0, 0)
        assert (found.last_offset, found.last_position) == (BASE + relative, position)
    else:
        with pytest.raises(CorruptIndex):
            OffsetIndex(PartitionDirectory(str(tmp_path)), BASE)


@pytest.mark.parametrize(
    ("pairs", "is_good"),
    [
        ((), True),
        (((7, 0),), True),
        (((7, 0), (9, 4)), True),
        (((7, 0), (7, 4)), True),
        (((7, 0), (6, 4)), False),
        (((7, 3), (9, 0)), False),
        (((7, -1),), False),
        (((0, 0), (0, 0)), False),
    ],
)
def test_time_index_that_ends_with_an_impossible_entry_is_corrupt(
    tmp_path: Path, pairs: tuple[tuple[int, int], ...], is_good: bool
) -> None:
    (tmp_path / f"{NAME}.timeindex").write_bytes(b"".join(struct.pack(">qi", *pair) for pair in pairs))
    if is_good:
        found = TimeIndex(PartitionDirectory(str(tmp_path)), BASE)
        timestamp, relative = pairs[-1] if pairs else (-1, 0)
        assert (found.last_timestamp, found.last_offset) == (timestamp, BASE + relative)
    else:
        with pytest.raises(CorruptIndex):
            TimeIndex(PartitionDirectory(str(tmp_path)), BASE)


# ---- leader epochs


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (None, None),
        (b"", []),
        (b"0\n0\n", []),
        (b"0\n1\n0 0\n", [(0, 0)]),
        (b"0\n2\n0 0\n5 9\n", [(0, 0), (5, 9)]),
        (b"1\n1\n0 0\n", None),
        (b"0\n2\n0 0\n", None),
        (b"0\n2\n5 0\n5 9\n", None),
        (b"0\n2\n0 9\n5 9\n", None),
        (b"0\n1\n0\n", None),
        (b"0\n1\n0 0 0\n", None),
        (b"0\n1\nx 0\n", None),
        (b"0\n", None),
        (b"\xff", None),
    ],
)
def test_file_of_epochs_is_doubtful_unless_it_has_what_it_counts(
    tmp_path: Path, content: bytes | None, expected: list[tuple[int, int]] | None
) -> None:
    if content is not None:
        (tmp_path / FILE_NAME).write_bytes(content)
    found = LeaderEpochs.load(PartitionDirectory(str(tmp_path)))
    assert found.entries() == (expected or [])
    assert (found.is_doubtful, found.is_missing) == (expected is None, content is None)
    assert found.is_synced(1 << 40) == (expected is not None), "a doubtful file is written again"
    assert found.latest == (expected[-1][0] if expected else -1)


def epochs(path: Path, *pairs: tuple[int, int]) -> LeaderEpochs:
    return LeaderEpochs(PartitionDirectory(str(path)), pairs)


@pytest.mark.parametrize(
    ("epoch", "expected"),
    [(-1, (-1, -1)), (0, (0, 5)), (1, (1, 9)), (2, (1, 9)), (3, (3, 40)), (4, (-1, -1))],
)
def test_end_of_an_epoch_is_the_start_of_the_next_one(tmp_path: Path, epoch: int, expected: tuple[int, int]) -> None:
    assert epochs(tmp_path, (1, 5), (3, 9)).end_offset_for(epoch, 40) == expected
    assert epochs(tmp_path).end_offset_for(epoch, 40) == (-1, -1)


@pytest.mark.parametrize(("offset", "epoch"), [(4, -1), (5, 1), (8, 1), (9, 3), (99, 3)])
def test_epoch_of_an_offset_is_the_last_that_began_there_or_before(tmp_path: Path, offset: int, epoch: int) -> None:
    assert epochs(tmp_path, (1, 5), (3, 9)).epoch_for_offset(offset) == epoch


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        (4, None),
        (5, None),
        (6, [(1, 6), (3, 9), (4, 12)]),
        (9, [(3, 9), (4, 12)]),
        (11, [(3, 11), (4, 12)]),
        (50, [(4, 50)]),
    ],
)
def test_epoch_that_wrote_at_the_new_start_begins_there(
    tmp_path: Path, start: int, expected: list[tuple[int, int]] | None
) -> None:
    pairs = ((1, 5), (3, 9), (4, 12))
    found = epochs(tmp_path, *pairs)
    found.truncate_from_start(start)
    assert found.entries() == (list(pairs) if expected is None else expected)
    assert found.is_synced(0) == (expected is None)


@pytest.mark.parametrize(("end", "count"), [(13, 3), (12, 2), (10, 2), (9, 1), (5, 0), (0, 0)])
def test_epochs_that_begin_at_the_new_end_or_behind_it_go(tmp_path: Path, end: int, count: int) -> None:
    pairs = ((1, 5), (3, 9), (4, 12))
    found = epochs(tmp_path, *pairs)
    found.truncate_from_end(end)
    assert found.entries() == list(pairs[:count])
    assert found.latest == (pairs[count - 1][0] if count else -1)
    assert found.is_synced(end) and found.is_synced(end + 1) == (count == 3)


def test_epoch_is_written_when_the_log_has_its_records(tmp_path: Path) -> None:
    found = epochs(tmp_path, (1, 5))
    found.assign(1, 9)
    found.assign(0, 9)
    assert found.entries() == [(1, 5)] and found.is_synced(1 << 40)
    found.assign(2, 9)
    assert found.is_synced(9) and not found.is_synced(10)
    found.write(9)
    assert not (tmp_path / FILE_NAME).exists()
    found.write(10, sync=False)
    assert (tmp_path / FILE_NAME).read_bytes() == b"0\n2\n1 5\n2 9\n" and not found.is_synced(10)
    (tmp_path / FILE_NAME).unlink()
    found.write(10, sync=False)
    assert not (tmp_path / FILE_NAME).exists(), "it is written, and waits for a sync"
    assert found.take_unsynced(9) is None
    taken = found.take_unsynced(10)
    assert taken is not None and taken.content == b"0\n2\n1 5\n2 9\n" and found.take_unsynced(10) is None
    found.assign(4, 5)
    assert found.entries() == [(4, 5)]
    found.write()
    assert (tmp_path / FILE_NAME).read_bytes() == b"0\n1\n4 5\n" and found.is_synced(1 << 40)


def test_file_of_epochs_is_lowered_before_the_log_is_cut_and_no_older_content_is_written_after_it(
    tmp_path: Path,
) -> None:
    found = epochs(tmp_path, (1, 5), (2, 9))
    assert not found.file_reaches(10) and found.file_reaches(9) and found.is_synced(1 << 40)
    found.assign(3, 12)
    before = found.take_unsynced(20)
    lowered = found.take_below(9)
    assert before is not None and found.entries() == [(1, 5), (2, 9), (3, 12)]
    lowered.write(str(tmp_path))
    before.write(str(tmp_path))
    assert [one.name for one in tmp_path.iterdir()] == [FILE_NAME]
    assert (tmp_path / FILE_NAME).read_bytes() == b"0\n1\n1 5\n" and not found.file_reaches(9)
    assert not found.is_synced(10), "the log may not be cut after all"
    found.write()
    assert (tmp_path / FILE_NAME).read_bytes() == b"0\n3\n1 5\n2 9\n3 12\n" and found.file_reaches(12)


def test_file_of_epochs_is_written_while_a_thread_waits_for_the_disk_with_an_older_content(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "other").mkdir()
    found = epochs(tmp_path, (1, 5), (2, 9))
    other = epochs(tmp_path / "other", (1, 5))
    found.assign(3, 12)
    before = found.take_unsynced(20)
    assert before is not None
    disk_works, waits = threading.Event(), threading.Event()
    fsync = os.fsync

    def sync(fd: int) -> None:
        if threading.current_thread() is not threading.main_thread() and not waits.is_set():
            waits.set()
            assert disk_works.wait(30)
        fsync(fd)

    monkeypatch.setattr(os, "fsync", sync)
    with ThreadPoolExecutor(1) as threads:
        writing = threads.submit(before.write, str(tmp_path))
        assert waits.wait(30)
        found.assign(4, 15)
        found.truncate_from_end(14)
        found.write(sync=False)
        other.assign(2, 7)
        other.write()
        disk_works.set()
        writing.result()
    assert (tmp_path / FILE_NAME).read_bytes() == b"0\n3\n1 5\n2 9\n3 12\n"
    assert (tmp_path / "other" / FILE_NAME).read_bytes() == b"0\n2\n1 5\n2 7\n"
    assert {one.name for one in tmp_path.iterdir()} == {FILE_NAME, "other"}


# ---- a segment that was there before, and readers that come back


@pytest.mark.parametrize(
    ("at", "largest", "offset"), [(4, 7, BASE + 1), (7, 7, BASE + 1), (8, 8, BASE + 2), (9, 9, BASE + 2)]
)
def test_segment_that_is_opened_again_has_its_largest_timestamp(
    tmp_path: Path, at: int, largest: int, offset: int
) -> None:
    """Timestamps of its batches are 6 and 7; the appended one's is `at`."""
    directory = place(tmp_path, batch(BASE, 2, at=6))
    (tmp_path / f"{NAME}.timeindex").write_bytes(TimeIndex.ENTRY.pack(7, 1))
    segment = Segment.existing(directory, OpenFiles(), BASE, NOW_MS)
    segment.next_offset = BASE + 2
    added = batch(BASE + 2, at=at)
    segment.append(added, [read_header(added)], INTERVAL)
    assert (segment.largest_timestamp(), segment.offset_of_max_timestamp) == (largest, offset)


def counted(reads: list[int]) -> Pread:
    def pread(fd: int, size: int, position: int) -> bytes:
        reads.append(position)
        return os.pread(fd, size, position)

    return pread


def test_readers_that_stopped_within_a_segment_find_their_places_without_a_read(tmp_path: Path) -> None:
    made, files = [batch(BASE + number) for number in range(40)], OpenFiles()
    segment = Segment.planned(PartitionDirectory(str(tmp_path)), files, BASE, NOW_MS)
    for one in made:
        segment.append(one, [read_header(one)], INTERVAL)
    size, reads = len(made[0]), list[int]()
    for offset in (*range(BASE + 1, BASE + 33), BASE + 1):
        segment.remember(offset, (offset - BASE) * size)
    for offset in range(BASE + 1, BASE + 33):
        assert segment.position_of(offset, counted(reads)) == (offset - BASE) * size
    assert reads == []
    assert segment.position_of(BASE + 33, counted(reads)) == 33 * size and reads
    segment.remember(BASE + 33, 33 * size)
    reads.clear()
    for offset in range(BASE + 2, BASE + 34):
        assert segment.position_of(offset, counted(reads)) == (offset - BASE) * size
    assert reads == [] and segment.position_of(BASE + 1, counted(reads)) == size and reads, (
        "the oldest place is forgotten"
    )


def test_truncation_forgets_where_readers_stopped(tmp_path: Path) -> None:
    segment = Segment.planned(PartitionDirectory(str(tmp_path)), OpenFiles(), BASE, NOW_MS)
    for one in THREE:
        segment.append(one, [read_header(one)], INTERVAL)
    segment.remember(BASE + 5, THIRD)
    segment.truncate(segment.cut_at(BASE + 2))
    assert (segment.size, segment.next_offset) == (SECOND, BASE + 2)
    for number in range(2, 7):
        one = batch(BASE + number)
        segment.append(one, [read_header(one)], INTERVAL)
    assert segment.position_of(BASE + 5) == SECOND + 3 * len(batch(BASE))


def test_segment_whose_file_is_gone_has_empty_indexes(tmp_path: Path) -> None:
    directory = place(tmp_path, *THREE, index=b"123")
    segment = Segment.existing(directory, OpenFiles(), BASE, NOW_MS)
    (tmp_path / f"{NAME}.log").unlink()
    assert len(segment.offset_index) == 0 and len(segment.time_index) == 0
    assert (tmp_path / f"{NAME}.index").read_bytes() == b""
    assert segment.modified_ms() == NOW_MS and not segment.exists()
