"""Appending, reading, rolling and truncating a log."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest
from odradek.protocol.records.batch import iter_headers
from odradek.storage.files.open_files import OpenFiles
from odradek.storage.files.page_cache import pread_nowait
from odradek.storage.log.config import LogConfig
from odradek.storage.log.log import OffsetOutOfRange
from odradek.storage.segments.damage import SegmentSuspected
from odradek.storage.segments.slices import LogSlice

from tests.harness.examples import examples
from tests.harness.patches import patch_for_this_thread

SMALL = LogConfig(segment_bytes=20_000, index_interval_bytes=500)


def fill(logbook, log, count, seed=0):
    """Appends `count` batches of different sizes. Returns their bytes."""
    rng = random.Random(seed)
    return b"".join(
        logbook.append(log, *(rng.randbytes(rng.randrange(300)) for _ in range(rng.randrange(1, 5))))
        for _ in range(count)
    )


def test_appended_bytes_are_read_back(logbook):
    log = logbook.open(SMALL)
    written = fill(logbook, log, 300)
    assert len(log.segments) > 3
    assert logbook.read_all(log) == written
    assert logbook.read_all(log, max_bytes=1) == written
    assert logbook.read_all(log, max_bytes=3000) == written
    assert log.size == len(written)


def test_a_read_from_any_offset_starts_with_the_batch_that_contains_it(logbook):
    log = logbook.open(SMALL)
    written = fill(logbook, log, 200)
    starts = {}
    for position, header in iter_headers(written):
        for offset in range(header.base_offset, header.next_offset):
            starts[offset] = position, header
    for offset in random.Random(1).sample(sorted(starts), len(starts)):
        position, header = starts[offset]
        piece = log.read(offset, 1)
        assert piece.bytes() == written[position : position + header.size]
        assert piece.next_offset == header.next_offset


def test_a_read_takes_whole_batches_only_and_as_many_as_fit(logbook):
    log = logbook.open(LogConfig(index_interval_bytes=500))
    written = fill(logbook, log, 100)
    ends = [position + header.size for position, header in iter_headers(written)]
    for size in range(0, 12_000, 37):
        expected = max((end for end in ends if end <= size), default=0)
        assert log.read(0, size, min_one_batch=False).size == expected
        assert log.read(0, size).size == max(expected, ends[0])


def test_nothing_is_read_at_or_past_the_offset_that_the_reader_may_see(logbook):
    log = logbook.open(SMALL)
    written = fill(logbook, log, 60)
    headers = [header for _, header in iter_headers(written)]
    for limit in range(log.log_end_offset + 1):
        seen = sum(header.size for header in headers if header.next_offset <= limit)
        at, size = 0, 0
        while True:
            piece = log.read(at, 1 << 20, limit)
            if not piece.size:
                break
            size, at = size + piece.size, piece.next_offset
        assert size == seen, f"up to offset {limit}"


def test_reader_that_took_a_part_continues_without_a_search(logbook):
    log = logbook.open(LogConfig(index_interval_bytes=100_000))
    written = fill(logbook, log, 100)
    headers = [header for _, header in iter_headers(written)]
    reads = []

    def counted(fd, size, position):
        reads.append(position)
        return os.pread(fd, size, position)

    found = log.read(0, 1 << 20)
    size = sum(header.size for header in headers[:40])
    log.remember(LogSlice(found.file, 0, size, 0, headers[40].base_offset, found.segment_base_offset))
    assert log.read(headers[40].base_offset, 1 << 20, pread=counted).position == size
    assert not reads
    assert log.read(headers[41].base_offset, 1 << 20, pread=counted).position == size + headers[40].size
    assert reads


def test_a_first_batch_larger_than_the_limit_is_not_given_when_it_reaches_past_the_visible_end(logbook):
    log = logbook.open()
    logbook.append(log, b"a", b"b", b"c")
    assert log.read(0, 1, 2).size == 0
    assert log.read(1, 1, 2).bytes() == b""


def test_an_offset_outside_of_the_log_is_refused(logbook):
    log = logbook.open()
    logbook.append(log, b"a", b"b")
    assert log.advance_log_start_offset(1)
    with pytest.raises(OffsetOutOfRange):
        log.read(0, 100)
    with pytest.raises(OffsetOutOfRange):
        log.read(3, 100)
    assert log.read(2, 100).size == 0


def test_reads_that_may_not_wait_find_fresh_data(logbook):
    log = logbook.open(SMALL)
    written = fill(logbook, log, 20)
    piece = log.read(0, 1 << 20, pread=pread_nowait)
    assert bytes(piece.bytes_nowait() or b"") == written[: piece.size]


def test_a_slice_stays_readable_after_its_segment_is_gone(logbook):
    log = logbook.open()
    written = fill(logbook, log, 5)
    piece = log.read(0, 1 << 20)
    log.truncate_fully_and_start_at(0, logbook.now_ms)
    assert piece.bytes() == written


def test_few_descriptors_serve_many_segments(logbook):
    files = OpenFiles(limit=3)
    log = logbook.open(LogConfig(segment_bytes=2000), files=files)
    written = fill(logbook, log, 100)
    assert len(log.segments) > 20
    for seed in range(3):
        offsets = list(range(log.log_end_offset))
        random.Random(seed).shuffle(offsets)
        for offset in offsets[:100]:
            assert log.read(offset, 1).size
        assert len(files) <= 3
        assert sum(segment._file is not None for segment in log.segments) <= 3
    assert logbook.read_all(log) == written


def test_log_without_records_has_no_files_and_opens_again(logbook):
    log = logbook.open()
    log.epochs.assign(3, 0)
    assert log.size == 0 and not list(logbook.path.iterdir())
    crashed = logbook.open()
    assert (crashed.log_start_offset, crashed.log_end_offset) == (0, 0) and not crashed.damage.ranges
    crashed.close(logbook.now_ms)
    assert not list(logbook.path.iterdir()), "a stop writes nothing for it"
    again = logbook.open(clean=True)
    logbook.append(again, b"first")
    assert {path.suffix for path in logbook.path.iterdir()} == {".log", ".index", ".timeindex"}
    assert logbook.values(logbook.open()) == [(0, b"first")]


def test_crash_between_first_files_of_log_loses_nothing(logbook, monkeypatch):
    for count in (1, 2, 3):
        log, opened = logbook.open(), []
        make = os.open

        def crash(path, *rest, make=make, opened=opened, count=count, **options):
            if str(path).endswith(("log", "index")) and len(opened) == count:
                raise KeyboardInterrupt
            opened.append(path)
            return make(path, *rest, **options)

        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch_for_this_thread(patch, os, "open", crash)
            logbook.append(log, b"lost")
        again = logbook.open()
        assert (again.log_start_offset, again.log_end_offset) == (0, 0) and not again.damage.ranges
        for path in logbook.path.iterdir():
            path.unlink()


def test_reader_of_five_thousand_partitions_finds_their_files_open():
    class Owner:
        used, releases = True, 0

        def release_file(self):
            self.releases += 1

    files, owners = OpenFiles(), [Owner() for _ in range(5000)]
    for owner in owners:
        files.admit(owner)
    assert len(files) == 5000 and not any(owner.releases for owner in owners)


def test_a_segment_is_rolled_when_a_batch_does_not_fit(logbook):
    log = logbook.open(LogConfig(segment_bytes=1000))
    first = logbook.append(log, b"x" * 800)
    logbook.append(log, b"y" * 200)
    assert [segment.base_offset for segment in log.segments] == [0, 1]
    assert log.segments[0].size == len(first)


def test_a_batch_larger_than_a_segment_is_taken_by_an_empty_one(logbook):
    log = logbook.open(LogConfig(segment_bytes=1000))
    logbook.append(log, b"x" * 5000)
    logbook.append(log, b"x" * 5000)
    assert [segment.base_offset for segment in log.segments] == [0, 1]


def test_a_segment_is_rolled_by_the_time_of_its_records(logbook):
    log = logbook.open(LogConfig(segment_ms=1000))
    logbook.append(log, b"a", at=10_000)
    logbook.append(log, b"b", at=11_000)
    logbook.append(log, b"c", at=11_001)
    assert [segment.base_offset for segment in log.segments] == [0, 2]


def test_jitter_makes_segments_roll_early(logbook):
    log = logbook.open(LogConfig(segment_ms=1000, segment_jitter_ms=400), jitter=0.5)
    logbook.append(log, b"a", at=10_000)
    logbook.append(log, b"b", at=10_800)
    logbook.append(log, b"c", at=10_801)
    assert [segment.base_offset for segment in log.segments] == [0, 2]


def test_a_segment_of_records_without_time_is_rolled_by_its_own_age(logbook):
    log = logbook.open(LogConfig(segment_ms=1000))
    log.append(logbook.batch(0, [b"a"], at=-1), None, logbook.now_ms)
    log.append(logbook.batch(1, [b"a"], at=-1), None, logbook.now_ms + 1000)
    log.append(logbook.batch(2, [b"a"], at=-1), None, logbook.now_ms + 1001)
    assert [segment.base_offset for segment in log.segments] == [0, 2]


def test_a_segment_is_rolled_when_its_index_is_full(logbook):
    log = logbook.open(LogConfig(segment_index_bytes=24, index_interval_bytes=10))
    for _ in range(6):
        logbook.append(log, b"x" * 100)
    # Room for three offset entries, but only two time entries. The last one is reserved for the end of the segment.
    assert [segment.base_offset for segment in log.segments] == [0, 2, 4]


def test_a_segment_is_rolled_when_an_offset_does_not_fit_its_index(logbook):
    log = logbook.open()
    logbook.append(log, b"a")
    log.append(logbook.batch(1 + 0x7FFFFFFF, [b"far"]), None, logbook.now_ms)
    assert [segment.base_offset for segment in log.segments] == [0, 1 + 0x7FFFFFFF]
    assert logbook.values(log) == [(0, b"a"), (1 + 0x7FFFFFFF, b"far")]


@pytest.mark.parametrize("seed", range(examples(4)))
def test_after_truncation_the_log_is_what_it_was_before_those_records(logbook, seed):
    log = logbook.open(SMALL)
    written = fill(logbook, log, 100, seed)
    rng = random.Random(seed)
    for _ in range(6):
        headers = list(iter_headers(written))
        offset = rng.randrange(log.log_end_offset)
        position, header = next((p, h) for p, h in headers if h.next_offset > offset)
        end = log.end_before(offset)
        log.truncate_to(offset, logbook.now_ms)
        assert log.log_end_offset == end == header.base_offset <= offset, "the batch goes whole"
        written = written[:position]
        assert logbook.read_all(log) == written
        written += fill(logbook, log, 10, seed)
        assert logbook.read_all(log) == written


@pytest.mark.parametrize("seed", range(examples(8)))
def test_slice_that_was_read_before_a_truncation_never_holds_what_was_written_after_it(logbook, seed):
    """A response may be sent long after its batches were found."""
    rng = random.Random(seed)
    log = logbook.open(SMALL if seed % 2 else LogConfig())
    fill(logbook, log, 30, seed)
    unsent = []
    for _ in range(8):
        for offset in (log.log_start_offset, rng.randrange(log.log_end_offset), log.log_end_offset - 1):
            slice_ = log.read(offset, rng.choice((100, 1000, 1 << 20)))
            unsent.append((slice_, slice_.bytes()))
        log.truncate_to(rng.choice((log.segments[-1].base_offset, rng.randrange(log.log_end_offset))), logbook.now_ms)
        fill(logbook, log, rng.randrange(1, 20), rng.random())
        for slice_, content in unsent:
            try:
                assert slice_.bytes() == content
            except SegmentSuspected:
                assert slice_.file is not None


def test_truncation_to_before_the_log_leaves_an_empty_one_there(logbook):
    log = logbook.open(log_start_offset=100)
    fill(logbook, log, 5)
    log.truncate_to(50, logbook.now_ms)
    assert (log.log_start_offset, log.log_end_offset, log.size) == (50, 50, 0)


def test_new_log_starts_at_the_given_offset(logbook):
    log = logbook.open(log_start_offset=1000)
    assert (log.log_start_offset, log.log_end_offset) == (1000, 1000)
    logbook.append(log, b"first")
    assert logbook.values(log) == [(1000, b"first")]


def test_leader_epochs_are_learnt_from_the_batches(logbook):
    log = logbook.open()
    for epoch in (0, 0, 3, 5):
        logbook.append(log, b"a", b"b", leader_epoch=epoch)
    assert log.epochs.entries() == [(0, 0), (3, 4), (5, 6)]
    assert [log.epoch_end_offset(epoch) for epoch in (-1, 0, 1, 3, 4, 5, 6)] == [
        (-1, -1), (0, 4), (0, 4), (3, 6), (3, 6), (5, 8), (-1, -1),
    ]  # fmt: skip
    log.truncate_to(6, logbook.now_ms)
    assert log.epochs.entries() == [(0, 0), (3, 4)]
    log.advance_log_start_offset(3)
    assert log.epochs.entries() == [(0, 3), (3, 4)]


def test_a_changed_configuration_acts_on_the_next_append(logbook):
    log = logbook.open()
    logbook.append(log, b"x" * 500, at=1000)
    logbook.append(log, b"x" * 500, at=5000)
    log.config = LogConfig(segment_bytes=1500)
    logbook.append(log, b"x" * 500, at=6000)
    assert [segment.base_offset for segment in log.segments] == [0, 2]
    log.config = LogConfig(segment_ms=100)
    logbook.append(log, b"x", at=6100)
    logbook.append(log, b"x", at=6101)
    assert [segment.base_offset for segment in log.segments] == [0, 2, 4]
    log.roll(logbook.now_ms)
    logbook.append(log, b"x", at=9000)
    logbook.append(log, b"x", at=9100)
    assert [segment.base_offset for segment in log.segments] == [0, 2, 4, 5]
    log.truncate_to(6, logbook.now_ms)
    logbook.append(log, b"x", at=9101)
    assert [segment.base_offset for segment in log.segments] == [0, 2, 4, 5, 6]


def test_a_flush_waits_for_data_indexes_epochs_and_the_directory(logbook, monkeypatch):
    log = logbook.open(LogConfig(segment_bytes=1000, index_interval_bytes=50))
    for _ in range(6):
        logbook.append(log, b"x" * 200)
    assert len(log.segments) == 2
    synced = []
    for name in ("fsync", "fdatasync"):
        call = getattr(os, name)
        monkeypatch.setattr(
            os, name, lambda fd, call=call: (synced.append(Path(f"/proc/self/fd/{fd}").readlink()), call(fd))
        )
    assert log.flush_due(logbook.now_ms) == log.active.base_offset, "the segment that was rolled"
    log.flush(logbook.now_ms, log.active.base_offset)
    names = {path.name for path in synced}
    inactive = f"{0:020d}"
    epochs = "leader-epoch-checkpoint.1.tmp"
    log_directory = Path(log.path).parent.name  # at the first flush
    assert names == {f"{inactive}.log", f"{inactive}.index", f"{inactive}.timeindex", epochs, "t-0", log_directory}
    assert log.recovery_point == log.active.base_offset
    assert log.flush_due(logbook.now_ms) is None
    log.config = LogConfig(flush_messages=1)
    assert log.flush_due(logbook.now_ms) == 6
    log.config = LogConfig(flush_ms=1000)
    assert log.flush_due(logbook.now_ms + 999) is None
    assert log.flush_due(logbook.now_ms + 1000) == 6
    log.epochs.assign(9, 6)
    log.flush(logbook.now_ms)
    assert [path.name for path in synced if "epoch" in path.name] == [epochs], "nothing was written in the new epoch"
    assert log.recovery_point == 6
    logbook.append(log, b"x", leader_epoch=9)
    log.flush(logbook.now_ms)
    assert sum("epoch" in path.name for path in synced) == 2


def test_first_flush_of_a_directory_or_of_its_new_name_syncs_the_log_directory(logbook, monkeypatch):
    log = logbook.open()
    synced = []
    real = os.fsync
    monkeypatch.setattr(os, "fsync", lambda fd: (synced.append(Path(f"/proc/self/fd/{fd}").readlink()), real(fd)))

    def syncs_of_the_log_directory() -> int:
        synced.clear()
        logbook.append(log, b"x")
        log.flush(logbook.now_ms)
        return synced.count(Path(log.path).parent)

    assert [syncs_of_the_log_directory() for _ in range(3)] == [1, 0, 0]
    log.move_to(f"{log.path}.moved")
    assert [syncs_of_the_log_directory() for _ in range(2)] == [1, 0]


def test_a_log_that_was_led_and_not_written_to_is_closed_without_touching_the_disk(logbook, monkeypatch):
    log = logbook.open()
    logbook.append(log, b"x")
    log.close(logbook.now_ms)
    again = logbook.open(clean=True)
    again.epochs.assign(7, again.log_end_offset)
    assert not again.is_unflushed
    patch_for_this_thread(monkeypatch, os, "open", lambda *given: pytest.fail(f"opened {given}"))
    again.close(logbook.now_ms)
    monkeypatch.undo()
    last = logbook.open(clean=True)
    assert last.epochs.entries() == [(0, 0)]
    last.epochs.assign(8, 1)
    logbook.append(last, b"y", leader_epoch=8)
    last.close(logbook.now_ms)
    assert logbook.open(clean=True).epochs.entries() == [(0, 0), (8, 1)]


def test_truncation_of_epochs_is_written_at_once(logbook):
    log = logbook.open()
    logbook.append(log, b"a", leader_epoch=1)
    logbook.append(log, b"b", leader_epoch=2)
    log.flush(logbook.now_ms)
    log.truncate_to(1, logbook.now_ms)
    logbook.append(log, b"c", leader_epoch=1)
    assert logbook.open(recovery_point=1).epochs.entries() == [(1, 0)]


LARGE = bytes(5 << 19)


def large_batch(logbook, log):
    batch = bytearray(logbook.batch(log.log_end_offset, [LARGE]))
    return batch, next(header for _, header in iter_headers(batch))


def test_large_batch_written_ahead_appears_with_its_append(logbook):
    log = logbook.open()
    logbook.append(log, b"before")
    batch, header = large_batch(logbook, log)
    size = log.size
    assert [log.write_ahead(batch, header, logbook.now_ms) for _ in range(2)] == [False, True]
    assert (log.log_end_offset, log.size) == (1, size)
    log.append(batch, (header,), logbook.now_ms)
    assert logbook.values(log) == [(0, b"before"), (1, LARGE)]
    assert Path(log.active.path).stat().st_size == log.size


def test_crash_amid_parts_of_a_large_batch_loses_only_that_batch(logbook):
    log = logbook.open()
    logbook.append(log, b"before")
    log.flush(logbook.now_ms)
    batch, header = large_batch(logbook, log)
    while not log.write_ahead(batch, header, logbook.now_ms):
        pass
    assert Path(log.active.path).stat().st_size > len(LARGE)
    again = logbook.open(recovery_point=0, clean=False)
    assert logbook.values(again) == [(0, b"before")]
    assert not again.damage
    assert Path(again.active.path).stat().st_size == again.size


@pytest.mark.parametrize("end", ["append", "roll", "truncate", "close", "drop"])
def test_parts_of_a_large_batch_are_cut_off_when_something_else_comes_first(logbook, end):
    log = logbook.open()
    for value in (b"0", b"1"):
        logbook.append(log, value)
    batch, header = large_batch(logbook, log)
    log.write_ahead(batch, header, logbook.now_ms)
    segment = log.active
    if end == "append":
        logbook.append(log, b"2")
    elif end == "roll":
        log.roll(logbook.now_ms)
    elif end == "truncate":
        log.truncate_to(1, logbook.now_ms)
    elif end == "close":
        log.close(logbook.now_ms)
    else:
        log.drop_ahead()
    assert Path(segment.path).stat().st_size == segment.size
