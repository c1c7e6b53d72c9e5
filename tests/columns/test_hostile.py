"""Hostile segments: a scan of damaged bytes has right rows or an error that names file and offset; nothing else happens."""

from __future__ import annotations

import os
import random
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from odradek.columns import UnreadableOffsets, kernel, layout, loops, scan
from odradek.protocol.records.batch import HEADER_BYTES, iter_headers, read_header, seal, sealed
from odradek.protocol.records.compression import Compression, compress
from odradek.protocol.records.errors import OldFormatInLog
from odradek.protocol.records.record import Record, encode_batch
from odradek.storage.log.config import LogConfig

from tests.columns.harness.logs import NOW_MS, GeneratedLog, Row, rows_of
from tests.harness.examples import examples

try:
    import odradek_kernel
except ImportError:
    odradek_kernel = None

ROOT = Path(__file__).resolve().parents[2]
#: Bytes around the arrays that the kernel writes to.
CANARY = 64
#: The loops of the compiled kernel, where it is installed, and those of numba, which must do the same.
LOOPS = (odradek_kernel, loops) if odradek_kernel is not None else (loops,)


def kernel_arrays(capacity: int, payload: int) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Arrays for `decode_records` in the middle of larger ones, and these."""
    shapes = [
        (capacity, np.int64), (capacity, np.int64), (capacity, np.int32),
        (capacity + 1, np.int32), ((capacity + 7) // 8, np.uint8), (payload, np.uint8),
        (capacity + 1, np.int32), ((capacity + 7) // 8, np.uint8), (payload, np.uint8),
        (capacity + 1, np.int32), (2 * (payload // 2 + 1), np.int32), ((payload // 2 + 7) // 8, np.uint8),
        (payload, np.uint8), (payload, np.uint8), (layout.TOTALS, np.int64),
    ]  # fmt: skip
    outer = [np.full(size + 2 * CANARY, 77, kind) for size, kind in shapes]
    inner = [one[CANARY : len(one) - CANARY] for one in outer]
    inner[10] = inner[10].reshape(-1, 2)
    return inner, outer


@settings(max_examples=examples(400), deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_kernel_writes_nothing_outside_its_arrays(data: st.DataObject) -> None:
    rng = random.Random(data.draw(st.integers(0, 1 << 30)))
    payload = bytearray(data.draw(st.binary(max_size=200)))
    if rng.random() < 0.7:  # mostly records, a few bytes changed
        payload = bytearray()
        for number in range(rng.randrange(12)):
            body = b"\0" + bytes((0, 2 * number)) + rng.choice([b"\x01", b"\0", b"\x04kk"])
            body += rng.choice([b"\x01", b"\x06vvv"]) + rng.choice([b"\0", b"\x02\x02a\x01", b"\x04\0\0\x02b\x02c"])
            payload += bytes((2 * len(body),)) + body
        for _ in range(rng.randrange(3)):
            if payload:
                payload[rng.randrange(len(payload))] = rng.randrange(256)
    view = np.frombuffer(bytes(payload), np.uint8)
    capacity = data.draw(st.integers(0, 20))
    start = data.draw(st.integers(-3, len(payload) + 3))
    stop = data.draw(st.integers(-3, len(payload) + 3)) if rng.random() < 0.3 else len(payload)
    batches = np.array(
        [[start if rng.random() < 0.3 else 0, stop, 10, 1000, 5, 0, 0, data.draw(st.integers(-1, 1 << 31))]] * 2,
        np.int64,
    )
    room, columns = data.draw(st.integers(0, 60)), data.draw(st.integers(0, 7))
    bounds = np.array([rng.choice((0, 12)), rng.choice((13, 1 << 60)), -(1 << 62), 1 << 62], np.int64)
    found = []
    for each in LOOPS:
        inner, outer = kernel_arrays(capacity, room)
        # The ends are those of Arrow, from 0.
        inner[3][0] = inner[6][0] = 0
        inner[10][0] = 0
        faults = np.zeros(2, np.uint8)
        each.decode_records(view, batches, faults, bounds, columns, *inner)
        for one in outer:
            assert (one[:CANARY] == 77).all() and (one[len(one) - CANARY :] == 77).all()
        assert inner[-1][layout.ROWS] <= capacity
        found.append((faults.tolist(), used(inner, columns)))
    assert found[0] == found[-1]


def used(arrays: list[np.ndarray], columns: int) -> list[object]:
    """Returns the parts of the columns that the totals name."""
    totals = arrays[-1]
    rows, pairs = int(totals[layout.ROWS]), int(totals[layout.HEADER_ROWS])
    bits = [np.unpackbits(one, bitorder="little").tolist() for one in (arrays[4], arrays[7], arrays[11])]
    made: list[object] = [totals.tolist(), *(one[:rows].tolist() for one in arrays[:3])]
    if columns & layout.KEYS:
        made += [arrays[3][: rows + 1].tolist(), bits[0][:rows], bytes(arrays[5][: totals[layout.KEY_BYTES]])]
    if columns & layout.VALUES:
        made += [arrays[6][: rows + 1].tolist(), bits[1][:rows], bytes(arrays[8][: totals[layout.VALUE_BYTES]])]
    if columns & layout.HEADERS:
        made += [arrays[9][1 : rows + 1].tolist(), arrays[10][: pairs + 1].tolist(), bits[2][:pairs]]
        made += [bytes(arrays[12][: totals[layout.HEADER_KEY_BYTES]])]
        made += [bytes(arrays[13][: totals[layout.HEADER_VALUE_BYTES]])]
    return made


@settings(max_examples=examples(300), deadline=None)
@given(st.binary(max_size=400), st.integers(0, 5))
def test_header_walk_stays_in_its_buffer(content: bytes, capacity: int) -> None:
    view = np.frombuffer(content, np.uint8)
    for each in LOOPS:
        rows = np.full((capacity + 2, layout.HEADER_COLUMNS), 77, np.int64)
        count, position, _ = each.walk_headers(view, 0, len(view), 0, 0, True, rows[1:-1])
        assert count <= capacity and 0 <= position <= len(view)
        assert (rows[0] == 77).all() and (rows[-1] == 77).all()


@settings(max_examples=examples(300), deadline=None)
@given(st.integers(0, 1 << 30), st.booleans(), st.integers(0, 5), st.integers(0, 3))
def test_headers_are_the_same_without_compiled_loops(seed: int, whole: bool, capacity: int, changes: int) -> None:
    rng, content, offset = random.Random(seed), bytearray(), 0
    for _ in range(4):
        records = [Record(number, rng.randrange(1 << 40), None, b"v" * rng.randrange(30)) for number in range(3)]
        batch = bytearray(encode_batch(records, leader_epoch=rng.randrange(-1, 9)))
        batch[:8] = struct.pack(">q", offset)
        content += batch
        offset += rng.randrange(3, 9)
    for _ in range(changes):
        content[rng.randrange(len(content))] = rng.randrange(256)
    view = np.frombuffer(bytes(content), np.uint8)
    start, stop = rng.choice([0, 0, 1]), rng.choice([len(view), len(view), rng.randrange(len(view))])
    found = []
    for walk in (kernel.walk_few_headers, *(each.walk_headers for each in LOOPS)):
        rows = np.full((capacity, layout.HEADER_COLUMNS), 77, np.int64)
        result = walk(view, start, stop, 1000, 0, whole, rows)
        found.append(([int(one) for one in result], rows.tolist()))
    assert all(one == found[0] for one in found)


@pytest.mark.usefixtures("processes")
def test_few_headers_are_read_without_compiled_loops(tmp_path: Path) -> None:
    made = GeneratedLog(tmp_path, 1)
    made.fill(60)
    made.close()
    program = (
        "import sys; sys.modules['odradek_kernel'] = None; "
        "from odradek.columns.directory import segments_of; from odradek.columns.segment import end_of; "
        "print(end_of(segments_of(sys.argv[1])[-1])[0], 'numba' in sys.modules)"
    )
    command = [sys.executable, "-c", program, f"{made.topic_path}-0"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split() == [str(scan(made.topic_path).plan.ends[0]), "False"]


def scanned(made: GeneratedLog, **options: object) -> tuple[list[Row] | None, str]:
    try:
        return rows_of(scan(made.topic_path, **options).to_table()), ""
    except (UnreadableOffsets, OldFormatInLog) as error:
        return None, str(error)


@pytest.mark.parametrize("seed", range(examples(8)))
def test_damaged_bytes_never_give_a_wrong_row(tmp_path: Path, seed: int) -> None:
    made = GeneratedLog(tmp_path, seed)
    made.fill(60)
    made.close()
    rng, expected = random.Random(seed), {row.offset: row for row in made.expected()}
    errors = 0
    for _ in range(60):
        victim = rng.choice(made.segments())
        whole = victim.read_bytes()
        damaged = bytearray(whole)
        for _ in range(rng.choice([1, 1, 8])):
            damaged[rng.randrange(len(damaged))] ^= 1 << rng.randrange(8)
        if rng.random() < 0.2:
            del damaged[rng.randrange(len(damaged)) :]
        victim.write_bytes(damaged)
        rows, words = scanned(made)
        if rows is None:
            errors += 1
            assert victim.name in words and ("offset" in words or "format" in words)
        else:
            # The end of the log may be gone, as a torn tail.
            assert rows == made.expected()[: len(rows)]
            assert len(rows) == len(expected) or victim == made.segments()[-1]
        skipping = scan(made.topic_path, on_unreadable="skip")
        try:
            kept = rows_of(skipping.to_table())
        except OldFormatInLog:
            kept = []
        for row in kept:
            assert expected[row.offset] == row
        named = {n for one in skipping.unread for n in range(one.first_offset, one.next_offset)}
        end = skipping.plan.ends[0]
        if kept:
            assert {row.offset for row in kept} | named >= {offset for offset in expected if offset < end}
        victim.write_bytes(whole)
    assert errors > 20


@pytest.mark.parametrize("codec", Compression)
def test_records_that_do_not_parse_under_a_right_crc_are_an_error(tmp_path: Path, codec: Compression) -> None:
    made = GeneratedLog(tmp_path, codec)
    for _ in range(6):
        made.append(compression=codec)
    made.close()
    file = made.segments()[0]
    whole = file.read_bytes()
    position, header = list(iter_headers(whole))[2]
    rng, faults = random.Random(codec), 0
    for _ in range(100):
        damaged = bytearray(whole)
        damaged[position + HEADER_BYTES + rng.randrange(header.size - HEADER_BYTES)] ^= 1 << rng.randrange(8)
        seal(damaged, position, header.size)
        file.write_bytes(damaged)
        rows, words = scanned(made)
        if rows is None:
            faults += 1
            assert f"{file.name} at position {position}" in words
            assert f"offsets {header.base_offset} to {header.last_offset}" in words or "offset " in words
        else:  # a changed value or key is right for this CRC
            others = [row for row in made.expected() if not header.base_offset <= row.offset <= header.last_offset]
            assert [row for row in rows if not header.base_offset <= row.offset <= header.last_offset] == others
    assert faults > 3


@pytest.mark.parametrize("first_read", [61, 8 << 20])
@pytest.mark.parametrize("victim", [3, 9])
@pytest.mark.parametrize("field", ["delta", "length"])
def test_damaged_header_names_all_offsets_of_its_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, field: str, victim: int, first_read: int
) -> None:
    """The CRC covers the delta of the last offset, so a batch with a wrong CRC may have more offsets than its header has.
    With a wrong length a batch may have another one in itself.
    """
    made = GeneratedLog(tmp_path, 1, LogConfig(segment_bytes=1_280))
    for _ in range(11):
        records = [Record(made.end + n, NOW_MS, None, b"v" * (2 if n else 24)) for n in range(5)]
        assert len(encode_batch(records)) == 128
        made.append(records, compression=Compression.NONE)
    made.close()
    file = made.segments()[0]
    content = bytearray(file.read_bytes())
    position, header = list(iter_headers(content))[victim - (field == "length")]
    content[position + (26 if field == "delta" else 11)] ^= 4 if field == "delta" else 128
    file.write_bytes(content)
    monkeypatch.setattr("odradek.columns.open_segment._CHUNK_BYTES", first_read)
    found = scan(made.topic_path, on_unreadable="skip")
    offsets = {row.offset for row in rows_of(found.to_table())}
    named = {n for one in found.unread for n in range(one.first_offset, one.next_offset)}
    lost = set(range(header.base_offset, header.next_offset + (5 if field == "length" else 0)))
    assert named == lost and offsets == set(made.rows) - lost


@pytest.mark.parametrize("count", [0x7FFFFFFF, 1_000_000, -1])
def test_record_counts_out_of_proportion_cost_no_memory(tmp_path: Path, count: int) -> None:
    made = GeneratedLog(tmp_path, 1)
    for _ in range(3):
        made.append()
    made.close()
    file = made.segments()[0]
    damaged = bytearray(file.read_bytes())
    position, header = list(iter_headers(damaged))[1]
    struct.pack_into(">i", damaged, position + 57, count)
    seal(damaged, position, header.size)
    file.write_bytes(damaged)
    rows, words = scanned(made)
    assert rows is None and f"offset {header.base_offset}" in words.replace("offsets", "offset")


def test_decompression_bomb_is_an_error(tmp_path: Path) -> None:
    made = GeneratedLog(tmp_path, 1)
    made.append(compression=Compression.NONE)
    made.append(compression=Compression.ZSTD)
    made.close()
    file = made.segments()[0]
    whole = file.read_bytes()
    position, header = list(iter_headers(whole))[1]
    for codec in (Compression.ZSTD, Compression.GZIP, Compression.LZ4):
        bomb = compress(codec, bytes(129 << 20))
        fields = header._replace(length=HEADER_BYTES - 12 + len(bomb), attributes=codec)
        file.write_bytes(whole[:position] + sealed(fields, bomb))
        assert read_header(file.read_bytes(), position).record_count == header.record_count
        rows, words = scanned(made)
        assert rows is None and "yields more than 134217728 bytes" in words


def test_lost_index_of_aborted_transactions_is_noticed(tmp_path: Path) -> None:
    made = GeneratedLog(tmp_path, 1)
    for number in range(60):
        made.append_transactional(1)
        made.append_transactional(1)
        made.end_transaction(1, committed=number % 4 != 0)
    made.close()
    expected = made.expected(committed=True)
    assert rows_of(scan(made.topic_path, isolation_level="read_committed").to_table()) == expected
    damaged = sorted(made.path.glob("*.txnindex"))
    assert len(damaged) > 2
    damaged[0].write_bytes(b"\1" * 40)
    damaged[1].unlink()
    rows, words = scanned(made, isolation_level="read_committed")
    assert rows == expected or "the index of aborted transactions lacks" in words


def test_transaction_that_was_aborted_before_the_first_offset_is_no_damage(tmp_path: Path) -> None:
    """The index of offsets is sparse, or lost, so reading begins at batches before the first offset."""
    made = GeneratedLog(tmp_path, 1, LogConfig(index_interval_bytes=1 << 20))
    made.append_transactional(1)
    made.append([Record(made.end, NOW_MS, None, made.rng.randbytes(9_000))], compression=Compression.NONE)
    made.end_transaction(1, committed=False)
    start = made.end
    for _ in range(3):
        made.append()
    found = scan(made.topic_path, isolation_level="read_committed", start_offsets=start)
    assert found.count() == len(made.expected(first=start))
    assert rows_of(found.to_table()) == made.expected(first=start)


@pytest.mark.parametrize("is_planned", [True, False])
def test_damaged_marker_of_a_commit_is_no_abort(tmp_path: Path, is_planned: bool) -> None:
    made = GeneratedLog(tmp_path, 1)
    made.append_transactional(1)
    made.end_transaction(1, committed=True)
    made.append_transactional(1)
    made.end_transaction(1, committed=True)
    made.append()
    expected = made.expected(committed=True)
    options = {"isolation_level": "read_committed", "on_unreadable": "skip"}
    found = scan(made.topic_path, **options)
    file = made.segments()[0]
    content = bytearray(file.read_bytes())
    position, header = next(one for one in iter_headers(content) if one[1].is_control)
    assert content[position + 69] == 1  # the last byte of the key: COMMIT
    content[position + 69] = 0
    file.write_bytes(content)
    if not is_planned:
        found = scan(made.topic_path, **options)
    assert rows_of(found.to_table()) == expected and found.count() == len(expected)
    found.to_table()
    assert [(one.first_offset, one.next_offset) for one in found.unread] == [(header.base_offset, header.next_offset)]


def test_marker_that_is_lost_with_its_batch_is_not_taken_for_a_later_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A producer may abort a transaction without records."""
    made = GeneratedLog(tmp_path, 1)
    made.append_transactional(1)
    made.end_transaction(1, committed=True)
    made.append()
    made.end_transaction(1, committed=False)
    made.append()
    found = scan(made.topic_path, isolation_level="read_committed", on_unreadable="skip")
    file = made.segments()[0]
    content = bytearray(file.read_bytes())
    position, header = next(one for one in iter_headers(content) if one[1].is_control)
    content[position + 16] = 9
    file.write_bytes(content)
    monkeypatch.setattr("odradek.columns.open_segment._CHUNK_BYTES", 100)
    assert rows_of(found.to_table()) == made.expected(committed=True)
    assert [(one.first_offset, one.next_offset) for one in found.unread] == [(header.base_offset, header.next_offset)]


@pytest.mark.usefixtures("processes")
def test_checks_of_the_kernel_hold_with_numbas_own_bounds_checks(tmp_path: Path) -> None:
    """numba's bounds checks raise IndexError for an index outside an array: the same tests run with them."""
    environment = {**os.environ, "NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(tmp_path)}
    chosen = "test_kernel_writes or test_header_walk or test_records_that_do_not_parse"
    program = "import sys, pytest; sys.modules['odradek_kernel'] = None; sys.exit(pytest.main(sys.argv[1:]))"
    words = ["-q", "-x", "-p", "no:cacheprovider", str(Path(__file__)), "-k", chosen]
    command = [sys.executable, "-c", program, *words]
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=250, check=False)
    assert done.returncode == 0, done.stdout[-2000:]


def rows_and_compilations(topic: Path, **environment: str) -> list[int]:
    """Scans in a new process. Returns the number of rows, and how often that process took compiled loops and compiled."""
    program = (
        "import sys; sys.modules['odradek_kernel'] = None; import odradek; from odradek.columns import loops; "
        "rows = odradek.scan(sys.argv[1]).to_table().num_rows; stats = loops.decode_records.stats; "
        "print(rows, sum(stats.cache_hits.values()), sum(stats.cache_misses.values()))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(topic)], env={**os.environ, **environment}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return [int(word) for word in done.stdout.split()]


@pytest.mark.usefixtures("processes")
def test_compiled_loops_are_shared_by_processes_and_not_needed(tmp_path: Path) -> None:
    made = GeneratedLog(tmp_path, 1)
    made.fill(60)
    made.close()
    rows = scan(made.topic_path).to_table().num_rows
    cache = {"NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    assert rows_and_compilations(made.topic_path, **cache) == [rows, 0, 1]
    assert rows_and_compilations(made.topic_path, **cache) == [rows, 1, 0]
    # A read-only installation, and a user without a home: numba may write nowhere.
    (tmp_path / "file").touch()
    nowhere = {
        "NUMBA_CACHE_LOCATOR_CLASSES": "UserProvidedCacheLocator",
        "NUMBA_CACHE_DIR": str(tmp_path / "file" / "x"),
    }
    assert rows_and_compilations(made.topic_path, **nowhere) == [rows, 0, 1]
