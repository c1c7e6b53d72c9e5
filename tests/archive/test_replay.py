"""Tables back into topics: the records as they were, each once, also after kills."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from odradek.archive import ArchiveError, ArchiveOptions, Archiver, Replay, ReplayRange, replay
from odradek.columns import ValueSchema

from compat_tests.cli.commands import odradek_command
from compat_tests.recipes import eventually
from tests.archive.harness.broker import NOW_MS, Harness
from tests.archive.harness.tables import KINDS, open_table, source_of
from tests.harness.commands import command_here

_DEADLINE_S = 60


@pytest.fixture(scope="module")
def tables(harness: Harness, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tables of both kinds of a topic with two partitions, one with transactions."""
    folder = tmp_path_factory.mktemp("tables")
    harness.create("orders", 2)
    harness.fill("orders", 700, partition=0)
    harness.fill("orders", 500, partition=1, compression_type="zstd")
    harness.fill_transactions("orders")
    producer = harness.producer()
    producer.produce("orders", b"no timestamp", partition=1, timestamp=-1)
    assert producer.flush(30) == 0
    for kind in KINDS:
        archive(harness, kind, folder / kind, "orders")
    return folder


def archive(harness: Harness, kind: str, folder: Path, topic: str, **options: Any) -> None:
    made = Archiver(harness.client, [topic], lambda one: open_table(kind, folder, one), ArchiveOptions(**options))
    made.run(once=True)


def records(harness: Harness, topic: str) -> list[Any]:
    """The records of a topic without their offsets, in order."""
    return [(row[0], *row[2:]) for row in harness.read(topic)]


@pytest.mark.parametrize("kind", KINDS)
def test_replayed_records_are_those_of_the_topic_in_order(harness: Harness, kind: str, tables: Path) -> None:
    harness.create(f"again-{kind}", 2)
    source = source_of(kind, tables / kind, "orders")
    done = Replay(source, harness.client, f"again-{kind}").run()
    assert done.records == len(harness.read("orders"))
    assert records(harness, f"again-{kind}") == records(harness, "orders")
    again = Replay(source, harness.client, f"again-{kind}").run()
    assert (again.records, again.transactions) == (0, 0)
    assert Replay(source, harness.client, f"again-{kind}", name="another").run().records == done.records


@pytest.mark.parametrize("kind", KINDS)
def test_ranges_select_partitions_offsets_and_timestamps(harness: Harness, kind: str, tables: Path) -> None:
    topic = f"range-{kind}"
    harness.create(topic, 2)
    first, last = NOW_MS + 20_000_000, NOW_MS + 80_000_000
    within = ReplayRange([0], 100, 600, first, last)
    Replay(source_of(kind, tables / kind, "orders"), harness.client, topic, within).run()
    expected = [
        row
        for row in harness.read("orders")
        if row[0] == 0 and 100 <= row[1] < 600 and row[2] is not None and first <= row[2] < last
    ]
    assert records(harness, topic) == [(row[0], *row[2:]) for row in expected] and expected


def test_tables_that_cannot_be_replayed_are_errors(harness: Harness, tables: Path, tmp_path: Path) -> None:
    harness.create("narrow", 1)
    with pytest.raises(ArchiveError, match="topic narrow has 1 partition, and the table has partition 1"):
        Replay(source_of("parquet", tables / "parquet", "orders"), harness.client, "narrow")
    harness.create("json")
    harness.write("json", [b'{"a": 1}', b'{"a": 2 }', b"no json"])
    archive(harness, "parquet", tmp_path, "json", values=ValueSchema("json"))
    with pytest.raises(ArchiveError, match="typed values without their bytes: archive with --keep-value"):
        Replay(source_of("parquet", tmp_path, "json"), harness.client, "narrow")
    archive(harness, "parquet", tmp_path / "bytes", "json", values=ValueSchema("json"), keep_value=True)
    Replay(source_of("parquet", tmp_path / "bytes", "json"), harness.client, "narrow").run()
    Replay(source_of("parquet", tmp_path / "bytes", "json", dead_letters=True), harness.client, "narrow").run()
    assert [row[4] for row in records(harness, "narrow")] == [b'{"a": 1}', b'{"a": 2 }', b"no json"]


def test_the_rate_is_a_limit(harness: Harness, tables: Path) -> None:
    harness.create("slow", 2)
    began = time.monotonic()
    within = ReplayRange(start_offset=0, end_offset=50)
    done = Replay(source_of("parquet", tables / "parquet", "orders"), harness.client, "slow", within, rate=200).run()
    assert done.records == 100 and time.monotonic() - began >= 0.5


def test_a_replay_that_is_killed_continues_where_its_transactions_end(harness: Harness, tables: Path) -> None:
    harness.create("killed", 2)
    words = ["replay", "kafka.orders", "killed", "-b", harness.process.bootstrap]
    words += ["--warehouse", str(tables / "iceberg"), "--name", "killed"]
    command = [sys.executable, "-m", "odradek", *words, "--rate", "40"]
    # 1,100 more records take half a minute, and `committed` takes seconds on a machine with much other work.
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        eventually(lambda: committed(harness, "killed") >= 100, what="records are copied", deadline_s=_DEADLINE_S)
        assert process.poll() is None
        process.kill()
    before = len(harness.read("killed"))
    assert 100 <= before < len(harness.read("orders"))
    done = command_here(*words, "--output", "plain")
    assert records(harness, "killed") == records(harness, "orders")
    assert int(done.out.split("\t")[1]) == len(harness.read("orders")) - before


def committed(harness: Harness, name: str) -> int:
    """The sum of the offsets that a replay has committed."""
    consumer = Consumer(harness.client | {"group.id": f"odradek-replay-{name}"})
    found = consumer.committed([TopicPartition(name, one) for one in (0, 1)], 30)
    consumer.close()
    return sum(max(one.offset, 0) for one in found)


def test_group_of_a_replay_has_no_lag_after_each_transaction(
    harness: Harness, tables: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Markers of many transactions are in the topic, one for each partition of a transaction."""
    monkeypatch.setattr(replay, "_TRANSACTION_RECORDS", 100)
    harness.create("marked", 2)
    done = Replay(source_of("parquet", tables / "parquet", "orders"), harness.client, "marked", name="marked").run()
    assert done.transactions > 5
    consumer = Consumer(harness.client | {"group.id": "odradek-replay-marked"})
    try:
        for one in consumer.committed([TopicPartition("marked", partition) for partition in (0, 1)], 30):
            assert one.offset == consumer.get_watermark_offsets(one, 30, cached=False)[1]
    finally:
        consumer.close()
    words = ("group", "lag", "odradek-replay-marked", "--total", "--output", "json", "-b", harness.process.bootstrap)
    (total,) = odradek_command(*words).json
    assert (total["lag"], total["uncommitted"], total["unknown"]) == (0, 0, 0)


def test_replay_continues_the_progress_of_an_earlier_version(harness: Harness, tables: Path) -> None:
    """Commits of that version have the offset of the table as their own, and no metadata."""
    harness.create("resumed", 2)
    consumer = Consumer(harness.client | {"group.id": "odradek-replay-resumed"})
    consumer.commit(
        offsets=[TopicPartition("resumed", 0, 650), TopicPartition("resumed", 1, 1 << 30)], asynchronous=False
    )
    consumer.close()
    Replay(source_of("parquet", tables / "parquet", "orders"), harness.client, "resumed", name="resumed").run()
    expected = [row for row in harness.read("orders") if row[0] == 0 and row[1] >= 650]
    assert records(harness, "resumed") == [(row[0], *row[2:]) for row in expected] and expected
