"""The ways from a topic of JSON to a table with columns: `python -m benchmarks.columns --only writers`.

The CPU of `odradek archive` includes the start of its process. The worker of Kafka Connect has the flags of its script, and
its sink commits every ten seconds, not every five minutes: a run ends with the commit that has the last record.
"""

from __future__ import annotations

import itertools
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import psutil
from odradek.archive import open_catalog
from pyiceberg.exceptions import NoSuchTableError

from compat_tests.ecosystem.connect_worker import ConnectWorker
from compat_tests.ecosystem.iceberg_sink.connector import iceberg_connector

from .mirror_maker.targets import SCRIPT_JVM
from .tree_cpu import TreeCpu

_HEAP = ("-Xms256M", "-Xmx2G")
_COMMIT_MS, _DEADLINE_S, _POLL_S = 10_000, 900, 0.5
_FIELDS = "id bigint, customer string, amount double, note string"
_SCHEMA = """{"type": "object", "properties": {"id": {"type": "integer"}, "customer": {"type": "string"},
 "amount": {"type": "number"}, "note": {"type": "string"}}}"""
_SINK = "sink"


class TopicToKeep(NamedTuple):
    """A topic of a partition with `records` records, and the broker's process."""

    bootstrap: str
    broker: int
    name: str
    records: int


class TableWriters:
    """The ways, with a worker of Kafka Connect and a session of Spark that run already."""

    def __init__(self, topic: TopicToKeep, session: Any, folder: Path) -> None:
        self._topic, self._session, self._folder = topic, session, folder
        self._numbers = itertools.count()
        self._stack = ExitStack()
        self._warehouse = folder / "tables"
        self._warehouse.mkdir()

    def __enter__(self) -> TableWriters:
        catalog = open_catalog(self._warehouse, {})
        catalog.create_namespace(_SINK)
        self._worker = ConnectWorker(self._topic.bootstrap, "writers", self._folder, tool="iceberg_sink")
        self._running = self._stack.enter_context(self._worker.start(*_HEAP, *SCRIPT_JVM))
        roots = (psutil.Process(), psutil.Process(self._topic.broker), psutil.Process(self._running.process.pid))
        self.cpu = TreeCpu(*roots)
        self._stack.callback(self.cpu.close)
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def runs(self) -> dict[str, Callable[[], None]]:
        schema = str(self._folder / "order.json")
        Path(schema).write_text(_SCHEMA)
        return {
            "archive, columns of a schema": lambda: self._archive("--value-format", "json", "--value-schema", schema),
            "archive, inferred columns": lambda: self._archive("--value-format", "json", "--value-schema", "infer"),
            "archive, keyed": lambda: self._archive("--key", "key"),
            "connector to Parquet, columns": self._parquet,
            "Iceberg sink of Kafka Connect, columns": self._sink,
        }

    def _archive(self, *words: str) -> None:
        namespace = f"archive_{next(self._numbers)}"
        where = ["--warehouse", str(self._warehouse), "--namespace", namespace, *words, "--once"]
        command = [sys.executable, "-m", "odradek", "archive", self._topic.name, *where, "-b", self._topic.bootstrap]
        subprocess.run(command, check=True, capture_output=True, cwd=self._folder)

    def _parquet(self) -> None:
        from pyspark.sql import functions as f

        options = {"kafka.bootstrap.servers": self._topic.bootstrap, "startingOffsets": "earliest"}
        rows = self._session.read.format("kafka").options(**options).option("subscribe", self._topic.name).load()
        parsed = rows.select("key", "offset", f.from_json(f.col("value").cast("string"), _FIELDS).alias("o"))
        parsed.select("key", "offset", "o.*").write.parquet(f"{self._folder}/{next(self._numbers)}.parquet")

    def _sink(self) -> None:
        name = f"sink_{next(self._numbers)}"
        config = iceberg_connector(self._topic.name, f"{_SINK}.{name}", self._warehouse, commit_ms=_COMMIT_MS)
        self._worker.run_connector(self._running, name, config | {"iceberg.control.topic": f"{name}-control"})
        deadline = time.monotonic() + _DEADLINE_S
        while self._rows(name) < self._topic.records:
            assert time.monotonic() < deadline, f"{self._rows(name)} of {self._topic.records} rows"
            time.sleep(_POLL_S)
        self._worker.ask("DELETE", f"/connectors/{name}")

    def _rows(self, name: str) -> int:
        try:
            snapshot = open_catalog(self._warehouse, {}).load_table(f"{_SINK}.{name}").current_snapshot()
        except NoSuchTableError:
            return 0
        return int(snapshot.summary["total-records"] or 0) if snapshot is not None and snapshot.summary else 0
