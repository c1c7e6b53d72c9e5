"""Lines without anything of their own are sent in batches, whose order and number are those of the input."""

from __future__ import annotations

import io
import itertools
import math
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import odradek
import pytest
from odradek.admin.connection import Connection
from odradek.cli.client.producer_ids import request_producer_id
from odradek.cli.records import input_record, line_input, row_input
from odradek.cli.records.input_record import Batch, InputForm, Shape
from odradek.cli.records.inputs import records_of
from odradek.cli.records.line_input import size_of, value_batches
from odradek.cli.records.row_input import records_of_rows
from odradek.cli.records.sending import Sender
from odradek.cli.records.taken_lines import TakenLines
from odradek.client.user_errors import UserError

from compat_tests.cli.commands import odradek_command

COUNT = 3000
DEADLINE_S = 60.0


@pytest.fixture(scope="module")
def broker(sockets: None) -> Iterator[odradek.Broker]:
    with odradek.Broker() as running:
        yield running


def lines(count: int) -> list[bytes]:
    return [b"line %d" % number for number in range(count)]


def test_batches_have_the_lines_of_the_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_input, "_READ_BYTES", 64)
    file = tmp_path / "lines"
    file.write_bytes(b"a\n\nb\r\n" + b"\n".join(lines(50)))
    expected = [b"a", b"", b"b\r", *lines(50)]
    found = list(value_batches([file, None], io.BytesIO(b"last\n\n")))
    assert len(found) > 3
    assert [value for batch in found for value in batch.values] == [*expected, b"last", b""]
    assert size_of([file]) == file.stat().st_size
    assert size_of([file, None]) is None


def test_line_over_the_limit_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_input, "_READ_BYTES", 16)
    for module in (input_record, line_input):
        monkeypatch.setattr(module, "MOST_RECORD_BYTES", 100)
    at_limit = [b"short", b"y" * 100]
    found = value_batches([None], io.BytesIO(b"\n".join(at_limit) + b"\n"))
    assert [value for batch in found for value in batch.values] == at_limit
    for end in (b"\n", b"\nnext\n", b""):
        text = b"\n".join([*at_limit, b"x" * 101]) + end
        with pytest.raises(UserError, match=r"record 3 .*longer than"):
            list(value_batches([None], io.BytesIO(text)))


class Endless(io.RawIOBase):
    """A line without an end, which counts what is read of it."""

    size = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self.size += len(buffer)
        assert self.size <= 10 << 20, "it is read without a limit"
        buffer[:] = b"x" * len(buffer)
        return len(buffer)


@pytest.mark.parametrize(
    ("form", "shape"),
    [
        (InputForm.lines, Shape(key_delimiter=b":")),
        (InputForm.lines, Shape(delimiter=b";")),
        (InputForm.jsonl, Shape()),
        (InputForm.csv, Shape()),
    ],
)
def test_line_without_an_end_is_not_kept(form: InputForm, shape: Shape, monkeypatch: pytest.MonkeyPatch) -> None:
    for module, limit in itertools.product(
        (input_record, line_input, row_input), ("MOST_RECORD_BYTES", "MOST_LINE_BYTES")
    ):
        monkeypatch.setattr(module, limit, 1 << 20, raising=False)
    with pytest.raises(UserError, match=r"record 1 is longer than 1 MB"):
        list(records_of(None, io.BufferedReader(Endless()), form, shape))


def test_csv_takes_values_as_long_as_records() -> None:
    value = "v" * (1 << 20)
    (record,) = records_of(None, io.BytesIO(f"key,value\nk,{value}\n".encode()), InputForm.csv, Shape())
    assert (record.key, record.value) == (b"k", value.encode())


@pytest.mark.parametrize(
    "text", ['{"value": NaN}', '{"value": {"a": -Infinity}}', '{"value": 1e999}', "nothing", "\xff"]
)
def test_line_that_is_not_json_is_named(text: str) -> None:
    lines = io.BytesIO(b'{"value": 1}\n' + text.encode("latin-1") + b"\n")
    found = records_of(None, lines, InputForm.jsonl, Shape())
    assert next(found).value == b"1"
    with pytest.raises(UserError, match=r"^standard input, line 2 is not JSON: (?!it is not)"):
        next(found)


def test_numbers_of_rows_that_json_has_not_are_text() -> None:
    (record,) = records_of_rows([(1, {"price": math.nan, "unit": b"\x00"})], "t.parquet", "row", Shape())
    assert record.value == b'{"price": "NaN", "unit": "AA=="}'


def test_line_of_an_open_pipe_is_not_delayed() -> None:
    taken, given = os.pipe()
    with os.fdopen(taken, "rb") as source, os.fdopen(given, "wb", buffering=0) as sink:
        batches = value_batches([None], source)
        for line in lines(3):
            sink.write(line + b"\n")
            assert next(batches).values == [line]


def test_full_queue_loses_and_repeats_no_line(broker: odradek.Broker) -> None:
    connection = Connection({"bootstrap.servers": broker.bootstrap_servers, "queue.buffering.max.messages": "100"})
    broker.topic("full").create()
    sender = Sender(connection, "full", {}, TakenLines(["lines"]))
    sent = sender.send_values([Batch(lines(COUNT), 0, 1)], b"key", 0, None)
    assert sent.records == COUNT
    assert sent.bytes == sum(map(len, lines(COUNT))) + len(b"key") * COUNT
    found = broker.topic("full").records()
    assert [record.value for record in found] == lines(COUNT)
    assert {record.key for record in found} == {b"key"}


def test_command_sends_a_file_and_says_what_was_refused(broker: odradek.Broker, tmp_path: Path) -> None:
    file = tmp_path / "lines"
    file.write_bytes(b"\n".join(lines(COUNT)) + b"\n")
    done = odradek_command("produce", "whole", "--create", str(file), "-p", "0", "-b", broker.bootstrap_servers)
    assert done.status == 0, done.err
    assert [record.value for record in broker.topic("whole").records()] == lines(COUNT)
    file.write_bytes(b"x" * 2_000_000)
    done = odradek_command("produce", "whole", "--create", str(file), "-b", broker.bootstrap_servers)
    assert done.status == 1
    assert "too large" in done.err


def test_command_sends_all_lines_to_the_partition(broker: odradek.Broker) -> None:
    broker.topic("three").create(partitions=3)
    done = odradek_command("produce", "three", "-p", "2", "-b", broker.bootstrap_servers, stdin="a\nb\n")
    assert done.status == 0, done.err
    assert [(record.partition, record.value) for record in broker.topic("three").records()] == [(2, b"a"), (2, b"b")]
    done = odradek_command("produce", "three", "-p", "9", "--timeout", "5", "-b", broker.bootstrap_servers, stdin="a\n")
    assert done.status == 3 and "partition" in done.err, done


def apis_before_a_producer_id(broker: odradek.Broker, topic: str, client_id: str) -> list[str]:
    """The APIs that `odradek produce` calls before it asks for its producer id."""
    options = ("-X", f"client.id={client_id}", "-b", broker.bootstrap_servers)
    assert odradek_command("produce", topic, "--create", *options, stdin="a\n").status == 0
    apis = [one.api for one in broker.requests.matching(client_id=client_id)]
    return apis[: apis.index("InitProducerId")]


def test_producer_id_is_requested_with_the_second_metadata(broker: odradek.Broker) -> None:
    """Without the second metadata librdkafka asks half a second later. On a busy machine that may be sooner once, so three
    producers try.
    """
    broker.topic("ids").create()
    assert not broker.requests.matching("InitProducerId")  # the first use of the log begins it
    found = [apis_before_a_producer_id(broker, "ids", f"producer-{number}") for number in range(3)]
    assert any(apis.count("Metadata") >= 2 for apis in found), found


class SilentProducer:
    """A producer whose cluster does not answer."""

    def __init__(self) -> None:
        self.asked = threading.Event()

    def list_topics(self, topic: str, timeout: float) -> None:
        self.asked.set()
        raise OSError("no response")


def test_no_response_to_the_metadata_request_is_for_the_records_to_report() -> None:
    producer, before = SilentProducer(), set(threading.enumerate())
    request_producer_id(producer, {"enable.idempotence": False}, "t")
    request_producer_id(producer, {}, "t")
    assert not any(thread.name == "producer-id" for thread in set(threading.enumerate()) - before)
    request_producer_id(producer, {"enable.idempotence": "True"}, "t")
    assert producer.asked.wait(DEADLINE_S)
