"""Queries that read a part of the log have the rows of those that read all of it."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from odradek.columns import ScanDataset, scan
from odradek.columns.dataset import pruned
from odradek.columns.directory import segments_of
from odradek.columns.segment import latest_timestamp
from odradek.protocol.records.record import Record
from odradek.storage.log.config import LogConfig

from tests.columns.harness.layouts import Layout
from tests.columns.harness.logs import NOW_MS, GeneratedLog
from tests.harness.examples import examples

STAMP = pa.timestamp("ms", tz="UTC")


@pytest.fixture(scope="module")
def layouts(tmp_path_factory: pytest.TempPathFactory) -> list[Layout]:
    made = []
    for seed in range(4):
        one = Layout(tmp_path_factory.mktemp("pushed"), seed)
        one.fill(60)
        one.close()
        made.append(one)
    return made


def comparison(rng: random.Random, end: int) -> tuple[Any, str]:
    """A condition as an expression and as SQL."""
    name = rng.choice(["offset", "timestamp", "partition", "key", "timestamp", "offset"])
    how = rng.choice(["<", "<=", ">", ">=", "=="])
    if name == "key":
        return ds.field("key") == b"k1", "key = 'k1'::blob"
    field = ds.field(name)
    if name == "partition":
        number = rng.choice([0, 1])
        return field == pa.scalar(number, pa.int32()), f"partition = {number}"
    if name == "offset":
        number, quoted = rng.randrange(end + 2), '"offset"'
        scalar = pa.scalar(number, pa.int64())
        text = str(number)
    else:
        if rng.random() < 0.15:
            return field.is_null(), "timestamp is null"
        number = NOW_MS + rng.choice([-1000, 0, 1, rng.randrange(10**6)])
        scalar, quoted, text = pa.scalar(number, STAMP), "timestamp", f"make_timestamptz({number * 1000})"
    made = {
        "<": field < scalar,
        "<=": field <= scalar,
        ">": field > scalar,
        ">=": field >= scalar,
        "==": field == scalar,
    }
    return made[how], f"{quoted} {how.replace('==', '=')} {text}"


@given(seed=st.integers(0, 1 << 40))
@settings(max_examples=examples(60), deadline=None)
def test_every_filter_has_the_rows_of_the_whole_log(layouts: list[Layout], seed: int) -> None:
    rng = random.Random(seed)
    layout = rng.choice(layouts)
    found = scan(
        layout.topic_path, split_bytes=rng.choice((200, 2_000, 1 << 20)), latest_per_key=rng.random() < 0.2,
        isolation_level=rng.choice(("read_uncommitted", "read_committed")),
    )  # fmt: skip
    whole = found.to_table()
    expression, sql = comparison(rng, layout.end)
    for _ in range(rng.choice((0, 1, 2))):
        other, text = comparison(rng, layout.end)
        is_and = rng.random() < 0.8
        expression = (expression & other) if is_and else (expression | other)
        sql = f"({sql} {'and' if is_and else 'or'} {text})"
    if rng.random() < 0.2:
        expression, sql = ~expression, f"not {sql}"
    expected = whole.filter(expression).column("offset").to_pylist()
    t = ScanDataset(found)
    assert t.to_table(["offset"], expression).column("offset").to_pylist() == expected
    assert t.count_rows(expression) == len(expected)
    assert [row[0] for row in duckdb.sql(f'select "offset" from t where {sql} order by 1').fetchall()] == expected


def test_conjunctions_and_times_leave_out_segments(tmp_path: Path) -> None:
    made = GeneratedLog(tmp_path, 1, LogConfig(segment_bytes=2_000, index_interval_bytes=200, retention_ms=-1))
    for base in range(0, 400, 4):
        made.append([Record(base + at, NOW_MS + base + at, b"k", b"v" * 40, []) for at in range(4)])
    made.log.roll(NOW_MS)
    found = scan(made.topic_path, split_bytes=1_000)
    count = len(found.splits)
    late = ds.field("timestamp") >= pa.scalar(NOW_MS + 300, STAMP)
    left = pruned(found.plan, late).splits
    assert 0 < len(left) <= count // 3 and min(one.first_offset for one in left) <= 300
    both = (ds.field("offset") < 40) & (ds.field("key") == b"k") & (ds.field("timestamp_type") == 0)
    assert 0 < len(pruned(found.plan, both).splits) <= count // 5
    assert pruned(found.plan, late & (ds.field("offset") < 100)).splits == ()
    assert len(pruned(found.plan, ds.field("timestamp").is_null()).splits) == count


def test_a_time_index_that_was_cut_is_not_believed(tmp_path: Path) -> None:
    made = GeneratedLog(tmp_path, 1, LogConfig(segment_bytes=3_000, index_interval_bytes=200, retention_ms=-1))
    for base in range(0, 400, 4):
        made.append([Record(base + at, NOW_MS + base + at, b"k", b"v" * 40, []) for at in range(4)])
    made.log.roll(NOW_MS)
    made.close()
    segments = [one for one in segments_of(str(made.path)) if one.next_base is not None]
    assert [latest_timestamp(one) for one in segments] == [NOW_MS + one.next_base - 1 for one in segments]  # type: ignore[operator]
    for segment in segments:
        file = Path(segment.path.replace(".log", ".timeindex"))
        file.write_bytes(file.read_bytes()[:-12])
        assert latest_timestamp(segment) is None
        file.unlink()
        assert latest_timestamp(segment) is None
