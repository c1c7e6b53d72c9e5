"""A table belongs to one topic of one cluster, whatever names are alike: nothing is written or deleted before the check."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from odradek.admin.table_owner import OWNER, Role
from odradek.archive import ArchiveError, Covered, IcebergTable, Owner, open_catalog
from odradek.archive.ownership import chosen_names, table_name
from odradek.archive.rows import RAW_SCHEMA
from odradek.archive.store import Table
from pyiceberg.catalog.sql import SqlCatalog

from tests.archive.harness.tables import KINDS, append, dead_letter_rows, offsets_of, open_table, rows_of, source_of
from tests.harness.examples import examples

_STEMS = st.text("aA1._-", min_size=1, max_size=3).filter(lambda one: one not in (".", ".."))
_TOPICS = st.builds(
    "".join, st.tuples(_STEMS, st.sampled_from(["", "-dead-letters", "_dead_letters", ".dead.letters"]))
)


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def fill(kind: str, folder: Path, owner: Owner, count: int, *, dead: bool = True) -> None:
    """Archives `count` records of a topic; each third one is a dead-letter record."""
    table = open_table(kind, folder, owner)
    try:
        start = table.covered.offsets[0] if table.covered is not None else 0
        table.evolve(RAW_SCHEMA)
        dead = [one for one in range(start, start + count) if dead and one % 3 == 0]
        kept = rows_of(start, start + count, hours=0)
        kept = kept.filter(pa.array(one not in dead for one in kept.column("offset").to_pylist()))
        table.write(kept, dead_letter_rows(*dead, hours=0))
        table.commit(Covered(owner.topic, owner.topic_id, {0: start + count}))
    finally:
        table.close()


def contents(kind: str, folder: Path, name: str, *, dead: bool) -> tuple[list[int], list[int]]:
    dead = offsets_of(source_of(kind, folder, name, dead_letters=True)) if dead else []
    return offsets_of(source_of(kind, folder, name)), dead


@settings(max_examples=examples(12), deadline=None)
@given(topics=st.lists(_TOPICS, min_size=2, max_size=3, unique=True), dead=st.booleans(), kind=st.sampled_from(KINDS))
def test_topics_whose_names_are_alike_never_change_the_tables_of_one_another(
    topics: list[str], dead: bool, kind: str
) -> None:
    with tempfile.TemporaryDirectory() as place:
        folder, kept = Path(place), []
        for number, topic in enumerate(topics):
            try:
                fill(kind, folder, Owner(topic, "c", f"id{number}"), 4 + number, dead=dead)
            except ArchiveError as error:
                assert f"--table {topic}=NAME" in str(error)
                continue
            kept.append((topic, 4 + number))
        assert kept and kept[0][0] == topics[0]
        for topic, count in kept:
            dead = [one for one in range(count) if dead and one % 3 == 0]
            expected = [one for one in range(count) if one not in dead]
            assert contents(kind, folder, table_name(topic), dead=dead) == (expected, dead)


def test_topic_with_the_name_of_dead_letter_records_leaves_them_alone(tmp_path: Path) -> None:
    fill("iceberg", tmp_path, Owner("orders", "c", "a"), 7)
    with pytest.raises(
        ArchiveError, match=r"kafka\.orders_dead_letters has the dead-letter records of topic orders, not"
    ):
        open_table("iceberg", tmp_path, Owner("orders-dead-letters", "c", "b"))
    assert contents("iceberg", tmp_path, "orders", dead=True) == ([1, 2, 4, 5], [0, 3, 6])
    named = IcebergTable(open_catalog(tmp_path, {}), Owner("orders-dead-letters", "c", "b"), name="letters")
    append(named, 0, 5, 2)
    fill("iceberg", tmp_path, Owner("orders", "c", "a"), 3)
    assert contents("iceberg", tmp_path, "orders", dead=True) == ([1, 2, 4, 5, 7, 8], [0, 3, 6, 9])
    assert contents("iceberg", tmp_path, "letters", dead=True) == ([0, 1, 2, 3, 4], [2])


@pytest.mark.parametrize("dead", [False, True])
def test_topic_archived_first_under_that_name_keeps_its_table(tmp_path: Path, dead: bool) -> None:
    fill("iceberg", tmp_path, Owner("orders-dead-letters"), 7, dead=False)
    with pytest.raises(ArchiveError, match="has the records of topic orders-dead-letters, not the dead-letter records"):
        fill("iceberg", tmp_path, Owner("orders"), 7, dead=dead)
    assert contents("iceberg", tmp_path, "orders_dead_letters", dead=False)[0] == list(range(7))


def test_name_that_later_dead_letter_records_need_is_taken(tmp_path: Path) -> None:
    fill("iceberg", tmp_path, Owner("orders"), 5, dead=False)
    with pytest.raises(ArchiveError, match="--table orders-dead-letters=NAME"):
        open_table("iceberg", tmp_path, "orders-dead-letters")
    fill("iceberg", tmp_path, Owner("orders"), 5)
    assert contents("iceberg", tmp_path, "orders", dead=True)[1] == [6, 9]


@pytest.mark.parametrize(
    ("second", "message"),
    [
        (Owner("orders", "other", "a"), "of cluster first, and this is cluster other"),
        (Owner("orders", "first", "b"), "topic orders was deleted and created again"),
    ],
)
def test_topic_of_another_cluster_or_another_id_does_not_continue_the_table(
    kind: str, tmp_path: Path, second: Owner, message: str
) -> None:
    fill(kind, tmp_path, Owner("orders", "first", "a"), 6)
    with pytest.raises(ArchiveError, match=f"{message}.*--table orders=NAME"):
        fill(kind, tmp_path, second, 6)
    fill(kind, tmp_path, Owner("orders", "first", "a"), 3)
    assert contents(kind, tmp_path, "orders", dead=True) == ([1, 2, 4, 5, 7, 8], [0, 3, 6])


def test_ids_that_an_old_broker_did_not_name_are_stored_when_they_are_known(kind: str, tmp_path: Path) -> None:
    fill(kind, tmp_path, Owner("orders"), 3)
    fill(kind, tmp_path, Owner("orders", "first", "a"), 3)
    fill(kind, tmp_path, Owner("orders"), 3)
    with pytest.raises(ArchiveError, match="of cluster first"):
        fill(kind, tmp_path, Owner("orders", "second", "a"), 3)


def test_tables_of_an_earlier_release_are_taken_over_by_their_topic_alone(tmp_path: Path) -> None:
    fill("iceberg", tmp_path, Owner("orders"), 6)
    catalog = open_catalog(tmp_path, {})
    for name in ("kafka.orders", "kafka.orders_dead_letters"):
        with catalog.load_table(name).transaction() as transaction:
            transaction.remove_properties(OWNER)
    for topic in ("orders-dead-letters", "orders_dead_letters"):
        with pytest.raises(ArchiveError, match="has the dead-letter records of topic orders"):
            open_table("iceberg", tmp_path, topic)
    fill("iceberg", tmp_path, Owner("orders", "c", "t"), 3)
    stored = Owner.from_text(catalog.load_table("kafka.orders_dead_letters").properties[OWNER])
    assert stored == Owner("orders", "c", "t", Role.dead_letters)


def test_tables_of_other_programs_are_left_alone(tmp_path: Path) -> None:
    catalog = open_catalog(tmp_path, {})
    catalog.create_namespace("kafka")
    foreign = catalog.create_table("kafka.orders", pa.schema([("id", pa.int64())]))
    foreign.append(pa.table({"id": [1, 2]}))
    with pytest.raises(ArchiveError, match="is not of `odradek archive`"):
        open_table("iceberg", tmp_path, "orders")
    assert foreign.refresh().scan().to_arrow().num_rows == 2
    path = tmp_path / "files/orders/data/part-0.parquet"
    path.parent.mkdir(parents=True)
    pq.write_table(pa.table({"id": [1]}), path)
    with pytest.raises(ArchiveError, match="is not of `odradek archive`"):
        open_table("parquet", tmp_path / "files", "orders")
    assert path.exists()


def test_files_of_other_programs_beside_those_of_a_manifest_stay(tmp_path: Path) -> None:
    fill("parquet", tmp_path, Owner("orders"), 6)
    note = tmp_path / "orders/data/README.txt"
    note.write_text("mine")
    fill("parquet", tmp_path, Owner("orders"), 6)
    assert note.read_text() == "mine"


def test_catalog_that_folds_case_does_not_join_topics(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def folded(method: str) -> None:
        original = getattr(SqlCatalog, method)

        def lower(self, identifier, *given, **named):  # type: ignore[no-untyped-def]
            words = identifier.split(".") if isinstance(identifier, str) else identifier
            return original(self, tuple(one.lower() for one in words), *given, **named)

        monkeypatch.setattr(SqlCatalog, method, lower)

    for method in ("load_table", "create_table"):
        folded(method)
    fill("iceberg", tmp_path, Owner("orders"), 6)
    with pytest.raises(ArchiveError, match="has the records of topic orders, not the records of topic Orders"):
        open_table("iceberg", tmp_path, "Orders")


def test_maintenance_and_rollback_keep_the_owner(kind: str, tmp_path: Path) -> None:
    owner = Owner("orders", "c", "t")
    for _ in range(18):
        fill(kind, tmp_path, owner, 3)
    table: Table = open_table(kind, tmp_path, owner)
    table.maintain()
    table.close()
    assert contents(kind, tmp_path, "orders", dead=True)[1] == list(range(0, 54, 3))
    with pytest.raises(ArchiveError, match="deleted and created again"):
        open_table(kind, tmp_path, Owner("orders", "c", "other"))


@pytest.mark.parametrize(
    ("topics", "given", "message"),
    [
        (["a.b", "a-b"], {}, "topics a.b and a-b have one table, a_b"),
        (["a", "a-dead-letters"], {}, "topics a and a-dead-letters have one table, a_dead_letters"),
        (["a"], {"b": "x"}, "--table names topic b, which is not archived here"),
        (["a"], {"a": "../x"}, "is not a name of a table"),
        (["t" * 249], {}, "--table TOPIC=NAME gives a topic's table another name"),
    ],
)
def test_names_that_cannot_be_are_errors(topics: list[str], given: dict[str, str], message: str) -> None:
    with pytest.raises(ArchiveError, match=message):
        chosen_names(topics, given)
    assert chosen_names(["a.b", "a-b"], {"a-b": "other"}) == {"a.b": "a_b", "a-b": "other"}
