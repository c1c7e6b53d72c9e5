"""Statements that others send: the topics of those that are allowed, and the reason against the others."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from hypothesis import given
from hypothesis import strategies as st
from odradek.client.user_errors import Misused
from odradek.query.locked_database import lock, locked_database
from odradek.query.statement import select_of, topics_of


@pytest.fixture
def database() -> Iterator[duckdb.DuckDBPyConnection]:
    with locked_database(256 << 20) as made:
        yield made


@pytest.mark.parametrize(
    ("sql", "topics"),
    [
        ("select 1", []),
        ("select * from orders", ["orders"]),
        ("from orders;", ["orders"]),
        ('select * from kafka.main."my.orders" join main.others using (key)', ["my.orders", "others"]),
        ("select * from orders o, lateral (select * from others p where p.key = o.key)", ["orders", "others"]),
        ("select * from orders where key in (select key from others)", ["orders", "others"]),
        ("select * from a union all (select * from b except select * from c)", ["a", "b", "c"]),
        ("with x as (select * from orders) select * from X, others", ["orders", "others"]),
        ("with orders as (select * from orders) select * from orders", ["orders"]),
        ("with x as (select 1), y as (select * from x) select * from y", []),
        ("with x as (select 1) select * from main.x", ["x"]),
        ("with recursive t(n) as (select 1 union all select n + 1 from t where n < 5) select * from t, a", ["a"]),
        ("select * from (with x as (select 1) select * from x), x", ["x"]),
        ("select * from range(10), generate_series(1, 2)", []),
        ("select unnest([1, 2]), count(*) filter (where key = ?) from orders", ["orders"]),
        ("values (1), (2)", []),
        ("pivot_longer", None),
        ("select * from orders tablesample 10%", ["orders"]),
    ],
)
def test_topics_of_a_statement(database: duckdb.DuckDBPyConnection, sql: str, topics: list[str] | None) -> None:
    if topics is None:
        with pytest.raises(Misused):
            topics_of(database, sql)
        return
    assert topics_of(database, sql) == topics


@pytest.mark.parametrize(
    "sql",
    [
        "select * from read_text('/etc/passwd')",
        "select * from READ_CSV('/etc/passwd')",
        "select * from \"read_blob\"('/etc/passwd')",
        "select * from glob('/*')",
        "select * from orders where key in (select content from read_text('/etc/passwd'))",
        "with x as (from read_text('/etc/passwd')) from x",
        "select (select content from read_text('/etc/passwd'))",
        "select * from query('select 1')",
        "select * from query_table('orders')",
        "select * from json_execute_serialized_sql('{}')",
        "select * from duckdb_settings()",
        "select * from arrow_scan(1, 2, 3)",
        "select * from pandas_scan(1)",
        "select * from sniff_csv('/etc/passwd')",
        "select * from parquet_schema('x.parquet')",
        "select * from pragma_version()",
        "select * from information_schema.tables",
        "select * from temp.main.orders",
        "select * from system.main.duckdb_secrets",
        "show tables",
        "describe orders",
        "summarize orders",
        "explain select 1",
        "select 1; select 2",
        "",
        ";",
        "set threads = 4",
        "reset threads",
        "pragma version",
        "copy (select 1) to '/tmp/x.csv'",
        "attach '/tmp/x.db'",
        "install httpfs",
        "load httpfs",
        "create table x as select 1",
        "insert into orders values (1)",
        "delete from orders",
        "call pragma_version()",
        "export database '/tmp/x'",
        "use temp",
        "select " + "(" * 5_000 + "1" + ")" * 5_000,
        "select \x00",
    ],
)
def test_statement_that_reaches_more_than_topics_is_refused(database: duckdb.DuckDBPyConnection, sql: str) -> None:
    with pytest.raises(Misused):
        topics_of(database, sql)


@pytest.mark.parametrize(
    "sql",
    [
        "select * from read_text('/etc/passwd')",
        "select * from '/etc/passwd'",
        "select * from local_table",
        "copy orders to '/tmp/odradek-query.csv'",
        "attach '/tmp/odradek-query.db'",
        "install httpfs",
        "set enable_external_access = true",
        "set memory_limit = '100GB'",
    ],
)
def test_locked_database_itself_reaches_nothing_else(database: duckdb.DuckDBPyConnection, sql: str) -> None:
    """Also where the check of statements misses something."""
    local_table = pa.table({"n": [1]})
    lock(database, {"orders": ds.dataset(local_table)})
    assert database.sql("select n from kafka.main.orders").fetchall() == [(1,)]
    with pytest.raises(duckdb.Error):
        database.execute(sql).fetchall()


def test_topics_whose_names_differ_in_case_are_not_one_table(database: duckdb.DuckDBPyConnection) -> None:
    dataset = ds.dataset(pa.table({"n": [1]}))
    with pytest.raises(Misused, match="one name for the topics Orders and orders"):
        lock(database, {"Orders": dataset, "orders": dataset})


_SELECTS = (
    "select ?, 1 as a",
    "select ';--', \"key\", ? from orders",
    "select $$;$$ as a, ? -- ; a\n, 2 as b",
    "from orders where 'ü;' <> ?",
)
_BLANKS = ("", " ", "\n", "-- a; b\n", "/* ; /* ' */ */", ";", " ; ")


@given(
    select=st.sampled_from(_SELECTS),
    before=st.lists(st.sampled_from(_BLANKS), max_size=3).map("".join),
    after=st.lists(st.sampled_from(_BLANKS), max_size=4).map("".join),
    last=st.sampled_from(("", "--", "-- ü; a", "/* a */")),
)
def test_semicolons_and_comments_around_a_select_leave_it_as_it_is(
    select: str, before: str, after: str, last: str
) -> None:
    with locked_database(256 << 20) as database:
        database.execute("create table orders as select 1 as key")
        sql = f"{before}{select};{after}{last}"
        assert topics_of(database, sql) == (["orders"] if "orders" in select else [])
        within = f"select * from (\n{select_of(sql)}\n) limit 1"
        assert database.execute(within, ["v"]).fetchall() == database.execute(select, ["v"]).fetchall()
