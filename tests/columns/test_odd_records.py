"""Records at the limits of what a record can be: timestamps, predicates, projections and headers change no row."""

from __future__ import annotations

import datetime
import random
from pathlib import Path
from typing import Any

import duckdb
import polars
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from odradek.columns import SCHEMA, ScanDataset, UnreadableOffsets, ValueSchema, scan
from odradek.columns.split import Split
from odradek.protocol.records.batch import iter_headers
from odradek.protocol.records.record import Record
from odradek.storage.log.config import LogConfig

from compat_tests.cli.commands import odradek_command
from tests.columns.harness.logs import NOW_MS, GeneratedLog, rows_of
from tests.harness.examples import examples

LIMITS = (-(1 << 63), -(1 << 63) + 1, -2, -1, 0, 1, NOW_MS, (1 << 63) - 2, (1 << 63) - 1)


def log_of(directory: Path, records: list[Record], seed: int = 1, **kind: Any) -> GeneratedLog:
    made = GeneratedLog(directory, seed)
    if records:
        made.append(records, **kind)
    return made


@pytest.fixture(scope="module")
def limits(tmp_path_factory: pytest.TempPathFactory) -> GeneratedLog:
    """A batch for each timestamp at a limit, by CreateTime and by LogAppendTime."""
    made = GeneratedLog(tmp_path_factory.mktemp("limits"), 1)
    for at, stamp in enumerate(LIMITS):
        made.append([Record(2 * at, stamp, b"k", b"v", [])])
        made.append([Record(2 * at + 1, 5, b"k", b"v", [])], log_append_time=stamp)
    return made


def test_every_timestamp_is_in_a_scan(limits: GeneratedLog) -> None:
    found = scan(limits.topic_path)
    assert rows_of(found.to_table()) == limits.expected() and found.count() == 2 * len(LIMITS)


@given(start=st.none() | st.sampled_from(LIMITS), end=st.none() | st.sampled_from(LIMITS))
@settings(max_examples=examples(60), deadline=None)
def test_bounds_of_times_divide_the_records(limits: GeneratedLog, start: int | None, end: int | None) -> None:
    """The start is included and the end is not; without one, no timestamp is left out."""
    stamps = {row.offset: -1 if row.timestamp is None else row.timestamp for row in limits.expected()}
    expected = [
        offset for offset, stamp in stamps.items() if (start is None or stamp >= start) and (end is None or stamp < end)
    ]
    found = scan(limits.topic_path, start_timestamp=start, end_timestamp=end)
    assert found.to_table().column("offset").to_pylist() == expected and found.count() == len(expected)


def test_times_beyond_all_timestamps_select_none_or_all(limits: GeneratedLog) -> None:
    count = 2 * len(LIMITS)
    assert scan(limits.topic_path, start_timestamp=1 << 70).count() == 0
    assert scan(limits.topic_path, end_timestamp=-(1 << 70)).count() == 0
    assert scan(limits.topic_path, start_timestamp=-(1 << 70), end_timestamp=1 << 70).count() == count
    assert scan(limits.topic_path, end_timestamp=-(1 << 63)).count() == 0


def test_datetimes_are_exact_to_the_millisecond(tmp_path: Path) -> None:
    first = datetime.datetime(2026, 1, 1, 0, 0, 1, 1000, datetime.UTC)
    stamps = [1767225601000 + at for at in range(1000)]
    made = log_of(tmp_path, [Record(at, stamp, None, b"", []) for at, stamp in enumerate(stamps)])
    for at in range(1, 1000, 7):
        moment = first + datetime.timedelta(milliseconds=at - 1)
        assert scan(made.topic_path, start_timestamp=moment).to_table().column("offset")[0].as_py() == at


def test_latest_record_of_a_key_is_decided_before_predicates(tmp_path: Path) -> None:
    made = GeneratedLog(tmp_path, 3, LogConfig(segment_bytes=2_000, index_interval_bytes=1))
    for base in range(0, 600, 6):
        made.append([Record(base + at, NOW_MS, b"k%d" % (at % 3), b"%d" % (base + at), []) for at in range(6)])
    found = scan(made.topic_path, latest_per_key=True, split_bytes=500)
    assert len(found.splits) > 3
    t = ScanDataset(found)
    assert duckdb.sql('select "offset" from t order by 1').fetchall() == [(597,), (598,), (599,)]
    assert duckdb.sql('select count(*) from t where "offset" < 590').fetchall() == [(0,)]
    assert polars.scan_pyarrow_dataset(t).filter(polars.col("offset") < 598).collect()["offset"].to_list() == [597]


@given(seed=st.integers(0, 1 << 30), shape=st.data())
@settings(max_examples=examples(25), deadline=None)
def test_rows_are_the_same_whatever_is_projected(
    tmp_path_factory: pytest.TempPathFactory, seed: int, shape: st.DataObject
) -> None:
    rng = random.Random(seed)
    values = [rng.choice([b'{"id": 1}', b"no", None, b'{"id": "x"}', b"\xff", b"null", b"[]"]) for _ in range(30)]
    made = log_of(
        tmp_path_factory.mktemp("rows"), [Record(at, NOW_MS, None, one, []) for at, one in enumerate(values)], seed
    )
    found = scan(made.topic_path, values=ValueSchema("json", pa.schema([("id", pa.int64())])))
    names = shape.draw(st.lists(st.sampled_from([*SCHEMA.names, "value_error"]), unique=True))
    part = found.select(names)
    assert part.to_table().num_rows == part.count() == found.count() == len(values)
    t = ScanDataset(found)
    (counts,) = duckdb.sql("select count(*), count(value), count(value_error) from t").fetchall()
    assert counts[0] == len(values) and counts[1] == values.count(b'{"id": 1}')
    assert counts[2] == sum(one not in (b'{"id": 1}', None, b"null") for one in values)
    assert t.count_rows() == len(values)


def test_count_of_a_header_with_a_wrong_number_is_an_error(tmp_path: Path) -> None:
    """Every bit of every header is flipped: the count is that of the records, or an error that names the offsets."""
    made = GeneratedLog(tmp_path, 2)
    for base in (0, 5, 10):
        made.append([Record(base + at, NOW_MS, b"k", b"v" * 50, []) for at in range(5)])
    made.close()
    (file,) = made.segments()
    whole = file.read_bytes()
    for position, _ in list(iter_headers(whole))[:-1]:  # a damaged end of a log is a torn one
        for byte in (*range(position + 21, position + 23), *range(position + 57, position + 61)):  # attributes, count
            for bit in range(8):
                damaged = bytearray(whole)
                damaged[byte] ^= 1 << bit
                file.write_bytes(damaged)
                if (byte, bit) == (position + 22, 3) or byte == position + 21 or position + 22 == byte:
                    # The timestamp type, the codec and unused bits change no count.
                    try:
                        assert scan(made.topic_path).count() == 15
                    except UnreadableOffsets:
                        continue
                else:
                    with pytest.raises(UnreadableOffsets):
                        scan(made.topic_path).count()


@pytest.mark.usefixtures("sockets")
@pytest.mark.parametrize("form", ["jsonl", "csv", "table"])
def test_query_names_times_that_sql_has_not(limits: GeneratedLog, form: str, tmp_path: Path) -> None:
    to_file = () if form == "table" else ("--file", str(tmp_path / "found"))
    where = ("--data-dir", str(limits.topic_path.parent), "-b", "127.0.0.1:1", "--output", form, *to_file)
    done = odradek_command("query", 'select timestamp, "offset" from t order by "offset"', *where)
    assert done.status == 0 and "Traceback" not in done.err
    assert "8 timestamps of t are beyond the years of SQL, such as -9223372036854775808 ms" in done.err
    shown = (tmp_path / "found").read_text() if to_file else done.out
    assert len(shown.splitlines()) >= 2 * len(LIMITS)


@pytest.mark.usefixtures("sockets")
@pytest.mark.parametrize("columns", ["timestamp, reason", "*", "count(timestamp)"])
def test_query_of_undecodable_records_names_times_that_sql_has_not(limits: GeneratedLog, columns: str) -> None:
    where = ("--data-dir", str(limits.topic_path.parent), "-b", "127.0.0.1:1", "--value-format", "json")
    done = odradek_command("query", f'select {columns} from "t.undecodable"', *where)
    assert done.status == 0 and "8 timestamps of t are beyond the years of SQL" in done.err


@pytest.mark.usefixtures("sockets")
def test_query_shows_years_beyond_9999(tmp_path: Path) -> None:
    made = log_of(tmp_path, [Record(0, 253_402_300_800_000, None, b"v", [])])
    where = ("--data-dir", str(made.topic_path.parent), "-b", "127.0.0.1:1")
    done = odradek_command("query", "select timestamp from t", *where)
    assert done.status == 0 and done.err == "" and "253402300800000000 us" in done.out
    nested = odradek_command("query", "select [timestamp] x, {'a': timestamp} y from t", *where)
    assert nested.status == 0 and nested.out.count("253402300800000000 us") == 2


def test_split_with_bounds_is_plain_data() -> None:
    split = Split("t", 0, 0, 10, first_timestamp=None, last_timestamp=(1 << 63) - 1)
    assert split.bounds.first_timestamp == -(1 << 63) and split.bounds.last_offset == 9
