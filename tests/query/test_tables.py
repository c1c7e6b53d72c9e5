"""`odradek query` with the tables of `odradek archive`: rows of a table, and behind it of the log."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import odradek
import pytest
from confluent_kafka import Producer

Run = Callable[..., subprocess.CompletedProcess[bytes]]
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
def run(broker: odradek.Broker) -> Run:
    def run(*words: str, status: int = 0) -> subprocess.CompletedProcess[bytes]:
        command = [sys.executable, "-m", "odradek", *words, "-b", broker.bootstrap_servers]
        done = subprocess.run(command, capture_output=True, timeout=120, check=False)
        assert done.returncode == status, done.stderr
        return done

    return run


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
    assert [json.loads(line) for line in done.stdout.splitlines()] == [
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
    assert done.stdout == b"n\n3\n"
    refused = run("query", "select * from typed", *place, status=1)
    assert b"are typed, not raw: name their format" in refused.stderr


@pytest.mark.parametrize(
    ("words", "status", "error"),
    [
        (("--warehouse", "DIR", "--parquet", "DIR"), 2, b"give --warehouse DIR, --catalog KEY=VALUE, or --parquet DIR"),
        (("--warehouse", "DIR", "--latest-per-key"), 2, b"read logs alone"),
        (("--parquet", "DIR", "--data-dir", "DIR"), 2, b"read logs alone"),
        (("--warehouse", "DIR/none"), 1, b"there is no folder"),
    ],
)
def test_options_that_exclude_tables_are_named(
    run: Run, tmp_path: Path, words: tuple[str, ...], status: int, error: bytes
) -> None:
    done = run("query", "select 1 from x", *(one.replace("DIR", str(tmp_path)) for one in words), status=status)
    assert error in done.stderr
    assert done.stderr.count(b"\n") == 1
