"""A broker changes files while a scan reads them: the scan has right rows, and names every offset that it lacks."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest
from odradek.columns import SCHEMA, FileReader, Scan, UnreadableOffsets, open_segment, scan
from odradek.columns.split_reader import ReadOptions
from odradek.protocol.records.batch import iter_headers
from odradek.protocol.records.compression import Compression
from odradek.protocol.records.record import Record
from odradek.storage.files.checkpoints import CLEANER_OFFSETS, write_offsets
from odradek.storage.files.partition_metadata import write_topic_id
from odradek.storage.log.config import LogConfig

from tests.columns.harness.logs import NOW_MS, GeneratedLog, rows_of

pytestmark = pytest.mark.usefixtures("processes")

CONFIG = LogConfig(segment_bytes=6_000, index_interval_bytes=200, compact=True, file_delete_delay_ms=0)


def filled(tmp_path: Path, seed: int = 1) -> GeneratedLog:
    made = GeneratedLog(tmp_path, seed, CONFIG)
    for _ in range(60):
        base = made.log.log_end_offset
        records = [Record(base + n, NOW_MS, b"k%d" % made.rng.randrange(30), b"v" * 120) for n in range(3)]
        made.append(records, compression=Compression.NONE)
    assert len(made.segments()) > 4
    return made


@contextmanager
def monkeypatched_chunks(size: int) -> Iterator[None]:
    """Reads so many bytes at once, so that small files have several chunks."""
    before = open_segment._CHUNK_BYTES
    open_segment._CHUNK_BYTES = size
    try:
        yield
    finally:
        open_segment._CHUNK_BYTES = before


def read_with(found: Scan, change: Callable[[], None], after: int = 1) -> pa.Table:
    """Reads a scan, with a change of the files after some RecordBatches."""
    batches = []
    for number, batch in enumerate(found, 1):
        batches.append(batch)
        if number == after:
            change()
    return pa.Table.from_batches(batches, SCHEMA)


def test_compaction_during_a_scan_repeats_and_loses_no_record(tmp_path: Path) -> None:
    made = filled(tmp_path)
    before = made.expected()
    found = scan(made.topic_path)
    rows = rows_of(read_with(found, made.compact))
    offsets = [row.offset for row in rows]
    assert offsets == sorted(set(offsets))
    assert set(made.expected()) <= set(rows) <= set(before) and len(made.rows) < len(before)
    assert found.unread == []


def test_segment_that_is_open_is_read_to_its_end_after_its_removal(tmp_path: Path) -> None:
    made = filled(tmp_path)
    expected = made.expected()
    found = scan(made.topic_path)
    first, second = made.segments()[:2]
    rows = rows_of(read_with(found, first.unlink))
    assert rows == expected
    assert first.name < second.name


def test_markers_of_a_removed_segment_are_read_from_the_open_file(tmp_path: Path) -> None:
    made = GeneratedLog(tmp_path, 3, LogConfig(segment_bytes=1 << 30))
    for number in range(60):
        made.append_transactional(1)
        made.end_transaction(1, committed=number % 2 == 0)
    expected = made.expected(committed=True)
    found = scan(made.topic_path, isolation_level="read_committed")
    reader = FileReader(found.splits[0], ReadOptions(SCHEMA.names))
    batches = []
    with monkeypatched_chunks(2_000):
        for batch in reader:
            if not batches:
                made.segments()[0].unlink()
            batches.append(batch)
    assert len(batches) > 2 and rows_of(pa.Table.from_batches(batches, SCHEMA)) == expected


def test_damage_of_a_removed_segment_is_passed_over_in_the_open_file(tmp_path: Path) -> None:
    made = filled(tmp_path)
    made.close()
    file = made.segments()[0]
    damaged = bytearray(file.read_bytes())
    position, header = list(iter_headers(damaged))[4]
    damaged[position + 16] = 9
    file.write_bytes(damaged)
    plan = scan(made.topic_path).plan
    reader = FileReader(plan.splits[0], ReadOptions(SCHEMA.names, skip=True))
    batches = []
    with monkeypatched_chunks(2_000):
        for batch in reader:
            if not batches:
                file.unlink()
            batches.append(batch)
    offsets = [row.offset for row in rows_of(pa.Table.from_batches(batches, SCHEMA))]
    lost = range(header.base_offset, header.next_offset)
    assert offsets == [row.offset for row in made.expected() if row.offset not in lost]
    assert [(one.first_offset, one.next_offset) for one in reader.unread] == [(lost.start, lost.stop)]


def test_offsets_removed_by_retention_are_named(tmp_path: Path) -> None:
    made = filled(tmp_path)
    found = scan(made.topic_path)
    gone = made.segments()[:3]
    for file in gone:
        file.unlink()
    start = int(made.segments()[0].name[:20])
    with pytest.raises(UnreadableOffsets, match=rf"t-0: offsets 0 to {start - 1} cannot be read: {made.path}: removed"):
        found.to_table()
    skipping = scan(made.topic_path, on_unreadable="skip")
    found = Scan(found.plan, skipping._options)
    assert rows_of(found.to_table()) == made.expected(first=start)
    assert [(one.first_offset, one.next_offset) for one in found.unread] == [(0, start)]
    assert found.count() == len(made.expected(first=start)) and len(found.unread) == 1


def test_truncated_log_is_an_error_that_names_the_offsets(tmp_path: Path) -> None:
    made = filled(tmp_path)
    found = scan(made.topic_path)
    end = made.log.log_end_offset
    made.log.truncate_to(end - 30, NOW_MS)
    with pytest.raises(UnreadableOffsets, match=rf"offsets {made.log.log_end_offset} to {end - 1} cannot be read"):
        found.to_table()


def test_directory_of_a_topic_created_anew_is_not_read(tmp_path: Path) -> None:
    made = filled(tmp_path)
    write_topic_id(str(made.path), b"1" * 16)
    found = scan(made.topic_path)
    assert rows_of(found.to_table()) == made.expected()
    made.close()
    shutil.rmtree(made.path)
    again = filled(tmp_path, 2)
    write_topic_id(str(again.path), b"2" * 16)
    with pytest.raises(UnreadableOffsets, match="of another topic, with the id MjIyMjIyMjIyMjIyMjIyMg"):
        found.to_table()
    shutil.rmtree(made.path)
    with pytest.raises(UnreadableOffsets, match="No such file"):
        found.to_table()


def test_records_appended_after_the_plan_belong_to_the_next(tmp_path: Path) -> None:
    made = filled(tmp_path)
    expected = made.expected()
    found = scan(made.topic_path)
    made.fill(40)
    assert rows_of(found.to_table()) == expected
    following = scan(made.topic_path, start_offsets=found.plan.ends)
    assert rows_of(following.to_table()) == made.expected(first=found.plan.ends[0])


def test_compaction_interrupted_between_renames_is_read_from_the_completed_file(tmp_path: Path) -> None:
    made = filled(tmp_path)
    before = made.expected()
    originals = tmp_path / "originals"
    shutil.copytree(made.path, originals)
    made.compact()
    first = made.segments()[0]
    first.rename(f"{first}.swap")
    # Sources that were not removed yet lie beside it.
    for file in originals.iterdir():
        if file.name[:20] > first.name[:20] and not (made.path / file.name).exists():
            shutil.copy(file, made.path / file.name)
    rows = rows_of(scan(made.topic_path).to_table())
    offsets = [row.offset for row in rows]
    assert offsets == sorted(set(offsets))
    assert set(made.expected()) <= set(rows) <= set(before)


@pytest.fixture
def cut_between_batches(tmp_path: Path) -> Iterator[tuple[GeneratedLog, Path]]:
    made = filled(tmp_path)
    made.close()
    victim = made.segments()[1]
    last = [file for file, _ in made.batches() if file == victim]
    assert len(last) > 3
    headers = list(iter_headers(victim.read_bytes()))
    os.truncate(victim, headers[-2][0])
    yield made, victim


def test_closed_segment_cut_between_batches_is_an_error_of_an_uncompacted_log(
    cut_between_batches: tuple[GeneratedLog, Path], tmp_path: Path
) -> None:
    made, victim = cut_between_batches
    write_offsets(str(tmp_path), CLEANER_OFFSETS, {})
    with pytest.raises(UnreadableOffsets, match=f"{victim.name} at position .*: the file ends early"):
        scan(made.topic_path).to_table()
    # In a compacted log the last batches of a segment may be gone for good.
    write_offsets(str(tmp_path), CLEANER_OFFSETS, {("t", 0): 5})
    assert scan(made.topic_path).to_table().num_rows == len(made.rows) - 6
