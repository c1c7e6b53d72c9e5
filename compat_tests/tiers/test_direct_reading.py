"""`odradek query`, `odradek archive` and Spark read the store of a tiered topic themselves; the broker reads it for none."""

from __future__ import annotations

import json
import urllib.request
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from compat_tests.broker_process import free_port
from compat_tests.cli.commands import Done, odradek_command
from compat_tests.odradek_process import OdradekProcess
from spark_examples.tests.quick_jvm import QUICK_JVM

from . import tiered

COUNT = 6000


@pytest.fixture
def properties(folder: Path) -> dict[str, str]:
    return tiered.properties(folder) | {"odradek.metrics.port": str(free_port())}


@pytest.fixture
def broker(broker: OdradekProcess) -> OdradekProcess:
    """A broker with a topic of which only the newest segment is on the disk."""
    tiered.make_topic(broker.bootstrap)
    tiered.produce(broker.bootstrap, tiered.values_of(COUNT), compression_type="lz4", batch_size="100000")
    tiered.produce(broker.bootstrap, tiered.values_of(COUNT, COUNT))
    tiered.await_local_start(broker.data_dir, COUNT)
    return broker


def remote_fetches(broker: OdradekProcess) -> float:
    """The broker's reads of the store so far."""
    address = f"http://127.0.0.1:{broker.properties['odradek.metrics.port']}/metrics"
    with urllib.request.urlopen(address) as response:
        lines = response.read().decode().splitlines()
    return sum(float(one.rpartition(" ")[2]) for one in lines if "_remotefetchrequests_total{" in one)


def run(broker: OdradekProcess, folder: Path, *words: str) -> Done:
    store = [f"remote.log.storage.manager.class.name={tiered.STORE_CLASS}", f"rsm.config.dir={folder}"]
    done = odradek_command(*words, "-b", broker.bootstrap, *(word for one in store for word in ("-X", one)))
    assert done.status == 0, done.err
    return done


def test_query_counts_the_records_of_the_store(broker: OdradekProcess, folder: Path, tmp_path: Path) -> None:
    before, file, expected = (
        remote_fetches(broker),
        tmp_path / "found.json",
        {"n": 2 * COUNT, "first": 0, "last": 11999},
    )
    sql = f'select count(*) n, min("offset") first, max("offset") last from {tiered.TOPIC} where value like \'0%\''
    run(broker, folder, "query", sql, "--file", str(file))
    assert json.loads(file.read_text()) == [expected] and remote_fetches(broker) == before
    assert odradek_command("query", sql, "--file", str(file), "-b", broker.bootstrap).status == 0
    assert json.loads(file.read_text()) == [expected] and remote_fetches(broker) > before


def test_archive_has_the_records_of_the_store(broker: OdradekProcess, folder: Path, tmp_path: Path) -> None:
    before, tables = remote_fetches(broker), tmp_path / "tables"
    run(broker, folder, "archive", tiered.TOPIC, "--parquet", str(tables), "--once")
    files = [one for one in tables.rglob("*.parquet") if "dead" not in str(one)]
    offsets = sorted(offset for file in files for offset in pq.ParquetFile(file).read(["offset"]).column(0).to_pylist())
    assert offsets == list(range(2 * COUNT)) and remote_fetches(broker) == before


@pytest.mark.spark
def test_tasks_of_spark_read_the_store(
    broker: OdradekProcess, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pyspark.sql import SparkSession

    for name, value in QUICK_JVM.items():
        monkeypatch.setenv(name, value)
    before = remote_fetches(broker)
    done = run(
        broker, folder, "archive", tiered.TOPIC, "--warehouse", str(tmp_path / "warehouse"), "--once",
        "--spark", "local[1]", "--output", "json",
    )  # fmt: skip
    assert done.json[0]["rows"] == 2 * COUNT and remote_fetches(broker) == before
    spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
    try:
        options = {
            "kafka.bootstrap.servers": broker.bootstrap, "subscribe": tiered.TOPIC,
            "kafka.remote.log.storage.manager.class.name": tiered.STORE_CLASS, "kafka.rsm.config.dir": str(folder),
        }  # fmt: skip
        frame = spark.read.format("odradek").options(**options).load()
        assert frame.count() == 2 * COUNT and remote_fetches(broker) == before
    finally:
        spark.stop()
