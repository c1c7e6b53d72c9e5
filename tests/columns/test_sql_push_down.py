"""SQL over a scan has the rows of the same SQL over a copy: conditions of any kind, with nulls, NaN, casts and odd keys."""

from __future__ import annotations

import random

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from odradek.columns import ScanDataset, ValueSchema, scan
from odradek.protocol.records.record import Record
from odradek.query.scans import _FIRST_MS, _LAST_MS
from odradek.storage.log.config import LogConfig

from tests.columns.harness.logs import NOW_MS, GeneratedLog
from tests.harness.examples import examples

COUNT = 100
_STAMPS = [-1, 0, 1, NOW_MS, NOW_MS + 1, -(1 << 63), (1 << 63) - 1, NOW_MS + 5000, -5]
_KEYS = [None, b"", b"k", b"K", b"\xff", b'"', b"\\", b"k k", b"k\0", b'(key == "k")', b" and ", "é".encode()]
_CONTENTS = [
    None, b"", b'{"n": 1.5, "s": "a", "i": 7, "key": "k"}', b'{"n": 1e300, "i": -3}', b'{"s": null}', b"x",
    b'{"n": -0.0, "s": "", "i": 0}',
]  # fmt: skip
_VALUES = ValueSchema(
    "json", pa.schema([("n", pa.float64()), ("s", pa.string()), ("i", pa.int64()), ("key", pa.string())])
)
_COMPARISONS = ("=", "<", "<=", ">", ">=", "<>", "is distinct from", "is not distinct from")
_LITERALS = {
    '"offset"': ["0", "1", "40", f"{COUNT - 1}", f"{COUNT}", "-1", f"{1 << 62}", "null", "1.5", "'80'"],
    "partition": ["0", "1", "null", "0.0", "'0'", "-1", f"{1 << 32}"],
    "timestamp": [
        f"make_timestamptz({(NOW_MS + 70) * 1000})", f"make_timestamptz({NOW_MS * 1000 + 1})", "null", "date '2026-03-04'",
        "timestamptz '1970-01-01'", "timestamptz 'infinity'", "timestamptz '-infinity'",
    ],
    "timestamp_type": ["0", "1", "null"],
    "topic": ["'t'", "'x'", "null"],
    "key": ["'k'", "''", "null", "'K'", "'\\xff'", "'\"'", "'k k'", "'(key == \"k\")'", "' and '", "'é'", "'k' || chr(0)"],
    "value.n": ["1.5", "'nan'::double", "'inf'::double", "null", "0", "-0.0"],
    "value.s": ["'a'", "''", "null"],
    "value.i": ["7", "0", "null", "7.0", "'7'"],
    "value.key": ["'k'", "'x'", "null"],
    "value_error": ["'x'", "null"],
}  # fmt: skip
_OTHERS = ("cast(\"offset\" as varchar) = '40'", '"offset" % 7 = 0', '"offset" + 1 > 80', 'cast("offset" as int) < 80')


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> GeneratedLog:
    rng = random.Random(7)
    config = LogConfig(segment_bytes=1_500, index_interval_bytes=100, retention_ms=-1)
    made, count = GeneratedLog(tmp_path_factory.mktemp("sql"), 1, config), 0
    while count < COUNT:
        end = min(COUNT, count + rng.randint(1, 6))
        stamps = [rng.choice(_STAMPS) if rng.random() < 0.5 else NOW_MS + one for one in range(count, end)]
        made.append(
            [
                Record(offset, stamp, rng.choice(_KEYS), rng.choice(_CONTENTS), [])
                for offset, stamp in enumerate(stamps, count)
            ]
        )
        count = end
    made.log.roll(NOW_MS)
    return made


def condition(rng: random.Random, columns: list[str], depth: int) -> str:
    draw = rng.random()
    if depth and draw < 0.4:
        parts = (condition(rng, columns, depth - 1) for _ in range(2))
        return f"({rng.choice((' and ', ' or ')).join(parts)})"
    if depth and draw < 0.5:
        return f"not ({condition(rng, columns, depth - 1)})"
    name = rng.choice(columns)
    first, second, third = rng.choices(_LITERALS[name], k=3)
    forms = [
        f"{name} {rng.choice(_COMPARISONS)} {first}", f"{name} {rng.choice(_COMPARISONS)} {first}",
        f"{name} in ({first}, {second}, {third})", f"{name} not in ({first}, {second})",
        f"{name} between {first} and {second}", f"{name} is {rng.choice(('', 'not '))}null", rng.choice(_OTHERS),
    ]  # fmt: skip
    return rng.choice(forms)


@given(seed=st.integers(0, 1 << 40))
@settings(max_examples=examples(25), deadline=None)
def test_sql_has_the_rows_of_a_copy(log: GeneratedLog, seed: int) -> None:
    rng = random.Random(seed)
    values = rng.choice([None, _VALUES])
    found = scan(
        log.topic_path, values=values, split_bytes=rng.choice((1_500, 1 << 20)), latest_per_key=rng.random() < 0.2
    ).with_dates(_FIRST_MS, _LAST_MS)
    columns = [one for one in _LITERALS if values is not None or not one.startswith("value")]
    found = found.as_text(["key"] if values is not None else ["key", "value"])
    with duckdb.connect() as database:
        database.execute("set TimeZone = 'UTC'")
        database.register("whole", found.to_table())
        database.execute("create table copied as select * from whole")
        database.register("scanned", ScanDataset(found))
        for _ in range(5):
            where = condition(rng, columns, rng.randint(0, 3))
            what, order = rng.choice(
                [('"offset", key', 'order by "offset"'), ("count(*)", ""), ("*", 'order by "offset"')]
            )
            rows = [
                rows_of(database, f"select {what} from {table} where {where} {order}")
                for table in ("scanned", "copied")
            ]
            assert rows[0] == rows[1], (what, where)


def rows_of(database: duckdb.DuckDBPyConnection, sql: str) -> str:
    """The rows, or the kind of the error: a literal may be none of the column's type."""
    try:
        return str(database.sql(sql).fetchall())
    except duckdb.ConversionException:
        return "no conversion"
