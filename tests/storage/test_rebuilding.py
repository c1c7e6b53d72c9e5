"""A segment that is written anew beside a damaged one, and poisoned batches that empty ones replace."""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import Any

import pytest
from odradek.protocol.records.batch import iter_headers, read_header, seal
from odradek.protocol.records.end_markers import encode_end_transaction
from odradek.protocol.records.errors import CorruptBatch
from odradek.protocol.records.record import Record, decode_batch, encode_batch
from odradek.storage.files.open_files import OpenFiles
from odradek.storage.files.partition_directory import PartitionDirectory
from odradek.storage.repair import rebuilding, skipping
from odradek.storage.repair.rebuilding import RebuiltSegment
from odradek.storage.repair.segment_faults import SegmentFault, partition_faults
from odradek.storage.repair.skipping import skip_batch
from odradek.storage.segments.aborted import AbortedTransaction, read_aborted, replace_aborted
from odradek.storage.segments.batch_walk import headers
from odradek.storage.segments.damage import Damage, DamagedRange, SegmentSuspected
from odradek.storage.segments.segment import Segment
from odradek.storage.segments.slices import LogSlice

BASE = 100
NAME = f"{BASE:020}"
INTERVAL = 80


def batch(offset: int, count: int = 1, **kind: Any) -> bytes:
    records = [Record(offset + number, 5 + offset, None, b"v") for number in range(count)]
    return encode_batch(records, leader_epoch=2, **kind)


def aborted(who: int, offset: int, *, committed: bool = False) -> bytes:
    return encode_end_transaction(
        committed, base_offset=offset, timestamp=5, producer_id=who, producer_epoch=0, coordinator_epoch=0
    )


PARTS = (batch(BASE, 2), batch(BASE + 2, 3), batch(BASE + 5), batch(BASE + 6))
STARTS = [sum(map(len, PARTS[:number])) for number in range(5)]


def source(path: Path, *parts: bytes) -> tuple[PartitionDirectory, Segment]:
    directory = PartitionDirectory(str(path))
    (path / f"{NAME}.log").write_bytes(b"".join(parts))
    return directory, Segment.existing(directory, OpenFiles(), BASE, 0)


def gap(first: int, last: int) -> DamagedRange:
    """Returns the damage of the batches from one number to another."""
    return DamagedRange(f"{NAME}.log", STARTS[first], STARTS[last] - STARTS[first], 0, 0, "bad CRC")


def parsed(*batches: bytes) -> tuple[bytes, list[Any]]:
    return b"".join(batches), [read_header(one) for one in batches]


@pytest.mark.parametrize("copied_at_once", [1, 100, 1 << 20])
def test_damaged_batches_are_replaced_and_the_others_copied(
    tmp_path: Path, copied_at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rebuilding, "_COPY_BYTES", copied_at_once)
    directory, segment = source(tmp_path, PARTS[0], bytes(len(PARTS[1])), PARTS[2], bytes(len(PARTS[3])))
    os.utime(segment.path, ns=(7_000, 9_000))
    rebuilt = RebuiltSegment(directory, BASE, segment)
    rebuilt.copy_up_to(gap(1, 2))
    rebuilt.add(*parsed(PARTS[1]))
    rebuilt.copy_up_to(gap(3, 4))
    rebuilt.add(*parsed(PARTS[3]))
    rebuilt.finish(INTERVAL, BASE + 7, [])
    made = tmp_path / f"{NAME}.log.cleaned"
    assert made.read_bytes() == b"".join(PARTS) and made.stat().st_mtime_ns == 9_000
    assert (rebuilt.size, rebuilt.added_bytes) == (STARTS[4], len(PARTS[1]) + len(PARTS[3]))
    entries = list(struct.iter_unpack(">ii", (tmp_path / f"{NAME}.index.cleaned").read_bytes()))
    assert entries == [(5, STARTS[2])], "each behind more bytes than the interval"
    assert (tmp_path / f"{NAME}.log").exists(), "the swap is the caller's"
    rebuilt.discard()
    assert [one.name for one in tmp_path.iterdir()] == [f"{NAME}.log"]


@pytest.mark.parametrize(
    ("added", "next_offset", "may_have_gaps", "fits"),
    [
        (PARTS[1:2], BASE + 7, False, True),
        ((), BASE + 7, False, True),
        ((), BASE + 7, True, True),
        (PARTS[1:2], BASE + 8, False, False),
        (PARTS[1:2], BASE + 8, True, True),
        (PARTS[1:2], BASE + 6, True, False),
        (PARTS[2:3], BASE + 7, False, False),
        ((PARTS[1][:-1] + b"\xff",), BASE + 7, False, False),
    ],
)
def test_records_that_do_not_fit_are_refused(
    tmp_path: Path, added: tuple[bytes, ...], next_offset: int, may_have_gaps: bool, fits: bool
) -> None:
    directory, segment = source(tmp_path, PARTS[0], bytes(len(PARTS[1])), *PARTS[2:])
    rebuilt = RebuiltSegment(directory, BASE, segment)
    rebuilt.may_have_gaps = may_have_gaps
    rebuilt.copy_up_to(gap(1, 2))
    rebuilt.add(*parsed(*added))
    if fits:  # whether offsets may be missing between the batches is for the reader of the replica
        rebuilt.finish(INTERVAL, next_offset, [])
    else:
        with pytest.raises(CorruptBatch, match="do not fit"):
            rebuilt.finish(INTERVAL, next_offset, [])


def test_source_that_is_cut_short_meanwhile_is_an_error(tmp_path: Path) -> None:
    directory, segment = source(tmp_path, *PARTS)
    segment.size += 1
    rebuilt = RebuiltSegment(directory, BASE, segment)
    rebuilt.copy_up_to(gap(1, 1))
    with pytest.raises(CorruptBatch, match="ends before"):
        rebuilt.finish(INTERVAL, BASE + 7, [])


def test_segment_without_a_source_is_all_of_the_replicas(tmp_path: Path) -> None:
    directory = PartitionDirectory(str(tmp_path))
    rebuilt = RebuiltSegment(directory, BASE, None)
    rebuilt.copy_up_to(gap(0, 0))
    rebuilt.add(*parsed(*PARTS))
    rebuilt.finish(INTERVAL, BASE + 7, [])
    assert (tmp_path / f"{NAME}.log.cleaned").read_bytes() == b"".join(PARTS)


def transactional(who: int, offset: int) -> bytes:
    return batch(offset, producer_id=who, producer_epoch=0, base_sequence=0, transactional=True)


@pytest.mark.parametrize(
    ("has_index", "may_have_gaps", "is_kept"), [(True, False, True), (True, True, False), (False, False, False)]
)
def test_index_of_aborted_transactions_stays_or_is_made_of_the_replicas(
    tmp_path: Path, has_index: bool, may_have_gaps: bool, is_kept: bool
) -> None:
    directory, kept = PartitionDirectory(str(tmp_path)), [AbortedTransaction(9, 1, BASE + 1, 5)]
    if has_index:
        replace_aborted(directory, BASE, kept)
    rebuilt = RebuiltSegment(directory, BASE, None)
    rebuilt.may_have_gaps = may_have_gaps
    rebuilt.copy_up_to(gap(0, 0))
    parts = [
        transactional(0, BASE), aborted(0, BASE + 1), transactional(7, BASE + 2), aborted(7, BASE + 3, committed=True),
        aborted(8, BASE + 4), transactional(0, BASE + 5), aborted(0, BASE + 6),
    ]  # fmt: skip
    rebuilt.add(*parsed(*parts))
    rebuilt.finish(INTERVAL, BASE + 7, [(0, BASE), (0, BASE + 5), (7, BASE + 2), (8, BASE + 9)])
    made = [AbortedTransaction(0, BASE, BASE + 1, 0), AbortedTransaction(0, BASE + 5, BASE + 6, 0)]
    assert read_aborted(directory, BASE, ".cleaned") == (kept if is_kept else made)


# ---- poisoned batches


def poisoned(offset: int) -> bytes:
    data = bytearray(batch(offset, 3))
    struct.pack_into(">i", data, 57, 2)
    seal(data, 0, len(data))
    return bytes(data)


def faults(path: Path) -> list[SegmentFault]:
    return list(partition_faults(str(path), reads_records=True))


def test_bad_batches_are_named_by_their_place(tmp_path: Path) -> None:
    source(tmp_path, PARTS[0], poisoned(BASE + 2), PARTS[2])
    (tmp_path / f"{0:020}.log").write_bytes(batch(0) + b"torn")
    (tmp_path / "notes.log").write_bytes(b"no segment")
    found = faults(tmp_path)
    assert [(one.file, one.position, one.size, one.header is None, one.is_tail) for one in found] == [
        (f"{0:020}.log", len(batch(0)), 4, True, True),
        (f"{NAME}.log", STARTS[1], STARTS[2] - STARTS[1], False, False),
    ]
    assert list(partition_faults(str(tmp_path), reads_records=False)) == found[:1]
    (tmp_path / f"{0:020}.log").unlink()
    skip_batch(str(tmp_path), faults(tmp_path)[0])
    assert faults(tmp_path) == []


def test_poisoned_batches_before_and_after_damage_are_found_and_skipped(tmp_path: Path) -> None:
    directory, _ = source(tmp_path, poisoned(BASE), bytes(50), poisoned(BASE + 5), batch(BASE + 8))
    before = len(poisoned(BASE))
    first, damaged, second = faults(tmp_path)
    assert (first.position, first.first_offset, first.next_offset) == (0, BASE, BASE + 3)
    assert damaged[1:5] == (before, 50, BASE + 3, BASE + 5) and damaged.header is None
    assert (second.position, second.first_offset, second.next_offset) == (before + 50, BASE + 5, BASE + 8)
    skip_batch(str(tmp_path), second)
    assert faults(tmp_path) == [first, damaged]

    noted = Damage.load(directory)
    noted.add(DamagedRange(*damaged[:6]))
    noted.save()
    skip_batch(str(tmp_path), first)
    (left,) = faults(tmp_path)
    assert left.position < damaged.position and left.size == damaged.size
    assert list(Damage.load(directory)) == [DamagedRange(*left[:6])]


@pytest.mark.parametrize("written_at_once", [7, 1 << 20])
def test_empty_batch_keeps_the_offsets_and_the_times(
    tmp_path: Path, written_at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(skipping, "_WRITE_BYTES", written_at_once)
    _, segment = source(tmp_path, PARTS[0], poisoned(BASE + 2), PARTS[2], PARTS[3])
    os.utime(segment.path, ns=(7_000, 9_000))
    (bad,) = faults(tmp_path)
    skip_batch(str(tmp_path), bad)
    log = tmp_path / f"{NAME}.log"
    data = log.read_bytes()
    assert log.stat().st_mtime_ns == 9_000
    found = [header for _, header in iter_headers(data)]
    assert [(one.base_offset, one.last_offset, one.record_count) for one in found] == [
        (BASE, BASE + 1, 2),
        (BASE + 2, BASE + 4, 0),
        (BASE + 5, BASE + 5, 1),
        (BASE + 6, BASE + 6, 1),
    ]
    assert found[1].leader_epoch == 2
    assert [record.offset for at, _ in iter_headers(data) for record in decode_batch(data, at)] == [
        BASE, BASE + 1, BASE + 5, BASE + 6,
    ]  # fmt: skip
    assert sorted(one.name for one in tmp_path.iterdir()) == [f"{NAME}.index", f"{NAME}.log", f"{NAME}.timeindex"]


# ---- walks and slices


def test_walk_passes_over_damaged_ranges_and_suspects_others(tmp_path: Path) -> None:
    _, segment = source(tmp_path, PARTS[0], bytes(len(PARTS[1])), PARTS[2], bytes(10), PARTS[3])
    with pytest.raises(SegmentSuspected):
        list(headers(segment, 0))
    second = STARTS[3] + 10
    segment.holes = [(STARTS[1], STARTS[2]), (STARTS[3], second)]
    assert [(at, header.base_offset) for at, header in headers(segment, 0)] == [
        (0, BASE), (STARTS[2], BASE + 5), (second, BASE + 6),
    ]  # fmt: skip
    assert [header.base_offset for _, header in headers(segment, STARTS[2])] == [BASE + 5, BASE + 6]
    assert [header.base_offset for _, header in headers(segment, second)] == [BASE + 6]


def test_slice_of_a_file_that_was_cut_is_suspected(tmp_path: Path) -> None:
    _, segment = source(tmp_path, *PARTS)
    whole = LogSlice(segment.file(), STARTS[1], STARTS[3] - STARTS[1], BASE + 2, BASE + 6, BASE)
    assert len(whole) == STARTS[3] - STARTS[1] and whole.bytes() == PARTS[1] + PARTS[2] == whole.bytes_nowait()
    assert repr(whole) == f"LogSlice(offset={BASE + 2}, next_offset={BASE + 6}, {len(whole)} bytes at {STARTS[1]})"
    os.truncate(segment.path, STARTS[3] - 1)
    for read in (whole.bytes, whole.bytes_nowait):
        with pytest.raises(SegmentSuspected) as raised:
            read()
        assert raised.value.base_offset == BASE
    nothing = LogSlice(None, 0, 0, BASE, BASE, BASE)
    assert (nothing.bytes(), nothing.bytes_nowait(), nothing.fd) == (b"", b"", -1)
