"""Iceberg's own sink for Kafka Connect: JSON records to a table, each row once, through a kill of the worker."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from odradek.archive import open_catalog
from pyiceberg.exceptions import NoSuchTableError

from compat_tests.ecosystem import reference_client
from compat_tests.ecosystem.connect_worker import ConnectWorker
from compat_tests.ecosystem.iceberg_sink.connector import iceberg_connector

PARTITIONS, ROUND = 3, 2000


def orders(numbers: range) -> Iterator[str]:
    return (json.dumps({"id": number, "customer": f"c{number % 7}", "amount": number / 4}) for number in numbers)


def rows(warehouse: Path, topic: str) -> list[tuple[int, str, float]]:
    try:
        table = open_catalog(warehouse, {}).load_table(f"sink.{topic}").scan().to_arrow()
    except NoSuchTableError:
        return []
    return sorted(zip(*(table[name].to_pylist() for name in ("id", "customer", "amount")), strict=True))


@pytest.mark.timeout(600)
def test_rows_of_the_table_are_the_records_each_once_through_a_kill(bootstrap: str, topic: str, tmp_path: Path) -> None:
    topic = topic[:50].replace("-", "_").replace(".", "_")
    reference_client.create(bootstrap, topic, PARTITIONS)
    reference_client.create(bootstrap, f"{topic}-control")
    warehouse = tmp_path / "tables"
    warehouse.mkdir()
    catalog = open_catalog(warehouse, {})
    catalog.create_namespace("sink")
    worker = ConnectWorker(bootstrap, f"connect-{topic}", tmp_path, tool="iceberg_sink")
    reference_client.produce(bootstrap, topic, orders(range(ROUND)))
    with worker.start() as running:
        worker.run_connector(running, "sink", iceberg_connector(topic, f"sink.{topic}", warehouse, commit_ms=1000))
        running.wait_for(lambda: len(rows(warehouse, topic)) >= ROUND, "the first rows")
        reference_client.produce(bootstrap, topic, orders(range(ROUND, 2 * ROUND)))
        running.wait_for(lambda: len(rows(warehouse, topic)) > ROUND, "more rows")
        running.kill()
    reference_client.produce(bootstrap, topic, orders(range(2 * ROUND, 3 * ROUND)))
    with worker.start() as running:
        running.wait_for(lambda: len(rows(warehouse, topic)) >= 3 * ROUND, "all rows")
        running.stop()
    assert rows(warehouse, topic) == [(number, f"c{number % 7}", number / 4) for number in range(3 * ROUND)]
