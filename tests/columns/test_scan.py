"""A scan of a directory has exactly the records that the storage's decoder reads, in every kind of log."""

from __future__ import annotations

import datetime
import itertools
import pickle
from pathlib import Path

import duckdb
import odradek
import polars
import pyarrow as pa
import pytest
from odradek.columns import InvalidScan, ScanError, read_split, scan
from odradek.protocol.records.batch import iter_headers
from odradek.protocol.records.compression import Compression
from odradek.protocol.records.record import Record
from odradek.storage.files.checkpoints import LOG_START_OFFSETS, write_offsets
from odradek.storage.log.config import LogConfig

from tests.columns.harness.logs import NOW_MS, SMALL, GeneratedLog, rows_of
from tests.harness.examples import examples

COMPACTED = LogConfig(segment_bytes=4_000, index_interval_bytes=200, compact=True, file_delete_delay_ms=0)


@pytest.mark.parametrize("codec", Compression)
def test_scan_of_each_codec_has_all_records(tmp_path: Path, codec: Compression) -> None:
    made = GeneratedLog(tmp_path, codec)
    for _ in range(150):
        made.append(compression=codec)
    assert len(made.segments()) > 1
    found = scan(made.topic_path)
    assert rows_of(found.to_table()) == made.expected()
    assert found.count() == len(made.rows)
    assert found.offsets == {0: (0, made.log.log_end_offset)}


@pytest.mark.parametrize("seed", range(examples(12)))
def test_scan_of_a_random_log_equals_the_storage_decoder(tmp_path: Path, seed: int) -> None:
    made = GeneratedLog(tmp_path, seed)
    made.fill(160)
    if seed % 2:
        made.close()
    rng, end = made.rng, made.log.log_end_offset
    for committed in (False, True):
        level = "read_committed" if committed else "read_uncommitted"
        expected = made.expected(committed=committed)
        found = scan(made.topic_path, isolation_level=level)
        assert rows_of(found.to_table()) == expected
        assert found.count() == len(expected)
        for _ in range(4):
            first, last = sorted((rng.randrange(end + 1), rng.randrange(end + 1)))
            part = scan(made.path, isolation_level=level, start_offsets=first, end_offsets={0: last}, split_bytes=2_000)
            expected = made.expected(committed=committed, first=first, end=last)
            assert rows_of(part.to_table()) == expected
            assert part.count() == len(expected)


@pytest.mark.parametrize("seed", range(examples(6)))
def test_scan_of_a_compacted_log_equals_the_storage_decoder(tmp_path: Path, seed: int) -> None:
    made = GeneratedLog(tmp_path, seed, COMPACTED)
    for _ in range(40):
        offset = made.log.log_end_offset
        made.append([Record(offset, NOW_MS, b"k%d" % made.rng.randrange(9), made.rng.choice([None, b"v" * 99]))])
    made.fill(60)
    made.compact()
    for committed in (False, True):
        level = "read_committed" if committed else "read_uncommitted"
        found = scan(made.topic_path, isolation_level=level)
        assert rows_of(found.to_table()) == made.expected(committed=committed)
        assert found.count() == len(made.expected(committed=committed))


def test_splits_are_picklable_and_cover_the_log_once(tmp_path: Path) -> None:
    made = GeneratedLog(tmp_path, 1)
    made.fill(200)
    plan = scan(made.topic_path, isolation_level="read_committed", split_bytes=3_000).plan
    assert len(plan.splits) > 8
    splits = pickle.loads(pickle.dumps(plan.splits))
    assert splits == plan.splits
    assert splits[0].first_offset == plan.starts[0] and splits[-1].next_offset == plan.ends[0]
    assert all(one.next_offset == after.first_offset for one, after in itertools.pairwise(splits))
    rows = []
    for split in reversed(splits):
        reader = read_split(split, odradek.scan(made.topic_path).schema.names)
        rows = rows_of(pa.Table.from_batches(list(reader), scan(made.topic_path).schema)) + rows
        assert reader.next_offset == split.next_offset and reader.unread == []
    assert rows == made.expected(committed=True)


def test_only_the_columns_that_are_named_are_built(tmp_path: Path) -> None:
    made = GeneratedLog(tmp_path, 2)
    made.fill(30)
    whole = scan(made.topic_path).to_table()
    for columns in (["value", "offset"], ["key"], ["headers", "timestamp"], ["partition", "topic"], ["timestamp_type"]):
        found = scan(made.topic_path, columns=columns).to_table()
        assert found.schema.names == columns
        assert found == whole.select(columns)
    assert scan(made.topic_path, columns=[]).to_table().num_rows == whole.num_rows


def test_timestamps_select_records_by_their_own(tmp_path: Path) -> None:
    made = GeneratedLog(tmp_path, 3)
    made.fill(60)
    first, last = NOW_MS - 1000, NOW_MS + 300
    found = scan(made.topic_path, start_timestamp=first, end_timestamp=last)
    expected = [row for row in made.expected() if row.timestamp is not None and first <= row.timestamp < last]
    assert rows_of(found.to_table()) == expected and found.count() == len(expected)
    moment = datetime.datetime.fromtimestamp(first / 1000, datetime.UTC)
    assert rows_of(scan(made.topic_path, start_timestamp=moment, end_timestamp=last).to_table()) == expected
    with pytest.raises(InvalidScan, match="time zone"):
        scan(made.topic_path, start_timestamp=moment.replace(tzinfo=None))


@pytest.mark.parametrize("split_bytes", [1_000, 1 << 30])
def test_latest_per_key_has_the_last_record_of_each_key(tmp_path: Path, split_bytes: int) -> None:
    made = GeneratedLog(tmp_path, 4)
    made.fill(120)
    latest = {row.key: row for row in made.expected() if row.key is not None}
    expected = sorted(row for row in latest.values() if row.value is not None)
    found = scan(made.topic_path, latest_per_key=True, split_bytes=split_bytes)
    assert rows_of(found.to_table()) == expected and len(expected) > 5
    assert found.count() == len(expected)
    assert found.select(["value"]).to_table().column("value").to_pylist() == [row.value for row in expected]


@pytest.mark.parametrize("split_bytes", [1_000, 1 << 30])
def test_latest_per_key_names_all_offsets_that_it_could_not_read(tmp_path: Path, split_bytes: int) -> None:
    """Also of partitions before the last one, and of splits without a latest record, which are read for their keys alone."""
    damaged = {}
    for partition, directory in enumerate((tmp_path, tmp_path / "1")):
        made = GeneratedLog(directory, partition)
        for _ in range(30):
            base = made.end
            keys = [b"once" if base == 0 else b"k%d" % (base % 2)] * 5
            made.append([Record(base + n, NOW_MS, key, b"v" * 200) for n, key in enumerate(keys)])
        made.close()
        file = made.segments()[0]
        content = bytearray(file.read_bytes())
        position, header = list(iter_headers(content))[9]
        content[position + 70] ^= 1
        file.write_bytes(content)
        damaged[partition] = (header.base_offset, header.next_offset)
    (tmp_path / "1" / "t-0").rename(tmp_path / "t-1")
    found = scan(tmp_path / "t", latest_per_key=True, on_unreadable="skip", split_bytes=split_bytes)
    for read in (found.to_table, found.count):
        read()
        assert {one.partition: (one.first_offset, one.next_offset) for one in found.unread} == damaged
        assert len(found.unread) == 2


def test_deleted_records_are_left_out_and_a_start_below_them_is_an_error(tmp_path: Path) -> None:
    made = GeneratedLog(tmp_path, 5)
    made.fill(60)
    write_offsets(str(tmp_path), LOG_START_OFFSETS, {("t", 0): 37})
    assert rows_of(scan(made.topic_path).to_table()) == made.expected(first=37)
    assert scan(made.topic_path).count() == len(made.expected(first=37))
    with pytest.raises(ScanError, match="t-0: offset 36 is gone: the log starts at 37"):
        scan(made.topic_path, start_offsets=36)


def test_missing_and_preallocated_indexes_change_nothing(tmp_path: Path) -> None:
    made = GeneratedLog(tmp_path, 6)
    made.fill(100)
    made.close()
    for number, index in enumerate(sorted(made.path.glob("*.index"))):
        if number % 3 == 0:
            index.unlink()
        elif number % 3 == 1:
            index.write_bytes(index.read_bytes() + bytes(800))
        else:
            index.write_bytes(made.rng.randbytes(800))
    for committed, level in ((False, "read_uncommitted"), (True, "read_committed")):
        found = scan(made.topic_path, isolation_level=level, split_bytes=2_000)
        assert rows_of(found.to_table()) == made.expected(committed=committed)
    assert rows_of(scan(made.topic_path, start_offsets=100).to_table()) == made.expected(first=100)


def test_snapshot_of_a_running_log_ends_with_its_last_whole_batch(tmp_path: Path) -> None:
    made = GeneratedLog(tmp_path, 7)
    made.fill(20, transactions=False)
    expected, last = made.expected(), made.segments()[-1]
    made.append()
    cut = last.stat().st_size - 20
    with last.open("r+b") as file:
        file.truncate(cut)
    assert rows_of(scan(made.topic_path).to_table()) == expected
    with last.open("r+b") as file:  # preallocated, or a write that reached the disk in parts
        file.truncate(cut + 20)
    assert rows_of(scan(made.topic_path).to_table()) == expected
    with last.open("r+b") as file:
        file.truncate(1 << 20)
    assert rows_of(scan(made.topic_path).to_table()) == expected


def test_several_partitions_and_directories_beside_them(tmp_path: Path) -> None:
    made = GeneratedLog(tmp_path, 8)
    made.fill(20)
    made.close()
    (tmp_path / "t-1").mkdir()
    (tmp_path / "t-1.0123456789abcdef0123456789abcdef-delete").mkdir()
    (tmp_path / "t-x-0").mkdir()
    found = scan(tmp_path / "t")
    assert sorted(found.offsets) == [0, 1] and found.offsets[1] == (0, 0)
    assert rows_of(found.to_table()) == made.expected()
    assert scan(tmp_path / "t", partitions=[1]).count() == 0
    with pytest.raises(InvalidScan, match="t has no partition 2, but 0, 1"):
        scan(tmp_path / "t", partitions=[2])
    with pytest.raises(InvalidScan, match="has no partition of a topic u"):
        scan(tmp_path / "u")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"columns": ["offsets"]}, "no column 'offsets'"),
        ({"columns": "offset"}, "takes a list"),
        ({"columns": ["key", "key"]}, "named twice"),
        ({"isolation_level": "committed"}, "isolation_level is 'committed'"),
        ({"on_unreadable": "ignore"}, "on_unreadable is 'ignore'"),
        ({"split_bytes": 0}, "split_bytes"),
    ],
)
def test_options_that_a_scan_cannot_have_are_errors(tmp_path: Path, options: dict, words: str) -> None:
    made = GeneratedLog(tmp_path, 9)
    made.fill(3)
    with pytest.raises(InvalidScan, match=words):
        scan(made.topic_path, **options)


def test_engines_read_a_scan(tmp_path: Path) -> None:
    made = GeneratedLog(tmp_path, 10, SMALL)
    made.fill(60)
    found = odradek.scan(made.topic_path)
    total = sum(len(row.value or b"") for row in made.expected())
    assert duckdb.sql("select count(*), sum(octet_length(value)) from found").fetchall() == [(len(made.rows), total)]
    frame = polars.DataFrame(found)
    assert frame.height == len(made.rows) and frame["offset"].to_list() == [row.offset for row in made.expected()]
    assert pa.table(found) == found.to_table()
    assert sum(batch.num_rows for batch in found.reader()) == len(made.rows)
