"""The reader of a relation in Spark, without a JVM: its tasks have the rows of a consumer, and conditions change none."""

from __future__ import annotations

import datetime
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import odradek
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from confluent_kafka import Producer
from hypothesis import given, settings
from hypothesis import strategies as st
from odradek.archive import ArchiveError, ArchiveOptions, Archiver
from odradek.archive.relation import relation
from odradek.columns import INFER, ValueSchema
from odradek.columns.cluster_errors import ClusterError
from odradek.spark.options import InvalidOptions
from odradek.spark.relation import FilteringRelationReader, RelationReader, schema_of_relation
from odradek.spark.relation_options import names_relation, parse_relation
from odradek.spark.source import OdradekSource
from pyspark.sql import datasource as ds
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

from tests.archive.harness.broker import NOW_MS, Harness
from tests.archive.harness.tables import KINDS, open_table
from tests.harness.examples import examples

pytest.importorskip("pyspark.sql.datasource").__dict__.get("EqualTo") or pytest.skip(
    "before 4.1 Spark pushes nothing to sources in Python", allow_module_level=True
)

PLACE = {"iceberg": "warehouse", "parquet": "parquet"}
PARTITIONS = 3
Row = dict[str, Any]


@pytest.fixture(scope="module")
def harness(processes: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    made = Harness(tmp_path_factory.mktemp("broker"))
    with made.process:
        yield made


@pytest.fixture(scope="module")
def folders(harness: Harness, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A table of each kind, by several commits, and records behind the newest one."""
    found = {}
    for kind in KINDS:
        topic, found[kind] = f"of_{kind}", tmp_path_factory.mktemp(kind)
        harness.create(topic, PARTITIONS)
        for number in range(3):
            for partition in range(PARTITIONS):
                harness.fill(topic, 25 + number, partition=partition)
            harness.fill_transactions(topic)
            if number < 2:
                archive(harness, kind, found[kind], topic)
    return found


def archive(harness: Harness, kind: str, folder: Path, topic: str, **options: Any) -> None:
    Archiver(harness.client, [topic], lambda owner: open_table(kind, folder, owner), ArchiveOptions(**options)).run(
        once=True
    )


def options(harness: Harness, kind: str, folder: Path, topic: str, **others: str) -> dict[str, str]:
    given = {"kafka.bootstrap.servers": harness.process.bootstrap, "subscribe": topic, PLACE[kind]: str(folder)}
    return given | {"splitBytes": "3000"} | others


def rows(reader: RelationReader) -> list[Row]:
    """The rows of all tasks, each in a process of its own as far as pickling goes."""
    found: list[Row] = []
    for part in reader.partitions():
        for batch in pickle.loads(pickle.dumps(reader)).read(pickle.loads(pickle.dumps(part))):
            assert isinstance(batch, pa.RecordBatch)
            found += batch.to_pylist()
    return sorted(found, key=lambda row: (row["partition"], row["offset"]))


def reader_of(given: dict[str, str], columns: list[str] | None = None) -> FilteringRelationReader:
    whole = OdradekSource(given).schema()
    schema = whole if columns is None else StructType([whole[name] for name in columns])
    return FilteringRelationReader(parse_relation(given), schema)


@pytest.mark.parametrize("kind", KINDS)
def test_tasks_have_the_records_of_a_consumer_once(harness: Harness, folders: dict[str, Path], kind: str) -> None:
    topic = f"of_{kind}"
    reader = reader_of(options(harness, kind, folders[kind], topic))
    expected = [(row[0], row[1], row[4], row[5]) for row in harness.read(topic)]
    assert [(row["partition"], row["offset"], row["key"], row["value"]) for row in rows(reader)] == expected
    assert len(reader.partitions()) > 2 + PARTITIONS
    whole = reader_of(options(harness, kind, folders[kind], topic, splitBytes=str(1 << 30)), ["partition", "offset"])
    assert len(whole.partitions()) == 1 + PARTITIONS
    assert [tuple(row.values()) for row in rows(whole)] == [row[:2] for row in expected]


_STAMPS = st.integers(0, 100_000_000).map(
    lambda one: datetime.datetime.fromtimestamp((NOW_MS + one) / 1000, datetime.UTC)
)
_OFFSET_FILTERS = st.sampled_from([ds.GreaterThan, ds.LessThanOrEqual, ds.EqualTo])
_TIME_FILTERS = st.sampled_from([ds.GreaterThanOrEqual, ds.LessThan])
_CONDITIONS = st.one_of(
    st.builds(lambda kind, value: kind(("offset",), value), _OFFSET_FILTERS, st.integers(-2, 90)),
    st.builds(lambda value: ds.EqualTo(("partition",), value), st.integers(0, PARTITIONS)),
    st.builds(lambda value: ds.In(("partition",), (value, 2)), st.integers(0, PARTITIONS)),
    st.builds(lambda kind, value: kind(("timestamp",), value), _TIME_FILTERS, _STAMPS),
    st.builds(lambda value: ds.EqualTo(("key",), value), st.sampled_from([b"", b"k1", b"k8"])),
    st.just(ds.IsNull(("key",))),
    st.just(ds.IsNotNull(("value",))),
)
#: Conditions that the reader leaves to Spark.
_LEFT_OUT = st.sampled_from(
    [ds.Not(ds.EqualTo(("key",), b"k1")), ds.StringContains(("value",), "x"), ds.LessThan(("offset",), 1 << 70)]
)
_COMPARED = {
    ds.EqualTo: lambda found, value: found == value,
    ds.In: lambda found, value: found in value,
    ds.GreaterThan: lambda found, value: found > value,
    ds.GreaterThanOrEqual: lambda found, value: found >= value,
    ds.LessThan: lambda found, value: found < value,
    ds.LessThanOrEqual: lambda found, value: found <= value,
}


def passes(row: Row, condition: Any) -> bool:
    """Returns whether Spark keeps a row."""
    found = row[condition.attribute[0]]
    if isinstance(condition, ds.IsNull | ds.IsNotNull):
        return (found is None) == isinstance(condition, ds.IsNull)
    return found is not None and _COMPARED[type(condition)](found, condition.value)


@given(data=st.data())
@settings(max_examples=examples(30), deadline=None)
@pytest.mark.parametrize("kind", KINDS)
def test_pushed_conditions_leave_out_the_rows_that_do_not_meet_them(
    harness: Harness, folders: dict[str, Path], kind: str, data: st.DataObject
) -> None:
    conditions = data.draw(st.lists(_CONDITIONS, min_size=1, max_size=3))
    given = options(harness, kind, folders[kind], f"of_{kind}")
    whole = [row for row in rows(reader_of(given)) if all(passes(row, one) for one in conditions)]
    columns = ["partition", "offset", *data.draw(st.lists(st.sampled_from(["key", "value", "headers"]), unique=True))]
    reader = reader_of(given, columns)
    pushed = [*conditions, *data.draw(st.lists(_LEFT_OUT, max_size=1))]
    assert reader.pushFilters(pushed) == pushed, "Spark applies them, too"
    assert rows(reader) == [{name: row[name] for name in columns} for row in whole]


@pytest.mark.parametrize("kind", KINDS)
def test_files_without_rows_of_a_query_are_not_read(harness: Harness, kind: str, tmp_path: Path) -> None:
    topic = f"unread_{kind}"
    harness.create(topic)
    for value in (b"old", b"new"):
        harness.write(topic, [value] * 10)
        archive(harness, kind, tmp_path, topic)
    harness.write(topic, [b"log"] * 5)
    given = options(harness, kind, tmp_path, topic)
    (old,) = (one for one in tmp_path.rglob("*.parquet") if pq.read_table(one)["offset"][0].as_py() == 0)
    old.unlink()
    reader = reader_of(given)
    reader.pushFilters([ds.GreaterThanOrEqual(("offset",), 12)])
    assert [row["value"] for row in rows(reader)] == [b"new"] * 8 + [b"log"] * 5
    with pytest.raises(ArchiveError, match="make the relation again"):
        rows(reader_of(given))


def test_tasks_stay_as_of_their_plan_while_an_archiver_commits_and_merges(harness: Harness, tmp_path: Path) -> None:
    for kind in KINDS:
        topic = f"stays_{kind}"
        harness.create(topic)
        for number in range(15):
            harness.fill(topic, 10 + number)
            archive(harness, kind, tmp_path / kind, topic)
        harness.fill(topic, 77)
        reader = reader_of(options(harness, kind, tmp_path / kind, topic), ["partition", "offset"])
        parts, expected = reader.partitions(), [row[:2] for row in harness.read(topic)]
        before = set((tmp_path / kind).rglob("*.parquet"))
        for number in range(3):
            harness.fill(topic, 10 + number)
            archive(harness, kind, tmp_path / kind, topic)
        assert kind == "iceberg" or not all(one.exists() for one in before), "small files were merged"
        found = [tuple(row.values()) for part in parts for batch in reader.read(part) for row in batch.to_pylist()]
        assert sorted(found) == expected and len(parts) > 1


def test_typed_rows_take_a_narrower_schema(harness: Harness, tmp_path: Path) -> None:
    harness.create("narrow")
    for first in (0, 50):
        harness.write("narrow", [b'{"id": %d, "of": {"a": "x", "b": 1}}' % one for one in range(first, first + 50)])
        if not first:
            archive(harness, "iceberg", tmp_path, "narrow", values=ValueSchema("json", INFER))
    given = options(harness, "iceberg", tmp_path, "narrow", valueFormat="json", valueSchema="infer")
    inner = StructType([StructField("a", StringType())])
    value = StructType([StructField("of", inner), StructField("id", IntegerType())])
    places = [StructField("partition", IntegerType()), StructField("offset", LongType())]
    schema = StructType([*places, StructField("value", value)])
    reader = FilteringRelationReader(parse_relation(given), schema)
    reader.pushFilters([ds.GreaterThan(("value", "id"), 47), ds.EqualTo(("value", "of", "a"), "x")])
    assert [row["value"] for row in rows(reader)] == [{"of": {"a": "x"}, "id": one} for one in range(48, 100)]
    wrong = {"is struct<": StructField("value", IntegerType()), "no column 'values'": StructField("values", value)}
    for message, field in wrong.items():
        with pytest.raises(InvalidOptions, match=message):
            RelationReader(parse_relation(given), StructType([field])).partitions()


def test_user_without_read_on_the_topic_reads_no_file(processes: None, tmp_path: Path) -> None:
    users = {"admin": "admin-secret", "ann": "ann-secret"}
    security = odradek.Security("SASL_PLAINTEXT", "SCRAM-SHA-256", users=users, authorizer=True)
    with odradek.Broker(security=security) as broker:
        producer = Producer(dict(broker.client_settings("confluent-kafka")))
        producer.produce("secret", b"v")
        assert producer.flush(30) == 0
        client = dict(broker.client_settings("java", "admin"))
        Archiver(client, ["secret"], lambda owner: open_table("iceberg", tmp_path, owner)).run(once=True)
        for user, is_allowed in (("admin", True), ("ann", False)):
            login = dict(broker.client_settings("java", user))
            given = {f"kafka.{name}": value for name, value in login.items()}
            given |= {"subscribe": "secret", "warehouse": str(tmp_path)}
            schema = schema_of_relation(relation("secret", client=client, warehouse=tmp_path))
            reader = RelationReader(parse_relation(given), schema)
            if is_allowed:
                assert [row["value"] for row in rows(reader)] == [b"v"]
            else:
                with pytest.raises(ClusterError, match="secret"):
                    reader.partitions()


GIVEN = {"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "t", "warehouse": "w"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"startingOffsets": "earliest"}, r"a relation of format\('odradek'\) has no option 'startingoffsets'"),
        ({"parquets": "p"}, "did you mean 'parquet'"),
        ({"subscribe": "a,b"}, "a relation is of one topic"),
        ({"parquet": "p"}, "a table has one place"),
        ({"valueFormat": "xml"}, "takes json or avro or protobuf"),
        ({"valueSchema": "infer"}, "'valueSchema' needs 'valueFormat'"),
        ({"times": "exact"}, "takes native or number"),
        ({"splitBytes": "0"}, "splitBytes must be positive"),
        ({"kafka.bootstrap.servers": ""}, "must be specified"),
        ({"kafka.isolation.level": "none"}, "takes read_uncommitted or read_committed"),
    ],
)
def test_options_that_do_not_fit_are_errors(options: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidOptions, match=message):
        parse_relation(GIVEN | options)


def test_place_of_a_table_makes_a_relation_and_secrets_are_not_shown() -> None:
    assert not names_relation({"subscribe": "t"}) and names_relation({"catalog.uri": "x"}) and names_relation(GIVEN)
    given = GIVEN | {
        "catalog.s3.secret-access-key": "hidden",
        "kafka.sasl.jaas.config": "hidden",
        "valueFormat": "avro",
    }
    found = parse_relation(given | {"schemaRegistryUserInfo": "user:hidden", "schemaRegistry": "http://registry"})
    assert found.catalog == {"s3.secret-access-key": "hidden"} and "hidden" not in repr(found)
    assert found.isolation_level is None
