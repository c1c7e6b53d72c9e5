"""Recovery of a log after a crash; after a clean shutdown nothing is scanned."""

from __future__ import annotations

import dataclasses
import os
import random
import shutil
from pathlib import Path

import pytest
from odradek.protocol.records.batch import iter_headers
from odradek.protocol.records.end_markers import encode_end_transaction
from odradek.storage.log import loading
from odradek.storage.log.config import LogConfig
from odradek.storage.log.ends import PROVEN, UNPROVEN, Claim
from odradek.storage.log.loading import DamagedLog
from odradek.storage.log.replay import whole_batches
from odradek.storage.segments import segment as segment_module

from tests.harness.examples import examples
from tests.harness.patches import patch_for_this_thread

SMALL = LogConfig(segment_bytes=4000, index_interval_bytes=300)


def fill(logbook, log, count, seed=0, **kind):
    rng = random.Random(seed)
    return b"".join(
        logbook.append(log, *(rng.randbytes(rng.randrange(200)) for _ in range(rng.randrange(1, 4))), **kind)
        for _ in range(count)
    )


def files_of(log):
    return {path.name: path.read_bytes() for path in log_path(log).iterdir()}


def log_path(log):
    return Path(log.path)


def test_a_log_cut_at_any_byte_of_its_last_batches_keeps_the_whole_ones(logbook, make_logbook):
    log = logbook.open(SMALL)
    written = fill(logbook, log, 22)
    assert len(log.segments) == 2
    log.flush(logbook.now_ms)
    active = log.active
    first = len(written) - active.size
    ends = [position + header.size for position, header in iter_headers(written)]
    whole = Path(active.path).read_bytes()
    cut = make_logbook("cut")
    shutil.copytree(log.path, cut.path)
    # Cuts at every byte of the last three batches, and one byte before them.
    for size in range(ends[-4] - first - 1, active.size + 1):
        (cut.path / Path(active.path).name).write_bytes(whole[:size])
        reopened = cut.open(SMALL, recovery_point=active.base_offset)
        kept = max(end for end in ends if end <= first + size)
        assert cut.read_all(reopened) == written[:kept]
        assert reopened.recovered_bytes == first + size - kept
        assert reopened.active.size == kept - first
        again = cut.append(reopened, b"goes on")
        assert cut.read_all(reopened) == written[:kept] + again
        reopened.close(cut.now_ms, clean=False)


def active_name(active):
    return f"{active.base_offset:020d}.log"


@pytest.mark.parametrize("seed", range(examples(12)))
def test_flipped_bit_behind_the_recovery_point_becomes_a_damaged_range_and_all_else_stays(logbook, seed):
    log = logbook.open(SMALL)
    written = fill(logbook, log, 60, seed)
    log.close(logbook.now_ms)
    end, bases = log.log_end_offset, [segment.base_offset for segment in log.segments]
    rng = random.Random(seed)
    headers = list(iter_headers(written))
    number = rng.randrange(10, 60)
    position, header = headers[number]
    segment = next(s for s in reversed(log.segments) if s.base_offset <= header.base_offset)
    start = next(p for p, h in headers if h.base_offset == segment.base_offset)
    # The CRC does not cover the base offset and the leader epoch, but detects any change after the magic byte.
    at = position - start + rng.randrange(17, header.size)
    path = logbook.path / f"{segment.base_offset:020d}.log"
    with path.open("r+b") as file:
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ (1 << rng.randrange(8))]))
    before = path.read_bytes()
    reopened = logbook.open(SMALL)
    assert [(one.file, one.position, one.size) for one in reopened.damage] == [
        (path.name, position - start, header.size)
    ]
    assert [(one.first_offset, one.next_offset) for one in reopened.damage] == [
        (header.base_offset, header.next_offset)
    ]
    assert (reopened.log_end_offset, reopened.recovered_bytes) == (end, 0)
    assert path.read_bytes() == before, "the damaged bytes are kept"
    assert [segment.base_offset for segment in reopened.segments][: len(bases)] == bases, "no segment goes"
    assert whole_offsets(reopened) == [h.base_offset for _, h in headers if h is not header]


def whole_offsets(log):
    """Returns the base offsets of all readable batches, including those after a damaged range."""
    return [
        found.base_offset
        for segment in log.segments
        for found, _ in whole_batches(segment, log.damage, segment.base_offset)
    ]


def test_zeros_at_the_end_as_a_preallocating_broker_leaves_them_are_cut(logbook):
    log = logbook.open(LogConfig(preallocate=True, segment_bytes=100_000))
    written = fill(logbook, log, 5)
    assert (logbook.path / "00000000000000000000.log").stat().st_size == 100_000
    reopened = logbook.open(SMALL)
    assert logbook.read_all(reopened) == written
    assert (logbook.path / "00000000000000000000.log").stat().st_size == len(written)


def test_a_preallocated_segment_is_cut_when_it_closes(logbook):
    config = LogConfig(preallocate=True, segment_bytes=100_000)
    log = logbook.open(config)
    first = fill(logbook, log, 5)
    log.roll(logbook.now_ms)
    second = fill(logbook, log, 5)
    assert (logbook.path / "00000000000000000000.log").stat().st_size == len(first)
    log.close(logbook.now_ms)
    assert log.segments[1].size == len(second)
    reopened = logbook.open(config, clean=True)
    assert logbook.read_all(reopened) == first + second


def test_recovery_makes_the_indexes_that_appending_makes(logbook):
    log = logbook.open(LogConfig(index_interval_bytes=300))
    fill(logbook, log, 200)
    log.close(logbook.now_ms)
    before = files_of(log)
    assert len(before["00000000000000000000.index"]) > 100
    for name in ("00000000000000000000.index", "00000000000000000000.timeindex"):
        (logbook.path / name).write_bytes(b"\0" * 4096)
    logbook.open(LogConfig(index_interval_bytes=300), recovery_point=log.log_end_offset)
    assert files_of(log) == before


@pytest.mark.parametrize("damage", ["missing", "odd", "zeros", "beyond"])
@pytest.mark.parametrize("kind", ["index", "timeindex"])
def test_an_index_that_cannot_be_right_is_built_again_when_needed(logbook, damage, kind):
    log = logbook.open(LogConfig(segment_bytes=30_000, index_interval_bytes=300))
    written = fill(logbook, log, 300)
    log.close(logbook.now_ms)
    path = logbook.path / f"00000000000000000000.{kind}"
    if damage == "missing":
        path.unlink()
    else:
        whole = path.read_bytes()
        beyond = whole[:-4] + b"\x7f\xff\xff\xff"
        path.write_bytes({"odd": whole[:-1], "zeros": bytes(4800), "beyond": beyond}[damage])
    reopened = logbook.open(LogConfig(segment_bytes=30_000), clean=True)
    headers = [header for _, header in iter_headers(written)]
    for header in headers[::7]:
        assert reopened.read(header.base_offset, 1).size == header.size
    found = reopened.offset_for_timestamp(headers[40].max_timestamp)
    assert found is not None
    assert found.offset == headers[40].last_offset


def test_a_clean_restart_reads_no_more_than_the_end_of_each_log(logbook, monkeypatch):
    log = logbook.open(LogConfig(segment_bytes=1 << 20))
    fill(logbook, log, 3000)
    end = log.log_end_offset
    assert log.size > 300_000
    log.close(logbook.now_ms)
    reads = []
    pread = os.pread

    def counted(fd, size, position):
        found = pread(fd, size, position)
        reads.append(len(found))
        return found

    patch_for_this_thread(monkeypatch, os, "pread", counted)
    monkeypatch.setattr(segment_module.spans, "__defaults__", (counted,))
    reopened = logbook.open(clean=True)
    assert (reopened.log_end_offset, reopened.recovery_point) == (end, end)
    assert reads, "the end is read, not believed"
    assert sum(reads) <= 4096 + 8192 + 100
    assert len(reads) <= 5


@pytest.mark.parametrize("beyond", [0, 1])
def test_an_unclean_restart_scans_from_the_recovery_point_only(logbook, monkeypatch, beyond):
    log = logbook.open(SMALL)
    fill(logbook, log, 100)
    number = len(log.segments) // 2
    recovery_point = log.segments[number].base_offset + beyond
    scanned = []
    recover = loading.recover_segment
    monkeypatch.setattr(loading, "recover_segment", lambda *a, **k: scanned.append(a[1]) or recover(*a, **k))
    logbook.open(SMALL, recovery_point=recovery_point)
    assert scanned == [segment.base_offset for segment in log.segments[number:]]


def test_epochs_and_producers_are_the_same_after_recovery(logbook):
    log = logbook.open(SMALL)
    for number in range(30):
        kind = {"producer_id": number % 3, "producer_epoch": 0, "base_sequence": number // 3 * 2}
        logbook.append(log, b"a" * 100, b"b" * 100, leader_epoch=number // 8, **kind)
    assert len(log.segments) > 1
    state, epochs = log.producers.to_snapshot(), log.epochs.entries()
    for recovery_point in (0, log.active.base_offset, log.log_end_offset):
        log.flush(logbook.now_ms, recovery_point)
        again = logbook.open(SMALL, recovery_point=recovery_point)
        assert sorted(again.producers.to_snapshot(), key=repr) == sorted(state, key=repr)
        assert again.epochs.entries() == epochs
        assert again.producers.end_offset == again.log_end_offset


def test_clean_restart_loads_producers_from_the_snapshot_alone(logbook):
    log = logbook.open()
    for number in range(4):
        logbook.append(log, b"a", producer_id=7, producer_epoch=2, base_sequence=number)
    log.close(logbook.now_ms)
    assert sorted(path.suffix for path in logbook.path.glob("*4.*")) == [".snapshot"]
    again = logbook.open(clean=True)
    assert again.producers.by_id[7].last_sequence == 3
    assert again.producers.by_id[7].epoch == 2


def test_a_damaged_producer_snapshot_is_dropped_for_the_log_itself(logbook):
    log = logbook.open(SMALL)
    for number in range(40):
        logbook.append(log, b"a" * 300, producer_id=7, producer_epoch=2, base_sequence=number)
    log.close(logbook.now_ms)
    newest = max(logbook.path.glob("*.snapshot"))
    newest.write_bytes(newest.read_bytes()[:-1] + b"\x7f")
    again = logbook.open(SMALL, clean=True)
    assert again.producers.by_id[7].last_sequence == 39
    assert not newest.exists()


def test_aborted_transactions_are_known_again_after_recovery(logbook):
    log = logbook.open(SMALL)
    for number in range(10):
        kind = {"producer_id": 5, "producer_epoch": 0, "base_sequence": number * 2, "transactional": True}
        logbook.append(log, b"x" * 400, b"y" * 400, **kind)
        marker = encode_end_transaction(
            number % 2 == 0, base_offset=log.log_end_offset, timestamp=logbook.now_ms, producer_id=5,
            producer_epoch=0, coordinator_epoch=1, leader_epoch=0,
        )  # fmt: skip
        log.append(marker, None, logbook.now_ms)
    aborted = log.aborted_transactions(0, log.log_end_offset)
    assert [entry.first_offset for entry in aborted] == [3, 9, 15, 21, 27]
    again = logbook.open(SMALL)
    assert again.aborted_transactions(0, log.log_end_offset) == aborted
    assert again.last_stable_offset(log.log_end_offset) == log.log_end_offset


@pytest.mark.parametrize("producer_id", [0, 5])
def test_producer_is_known_again_after_recovery_whatever_its_id(logbook, producer_id):
    log = logbook.open(SMALL)
    for number in range(3):
        logbook.append(log, b"x", producer_id=producer_id, producer_epoch=2, base_sequence=number)
    logbook.append(log, b"without a producer")
    again = logbook.open(SMALL)
    assert list(again.producers.by_id) == [producer_id]
    assert again.producers.last_sequence(producer_id, 2) == 2
    again.close(logbook.now_ms)
    for snapshot in logbook.path.glob("*.snapshot"):
        snapshot.unlink()
    again = logbook.open(SMALL, clean=True)
    assert again.producers.last_sequence(producer_id, 2) == 2
    again.truncate_to(2, logbook.now_ms)
    assert again.producers.last_sequence(producer_id, 2) == 1


def test_segments_left_below_the_log_start_by_a_crash_do_not_bring_records_back(logbook):
    log = logbook.open(SMALL)
    fill(logbook, log, 60)
    start = log.segments[2].base_offset + 1
    again = logbook.open(SMALL, log_start_offset=start)
    assert again.log_start_offset == start
    assert logbook.values(again)[0][0] <= start, "the batch that contains it is given whole"


def test_a_log_that_ends_before_its_start_begins_anew_there(logbook):
    log = logbook.open(SMALL)
    fill(logbook, log, 5)
    claims = [Claim(1000, PROVEN, "log start")]
    again = logbook.open(SMALL, log_start_offset=1000, claims=claims)
    assert (again.log_start_offset, again.log_end_offset, again.active.size) == (1000, 1000, 0)
    assert not again.damage, "nothing that may be read is missing"


def test_a_log_start_that_nothing_proves_removes_no_record(logbook):
    log = logbook.open(SMALL)
    written = fill(logbook, log, 5)
    again = logbook.open(SMALL, log_start_offset=1000, claims=[Claim(1000, UNPROVEN, "log start")])
    assert logbook.read_all(again) == written
    assert any("1000" in note for note in again.opening_notes)


def test_operations_interrupted_by_a_crash_are_finished(logbook):
    log = logbook.open(SMALL)
    written = fill(logbook, log, 60)
    log.close(logbook.now_ms)
    one, two = log.segments[1], log.segments[2]
    content = (logbook.path / active_name(one)).read_bytes() + (logbook.path / active_name(two)).read_bytes()
    # A compaction that had merged two segments, and was replacing them.
    (logbook.path / (active_name(one) + ".swap")).write_bytes(content)
    (logbook.path / f"{one.base_offset:020d}.index").unlink()
    # An unfinished compaction, a segment deleted by retention, and a checkpoint that was not renamed yet.
    (logbook.path / f"{log.active.base_offset:020d}.log.cleaned").write_bytes(b"half")
    (logbook.path / "00000000000000000000.log.deleted").write_bytes(b"old")
    (logbook.path / "leader-epoch-checkpoint.tmp").write_bytes(b"0")
    again = logbook.open(SMALL, clean=True)
    assert logbook.read_all(again) == written
    assert [s.base_offset for s in again.segments] == [s.base_offset for s in log.segments if s is not two]
    left = {path.name for path in logbook.path.iterdir()}
    assert not [name for name in left if name.endswith((".swap", ".cleaned", ".deleted", ".tmp"))]


def test_an_index_without_its_log_is_removed(logbook):
    log = logbook.open(SMALL)
    written = fill(logbook, log, 5)
    log.close(logbook.now_ms)
    (logbook.path / "00000000000000009999.index").write_bytes(b"")
    again = logbook.open(SMALL, clean=True)
    assert logbook.read_all(again) == written
    assert not (logbook.path / "00000000000000009999.index").exists()


def test_a_batch_that_is_there_twice_is_served_once(logbook):
    log = logbook.open(SMALL)
    written = fill(logbook, log, 5)
    first = written[: next(iter_headers(written))[1].size]
    with Path(log.active.path).open("ab") as file:
        file.write(first)
    again = logbook.open(SMALL)
    assert logbook.read_all(again) == written
    assert again.recovered_bytes == len(first)


def test_snapshots_of_what_was_lost_are_removed(logbook):
    log = logbook.open(SMALL)
    for number in range(30):
        logbook.append(log, b"a" * 300, producer_id=7, producer_epoch=0, base_sequence=number)
    log.close(logbook.now_ms)
    *_, (last_batch_at, _) = log.active.headers(0)
    os.truncate(log.active.path, last_batch_at)
    again = logbook.open(SMALL)
    assert again.log_end_offset == 29
    assert not (logbook.path / f"{30:020d}.snapshot").exists()
    assert again.producers.by_id[7].last_sequence == 28


@pytest.mark.parametrize(("claims", "is_damage"), [(1, True), (0, False)])
def test_a_damaged_tail_that_one_claim_vouches_for_is_no_torn_tail(logbook, claims, is_damage):
    """The offsets are not used again. Without bytes behind the end, one claim that nothing proves makes no hole."""
    log = logbook.open(SMALL)
    fill(logbook, log, 3)
    kept = log.log_end_offset
    fill(logbook, log, 1)
    end = log.log_end_offset
    log.close(logbook.now_ms, clean=False)
    *_, (last_batch_at, _) = log.active.headers(0)
    with Path(log.active.path).open("r+b") as file:
        file.seek(last_batch_at + 30)
        file.write(b"damage")
    for name in ("leader-epoch-checkpoint", f"{end:020d}.snapshot"):
        (logbook.path / name).unlink(missing_ok=True)
    again = logbook.open(SMALL, claims=[Claim(end, UNPROVEN, "recovery point")] * claims)
    assert again.log_end_offset == (end if is_damage else kept)
    assert [(one.first_offset, one.next_offset) for one in again.damage] == ([(kept, end)] if is_damage else [])


def test_one_unproven_claim_makes_no_hole_behind_whole_batches(logbook):
    log = logbook.open(SMALL)
    fill(logbook, log, 3)
    end = log.log_end_offset
    log.close(logbook.now_ms, clean=False)
    again = logbook.open(SMALL, claims=[Claim(end + 7, UNPROVEN, "recovery point")])
    assert (again.log_end_offset, list(again.damage)) == (end, [])
    assert any(f"{end + 7}" in note for note in again.opening_notes)


@pytest.mark.parametrize("whole_from", [-1, 0])
def test_log_opens_if_damage_ends_where_it_must_be_whole_from(logbook, whole_from):
    log = logbook.open(SMALL)
    fill(logbook, log, 3)
    (_, first), (_, second), *_ = log.active.headers(0)
    log.close(logbook.now_ms, clean=False)
    with Path(log.active.path).open("r+b") as file:
        file.seek(first.size + 30)
        file.write(b"damage")
    if whole_from < 0:
        with pytest.raises(DamagedLog):
            logbook.open(SMALL, must_be_whole_from=second.next_offset - 1)
    else:
        again = logbook.open(SMALL, must_be_whole_from=second.next_offset)
        assert [one.next_offset for one in again.damage] == [second.next_offset]


@pytest.mark.parametrize("own", [None, "leader-epoch-checkpoint", "snapshot"])
@pytest.mark.parametrize("claimed", [None, 1, 5, 9])
def test_lost_log_ends_where_one_of_its_own_files_and_one_claim_agree(logbook, own, claimed):
    """Neither proves an end alone. The own files are one claim."""
    logbook.path.mkdir(parents=True)
    if own == "snapshot":
        (logbook.path / f"{5:020d}.snapshot").write_bytes(b"")
    elif own is not None:
        (logbook.path / own).write_text("0\n2\n0 0\n3 5\n")
    claims = [] if claimed is None else [Claim(claimed, UNPROVEN, "recovery point")]
    log = logbook.open(SMALL, claims=claims)
    end = 0 if own is None or claimed is None else min(5, claimed)
    assert (log.log_start_offset, log.log_end_offset) == (0, end)
    assert [(one.first_offset, one.next_offset) for one in log.damage] == ([(0, end)] if end else [])
    assert log.producers.end_offset == end and not list(logbook.path.glob("*.snapshot"))


def test_offsets_that_compaction_left_out_are_no_damage_when_an_index_is_rebuilt(logbook):
    config = dataclasses.replace(SMALL, compact=True, delete=False)
    log = logbook.open(config)
    for number in range(40):
        log.append(logbook.batch(number * 10, [b"x" * 300]), None, logbook.now_ms)
    log.close(logbook.now_ms)
    assert len(log.segments) > 2
    (logbook.path / f"{log.segments[1].base_offset:020d}.index").unlink()
    again = logbook.open(config, clean=True)
    assert not again.damage
    assert [offset for offset, _ in logbook.values(again)] == [number * 10 for number in range(40)]


def test_one_append_of_several_batches_ends_each_transaction_once(logbook):
    log = logbook.open()
    batches, offset = [], 0
    for producer in range(4):
        kind = {"producer_id": producer, "producer_epoch": 0, "base_sequence": 0, "transactional": True}
        batches.append(logbook.batch(offset, [b"v"], **kind))
        batches.append(encode_end_transaction(
            False, base_offset=offset + 1, timestamp=logbook.now_ms, producer_id=producer, producer_epoch=0,
            coordinator_epoch=1, leader_epoch=0,
        ))  # fmt: skip
        offset += 2
    log.append(b"".join(batches), None, logbook.now_ms)
    aborted = log.aborted_transactions(0, log.log_end_offset)
    assert [(entry.producer_id, entry.first_offset) for entry in aborted] == [(n, 2 * n) for n in range(4)]
    assert Path(log.path, "00000000000000000000.txnindex").stat().st_size == 4 * 34


@pytest.mark.parametrize("later", [1, 2])
def test_power_loss_after_rolls_cuts_the_tail_that_was_not_flushed(logbook, later) -> None:
    log = logbook.open(SMALL)
    fill(logbook, log, 5)
    log.flush(logbook.now_ms)
    flushed, kept = log.log_end_offset, logbook.read_all(log)
    lost = []
    for _ in range(1 + later):
        log.roll(logbook.now_ms)
        lost.append(Path(log.active.path))
        fill(logbook, log, 1)
    log.close(logbook.now_ms, clean=False)
    for path in [*lost, *log_path(log).glob("*.snapshot")]:
        os.truncate(path, 0)
    reopened = logbook.open(SMALL, recovery_point=flushed)
    assert not list(reopened.damage)
    assert reopened.log_end_offset == flushed and logbook.read_all(reopened) == kept
    again = logbook.append(reopened, b"goes on")
    assert logbook.read_all(reopened) == kept + again
    reopened.close(logbook.now_ms)
    assert logbook.read_all(logbook.open(SMALL)) == kept + again


def test_power_loss_with_a_proven_end_behind_it_is_damage(logbook) -> None:
    log = logbook.open(SMALL)
    fill(logbook, log, 5)
    log.flush(logbook.now_ms)
    flushed = log.log_end_offset
    log.roll(logbook.now_ms)
    lost = Path(log.active.path)
    fill(logbook, log, 1)
    end = log.log_end_offset
    log.roll(logbook.now_ms)
    log.close(logbook.now_ms, clean=False)
    os.truncate(lost, 0)
    reopened = logbook.open(SMALL, recovery_point=flushed, claims=[Claim(end, PROVEN, "a test")])
    assert [(one.first_offset, one.next_offset) for one in reopened.damage] == [(flushed, end)]
    assert reopened.log_end_offset == end
