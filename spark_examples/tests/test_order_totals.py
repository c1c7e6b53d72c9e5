"""The project of Declarative Pipelines, as a user runs it: `spark-pipelines run`, with topics and tables on both sides."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import odradek
import pyarrow.parquet as pq
import pytest
from topics import ensure_topic, read_topic

from spark_examples.tests.late_process import in_time
from spark_examples.tests.programs import EXAMPLES, run_program
from spark_examples.tests.quick_jvm import QUICK_SPARK
from tests.docs.pages import ROOT

DEADLINE_S = 600
#: As in order_totals/spark-pipeline.yml.
RUN = ("run", "--conf", "spark.sql.catalogImplementation=hive")
LEAST_CENTS = 50_000


@pytest.fixture(scope="module")
def broker() -> Iterator[odradek.Broker]:
    with odradek.Broker() as running:
        yield running


def pipelines(project: Path, *words: str) -> None:
    """Runs `spark-pipelines` in the project; again where a Python process of Spark was late."""
    in_time(lambda: pipelines_once(project, *words))


def pipelines_once(project: Path, *words: str) -> None:
    command = shutil.which("spark-pipelines", path=str(Path(sys.executable).parent))
    assert command is not None
    environment = {**os.environ, **QUICK_SPARK, "PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": sys.executable}
    done = subprocess.run(
        [command, *words], cwd=project, env=environment, capture_output=True, text=True, timeout=DEADLINE_S, check=False
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-8000:]


def rows(project: Path, table: str) -> list[dict[str, object]]:
    found: list[dict[str, object]] = pq.read_table(project / "spark-warehouse" / table).to_pylist()
    return found


def check(project: Path, broker: odradek.Broker, events: int) -> None:
    """The tables and the topic have each order of the source once."""
    sent = [json.loads(message.value()) for message in read_topic(broker.bootstrap_servers, "order-events")]
    assert len(sent) == events
    orders = rows(project, "orders")
    assert Counter(row["order_id"] for row in orders) == Counter(order["order_id"] for order in sent)
    totals = {row["region"]: (row["orders"], row["cents"]) for row in rows(project, "totals")}
    for region in {order["region"] for order in sent}:
        amounts = [order["amount_cents"] for order in sent if order["region"] == region]
        assert totals[region] == (len(amounts), sum(amounts))
    large = Counter(order["order_id"] for order in sent if order["amount_cents"] >= LEAST_CENTS)
    written = [json.loads(message.value()) for message in read_topic(broker.bootstrap_servers, "large-orders")]
    assert large and Counter(order["order_id"] for order in written) == large


def test_pipeline_reads_and_writes_topics_and_tables_and_continues(broker: odradek.Broker, tmp_path: Path) -> None:
    project = tmp_path / "order_totals"
    shutil.copytree(EXAMPLES / "order_totals", project)
    spec = project / "spark-pipeline.yml"
    text = spec.read_text(encoding="utf-8").replace("127.0.0.1:9092", broker.bootstrap_servers)
    spec.write_text(text.replace("/tmp/order-totals/progress", str(tmp_path / "progress")), encoding="utf-8")
    given = ("--bootstrap", broker.bootstrap_servers)
    run_program("generate_orders.py", *given, "--events", "2000")
    ensure_topic(broker.bootstrap_servers, "large-orders", 1)
    pipelines(project, *RUN)
    check(project, broker, 2_000)
    run_program("generate_orders.py", *given, "--events", "3000", "--skip", "2000")
    pipelines(project, *RUN)
    check(project, broker, 3_000)
