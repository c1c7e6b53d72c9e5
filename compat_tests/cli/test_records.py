"""`odradek produce` and `odradek consume` on three nodes of Odradek and on Apache Kafka."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from compat_tests.cli.commands import Run


@pytest.fixture
def orders(run: Run, topic: str) -> str:
    """A topic of one partition with five records: keys a to e, values of JSON, a header."""
    run("topic", "create", topic, "--partitions", "1")
    lines = "".join(f'{key}:{{"total": {number}, "key": "{key}"}}\n' for number, key in enumerate("abcde"))
    done = run("produce", topic, "--create", "-K", ":", "-H", "source=web", stdin=lines)
    assert (done.status, done.out) == (0, f"produced: 5 records to {topic}\n"), done.err
    return topic


def test_lines_are_consumed_as_json_lines(run: Run, topic: str) -> None:
    run("topic", "create", topic, "--partitions", "1")
    assert run("produce", topic, "--create", stdin="one\ntwo\nthree\nfour\n").status == 0
    done = run("consume", topic, "--from-beginning", "--count", "3", "--output", "jsonl")
    assert done.status == 0, done.err
    assert [(one["offset"], one["key"], one["value"]) for one in done.lines] == [
        (0, None, "one"),
        (1, None, "two"),
        (2, None, "three"),
    ]


def test_positions_choose_records(run: Run, orders: str) -> None:
    (third,) = run("consume", orders, "-o", "2", "-c", "1", "--output", "jsonl").lines
    later = time.time() + 3600
    for position, offsets in (
        (("-o", "beginning"), [0, 1, 2, 3, 4]),
        (("-o", "3"), [3, 4]),
        (("-o", "-2"), [3, 4]),
        (("-o", "-99"), [0, 1, 2, 3, 4]),
        (("-o", "-1h"), [0, 1, 2, 3, 4]),
        (("-o", f"@{int(later * 1000)}"), []),
        (("-o", f"@{third['timestamp']}", "--until", f"@{int(later * 1000)}", "-c", "1"), [0, 1, 2]),
        (("-o", "1", "--until", "3"), [1, 2]),
    ):
        done = run("consume", orders, *position, "--output", "jsonl")
        found = [one["offset"] for one in done.lines]
        # All five may have the same timestamp.
        assert found == offsets or (found and found[0] in offsets and "-c" in position), (position, done)


def test_every_form_of_output_holds_the_records(run: Run, orders: str, tmp_path: Path) -> None:
    def consumed(*words: str) -> str:
        done = run("consume", orders, "--from-beginning", *words)
        assert done.status == 0, done.err
        return done.out

    assert consumed().splitlines()[0] == '{"total": 0, "key": "a"}'
    assert consumed("-f", "%t/%p/%o %k=%s %S %K %h%%\\n").splitlines()[1] == (
        f'{orders}/0/1 b={{"total": 1, "key": "b"}} 24 1 source=web%'
    )
    records = json.loads(consumed("--output", "json"))
    assert [one["key"] for one in records] == list("abcde")
    assert records[0]["headers"] == [{"key": "source", "value": "web"}]
    rows = list(csv.DictReader(consumed("--output", "csv").splitlines()))
    assert [row["value"] for row in rows] == [one["value"] for one in records]
    assert len(consumed("--output", "table").splitlines()) == 6
    consumed("--file", str(tmp_path / "out.jsonl"))
    assert [json.loads(line) for line in (tmp_path / "out.jsonl").open()] == records


@pytest.mark.parametrize("form", ["jsonl", "csv", "parquet"])
def test_files_that_consume_wrote_are_produced_again(run: Run, orders: str, tmp_path: Path, form: str) -> None:
    file = tmp_path / f"records.{form}"
    assert run("consume", orders, "--from-beginning", "--file", str(file)).status == 0
    copied = f"{orders}-copy-{form}"
    run("topic", "create", copied, "--partitions", "1")
    assert run("produce", copied, "--create", str(file)).status == 0

    def content(topic: str) -> list[tuple[object, ...]]:
        records = run("consume", topic, "--from-beginning", "--output", "jsonl").lines
        return [(one["key"], one["value"], one["timestamp"], str(one["headers"])) for one in records]

    assert content(copied) == content(orders)


def test_columns_of_csv_become_json_and_keys(run: Run, topic: str, tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_text("id,name\n7,Zoë\n8,Li\n")
    run("topic", "create", topic, "--partitions", "1")
    assert run("produce", topic, "--create", str(tmp_path / "people.csv"), "--key-column", "id").status == 0
    done = run("consume", topic, "--from-beginning", "--output", "jsonl", "--value-format", "json")
    assert [(one["key"], one["value"]["name"]) for one in done.lines] == [("7", "Zoë"), ("8", "Li")]


def test_filters_keep_only_what_passes_all_of_them(run: Run, orders: str) -> None:
    def kept(*words: str) -> list[str]:
        done = run("consume", orders, "--from-beginning", "-f", "%k\\n", *words)
        assert done.status == 0, done.err
        return done.out.split()

    assert kept("--key", "c") == ["c"]
    assert kept("--key", "[ad]") == ["a", "d"]
    assert kept("--value", '"total": [34]') == ["d", "e"]
    assert kept("--header", "source=we?b") == list("abcde")
    assert kept("--header", "absent") == []
    assert kept("--where", "@.total >= 2 && @.key != 'd'") == ["c", "e"]
    assert kept("--where", "$.total", "-c", "2") == ["a", "b"]
    assert kept("--where", "@.total > 0", "--key", "[abc]") == ["b", "c"]


def test_group_continues_where_it_stopped(run: Run, orders: str, group: str) -> None:
    def consumed(*words: str) -> str:
        done = run("consume", orders, "--group", group, "-f", "%k", *words)
        assert done.status == 0, done.err
        return done.out

    assert consumed("-o", "beginning", "-c", "2") == "ab"
    assert consumed("-o", "stored", "-c", "1", "--where", "@.total > 2") == "d"
    assert consumed("-o", "stored") == "e"


@pytest.mark.parametrize("option", ["group.protocol=consumer", "partition.assignment.strategy=cooperative-sticky"])
def test_group_with_incremental_assignment_begins_where_it_should(
    run: Run, orders: str, group: str, option: str
) -> None:
    done = run("consume", orders, "-g", group, "-X", option, "--from-beginning", "-c", "2", "-f", "%o\n")
    assert (done.status, len(done.out.splitlines())) == (0, 2), done.err
    assert run("group", "lag", group, "--total", "--output", "json").json[0]["lag"] == 3


def test_aborted_and_open_transactions_are_read_uncommitted_only(run: Run, topic: str, tmp_path: Path) -> None:
    run("topic", "create", topic, "--partitions", "1")
    done = run("produce", topic, "--create", "--transaction-size", "2", "--output", "jsonl", stdin="1\n2\n3\n")
    assert done.lines[0]["transactions"] == 2
    bad = tmp_path / "bad.jsonl"
    bad.write_text('{"value": "x"}\nnonsense\n')
    done = run("produce", topic, "--create", str(bad), "--transactional")
    assert done.status == 1 and "line 2 is not JSON" in done.err
    run("produce", topic, "--create", stdin="after\n")
    assert run("consume", topic, "--from-beginning").out.split() == ["1", "2", "3", "after"]
    every = run("consume", topic, "--from-beginning", "--isolation-level", "read_uncommitted").out.split()
    assert [one for one in every if one != "x"] == ["1", "2", "3", "after"]


def test_bytes_tombstones_and_times_survive(run: Run, topic: str) -> None:
    run("topic", "create", topic, "--partitions", "2")
    assert (
        run(
            "produce",
            topic,
            "--create",
            "-p",
            "1",
            "-K",
            "|",
            "-Z",
            "",
            "--timestamp",
            "1000",
            stdin=b"k|\n\xff|\xfe\n",
        ).status
        == 0
    )
    first, second = run("consume", topic, "--from-beginning", "--output", "jsonl").lines
    assert (first["partition"], first["timestamp"], first["key"], first["value"]) == (1, 1000, "k", None)
    assert (second["key"], second["key_base64"], second["value_base64"]) == (None, "/w==", "/g==")
    copied = "".join(f"{json.dumps(one)}\n" for one in (first, second))
    assert run("produce", topic, "--create", "-i", "jsonl", stdin=copied).status == 0
    hexed = run("consume", topic, "-o", "2", "-p", "1", "-f", "%k=%s,", "--key-format", "hex", "--value-format", "hex")
    assert hexed.out == "6b=,ff=fe,"


def test_count_rate_and_repeat_limit_what_is_sent(run: Run, topic: str) -> None:
    run("topic", "create", topic, "--partitions", "1")
    began = time.monotonic()
    assert run("produce", topic, "--create", "-c", "5", "--repeat", "--rate", "10", stdin="a\nb\n").status == 0
    assert time.monotonic() - began >= 0.4
    assert run("consume", topic, "--from-beginning", "-f", "%s").out == "ababa"
    assert "would be produced: 2 records" in run("produce", topic, "--create", "--dry-run", stdin="a\nb\n").out
    assert run("consume", topic, "--from-beginning", "-f", "%s").out == "ababa"


def test_consume_creates_no_topic(run: Run, topic: str) -> None:
    done = run("consume", topic, "--from-beginning")
    assert (done.status, done.out) == (3, "")
    assert run("topic", "describe", topic).status == 3


def test_errors_of_records_are_one_line(run: Run, orders: str, tmp_path: Path) -> None:
    (tmp_path / "bad.jsonl").write_text('{"key": 1}\n')
    for words, status, said in (
        (("consume", orders, "-o", "yesterday"), 2, "is not a position"),
        (("consume", orders, "-f", "%q"), 2, "%q"),
        (("consume", orders, "-p", "7", "-o", "0"), 3, "no partition 7"),
        (("consume", orders, "-o", "0", "--where", "@.("), 2, "JSONPath"),
        (("consume", orders, "-o", "0", "--value-format", "int32"), 1, "is not int32"),
        (("consume", orders, "-o", "0", "--value-format", "avro"), 2, "--schema-registry"),
        (("produce", orders, str(tmp_path / "absent")), 2, "cannot read"),
        (("produce", orders, str(tmp_path / "bad.jsonl")), 1, "line 1 has no"),
        (("produce", orders, "-p", "9", "--timeout", "5"), 3, "partition"),
    ):
        done = run(*words, stdin="x\n")
        assert done.status == status and said in done.err and done.err.count("\n") == 1, (words, done)


def test_follow_shows_records_as_they_come_and_ends_on_interrupt(cluster: str, run: Run, orders: str) -> None:
    import signal

    command = [sys.executable, "-m", "odradek", "consume", orders, "-o", "beginning", "--follow", "-b", cluster]
    process = subprocess.Popen([*command, "-f", "%k\\n"], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert [process.stdout.readline().strip() for _ in range(5)] == list("abcde")
        run("produce", orders, "--create", "-k", "new", stdin="x\n")
        assert process.stdout.readline() == "new\n"
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
    finally:
        process.kill()
        process.wait()


def test_avro_and_protobuf_go_in_and_come_out(run: Run, topic: str, tmp_path: Path) -> None:
    avro, proto = tmp_path / "order.avsc", tmp_path / "order.proto"
    fields = '[{"name": "id", "type": "string"}, {"name": "cents", "type": ["null", "long"]}]'
    avro.write_text(f'{{"type": "record", "name": "Order", "fields": {fields}}}')
    proto.write_text('syntax = "proto3"; message Order { string id = 1; int32 cents = 2; }')
    orders = [{"id": "a", "cents": 5}, {"id": "b", "cents": 7}]
    lines = "".join(f"7 {json.dumps(one)}\n" for one in orders)
    for form, schema in (("avro", avro), ("protobuf", proto)):
        name = f"{topic}-{form}"
        run("topic", "create", name, "--partitions", "1")
        coding = ("--key-format", "int64", "--value-format", form, "--value-schema", str(schema))
        done = run("produce", name, "--create", "-K", " ", *coding, stdin=lines)
        assert done.status == 0, done.err
        shown = run("consume", name, "-o", "beginning", "--output", "jsonl", *coding)
        assert [(one["key"], one["value"]) for one in shown.lines] == [(7, one) for one in orders], shown.err
        assert b'"cents"' not in run("consume", name, "-o", "beginning").out.encode()
        wrong = run("produce", name, "--create", "-K", " ", *coding, stdin='7 {"id": 5}\n')
        assert wrong.status == 1 and f"is not {form}" in wrong.err and wrong.err.count("\n") == 1, wrong.err
