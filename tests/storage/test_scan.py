"""A scan of one file: the whole batches in it, their indexes, and the holes, at each boundary of the reads."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from odradek.protocol.records.record import Record, encode_batch
from odradek.storage.segments import batches as segment_batches
from odradek.storage.segments import resync
from odradek.storage.segments.batches import scan

INTERVAL = 100


def batch(offset: int, count: int = 1, *, timestamp: int = 5, last: int | None = None, epoch: int = 2) -> bytes:
    """Returns a batch; one without records is a header only, as compaction leaves it for a producer's last sequence."""
    records = [Record(offset + number, timestamp, b"k", b"v") for number in range(count)]
    end = offset + max(count, 1) - 1 if last is None else last
    return encode_batch(
        records,
        base_offset=offset,
        last_offset=end,
        leader_epoch=epoch,
        producer_id=7,
        producer_epoch=0,
        base_sequence=0,
    )


def written(path: Path, *batches: bytes) -> tuple[str, int]:
    data = b"".join(batches)
    path.write_bytes(data)
    return str(path), len(data)


def offsets(data: bytes) -> list[tuple[int, int]]:
    return list(struct.iter_unpack(">ii", data))


def times(data: bytes) -> list[tuple[int, int]]:
    return list(struct.iter_unpack(">qi", data))


@pytest.mark.parametrize("chunk", [61, 62, 100, 1 << 20])
@pytest.mark.parametrize("verify", [True, False])
def test_header_only_batches_are_whole_wherever_they_are(
    chunk: int, verify: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (segment_batches, resync):
        monkeypatch.setattr(module, "CHUNK_BYTES", chunk)
    path, size = written(tmp_path / "f", batch(0, 2), batch(2, 0, last=4), batch(5), batch(6, 0), batch(7, 0, last=9))
    seen: list[tuple[int, int]] = []
    found = scan(
        path, 0, size, INTERVAL, lambda _at, header, view: seen.append((header.base_offset, len(view))), verify=verify
    )
    assert (found.size, found.next_offset, found.holes) == (size, 10, ())
    assert [offset for offset, _ in seen] == [0, 2, 5, 6, 7] and sum(length for _, length in seen) == size


def test_file_that_ends_inside_a_batch_ends_with_the_last_whole_one(tmp_path: Path) -> None:
    first, second = batch(0, 2), batch(2, 0)
    path, size = written(tmp_path / "f", first, second)
    for cut in range(size + 1):
        found = scan(path, 0, cut, INTERVAL)
        whole = 2 if cut == size else int(cut >= len(first))
        assert (found.size, found.next_offset) == [(0, 0), (len(first), 2), (size, 3)][whole]
        assert found.holes == ()


def test_indexes_have_an_entry_for_each_interval_and_growing_times(tmp_path: Path) -> None:
    batches = [batch(100 + number, timestamp=stamp) for number, stamp in enumerate((5, 9, 9, 7, 12, 3))]
    length = len(batches[0])
    path, size = written(tmp_path / "f", *batches)
    found = scan(path, 100, size, 2 * length - 1)
    assert offsets(found.offset_index) == [(2, 2 * length), (4, 4 * length)]
    assert times(found.time_index) == [(9, 1), (12, 4)]
    assert (found.max_timestamp, found.offset_of_max_timestamp) == (12, 104)
    found = scan(path, 100, size, 2 * length)
    assert offsets(found.offset_index) == [(3, 3 * length)], "more than an interval"
    assert times(found.time_index) == [(9, 1), (12, 4)]
    found = scan(path, 100, 2 * length, 1 << 20)
    assert (offsets(found.offset_index), times(found.time_index)) == ([], [(9, 1)])
    assert scan(path, 100, 0, INTERVAL).max_timestamp == -1


@pytest.mark.parametrize(
    ("second", "limit", "taken"),
    [
        (batch(2, 3), 5, True),
        (batch(2, 4), 5, False),
        (batch(1, 2), 1 << 62, False),
        (batch(4), 1 << 62, True),
        (batch((1 << 31) - 1), 1 << 62, True),
        (batch(1 << 31), 1 << 62, False),
    ],
)
def test_offsets_stay_in_order_and_within_the_segment(second: bytes, limit: int, taken: bool, tmp_path: Path) -> None:
    first = batch(0, 2)
    path, size = written(tmp_path / "f", first, second)
    found = scan(path, 0, size, INTERVAL, limit_offset=limit)
    assert found.size == (size if taken else len(first))


@pytest.mark.parametrize(("is_dense", "holes"), [(False, []), (True, [(2, 6)])])
def test_missing_offsets_are_a_hole_in_a_log_that_leaves_none_out(
    is_dense: bool, holes: list[tuple[int, int]], tmp_path: Path
) -> None:
    path, size = written(tmp_path / "f", batch(0, 2), batch(5), batch(6))
    found = scan(path, 0, size, INTERVAL, is_dense=is_dense)
    assert (found.next_offset, found.size) == (7, size)
    assert [(hole.first_offset, hole.next_offset) for hole in found.holes] == holes


@pytest.mark.parametrize(
    ("offset", "is_misplaced"),
    [(2, False), (3, True), (4, True), (9, True)],
)
def test_batch_with_a_damaged_offset_is_known_by_the_next_one(offset: int, is_misplaced: bool, tmp_path: Path) -> None:
    """No CRC covers the offset of a batch. The one after it has an offset that it would have left out."""
    path, size = written(tmp_path / "f", batch(0, 2), batch(offset), batch(3), batch(4))
    found = scan(path, 0, size, INTERVAL)
    assert found.next_offset == 5 and found.size == size
    assert bool(found.holes) == is_misplaced
    if is_misplaced:
        (hole,) = found.holes
        assert (hole.first_offset, hole.next_offset, hole.reason) == (2, 3, "offsets out of order")


@pytest.mark.parametrize("bad", [0, 1, 2])
@pytest.mark.parametrize("verify", [True, False])
def test_batch_with_a_wrong_crc_is_a_hole_or_the_end(bad: int, verify: bool, tmp_path: Path) -> None:
    batches = [bytearray(batch(number)) for number in range(3)]
    batches[bad][-1] ^= 1
    path, size = written(tmp_path / "f", *map(bytes, batches))
    found = scan(path, 0, size, INTERVAL, verify=verify)
    length = len(batches[0])
    if not verify:
        assert (found.size, found.next_offset, found.holes) == (size, 3, ())
    elif bad == 2:
        assert (found.size, found.next_offset, found.holes) == (2 * length, 2, ())
    else:
        (hole,) = found.holes
        assert (hole.position, hole.size, hole.first_offset, hole.next_offset) == (bad * length, length, bad, bad + 1)
        assert (found.size, found.next_offset) == (size, 3)


SIX = [batch(sum(range(2, 2 + number)), 2 + number) for number in range(6)]
BEGINS = [sum(map(len, SIX[:number])) for number in range(7)]
FIRSTS = [sum(range(2, 2 + number)) for number in range(7)]


@given(
    number=st.integers(0, 5), begin=st.integers(27, 90), last=st.integers(0, 5),
    end=st.one_of(st.just(0), st.integers(28, 90)), chunk=st.sampled_from([61, 62, 100, 150, 1 << 20]),
)  # fmt: skip
def test_damaged_batches_before_a_whole_one_are_one_hole(
    tmp_path_factory: pytest.TempPathFactory, number: int, begin: int, last: int, end: int, chunk: int
) -> None:
    """Bytes from one batch up to another, or the same, are inverted; `end` 0 is the end of a batch."""
    last = max(number, last)
    stop = BEGINS[last + 1] if end == 0 else BEGINS[last] + min(end, len(SIX[last]))
    start = min(BEGINS[number] + begin, stop - 1)
    data = b"".join(SIX)
    damaged = data[:start] + bytes(byte ^ 0xFF for byte in data[start:stop]) + data[stop:]
    bad = [n for n in range(6) if data[BEGINS[n] : BEGINS[n + 1]] != damaged[BEGINS[n] : BEGINS[n + 1]]]
    path, size = written(tmp_path_factory.mktemp("segment") / "f", damaged)
    with pytest.MonkeyPatch.context() as patch:
        for module in (segment_batches, resync):
            patch.setattr(module, "CHUNK_BYTES", chunk)
        patch.setattr(resync, "_ZEROS", bytes(chunk))
        found = scan(path, 0, size, INTERVAL)
    if bad[-1] == 5:
        assert (found.size, found.next_offset, found.holes) == (BEGINS[bad[0]], FIRSTS[bad[0]], ())
    else:
        (hole,) = found.holes
        assert (hole.position, hole.position + hole.size) == (BEGINS[bad[0]], BEGINS[bad[-1] + 1])
        assert (hole.first_offset, hole.next_offset) == (FIRSTS[bad[0]], FIRSTS[bad[-1] + 1])
        assert (found.size, found.next_offset) == (size, FIRSTS[6])
