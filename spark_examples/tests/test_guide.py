"""The blocks of docs/spark.md, in page order, and the cells of the notebook, in one Spark session."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import odradek
import pytest
from jars import connector_jars, iceberg_jars, scala
from pyspark import __version__ as spark_version
from topics import last_per_key, read_topic

from spark_examples.tests.counting import events, unique_orders
from spark_examples.tests.programs import SUBMIT
from spark_examples.tests.quick_jvm import QUICK_SPARK
from tests.docs.pages import DOCS, ROOT, Block, blocks

#: Five times what it takes beside three other processes on two cores.
DEADLINE_S = 2_000
ONE_SESSION = Path(__file__).with_name("one_session.py")
#: Fewer orders than the guide's million: three quarters of an hour of its day, so the first minutes are complete.
EVENTS = 30_000
#: The guide's million orders, and its 5,000 a second, of which a slow machine would get more than it can read.
SMALLER = {"1000000": str(EVENTS), "5000": "500"}
#: The test has its own broker, and its environment is active already.
NOT_RUN = ("make run", "pip install", "source .venv/bin/activate")

Step = list[str] | str


def steps_of(block: Block) -> list[Step]:
    """Returns the commands of a block of shell, or the text of a Python program."""
    if block.language == "python":
        return [block.text]
    commands = [shlex.split(line, comments=True) for line in block.text.splitlines() if not line.startswith(NOT_RUN)]
    return [[SMALLER.get(word, word) for word in command] for command in commands if command]


def pasted() -> list[Step]:
    guide = [
        block for block in blocks(DOCS / "spark.md") if block.language in ("sh", "python") and block.title != SUBMIT
    ]
    assert len(guide) >= 5
    assert all(any(word in block.text.split() for block in guide) for word in SMALLER)
    steps = [step for block in guide for step in steps_of(block)]
    # Three ways have one total while the topic does not grow.
    parallel = next(place for place, step in enumerate(steps) if step[-1] == "&")
    return [*steps[:parallel], notebook(), *steps[parallel:]]


def notebook() -> str:
    """Returns the cells of code as one program."""
    found = json.loads((ONE_SESSION.parents[1] / "orders.ipynb").read_text(encoding="utf-8"))
    return "\n\n".join("".join(cell["source"]) for cell in found["cells"] if cell["cell_type"] == "code")


@pytest.mark.timeout(DEADLINE_S + 200)
def test_blocks_of_the_guide_run_in_order(odradek_broker: odradek.Broker, tmp_path: Path) -> None:
    bootstrap = odradek_broker.bootstrap_servers
    (tmp_path / ".tools").symlink_to(ROOT / ".tools")
    (tmp_path / "steps.json").write_text(json.dumps(pasted()), encoding="utf-8")
    command = [sys.executable, str(ONE_SESSION), bootstrap, "steps.json"]
    done = subprocess.run(
        command,
        cwd=tmp_path,
        env={**os.environ, **QUICK_SPARK, "PYTHONPATH": str(ROOT)},  # of `pyspark_odradek`, see conftest.py
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr[-8_000:]
    print("\n".join(line for line in done.stdout.splitlines() if line.startswith("== ")))

    assert set(re.findall(r"too late: (\d+)", done.stdout)) == {"0"}
    for picture in ("revenue.png", "revenue-notebook.png"):
        assert (tmp_path / picture).read_bytes()[:4] == b"\x89PNG"
    for table in ("revenue.parquet", "live.parquet", "revenue-again.parquet", "amounts.parquet"):
        assert any((tmp_path / table).rglob("*.parquet")), table
    orders = [json.loads(message.value()) for message in read_topic(bootstrap, "order-events")]
    assert sum(1 for _ in read_topic(bootstrap, "backup.order-events")) == len(orders) > EVENTS
    assert any(True for _ in read_topic(bootstrap, "revenue-live"))
    check_totals(done.stdout)
    assert set(last_per_key(bootstrap, "big-customers")) == customers_over(orders, 500_000)
    mine = {".tools", "steps.json"}
    made = [
        f"{entry.name}/" if entry.is_dir() else entry.name for entry in tmp_path.iterdir() if entry.name not in mine
    ]
    ignored = subprocess.run(["git", "check-ignore", "--no-index", *made], cwd=ROOT, capture_output=True, text=True)
    assert set(made) - set(ignored.stdout.splitlines()) == set(), "a clone would show them as new files"


def check_totals(output: str) -> None:
    """The six totals of three_ways.py are those of the events, which plain Python adds up."""
    found = re.findall(r" ([\d,]+) events, ([\d,]+) orders, ([\d,.]+)$", output, re.MULTILINE)
    arrived = events(EVENTS)
    cents = sum(event.order.amount_cents for event in arrived)
    assert found == [(f"{EVENTS:,}", f"{len(unique_orders(arrived)):,}", f"{cents / 100:,.2f}")] * 6


def customers_over(orders: list[dict[str, Any]], limit_cents: int) -> set[bytes]:
    totals: Counter[str] = Counter()
    for order in {one["order_id"]: one for one in orders}.values():
        totals[order["customer_id"]] += order["amount_cents"]
    return {customer.encode() for customer, cents in totals.items() if cents >= limit_cents}


def test_connector_that_the_guide_names_is_that_of_the_jars() -> None:
    text = (DOCS / "spark.md").read_text(encoding="utf-8")
    named = set(re.findall(r"org\.apache\.spark:([\w.-]+):([\d.]+)", text))
    assert named == {(f"spark-sql-kafka-0-10_{scala(spark_version)}", spark_version)}
    iceberg = re.findall(r"(iceberg-spark-runtime-[\w.]+):([\d.]+)|(sqlite-jdbc):([\d.]+)", text)
    assert {jar.name for jar in iceberg_jars()} == {"-".join(filter(None, one)).rstrip(".") + ".jar" for one in iceberg}
    assert [jar.name for jar in connector_jars() if jar.name.startswith("spark-sql-kafka")] == [
        f"{name}-{version}.jar" for name, version in named
    ]


def test_programs_that_the_guide_names_exist() -> None:
    named = set(re.findall(r"spark_examples/(\w+\.py)", (DOCS / "spark.md").read_text(encoding="utf-8")))
    assert named and [name for name in named if not (ONE_SESSION.parents[1] / name).is_file()] == []
