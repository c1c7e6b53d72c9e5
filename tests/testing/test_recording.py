"""A cluster's records, written to a file with masked fields, and replayed into another broker."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import odradek
import pytest
from odradek.admin.errors import LoginRejected, ResponseError
from odradek.protocol.records.record import Record, encode_batch
from odradek.testing import recording
from odradek.testing.recording import Masking, record, replay

pytestmark = pytest.mark.usefixtures("sockets")


def orders(broker: odradek.Broker) -> None:
    broker.topic("orders").create(partitions=2)
    for number in range(6):
        customer = {"name": f"customer {number % 2}", "city": "Prague"}
        value = {"id": number, "customer": customer, "cards": [{"number": "card 4111"}, {"number": "card 4222"}]}
        broker.topic("orders").send(json.dumps(value).encode(), key=b"k%d" % number, partition=number % 2)


def test_a_recording_is_replayed_as_it_was(broker: odradek.Broker, tmp_path: Path) -> None:
    broker.topic("events").send(b"\xff\x00", None, "Grüße".encode(), headers=[("trace", b"\xfe"), ("empty", None)])
    assert record(broker.bootstrap_servers, ["events"], tmp_path / "events.jsonl") == 3
    before = broker.topic("events").records()
    with odradek.Broker() as other:
        assert replay(other, tmp_path / "events.jsonl") == 3
        assert other.topic("events").records() == before


class Leader:
    """The responses of a partition's leader, one after the other, with the session that repeats a request."""

    def __init__(self, *responses: Any) -> None:
        self.responses = list(responses)

    def repeated(self, step: Callable[[], Any]) -> Any:
        return self.responses.pop(0)


def records_of(leader: Any, end: int) -> list[tuple[int, bytes | None]]:
    return [(one.timestamp, one.value) for one in recording._records(leader, ("t", 0), 0, end)]


def batch(offset: int, value: bytes) -> bytes:
    return bytes(encode_batch([Record(offset, offset, None, value)], base_offset=offset, leader_epoch=0))


@pytest.mark.parametrize("end", [2, 3])
def test_partition_ends_where_compaction_left_nothing(end: int) -> None:
    nothing = recording._Fetched(b"", end, False)
    first = recording._Fetched(batch(0, b"a") + batch(1, b"b"), end, False)
    leader = Leader(recording._Fetched(b"", end, True), nothing, nothing, first, nothing, nothing, nothing)
    assert records_of(leader, end) == [(0, b"a"), (1, b"b")]
    assert len(leader.responses) == (3 if end == 2 else 0)


def test_leader_that_lacks_records_is_an_error() -> None:
    with pytest.raises(ResponseError, match=r"t-0.*timed out"):
        records_of(Leader(*[recording._Fetched(b"", 2, False)] * 3), 3)


def test_throttled_response_is_not_the_end() -> None:
    throttled = recording._Fetched(b"", 1, True)
    assert records_of(Leader(*[throttled] * 20, recording._Fetched(batch(0, b"a"), 1, False)), 1) == [(0, b"a")]


def test_damaged_batch_is_not_recorded() -> None:
    data = batch(0, b"a") + batch(1, b"b").replace(b"b", b"c")
    with pytest.raises(ValueError, match=r"t-0, records from offset 1 on: .*CRC"):
        records_of(Leader(recording._Fetched(data, 2, False)), 2)


@pytest.mark.usefixtures("processes")
def test_masked_fields_do_not_reach_the_file_and_stay_joinable(broker: odradek.Broker, tmp_path: Path) -> None:
    orders(broker)
    path = tmp_path / "orders.jsonl"
    command = [
        sys.executable, "-m", "odradek", "record", "orders", "-b", broker.bootstrap_servers,
        "--mask", "customer.name", "--mask", "cards.number", "--mask-keys", "--file", str(path),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == f"recorded: 6 records in {path}\n"
    text = path.read_text()
    assert not any(secret in text for secret in ("customer 0", "customer 1", "card 4111", "card 4222", '"k0"'))
    with odradek.Broker() as other:
        replay(other, path)
        values = [json.loads(one.value or b"") for one in other.topic("orders").records()]
        assert other.topic("orders").end_offsets == {0: 3, 1: 3}
    names = {value["id"] % 2: value["customer"]["name"] for value in values}
    assert all(value["customer"]["name"] == names[value["id"] % 2] for value in values) and names[0] != names[1]
    assert {value["customer"]["city"] for value in values} == {"Prague"}


def test_recording_that_cannot_be_masked_leaves_no_file(broker: odradek.Broker, tmp_path: Path) -> None:
    broker.topic("orders").send(b"no JSON, name: Ann")
    with pytest.raises(ValueError, match="is not JSON"):
        record(broker.bootstrap_servers, ["orders"], tmp_path / "orders.jsonl", masking=Masking(["name"]))
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(ValueError, match="there is no topic nothing"):
        record(broker.bootstrap_servers, ["nothing"], tmp_path / "nothing.jsonl")


@pytest.mark.usefixtures("processes")
def test_command_without_records_or_json_names_the_cause(broker: odradek.Broker, tmp_path: Path) -> None:
    broker.topic("orders").send(b"no JSON, name: Ann", b"order 2")
    command = [sys.executable, "-m", "odradek", "record", "-b", broker.bootstrap_servers, "--file", "orders.jsonl"]
    for words, status, message in (
        (["orders", "--mask", "name"], 1, "a value is not JSON"),
        (["nothing"], 3, "nothing"),
        (["orders", "--count", "0"], 2, "--count must be at least 1"),
    ):
        done = subprocess.run([*command, *words], capture_output=True, text=True, timeout=60, cwd=tmp_path)
        assert (done.returncode, message in done.stderr) == (status, True), (words, done)
        assert list(tmp_path.iterdir()) == []
    done = subprocess.run(
        [*command, "orders", "--count", "1"], capture_output=True, text=True, timeout=60, cwd=tmp_path
    )
    assert (done.returncode, done.stdout) == (0, "recorded: 1 record in orders.jsonl\n")


def test_a_file_of_another_kind_is_refused(broker: odradek.Broker, tmp_path: Path) -> None:
    (tmp_path / "file").write_text('{"a": 1}\n')
    with pytest.raises(ValueError, match=r"file:1 is not a line that record\(\) wrote"):
        replay(broker, tmp_path / "file")


def test_recording_of_a_secured_cluster_ends_at_once_with_the_reason(tmp_path: Path) -> None:
    with odradek.Broker(security="plain") as secured:
        began = time.monotonic()
        with pytest.raises(LoginRejected, match="expects TLS"):
            record(secured.bootstrap_servers, ["orders"], tmp_path / "orders.jsonl")
        assert time.monotonic() - began < 15  # the requests have 30 s
    assert list(tmp_path.iterdir()) == []
