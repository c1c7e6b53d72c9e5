"""Conditions that Spark pushes down, and the option `key`: the rows are those of a query without push-down."""

from __future__ import annotations

import datetime
import pickle
import random
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from odradek.spark.options import InvalidOptions, parse
from odradek.spark.rows import _TYPES, fields_of
from odradek.spark.source import BatchReader, FilteringReader, OdradekSource
from pyspark.sql import datasource as ds
from pyspark.sql.types import StructType

from tests.columns.harness.logs import NOW_MS
from tests.columns.harness.world import World
from tests.harness.examples import examples

pytestmark = pytest.mark.usefixtures("processes")
pytest.importorskip("pyspark.sql.datasource").__dict__.get("EqualTo") or pytest.skip(
    "before 4.1 Spark pushes nothing to sources in Python", allow_module_level=True
)

SCHEMA = StructType(fields_of(_TYPES))
COUNT, PARTITIONS, KEYS = 240, 2, 40
Row = dict[str, Any]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Keys come in the order of the offsets, so that a segment has few of them; so do timestamps."""
    made = World(tmp_path_factory.mktemp("conditions"))
    with made.broker:
        made.create("t", partitions=PARTITIONS, internal_segment_bytes="12000")
        producer = made.producer(linger_ms="0", batch_num_messages="5")
        for number in range(COUNT):
            key = None if number % 17 == 0 else b"k%d" % (number * KEYS // COUNT)
            producer.produce("t", b"v" * 1000, key, partition=number % PARTITIONS, timestamp=NOW_MS + number)
            if number % 10 == 9:
                producer.flush()
        producer.flush()
        yield made


def options(world: World, **more: str) -> dict[str, str]:
    given = {"kafka.bootstrap.servers": world.broker.bootstrap_servers, "subscribe": "t", "includeHeaders": "true"}
    return given | more


def rows(reader: BatchReader) -> list[Row]:
    """The rows of a query, read by readers that were sent to tasks."""
    found: list[Row] = []
    for part in reader.partitions():
        for batch in pickle.loads(pickle.dumps(reader)).read(pickle.loads(pickle.dumps(part))):
            assert isinstance(batch, pa.RecordBatch)
            found += batch.to_pylist()
    return sorted(found, key=lambda row: (row["partition"], row["offset"]))


@pytest.fixture(scope="module")
def whole(world: World) -> list[Row]:
    return rows(BatchReader(parse(options(world)), SCHEMA))


COMPARED: dict[type, Callable[[Any, Any], bool]] = {
    ds.EqualTo: lambda found, value: found == value,
    ds.EqualNullSafe: lambda found, value: found == value,
    ds.GreaterThan: lambda found, value: found > value,
    ds.GreaterThanOrEqual: lambda found, value: found >= value,
    ds.LessThan: lambda found, value: found < value,
    ds.LessThanOrEqual: lambda found, value: found <= value,
    ds.In: lambda found, value: found in value,
}


def passes(row: Row, condition: Any) -> bool:
    """Whether Spark keeps a row."""
    if isinstance(condition, ds.Not):
        inner = condition.child
        return row[inner.attribute[0]] is not None and not passes(row, inner)
    found = row[condition.attribute[0]]
    if isinstance(condition, ds.IsNull | ds.IsNotNull):
        return (found is None) == isinstance(condition, ds.IsNull)
    return found is not None and COMPARED[type(condition)](found, condition.value)


def condition(rng: random.Random) -> Any:
    name = rng.choice(["key", "key", "offset", "timestamp", "partition"])
    if rng.random() < 0.1:
        return rng.choice([ds.IsNull, ds.IsNotNull])((name,))
    values: dict[str, Callable[[], Any]] = {
        "key": lambda: b"k%d" % rng.randrange(KEYS + 2),
        "offset": lambda: rng.randrange(-2, COUNT),
        "partition": lambda: rng.randrange(PARTITIONS + 1),
        "timestamp": lambda: datetime.datetime.fromtimestamp(
            (NOW_MS + rng.randrange(-2, COUNT + 2)) / 1000, datetime.UTC
        ) + datetime.timedelta(microseconds=rng.choice((0, 0, 1))),
    }  # fmt: skip
    kind = rng.choice([ds.EqualTo] if name == "key" and rng.random() < 0.7 else list(COMPARED))
    value = [values[name]() for _ in range(rng.randrange(1, 4))] if kind is ds.In else values[name]()
    found = kind((name,), value)
    return ds.Not(found) if rng.random() < 0.1 else found


@given(seed=st.integers(0, 1 << 40))
@settings(max_examples=examples(60), deadline=None)
def test_rows_that_meet_the_conditions_are_those_without_push_down(world: World, whole: list[Row], seed: int) -> None:
    rng = random.Random(seed)
    isolation = rng.choice(("read_committed", "read_uncommitted"))
    given = options(world, splitBytes=rng.choice(("500", "100000")), **{"kafka.isolation.level": isolation})
    conditions = [condition(rng) for _ in range(rng.randrange(1, 4))]
    reader = FilteringReader(parse(given), SCHEMA)
    assert list(reader.pushFilters(conditions)) == conditions, "Spark applies them, too"
    expected = [row for row in whole if all(passes(row, one) for one in conditions)]
    assert [row for row in rows(reader) if all(passes(row, one) for one in conditions)] == expected


@given(number=st.integers(0, KEYS + 1), names=st.sets(st.sampled_from(sorted(_TYPES)), min_size=1))
@settings(max_examples=examples(20), deadline=None)
def test_option_key_has_the_rows_with_this_key_in_any_columns(
    world: World, whole: list[Row], number: int, names: set[str]
) -> None:
    schema = StructType(fields_of(sorted(names | {"partition", "offset"})))
    reader = BatchReader(parse(options(world, key=f"k{number}")), schema)
    expected = [{name: row[name] for name in schema.names} for row in whole if row["key"] == b"k%d" % number]
    assert rows(reader) == expected


def test_keys_and_times_leave_out_segments_and_offsets_and_partitions_whole_tasks(world: World) -> None:
    pytest.importorskip("odradek_kernel")
    by_key = FilteringReader(parse(options(world)), SCHEMA)
    by_key.pushFilters([ds.EqualTo(("key",), b"k3")])
    kept = [
        parts for part in by_key.partitions() if part.split for parts in [list(by_key._conditions.narrowed(part.split))]
    ]
    segments = [part.next_offset - part.first_offset for parts in kept for part in parts if part.path is not None]
    assert 0 < sum(segments) < COUNT / 3, "most closed segments are passed over"
    late = FilteringReader(parse(options(world)), SCHEMA)
    time = datetime.datetime.fromtimestamp((NOW_MS + COUNT - 20) / 1000, datetime.UTC)
    late.pushFilters([ds.GreaterThanOrEqual(("timestamp",), time)])
    assert 20 <= len(rows(late)) < COUNT / 2
    first = FilteringReader(parse(options(world)), SCHEMA)
    first.pushFilters([ds.EqualTo(("partition",), 1), ds.LessThan(("offset",), 5)])
    assert [(row["partition"], row["offset"]) for row in rows(first)] == [(1, offset) for offset in range(5)]
    none = FilteringReader(parse(options(world)), SCHEMA)
    none.pushFilters([ds.EqualTo(("key",), b"k1"), ds.EqualTo(("key",), b"k2")])
    assert rows(none) == []


def test_a_source_pushes_nothing_unless_spark_runs_it_for_that(world: World) -> None:
    """With its setting off, Spark rejects a reader that has the method."""
    reader = OdradekSource(options(world)).reader(SCHEMA)
    assert type(reader) is BatchReader and type(reader).pushFilters is ds.DataSourceReader.pushFilters


def test_keys_of_any_bytes_are_options(world: World) -> None:
    assert parse(options(world, key=b"\xff\x00".decode("utf-8", "surrogateescape"))).key == b"\xff\x00"
    with pytest.raises(InvalidOptions, match="Option 'key' is not text"):
        parse(options(world, key="\ud800"))
