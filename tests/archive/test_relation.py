"""`odradek.relation`: a topic's table and its log as one, equal to a consumer's reading at every moment."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import duckdb
import polars
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from odradek.archive import ArchiveError, ArchiveOptions, Archiver, open_catalog
from odradek.archive.relation import Relation, relation
from odradek.columns import INFER, ScanError, ValueSchema
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table

from tests.archive.harness.broker import Harness, rows_of_table
from tests.archive.harness.tables import KINDS, open_table
from tests.harness.examples import examples

_DEADLINE_S = 60
INFERRED = ValueSchema("json", INFER)


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def archived(harness: Harness, kind: str, folder: Path, topic: str, **options: Any) -> Archiver:
    made = Archiver(
        harness.client, [topic], lambda owner: open_table(kind, folder, owner), ArchiveOptions(**options)
    )  # fmt: skip
    made.run(once=True)
    return made


def related(harness: Harness, kind: str, folder: Path, topic: str, **options: Any) -> Relation:
    place = {"parquet": folder} if kind == "parquet" else {"warehouse": folder}
    return relation(topic, client=harness.client, **place, **options)


def test_relation_equals_a_consumer_wherever_the_table_ends(harness: Harness, kind: str, tmp_path: Path) -> None:
    topic = f"related_{kind}"
    harness.create(topic, 2, segment_bytes=1 << 20)
    harness.fill(topic, 400)
    archived(harness, kind, tmp_path, topic)
    for _ in range(3):
        harness.fill(topic, 300, partition=1)
        harness.fill_transactions(topic)
        expected = harness.read(topic)
        before = related(harness, kind, tmp_path, topic)
        assert rows_of_table(before.to_table()) == expected
        assert before.count_rows() == len(expected)
        archived(harness, kind, tmp_path, topic)
        after = related(harness, kind, tmp_path, topic)
        assert rows_of_table(after.to_table()) == expected
        assert all(start == end for start, end in after.offsets.values())
    harness.grow(topic, 3)
    harness.fill(topic, 50, partition=2)
    assert rows_of_table(related(harness, kind, tmp_path, topic).to_table()) == harness.read(topic)


def test_relation_stays_as_of_its_point_while_the_table_grows_and_is_merged(
    harness: Harness, kind: str, tmp_path: Path
) -> None:
    topic = f"point_{kind}"
    harness.create(topic)
    for number in range(15):
        harness.fill(topic, 10 + number)
        archived(harness, kind, tmp_path, topic)
    harness.fill(topic, 77)
    found, expected = related(harness, kind, tmp_path, topic), harness.read(topic)
    files = {one for one in tmp_path.rglob("*.parquet") if f"/{topic}/" in str(one)}
    for number in range(17):
        harness.fill(topic, 10 + number)
        archived(harness, kind, tmp_path, topic)
    if kind == "parquet":
        assert not all(one.exists() for one in files), "small files were merged"
    assert rows_of_table(found.to_table()) == expected
    assert rows_of_table(found.to_table()) == expected


def test_relation_beside_a_running_archiver_has_each_record_once(harness: Harness, kind: str, tmp_path: Path) -> None:
    topic = f"running_{kind}"
    harness.create(topic, 2)
    harness.fill(topic, 50)
    archived(harness, kind, tmp_path, topic)
    archiver = Archiver(
        harness.client, [topic], lambda owner: open_table(kind, tmp_path, owner), ArchiveOptions(freshness_s=0.1)
    )  # fmt: skip
    thread = threading.Thread(target=archiver.run)
    thread.start()
    ends, table_ends = [], set()
    try:
        for number in range(12):
            harness.fill(topic, 40 + number, partition=number % 2)
            made = related(harness, kind, tmp_path, topic)
            offsets = [(row[0], row[1]) for row in rows_of_table(made.to_table())]
            assert len(set(offsets)) == len(offsets) == sum(end for _, end in made.offsets.values())
            ends.append(len(offsets))
            table_ends.add(made.offsets[0][0])
    finally:
        archiver.stop()
        thread.join(_DEADLINE_S)
    assert not thread.is_alive()
    assert ends == sorted(ends) and ends[-1] == 50 + sum(40 + number for number in range(12))
    assert len(table_ends) > 1, "the table grew meanwhile"


def test_records_of_the_log_are_the_rows_that_the_archiver_makes_of_them(
    harness: Harness, kind: str, tmp_path: Path
) -> None:
    """Before and after they are archived: with new fields, null, bad values, and values beyond the columns."""
    topic = f"typed_{kind}"
    harness.create(topic)
    first: list[bytes | None] = [b'{"n": %d, "of": {"a": "x"}}' % number for number in range(10_001)]
    harness.write(topic, first)
    archived(harness, kind, tmp_path, topic, values=INFERRED)
    harness.write(
        topic,
        [b'{"n": 1, "new": 2}', b'{"n": "text"}', None, b"no JSON", b'{"of": {"a": "y", "b": 1}}', b'{"n": 7}', b"{}"],
    )
    before = related(harness, kind, tmp_path, topic, values=INFERRED)
    assert [start for start, _ in before.offsets.values()] == [10_001]
    rows, dead = before.to_table(), before.dead_letter_records()
    archived(harness, kind, tmp_path, topic, values=INFERRED)
    after = related(harness, kind, tmp_path, topic, values=INFERRED)
    assert [start for start, _ in after.offsets.values()] == [10_008]
    assert dead.num_rows == 2
    for old, new in ((rows, after.to_table()), (dead, after.dead_letter_records())):
        assert old.schema == new.schema
        assert old.sort_by("offset").to_pylist() == new.sort_by("offset").to_pylist()
    assert before.to_table(filter=ds.field("offset") >= 10_001).column("value_json").to_pylist()[0] is not None


def test_table_that_has_no_value_so_far_takes_the_type_of_the_log(harness: Harness, tmp_path: Path) -> None:
    harness.create("empty_so_far")
    harness.write("empty_so_far", [None, None])
    archived(harness, "iceberg", tmp_path, "empty_so_far", values=INFERRED)
    harness.write("empty_so_far", [b'{"a": 5}'])
    made = related(harness, "iceberg", tmp_path, "empty_so_far", values=INFERRED)
    assert made.to_table().sort_by("offset").column("value").to_pylist() == [None, None, {"a": 5}]


@pytest.fixture(scope="module")
def filtered(harness: Harness, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Relation]:
    found = {}
    for kind in KINDS:
        topic, folder = f"filtered_{kind}", tmp_path_factory.mktemp(kind)
        harness.create(topic, 3)
        for partition in (0, 1, 2, 0):
            harness.fill(topic, 60, partition=partition)
            if partition != 2:
                archived(harness, kind, folder, topic)
        found[kind] = related(harness, kind, folder, topic)
    return found


_STAMPS = st.integers(1_772_600_000_000, 1_772_700_000_000).map(
    lambda one: pa.scalar(one, pa.timestamp("ms", tz="UTC"))
)
_CONDITIONS = st.one_of(
    st.builds(lambda value: ds.field("partition") == value, st.integers(-1, 3)),
    st.builds(lambda value: ds.field("partition").isin([value, 2]), st.integers(-1, 3)),
    st.builds(lambda value: ds.field("offset") >= value, st.integers(-5, 130)),
    st.builds(lambda value: ds.field("offset") < value, st.integers(-5, 130)),
    st.builds(lambda value: ds.field("timestamp") >= value, _STAMPS),
    st.builds(lambda value: ds.field("timestamp") < value, _STAMPS),
    st.builds(lambda value: ds.field("key") == value, st.sampled_from([b"", b"k1", b"k8"])),
    st.just(ds.field("key").is_null()),
    st.just(~ds.field("value").is_null()),
)
_FILTERS = st.recursive(
    _CONDITIONS,
    lambda inner: st.one_of(
        st.builds(lambda a, b: a & b, inner, inner),
        st.builds(lambda a, b: a | b, inner, inner),
        inner.map(lambda a: ~a),
    ),
    max_leaves=4,
)


@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
@pytest.mark.parametrize("kind", KINDS)
def test_filter_that_is_pushed_down_keeps_what_it_keeps_of_all_rows(
    filtered: dict[str, Relation], kind: str, data: st.DataObject
) -> None:
    made, condition = filtered[kind], data.draw(_FILTERS)
    columns = data.draw(st.lists(st.sampled_from(made.schema.names), unique=True))
    expected = made.to_table().filter(condition).sort_by([("partition", "ascending"), ("offset", "ascending")])
    places = ["partition", "offset"]
    found = made.to_table([*places, *(one for one in columns if one not in places)], condition)
    found = found.sort_by([("partition", "ascending"), ("offset", "ascending")])
    assert found.to_pylist() == expected.select(found.schema.names).to_pylist()
    assert made.to_table(columns, condition).num_rows == made.count_rows(condition) == expected.num_rows


def test_files_that_cannot_have_a_row_are_not_read(harness: Harness, kind: str, tmp_path: Path) -> None:
    topic = f"pruned_{kind}"
    harness.create(topic)
    harness.write(topic, [b"old"] * 10)
    archived(harness, kind, tmp_path, topic)
    old = [one for one in tmp_path.rglob("*.parquet") if f"{topic}/data" in str(one)]
    harness.write(topic, [b"new"] * 10)
    archived(harness, kind, tmp_path, topic)
    harness.write(topic, [b"log"] * 5)
    made = related(harness, kind, tmp_path, topic)
    (file,) = old
    file.unlink()
    assert made.to_table(["value"], ds.field("offset") >= 12).column("value").to_pylist() == [b"new"] * 8 + [b"log"] * 5
    with pytest.raises(ArchiveError, match="make the relation again"):
        made.to_table()


def test_engines_take_a_relation(filtered: dict[str, Relation], kind: str) -> None:
    orders = filtered[kind]
    count = orders.count_rows()
    assert duckdb.sql('select count(*), max("offset") from orders').fetchall() == [(count, 119)]
    assert duckdb.sql('select count(*) from orders a join orders b using (partition, "offset")').fetchall() == [
        (count,)
    ]
    assert polars.DataFrame(orders).height == count
    assert polars.scan_pyarrow_dataset(orders).filter(polars.col("partition") == 1).collect().height == 60
    texts = orders.as_text(["key", "value"])
    assert texts.schema.field("key").type == pa.string()
    assert pc.count(texts.to_table(["key"]).column("key"), mode="all").as_py() == count


def test_a_log_that_lacks_records_behind_the_table_is_an_error(harness: Harness, kind: str, tmp_path: Path) -> None:
    topic = f"gap_{kind}"
    harness.create(topic)
    harness.write(topic, [b"a"] * 10)
    archived(harness, kind, tmp_path, topic)
    harness.write(topic, [b"b"] * 10)
    harness.delete_records(topic, {0: 10})
    assert related(harness, kind, tmp_path, topic).count_rows() == 20
    harness.delete_records(topic, {0: 15})
    with pytest.raises(ScanError, match="offset 10 is gone"):
        related(harness, kind, tmp_path, topic)


def test_log_that_loses_what_a_newer_commit_has_is_no_error(harness: Harness, tmp_path: Path) -> None:
    """An archiver commits, and its records are deleted from the log, between the look at the table and that at the log."""
    topic = "moved"
    harness.create(topic)
    harness.write(topic, [b"a"] * 10)
    archived(harness, "iceberg", tmp_path, topic)
    harness.write(topic, [b"b"] * 10)

    class LateCatalog(SqlCatalog):
        def load_table(self, identifier: str | tuple[str, ...]) -> Table:
            loaded = super().load_table(identifier)
            if not steps:
                steps.append("archived")
                archived(harness, "iceberg", tmp_path, topic)
                harness.delete_records(topic, {0: 20})
            return loaded

    steps: list[str] = []
    known = open_catalog(tmp_path, {})
    made = relation(topic, client=harness.client, catalog=LateCatalog(known.name, **known.properties))
    assert steps and made.offsets == {0: (20, 20)} and made.count_rows() == 20


def test_records_that_are_deleted_before_they_are_read_are_an_error_that_says_what_to_do(
    harness: Harness, kind: str, tmp_path: Path
) -> None:
    topic = f"deleted_{kind}"
    harness.create(topic)
    harness.write(topic, [b"a"] * 10)
    archived(harness, kind, tmp_path, topic)
    harness.write(topic, [b"b"] * 10)
    made = related(harness, kind, tmp_path, topic)
    archived(harness, kind, tmp_path, topic)
    harness.delete_records(topic, {0: 15})
    with pytest.raises(ArchiveError, match=r"offsets 10 to 14 cannot be read: .*: make the relation again") as raised:
        made.to_table()
    assert made.failure is raised.value
    assert related(harness, kind, tmp_path, topic).count_rows() == 20


def test_table_of_another_topic_is_refused(harness: Harness, kind: str, tmp_path: Path) -> None:
    topic = f"owned_{kind}"
    harness.create(topic)
    harness.write(topic, [b"a"])
    archived(harness, kind, tmp_path, topic)
    harness.create(f"other_{kind}")
    with pytest.raises(ArchiveError, match=f"of topic {topic}"):
        related(harness, kind, tmp_path, f"other_{kind}", table=topic)
    harness.delete(topic)
    harness.create(topic)
    with pytest.raises(ArchiveError, match="deleted and created again"):
        related(harness, kind, tmp_path, topic)


def test_missing_table_place_and_cluster_are_named(harness: Harness, tmp_path: Path) -> None:
    harness.create("untabled")
    with pytest.raises(ArchiveError, match=r"no table kafka\.untabled"):
        relation("untabled", client=harness.client, catalog=open_catalog(tmp_path, {}))
    with pytest.raises(ArchiveError, match="warehouse, catalog or parquet"):
        relation("untabled", client=harness.client)
    with pytest.raises(ArchiveError, match="needs bootstrap_servers"):
        relation("untabled", warehouse=tmp_path)


def test_typed_table_needs_its_values(harness: Harness, tmp_path: Path) -> None:
    harness.create("typed_alone")
    harness.write("typed_alone", [json.dumps({"a": 1}).encode()])
    archived(harness, "iceberg", tmp_path, "typed_alone", values=INFERRED)
    with pytest.raises(ArchiveError, match="are typed, not raw: name their format"):
        related(harness, "iceberg", tmp_path, "typed_alone")
