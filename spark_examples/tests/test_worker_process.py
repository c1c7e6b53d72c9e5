"""Python processes of Spark, used again: what the plan and the tasks of a query leave behind makes the next use cheap."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import SparkSession

from pyspark_odradek import read
from tests.columns.harness.world import World

#: Modules whose packages' importers exist in a worker before its first task, at least.
_LEAST_IMPORTERS = 3


@pytest.fixture
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    made = World(tmp_path_factory.mktemp("world"))
    with made.broker:
        made.create("orders")
        made.fill("orders", 20, 1)
        yield made


def _state(spark: SparkSession) -> list[tuple[int, int, int]]:
    """(process, importers of archives that the next task would have renewed, frozen objects) of a task's process."""

    def report(batches: Iterator[Any]) -> Iterator[Any]:
        import gc
        import os
        import sys
        import zipimport

        import pyarrow as pa

        importers = sum(isinstance(one, zipimport.zipimporter) for one in sys.path_importer_cache.values())
        for _ in batches:
            row = {"pid": os.getpid(), "importers": importers, "frozen": gc.get_freeze_count()}
            yield pa.RecordBatch.from_pylist([row])

    frame = spark.range(0, 8, 1, 8).mapInArrow(report, "pid bigint, importers bigint, frozen bigint")
    return [tuple(row) for row in frame.collect()]  # type: ignore[misc]


@pytest.mark.parametrize("form", ["read", "odradek"])
def test_task_of_a_process_that_has_read_a_topic_renews_no_importer_of_archives(
    spark: SparkSession, world: World, form: str
) -> None:
    given = {"kafka.bootstrap.servers": world.broker.bootstrap_servers, "subscribe": "orders", "minPartitions": "8"}
    before = {pid: importers for pid, importers, frozen in _state(spark) if not frozen}
    frame = read(spark, **given) if form == "read" else spark.read.format("odradek").options(**given).load()
    assert len(frame.collect()) == 20
    assert all(importers >= _LEAST_IMPORTERS for importers in before.values())
    after = [(importers, frozen) for _, importers, frozen in _state(spark) if frozen]
    assert after and all(importers < _LEAST_IMPORTERS for importers, _ in after), after
