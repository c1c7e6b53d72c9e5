"""Keyed tables of a broker's topics: last records of keys, change events, and processes that are killed."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from odradek.archive import ArchiveError, ArchiveOptions, Archiver
from odradek.archive.key_columns import KeyColumns
from odradek.archive.keyed import Envelope, Keyed
from odradek.archive.table_partitions import partition_columns
from odradek.columns import ValueSchema

from tests.archive.harness.broker import NOW_MS, Harness
from tests.archive.harness.keyed import open_keyed, rows_by_engine, scanned
from tests.archive.harness.tables import source_of
from tests.harness.commands import command_here

pytestmark = pytest.mark.slow

_DEADLINE_S = 120


def archive(harness: Harness, folder: Path, topic: str, keyed: Keyed, **options: Any) -> Any:
    opened = ArchiveOptions(values=ValueSchema("json"), **options)
    (done,) = Archiver(harness.client, [topic], lambda owner: open_keyed(folder, keyed, owner), opened).run(once=True)
    return done


def by(*names: str, envelope: Envelope = Envelope.none) -> Keyed:
    return Keyed(KeyColumns.named(names), envelope)


def values(folder: Path, topic: str, *order: str) -> list[Any]:
    found: list[Any] = scanned(folder, topic).column("value").to_pylist()
    return sorted(found, key=lambda row: [row[name] for name in order])


def reasons(folder: Path, topic: str) -> dict[int, str]:
    rows = source_of("iceberg", folder, topic, dead_letters=True).read(0, 0, 1 << 40)
    return dict(zip(rows.column("offset").to_pylist(), rows.column("reason").to_pylist(), strict=True))


def texts(*rows: Any) -> list[bytes | None]:
    return [None if row is None else json.dumps(row).encode() for row in rows]


def test_row_of_columns_is_the_last_record_and_a_record_without_the_key_is_a_dead_letter(
    harness: Harness, tmp_path: Path
) -> None:
    harness.create("accounts")
    first = [{"tenant": "a", "id": 1, "v": 1}, {"tenant": "a", "id": 2, "v": 1}, {"tenant": "b", "id": 1, "v": 1}]
    harness.write("accounts", texts(*first, {"tenant": "a", "id": 1, "v": 2}, {"tenant": "a", "v": 3}, None))
    archive(harness, tmp_path, "accounts", by("tenant", "id"))
    harness.write("accounts", texts({"tenant": "b", "id": 1, "v": 4.5}, {"tenant": "c", "id": 1, "v": 5}))
    archive(harness, tmp_path, "accounts", by("tenant", "id"))
    assert values(tmp_path, "accounts", "tenant", "id") == [
        {"tenant": "a", "id": 1, "v": 2}, {"tenant": "a", "id": 2, "v": 1}, {"tenant": "b", "id": 1, "v": 4.5},
        {"tenant": "c", "id": 1, "v": 5},
    ]  # fmt: skip
    found = reasons(tmp_path, "accounts")
    assert found.keys() == {4, 5}
    assert found[4] == "the key (tenant,id) is null" and "no columns of the key" in found[5]
    with pytest.raises(ArchiveError, match="archive it with --key tenant,id"):
        archive(harness, tmp_path, "accounts", by("id"))


def test_key_that_values_lack_is_an_error_that_names_their_columns(harness: Harness, tmp_path: Path) -> None:
    harness.create("lacking")
    harness.write("lacking", texts({"a": 1, "b": [2]}))
    with pytest.raises(ArchiveError, match=r"lack the column value\.id of --key; they have a, b"):
        archive(harness, tmp_path, "lacking", by("id"))
    with pytest.raises(ArchiveError, match="which cannot be a key"):
        archive(harness, tmp_path, "lacking", by("b"))


def event(op: str, before: Any, after: Any) -> dict[str, Any]:
    return {"op": op, "before": before, "after": after, "source": {"table": "orders"}, "ts_ms": NOW_MS}


@pytest.mark.parametrize("layout", ["", "v", "bucket(4,id)"])
def test_value_of_a_type_that_a_key_or_a_partition_cannot_have_ends_nothing(
    harness: Harness, tmp_path: Path, layout: str
) -> None:
    topic = f"odd{sum(map(ord, layout))}"
    keyed = Keyed(KeyColumns.named(["id"]), partition_by=partition_columns(layout or "none"))
    harness.create(topic)
    harness.write(topic, texts({"id": 1, "v": 1}, {"id": 2, "v": 1}))
    archive(harness, tmp_path, topic, keyed)
    odd = [{"id": 1.5, "v": 2}] if not layout else [{"id": 2, "v": "text"}]
    for turn in (odd, [{"id": 1, "v": 3}]):
        harness.write(topic, texts(*turn))
        archive(harness, tmp_path, topic, keyed)
    assert values(tmp_path, topic, "id") == [{"id": 1, "v": 3}, {"id": 2, "v": 1}]
    assert reasons(tmp_path, topic).keys() == {2}


@pytest.mark.parametrize("has_schema", [False, True], ids=["event", "event-in-payload"])
@pytest.mark.parametrize("key", ["id", "key"])
def test_rows_of_change_events_are_those_of_the_source(
    harness: Harness, tmp_path: Path, has_schema: bool, key: str
) -> None:
    topic = f"cdc_{key}_{has_schema}"
    harness.create(topic)
    rows: dict[int, dict[str, Any]] = {}
    producer, rng = harness.producer(), random.Random(7)

    def send(number: int, value: Any) -> None:
        wrapped = {"schema": {"type": "struct"}, "payload": value} if has_schema and value is not None else value
        (text,) = texts(wrapped)
        producer.produce(topic, text, b"%d" % number, 0, timestamp=NOW_MS)

    def change(op: str, number: int, after: dict[str, Any] | None) -> None:
        send(number, event(op, rows.get(number), after))
        if after is None:
            del rows[number]
            send(number, None)  # Debezium's tombstone after a deletion
        else:
            rows[number] = after

    for turn in range(3):
        for number in range(40):  # no deletion in the first turn: its values have no row `before`
            if number not in rows:
                change(rng.choice("cr"), number, {"id": number, "v": turn})
            elif rng.random() < 0.4:
                change("d", number, None)
            else:
                change("u", number, {"id": number, "v": 100 + turn})
        producer.flush(30)
        archive(harness, tmp_path, topic, by(key, envelope=Envelope.debezium))
        assert values(tmp_path, topic, "id") == [rows[number] for number in sorted(rows)]
    send(1, event("t", None, None))
    send(2, event("u", None, None))
    producer.flush(30)
    done = archive(harness, tmp_path, topic, by(key, envelope=Envelope.debezium))
    assert done.dead_letter_records == 2
    assert any("op is 't'" in one for one in reasons(tmp_path, topic).values())
    assert values(tmp_path, topic, "id") == [rows[number] for number in sorted(rows)]


def test_rebuild_makes_the_same_rows_from_the_log(harness: Harness, tmp_path: Path) -> None:
    harness.create("again")
    harness.write("again", texts(*({"id": one % 5, "v": one} for one in range(40))))
    archive(harness, tmp_path, "again", by("id"))
    before = scanned(tmp_path, "again").to_pylist()
    archive(harness, tmp_path, "again", by("id"), rebuild=True)
    assert scanned(tmp_path, "again").to_pylist() == before
    assert [row["v"] for row in values(tmp_path, "again", "id")] == [35, 36, 37, 38, 39]


def test_killed_processes_leave_the_last_record_of_each_key(harness: Harness, tmp_path: Path) -> None:
    harness.create("killed", 3)
    rng, producer = random.Random(11), harness.producer()
    words = ["archive", "killed", "--warehouse", str(tmp_path), "--key", "key", "--freshness", "0.1"]
    words += ["-b", harness.process.bootstrap]
    command = [sys.executable, "-m", "odradek", *words]
    for _ in range(3):
        write(producer, rng, 2000)
        producer.flush(30)
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
            before, deadline = metadata(tmp_path), time.monotonic() + _DEADLINE_S
            while metadata(tmp_path) == before:  # a commit has begun
                assert process.poll() is None and time.monotonic() < deadline
                write(producer, rng, 20)
                time.sleep(0.001 * rng.randrange(30))
            process.send_signal(signal.SIGKILL)
    producer.flush(30)
    command_here(*words, "--once")
    expected: dict[bytes, Any] = {}
    for partition, offset, _, _, key, value, _ in harness.read("killed"):
        assert key is not None
        expected[key] = (value, partition, offset)
    expected = {key: row for key, row in expected.items() if row[0] is not None}
    for engine, rows in rows_by_engine(tmp_path, "killed").items():
        assert rows == expected, engine


def write(producer: Producer, rng: random.Random, count: int) -> None:
    for _ in range(count):
        value = None if rng.random() < 0.2 else b"v%d" % rng.randrange(1 << 30)
        producer.produce("killed", value, b"k%d" % rng.randrange(500), timestamp=NOW_MS + rng.randrange(1000))
        producer.poll(0)


def metadata(folder: Path) -> set[Path]:
    return set(folder.glob("kafka/killed/metadata/snap-*.avro"))
