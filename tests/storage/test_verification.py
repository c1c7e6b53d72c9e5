"""Verification of one segment's file: the damaged ranges, the poisoned batches and the wrong indexes that it reports."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from odradek.protocol.internal.producer_snapshot import ProducerEntry
from odradek.protocol.records.batch import HEADER_BYTES, read_header
from odradek.protocol.records.end_markers import encode_end_transaction
from odradek.protocol.records.record import Record, encode_batch
from odradek.storage.files.partition_directory import PartitionDirectory
from odradek.storage.repair import verification
from odradek.storage.repair.verification import Job, SegmentVerifier
from odradek.storage.segments.aborted import AbortedTransaction, read_aborted, replace_aborted
from odradek.storage.segments.poison import MOST_POISONED
from odradek.storage.segments.snapshots import encode_snapshot

NAME = "00000000000000000000"
Range = tuple[int, int, int, int, str]


def batch(offset: int, count: int = 1, *, last: int | None = None, size: int = 1, **kind: object) -> bytes:
    records = [Record(offset + number, 5, None, b"v" * size) for number in range(count)]
    end = offset + max(count, 1) - 1 if last is None else last
    return encode_batch(records, base_offset=offset, last_offset=end, leader_epoch=2, **kind)  # type: ignore[arg-type]


def moved(data: bytes, offset: int) -> bytes:
    """Returns the batch at another base offset, which its CRC does not cover."""
    return struct.pack(">q", offset) + data[8:]


def flipped(data: bytes, at: int, mask: int = 1) -> bytes:
    changed = bytearray(data)
    changed[at] ^= mask
    return bytes(changed)


def verified(
    path: Path,
    *parts: bytes,
    next_offset: int,
    size: int | None = None,
    is_compacted: bool = False,
    checks_indexes: bool = False,
) -> SegmentVerifier:
    (path / f"{NAME}.log").write_bytes(b"".join(parts))
    whole = sum(map(len, parts)) if size is None else size
    job = Job(PartitionDirectory(str(path)), 0, next_offset, whole, is_compacted, checks_indexes)
    return SegmentVerifier(job).run()


def ranges(found: SegmentVerifier) -> list[Range]:
    assert all(one.file == f"{NAME}.log" for one in found.found)
    return [(one.position, one.size, one.first_offset, one.next_offset, one.reason) for one in found.found]


#: Offsets 0 and 1, 2 to 4, and 5.
THREE = (batch(0, 2), batch(2, 3), batch(5))
STARTS = (0, len(THREE[0]), len(THREE[0]) + len(THREE[1]))
SIZE = sum(map(len, THREE))


@pytest.fixture(params=[61, 200, 1 << 18])
def piece(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """The number of bytes that are read at a time."""
    monkeypatch.setattr(verification, "PIECE_BYTES", request.param)
    return int(request.param)


# ---- batches


def test_whole_segment_has_no_damage(tmp_path: Path, piece: int) -> None:
    found = verified(tmp_path, *THREE, next_offset=6)
    assert (found.found, found.poisoned, found.is_index_wrong, found.is_aborted_wrong) == ([], [], False, False)
    assert found.is_done and found.file_size == SIZE and found.aborted == []


@pytest.mark.parametrize("bad", [0, 1, 2])
@pytest.mark.parametrize("is_compacted", [False, True])
def test_batch_with_a_wrong_crc_is_a_range_of_its_own(tmp_path: Path, piece: int, bad: int, is_compacted: bool) -> None:
    parts = [flipped(one, -1) if number == bad else one for number, one in enumerate(THREE)]
    found = verified(tmp_path, *parts, next_offset=6, is_compacted=is_compacted)
    first, following = ((0, 2), (2, 5), (5, 6))[bad]
    assert ranges(found) == [(STARTS[bad], len(THREE[bad]), first, following, "bad CRC")]


def test_two_damaged_batches_are_two_ranges(tmp_path: Path, piece: int) -> None:
    found = verified(tmp_path, flipped(THREE[0], -1), flipped(THREE[1], -1), THREE[2], next_offset=6)
    assert [one[:4] for one in ranges(found)] == [(0, STARTS[1], 0, 2), (STARTS[1], len(THREE[1]), 2, 5)]


def test_flipped_bit_of_each_byte_damages_its_batch_alone(tmp_path: Path) -> None:
    """No CRC covers the leader epoch, which a replica may not have: bytes 12 to 15."""
    for at in range(len(THREE[1])):
        found = verified(tmp_path, THREE[0], flipped(THREE[1], at, (1, 4, 0x80)[at % 3]), THREE[2], next_offset=6)
        expected = [] if 12 <= at < 16 else [(STARTS[1], len(THREE[1]), 2, 5)]
        assert [one[:4] for one in ranges(found)] == expected, at


def test_bytes_between_two_batches_are_damage_of_the_offsets_between(tmp_path: Path, piece: int) -> None:
    found = verified(tmp_path, THREE[0], bytes(len(THREE[1])), THREE[2], next_offset=6)
    assert ranges(found) == [(STARTS[1], len(THREE[1]), 2, 5, "no batch")]
    for count in (1, 60, 61, 62, 300):
        found = verified(tmp_path, bytes(count), batch(2, 3), batch(5), next_offset=6)
        assert ranges(found) == [(0, count, 0, 2, "no batch")]


def test_bytes_that_resemble_a_header_are_passed_over(tmp_path: Path, piece: int) -> None:
    """The search looks for the offset and the magic of a batch; only a right CRC makes it one."""
    lure = batch(3)[:HEADER_BYTES]
    found = verified(tmp_path, THREE[0], b"\xff" * 5, lure, b"\xff" * 5, lure, b"\xff" * 7, THREE[2], next_offset=6)
    assert ranges(found) == [(STARTS[1], 17 + 2 * HEADER_BYTES, 2, 5, "no batch")]
    found = verified(tmp_path, THREE[0], lure, next_offset=6)
    assert ranges(found) == [(STARTS[1], HEADER_BYTES, 2, 6, "no batch")]


@pytest.mark.parametrize("tail", [b"\0", bytes(60), bytes(61), bytes(500), batch(6), batch(4, 3), batch(0)])
def test_tail_without_a_batch_of_the_segment_is_damage_up_to_its_end(tmp_path: Path, piece: int, tail: bytes) -> None:
    found = verified(tmp_path, THREE[0], tail, next_offset=6)
    assert ranges(found) == [(STARTS[1], len(tail), 2, 6, "no batch")]


@pytest.mark.parametrize("cut", [0, 1, 60, 61, 62, SIZE - 1])
def test_file_that_is_cut_lacks_the_offsets_behind_its_whole_batches(tmp_path: Path, piece: int, cut: int) -> None:
    found = verified(tmp_path, b"".join(THREE)[:cut], next_offset=6, size=SIZE)
    whole = max(number for number in range(3) if STARTS[number] <= cut)
    first = (0, 2, 5)[whole]
    reason = "the file is cut" if cut == STARTS[whole] else "no batch"
    assert ranges(found) == [(STARTS[whole], cut - STARTS[whole], first, 6, reason)]
    assert found.file_size == cut


@pytest.mark.parametrize(("is_compacted", "is_damage"), [(False, True), (True, False)])
def test_offsets_may_be_missing_at_the_end_of_a_compacted_segment_only(
    tmp_path: Path, is_compacted: bool, is_damage: bool
) -> None:
    found = verified(tmp_path, *THREE, next_offset=9, is_compacted=is_compacted)
    assert ranges(found) == ([(SIZE, 0, 6, 9, "the file is cut")] if is_damage else [])
    short = verified(tmp_path, *THREE[:2], next_offset=6, size=SIZE, is_compacted=is_compacted)
    assert ranges(short) == [(STARTS[2], 0, 5, 6, "the file is cut")], "bytes are missing, too"


def test_bytes_behind_the_size_of_the_segment_are_not_looked_at(tmp_path: Path) -> None:
    found = verified(tmp_path, *THREE, b"\xff" * 100, next_offset=6, size=SIZE)
    assert found.found == [] and found.file_size == SIZE + 100


def test_removed_file_lacks_all_offsets_but_a_removed_directory_is_no_damage(tmp_path: Path) -> None:
    folder = tmp_path / "t-0"
    folder.mkdir()
    job = Job(PartitionDirectory(str(folder)), 0, 6, SIZE, False, True)
    found = SegmentVerifier(job)
    assert found.step() == 0 and found.is_done
    assert ranges(found) == [(0, 0, 0, 6, "the file is gone")] and found.file_size is None
    folder.rmdir()
    with pytest.raises(FileNotFoundError):
        SegmentVerifier(job).run()


@pytest.mark.parametrize(
    ("second", "third", "expected"),
    [
        (2, 5, []),
        (3, 5, [(2, 5, "wrong offset")]),
        (2, 4, [(5, 6, "no batch")]),
        (1, 5, [(2, 5, "no batch")]),
    ],
)
def test_batch_that_overlaps_its_neighbours_is_damaged(
    tmp_path: Path, second: int, third: int, expected: list[tuple[int, int, str]]
) -> None:
    """Two whole batches overlap: the wrong one is the one that left a gap before it."""
    found = verified(tmp_path, THREE[0], moved(THREE[1], second), moved(THREE[2], third), next_offset=6)
    assert [one[2:] for one in ranges(found)] == expected


def test_batch_that_follows_a_wrong_offset_is_sound_at_the_start_of_a_piece(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verification, "PIECE_BYTES", STARTS[2])
    found = verified(tmp_path, THREE[0], moved(THREE[1], 3), THREE[2], next_offset=6)
    assert [one[2:] for one in ranges(found)] == [(2, 5, "wrong offset")]


@pytest.mark.parametrize(("magic", "size", "is_old"), [(0, 14, True), (1, 14, True), (1, 13, False), (3, 14, False)])
def test_segment_of_an_old_format_is_not_damaged(tmp_path: Path, magic: int, size: int, is_old: bool) -> None:
    """The start of the broker reports it. Only the first bytes of a segment show the format."""
    message = struct.pack(">qiibB", 0, size, 0, magic, 0) + bytes(60)
    assert bool(verified(tmp_path, message, next_offset=6).found) != is_old
    assert verified(tmp_path, THREE[0], message, next_offset=6).found


def test_large_batch_is_read_as_a_whole(tmp_path: Path, piece: int) -> None:
    large = batch(2, 3, size=5000)
    assert verified(tmp_path, THREE[0], large, THREE[2], next_offset=6).found == []
    found = verified(tmp_path, THREE[0], flipped(large, 9000), THREE[2], next_offset=6)
    assert ranges(found) == [(STARTS[1], len(large), 2, 5, "bad CRC")]


def test_steps_return_the_bytes_that_they_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verification, "PIECE_BYTES", STARTS[1] + 10)
    (tmp_path / f"{NAME}.log").write_bytes(b"".join(THREE))
    verifier = SegmentVerifier(Job(PartitionDirectory(str(tmp_path)), 0, 6, SIZE, False, False))
    sizes = []
    while not verifier.is_done:
        sizes.append(verifier.step())
    assert sizes == [STARTS[1], len(THREE[1]), len(THREE[2]), 0]
    verifier.close()
    verifier.close()


def test_each_step_makes_the_quota_count_something(tmp_path: Path) -> None:
    (tmp_path / f"{NAME}.log").write_bytes(b"\xff" * 100)
    verifier = SegmentVerifier(Job(PartitionDirectory(str(tmp_path)), 0, 6, 100, False, False))
    assert verifier.step() == 100 and not verifier.is_done
    assert verifier.step() == 0 and verifier.is_done


def test_batches_whose_records_cannot_be_read_are_poisoned_and_no_damage(tmp_path: Path) -> None:
    sound = bytearray(batch(2, 3))
    struct.pack_into(">i", sound, 57, 2)  # the count of records
    struct.pack_into(">I", sound, 17, verification.crc32c(memoryview(sound)[21:]))
    found = verified(tmp_path, THREE[0], bytes(sound), THREE[2], next_offset=6)
    assert found.found == []
    assert [(one.base_offset, one.last_offset) for one in found.poisoned] == [(2, 4)]
    many = [moved(bytes(sound), 3 * number) for number in range(MOST_POISONED + 2)]
    assert len(verified(tmp_path, *many, next_offset=3 * len(many)).poisoned) == MOST_POISONED


# ---- indexes

OFFSETS = ((1, 0), (4, STARTS[1]), (5, STARTS[2]))
TIMES = ((5, 1), (7, 5))


def indexed(path: Path, offsets: object = OFFSETS, times: object = TIMES) -> None:
    for suffix, layout, entries in (("index", ">ii", offsets), ("timeindex", ">qi", times)):
        content = b"".join(struct.pack(layout, *one) for one in entries)  # type: ignore[attr-defined]
        (path / f"{NAME}.{suffix}").write_bytes(content)


@pytest.mark.parametrize(
    ("offsets", "times", "is_wrong"),
    [
        (OFFSETS, TIMES, False),
        ((), (), False),
        (OFFSETS[1:2], TIMES[1:], False),
        (((1, 0), (4, STARTS[1]), (5, STARTS[1])), TIMES, True),
        (((0, 0), OFFSETS[1]), TIMES, True),
        (((1, 0), (4, STARTS[1] + 1)), TIMES, True),
        (((1, 0), (3, STARTS[1])), TIMES, True),
        ((OFFSETS[1], OFFSETS[0]), TIMES, True),
        (((1, STARTS[1]), (4, 0)), TIMES, True),
        ((*OFFSETS, (5, SIZE)), TIMES, True),
        ((*OFFSETS, (6, STARTS[2])), TIMES, True),
        (OFFSETS, ((5, 1), (4, 5)), True),
        (OFFSETS, ((5, 5), (7, 1)), True),
        (OFFSETS, ((5, 1), (7, 6)), True),
        (OFFSETS, ((5, 1), (5, 1)), False),
        (OFFSETS, ((-1, 0),), False),
        (((-1, 0),), TIMES, True),
    ],
)
def test_entry_of_an_index_names_the_last_offset_and_the_start_of_a_batch(
    tmp_path: Path, offsets: object, times: object, is_wrong: bool
) -> None:
    indexed(tmp_path, offsets, times)
    assert verified(tmp_path, *THREE, next_offset=6, checks_indexes=True).is_index_wrong == is_wrong
    assert not verified(tmp_path, *THREE, next_offset=6).is_index_wrong, "that of the active segment may be behind"


@pytest.mark.parametrize("suffix", ["index", "timeindex"])
def test_missing_or_cut_index_is_wrong(tmp_path: Path, suffix: str) -> None:
    indexed(tmp_path)
    index = tmp_path / f"{NAME}.{suffix}"
    os.truncate(index, index.stat().st_size - 1)
    assert verified(tmp_path, *THREE, next_offset=6, checks_indexes=True).is_index_wrong
    index.unlink()
    found = verified(tmp_path, *THREE, next_offset=6, checks_indexes=True)
    assert found.is_index_wrong and found.found == []


@pytest.mark.parametrize("bad", [0, 1, 2])
def test_entry_of_a_damaged_batch_stays(tmp_path: Path, piece: int, bad: int) -> None:
    indexed(tmp_path)
    parts = [flipped(one, -1) if number == bad else one for number, one in enumerate(THREE)]
    found = verified(tmp_path, *parts, next_offset=6, checks_indexes=True)
    assert len(found.found) == 1 and not found.is_index_wrong


def test_index_behind_the_end_of_a_cut_file_is_wrong(tmp_path: Path) -> None:
    indexed(tmp_path)
    assert verified(tmp_path, *THREE[:2], next_offset=6, size=SIZE, checks_indexes=True).is_index_wrong


# ---- aborted transactions


def sent(who: int, offset: int, count: int = 1, **kind: object) -> bytes:
    return batch(offset, count, producer_id=who, producer_epoch=0, base_sequence=0, transactional=True, **kind)


def ended(who: int, offset: int, *, committed: bool = False) -> bytes:
    return encode_end_transaction(
        committed, base_offset=offset, timestamp=5, producer_id=who, producer_epoch=0, coordinator_epoch=0
    )


def name(base: int) -> str:
    return f"{base:020}"


def snapshot(path: Path, offset: int, **opened: int) -> None:
    """Writes the producer snapshot at an offset; `p7=3`: a transaction of producer 7 is open from offset 3."""
    entries = [
        ProducerEntry(producer_id=int(who[1:]), epoch=0, current_txn_first_offset=first)
        for who, first in opened.items()
    ]
    (path / f"{name(offset)}.snapshot").write_bytes(encode_snapshot(entries))


def checked(
    path: Path,
    *parts: bytes,
    base: int = 0,
    entries: tuple[AbortedTransaction, ...] = (),
    is_compacted: bool = False,
    earlier: tuple[tuple[int, tuple[bytes, ...]], ...] = (),
) -> SegmentVerifier:
    """Verifies the segment at `base`, whose `.txnindex` has the entries, behind the earlier segments."""
    before = []
    for start, batches in earlier:
        data = b"".join(batches)
        (path / f"{name(start)}.log").write_bytes(data)
        before.append((start, len(data)))
    data = b"".join(parts)
    (path / f"{name(base)}.log").write_bytes(data)
    directory = PartitionDirectory(str(path))
    replace_aborted(directory, base, entries)
    next_offset = base + sum(read_header(one).next_offset - read_header(one).base_offset for one in parts)
    found = SegmentVerifier(Job(directory, base, next_offset, len(data), is_compacted, False, tuple(before))).run()
    assert found.found == [] and read_aborted(directory, base) == list(entries)
    return found


Entry = AbortedTransaction


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ((sent(7, 0), ended(7, 1)), [Entry(7, 0, 1, 2)]),
        ((sent(7, 0), ended(7, 1, committed=True)), []),
        ((batch(0), batch(1, producer_id=7, producer_epoch=0, base_sequence=0)), []),
        ((sent(0, 0), ended(0, 1)), [Entry(0, 0, 1, 2)]),
        ((batch(0), ended(7, 1)), []),
        ((sent(7, 0), sent(7, 1), ended(7, 2)), [Entry(7, 0, 2, 3)]),
        ((sent(7, 0), sent(8, 1), ended(7, 2), ended(8, 3)), [Entry(7, 0, 2, 1), Entry(8, 1, 3, 4)]),
        ((sent(7, 0), sent(8, 1), ended(8, 2), ended(7, 3, committed=True)), [Entry(8, 1, 2, 0)]),
        ((sent(7, 0), ended(7, 1), sent(7, 2), ended(7, 3)), [Entry(7, 0, 1, 2), Entry(7, 2, 3, 4)]),
        ((sent(7, 0), ended(7, 1, committed=True), ended(7, 2)), []),
    ],
)
def test_each_aborted_transaction_has_one_entry(
    tmp_path: Path, parts: tuple[bytes, ...], expected: list[AbortedTransaction]
) -> None:
    """The last stable offset is the first offset of the transactions that are open behind the marker, or the end."""
    found = checked(tmp_path, *parts)
    assert (found.aborted, found.is_aborted_wrong) == (expected, bool(expected))
    found = checked(tmp_path, *parts, entries=tuple(expected))
    assert (found.aborted, found.is_aborted_wrong) == (expected, False)


def test_snapshot_at_the_base_offset_names_the_open_transactions(tmp_path: Path) -> None:
    snapshot(tmp_path, 10, p7=3, p8=5, p9=-1)
    parts = (sent(9, 10), ended(8, 11), ended(7, 12), ended(9, 13))
    expected = [Entry(8, 5, 11, 3), Entry(7, 3, 12, 10), Entry(9, 10, 13, 14)]
    assert checked(tmp_path, *parts, base=10).aborted == expected
    assert not checked(tmp_path, *parts, base=10, entries=tuple(expected)).is_aborted_wrong
    later = (expected[0]._replace(first_offset=6), *expected[1:])
    assert checked(tmp_path, *parts, base=10, entries=later).aborted == expected
    (tmp_path / f"{name(10)}.snapshot").write_bytes(b"not a snapshot")
    assert checked(tmp_path, *parts, base=10).aborted == [Entry(9, 10, 13, 0)]


def test_transaction_without_a_snapshot_begins_in_an_earlier_segment(tmp_path: Path) -> None:
    earlier = (
        (0, (sent(6, 0), ended(6, 1), sent(8, 2), batch(3))),
        (4, (sent(7, 4), sent(8, 5), sent(6, 6), ended(6, 7, committed=True), batch(8), batch(9))),
    )
    parts = (sent(6, 10), ended(7, 11), ended(8, 12), ended(6, 13))
    found = checked(tmp_path, *parts, base=10, earlier=earlier)
    assert found.aborted == [Entry(7, 4, 11, 0), Entry(8, 2, 12, 0), Entry(6, 10, 13, 0)]
    right = (Entry(7, 4, 11, 2), Entry(8, 2, 12, 10), Entry(6, 10, 13, 14))
    assert not checked(tmp_path, *parts, base=10, earlier=earlier, entries=right).is_aborted_wrong
    for number, wrong in (
        (0, Entry(7, 3, 11, 2)), (0, Entry(7, 5, 11, 2)), (0, Entry(7, 4, 11, 3)),
        (1, Entry(8, 1, 12, 10)), (1, Entry(8, 2, 12, 11)), (2, Entry(6, 9, 13, 14)),
    ):  # fmt: skip
        entries = (*right[:number], wrong, *right[number + 1 :])
        assert checked(tmp_path, *parts, base=10, earlier=earlier, entries=entries).is_aborted_wrong, wrong
    behind = checked(tmp_path, *parts, base=10, earlier=earlier[1:])
    assert behind.aborted == [Entry(7, 4, 11, 0), Entry(8, 5, 12, 0), Entry(6, 10, 13, 0)], "as far as is known"
    snapshot(tmp_path, 4, p8=1)
    behind = checked(tmp_path, *parts, base=10, earlier=earlier[1:])
    assert behind.aborted is not None and behind.aborted[1] == Entry(8, 1, 12, 0)


def test_earlier_segments_are_read_up_to_their_first_damage(tmp_path: Path) -> None:
    """The batches behind it are not known, so that an entry of an earlier beginning may be right."""
    first, second = sent(7, 0), sent(8, 1)
    parts = (ended(7, 2), ended(8, 3))
    entries = (Entry(7, 0, 2, 1), Entry(8, 1, 3, 4))
    whole, damaged = ((0, (first, second)),), ((0, (first, b"\xff" * len(second))),)
    assert not checked(tmp_path, *parts, base=2, earlier=whole, entries=entries).is_aborted_wrong
    assert checked(tmp_path, *parts, base=2, earlier=whole, entries=(entries[0], Entry(8, 0, 3, 4))).is_aborted_wrong
    assert checked(tmp_path, *parts, base=2, earlier=damaged).aborted == [Entry(7, 0, 2, 0)]


def test_entry_stays_in_a_compacted_segment_while_records_of_it_are_left(tmp_path: Path) -> None:
    """Compaction keeps a batch without records for the last sequence of a producer."""
    emptied = encode_batch(
        [], base_offset=0, last_offset=0, leader_epoch=2, producer_id=7, producer_epoch=0, base_sequence=0,
        transactional=True,
    )  # fmt: skip
    assert checked(tmp_path, emptied, ended(7, 1), is_compacted=True).aborted == []
    assert checked(tmp_path, emptied, ended(7, 1)).aborted == [Entry(7, 0, 1, 2)]
    assert checked(tmp_path, emptied, sent(7, 1), ended(7, 2), is_compacted=True).aborted == [Entry(7, 0, 2, 3)]


def test_entries_of_a_damaged_segment_stay_where_they_can_be_right(tmp_path: Path) -> None:
    """The marker of the first transaction may be in the damage, so its entry stays; and it is open as far as is known."""
    directory = PartitionDirectory(str(tmp_path))
    parts = (sent(7, 0), flipped(ended(7, 1), -1), sent(8, 2), ended(8, 3))
    entries = [Entry(7, 0, 1, 2), Entry(8, 2, 3, 4)]
    replace_aborted(directory, 0, entries)
    found = verified(tmp_path, *parts, next_offset=4, checks_indexes=True)
    assert len(found.found) == 1 and found.aborted is None and not found.is_aborted_wrong
    replace_aborted(directory, 0, [entries[0], entries[1]._replace(last_offset=4)])
    found = verified(tmp_path, *parts, next_offset=4, checks_indexes=True)
    assert found.aborted == [entries[0], entries[1]._replace(last_stable_offset=0)] and found.is_aborted_wrong


# ---- any damage


#: Six batches of two to seven records.
SIX = [batch(sum(range(2, 2 + number)), 2 + number, size=1 + 20 * number) for number in range(6)]
BEGINS = [sum(map(len, SIX[:number])) for number in range(7)]
#: Behind the size, the magic and the last offset of a header: those are believed as far as the next batch agrees.
COVERED_FROM = 27


def offsets_of(number: int) -> range:
    header = read_header(SIX[number])
    return range(header.base_offset, header.next_offset)


@given(
    number=st.integers(0, 5),
    begin=st.integers(COVERED_FROM, 100),
    last=st.integers(0, 5),
    end=st.one_of(st.just(0), st.integers(COVERED_FROM + 1, 100)),
    piece=st.sampled_from([61, 100, 300, 1 << 18]),
    zeros=st.booleans(),
    is_compacted=st.booleans(),
)
@example(number=0, begin=27, last=1, end=0, piece=61, zeros=False, is_compacted=False)
@example(number=5, begin=27, last=5, end=60, piece=61, zeros=False, is_compacted=False)
@example(number=0, begin=27, last=5, end=0, piece=61, zeros=True, is_compacted=False)
def test_damaged_ranges_have_the_offsets_of_the_damaged_batches_alone(
    tmp_path_factory: pytest.TempPathFactory,
    number: int,
    begin: int,
    last: int,
    end: int,
    piece: int,
    zeros: bool,
    is_compacted: bool,
) -> None:
    """Bytes from one batch up to another, or the same, are zeros or inverted; `end` 0 is the end of a batch."""
    last = max(number, last)
    stop = BEGINS[last + 1] if end == 0 else BEGINS[last] + min(end, len(SIX[last]))
    start = min(BEGINS[number] + begin, stop - 1)
    data = b"".join(SIX)
    changed = bytes(stop - start) if zeros else bytes(byte ^ 0xFF for byte in data[start:stop])
    damaged = data[:start] + changed + data[stop:]
    bad = [n for n in range(6) if data[BEGINS[n] : BEGINS[n + 1]] != damaged[BEGINS[n] : BEGINS[n + 1]]]
    # A batch that ends in zeros is not damaged by zeros: the damage begins in the header of the next one.
    first = next((place for place in range(start, stop) if data[place] != damaged[place]), start)
    assume(not bad or first >= BEGINS[bad[0]] + COVERED_FROM)
    next_offset = offsets_of(5).stop
    path = tmp_path_factory.mktemp("segment")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(verification, "PIECE_BYTES", piece)
        found = verified(path, damaged, next_offset=next_offset, is_compacted=is_compacted)
    covered = [offset for one in found.found for offset in range(one.first_offset, one.next_offset)]
    assert covered == [offset for n in bad for offset in offsets_of(n)]
    places = [(one.position, one.position + one.size) for one in found.found]
    assert places == sorted(places) and all(begin < end <= len(data) for begin, end in places)
    assert {n for n in range(6) for begin, end in places if begin < BEGINS[n + 1] and end > BEGINS[n]} == set(bad)


@pytest.mark.parametrize("left", [0, 10, 16, 17, 60, 61])
def test_file_that_is_cut_while_it_is_verified_is_damaged_from_there(tmp_path: Path, left: int) -> None:
    path = tmp_path / f"{NAME}.log"
    path.write_bytes(THREE[0] + b"\xff" * len(THREE[1]) + THREE[2])
    verifier = SegmentVerifier(Job(PartitionDirectory(str(tmp_path)), 0, 6, SIZE, False, False))
    assert verifier._open()
    os.truncate(path, STARTS[1] + left)
    assert [(one.first_offset, one.next_offset) for one in verifier.run().found] == [(2, 6)]


@pytest.mark.parametrize(
    ("offsets", "times", "is_right"),
    [
        ([(2, 1), (5, 2)], [(5, 2)], True),
        ([(2, 1), (5, 2)], [(5, 2), (5, 5)], True),
        ([(2, 1), (5, 2)], [(5, 2), (4, 5)], False),
        ([(5, 2), (2, 1)], [], False),
        ([(2, 2), (5, 1)], [], False),
        ([(2, 1), (6, 2)], [], False),
        ([(2, 1)], [(5, 6)], False),
        ([(-2, 1)], [], False),
        ([(2, -1)], [], False),
        ([(2, 1)], [(-1, 0)], True),
    ],
)
def test_index_whose_entries_do_not_ascend_within_the_segment_is_wrong(
    tmp_path: Path, offsets: list[tuple[int, int]], times: list[tuple[int, int]], is_right: bool
) -> None:
    """The segment has batches of one record and one size, of the offsets 0, 2 and 5. Positions count these."""
    made = [batch(0), batch(2), batch(5)]
    size = len(made[0])
    entries = b"".join(struct.pack(">ii", relative, position * size) for relative, position in offsets)
    (tmp_path / f"{NAME}.index").write_bytes(entries)
    (tmp_path / f"{NAME}.timeindex").write_bytes(b"".join(struct.pack(">qi", *one) for one in times))
    found = verified(tmp_path, *made, next_offset=6, is_compacted=True, checks_indexes=True)
    assert found.is_index_wrong != is_right and not found.found
