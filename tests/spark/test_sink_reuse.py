"""Tasks and commits of the sink leave their process cheap for the next one (`spark/worker_process.py`)."""

from __future__ import annotations

from types import SimpleNamespace

import odradek
import pyarrow as pa
import pytest
from odradek.spark import worker_process
from odradek.spark.sink import BatchWriter
from odradek.spark.sink_options import parse_sink
from pyspark import TaskContext
from pyspark.sql.types import StringType, StructField, StructType

from compat_tests.recipes import make_topic

SCHEMA = StructType([StructField("value", StringType())])


@pytest.fixture
def frozen(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Has this process stand for one that Spark has started. Returns the calls of `gc.freeze`."""
    calls: list[str] = []
    monkeypatch.setattr(worker_process, "_main", lambda: "pyspark.daemon")
    monkeypatch.setattr(worker_process, "gc", SimpleNamespace(freeze=lambda: calls.append("freeze")))
    monkeypatch.setattr(worker_process, "_is_frozen", False)
    monkeypatch.setattr(TaskContext, "get", lambda: SimpleNamespace(partitionId=lambda: 0, attemptNumber=lambda: 0))
    return calls


def test_objects_of_modules_are_frozen_after_each_part_of_a_write(
    sockets: None, frozen: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with odradek.Broker() as broker:
        make_topic(broker.bootstrap_servers, "orders")
        options = parse_sink({"kafka.bootstrap.servers": broker.bootstrap_servers, "topic": "orders"})
        writer = BatchWriter(options, SCHEMA)
        report = writer.write(iter([pa.record_batch({"value": pa.array(["a"])})]))
        assert frozen == ["freeze"]
        monkeypatch.setattr(worker_process, "_is_frozen", False)  # the commit has another process
        writer.commit([report])
        assert frozen == ["freeze"] * 2
