"""`odradek query` with the tables of `odradek archive`: rows of a table, and behind it of the log."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import odradek
import pytest
from confluent_kafka import Producer

from compat_tests.cli.commands import Done
from tests.harness.commands import query_here

Run = Callable[..., Done]
PLACES = ("--warehouse", "--parquet")


def _produce(broker: odradek.Broker, topic: str, *values: bytes) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for value in values:
        producer.produce(topic, value, b"k")
    assert producer.flush(30) == 0


@pytest.fixture(scope="module")
def broker(processes: None) -> Iterator[odradek.Broker]:
    with odradek.Broker() as made:
        yield made


@pytest.fixture
def run(broker: odradek.Broker, capfd: pytest.CaptureFixture[str]) -> Run:
    return lambda *words, status=0: query_here(capfd, *words, "-b", broker.bootstrap_servers, status=status)


@pytest.mark.parametrize("option", PLACES)
def test_query_reads_the_table_and_the_log_behind_it(
    broker: odradek.Broker, run: Run, tmp_path: Path, option: str
) -> None:
    topic, other = f"orders{option.replace('-', '_')}", f"others{option.replace('-', '_')}"
    _produce(broker, topic, b"a", b"\xff")
    run("archive", topic, option, str(tmp_path), "--once")
    _produce(broker, topic, b"c")
    _produce(broker, other, b"of a topic without a table")
    sql = f'select "offset", key, value from {topic} union all select "offset", key, value from {other} order by 1, 3'
    done = run("query", sql, option, str(tmp_path), "--output", "jsonl")
    assert [json.loads(line) for line in done.out.splitlines()] == [
        {"offset": 0, "key": "k", "value": "a"},
        {"offset": 0, "key": "k", "value": "of a topic without a table"},
        {"offset": 1, "key": "k", "value": "\\xff"},
        {"offset": 2, "key": "k", "value": "c"},
    ]


def test_typed_table_takes_its_format(broker: odradek.Broker, run: Run, tmp_path: Path) -> None:
    _produce(broker, "typed", b'{"n": 1}')
    run("archive", "typed", "--value-format", "json", "--value-schema", "infer", "--warehouse", str(tmp_path), "--once")
    _produce(broker, "typed", b'{"n": 2}')
    place = ("--warehouse", str(tmp_path), "--output", "csv")
    done = run("query", "select sum(value.n) n from typed", "--value-format", "json", "--value-schema", "infer", *place)
    assert done.out == "n\n3\n"
    refused = run("query", "select * from typed", *place, status=1)
    assert "are typed, not raw: name their format" in refused.err


@pytest.mark.parametrize(
    ("words", "status", "error"),
    [
        (("--warehouse", "DIR", "--parquet", "DIR"), 2, "give --warehouse DIR, --catalog KEY=VALUE, or --parquet DIR"),
        (("--warehouse", "DIR", "--latest-per-key"), 2, "read logs alone"),
        (("--parquet", "DIR", "--data-dir", "DIR"), 2, "read logs alone"),
        (("--warehouse", "DIR/none"), 1, "there is no folder"),
    ],
)
def test_options_that_exclude_tables_are_named(
    run: Run, tmp_path: Path, words: tuple[str, ...], status: int, error: str
) -> None:
    done = run("query", "select 1 from x", *(one.replace("DIR", str(tmp_path)) for one in words), status=status)
    assert error in done.err
    assert done.err.count("\n") == 1
