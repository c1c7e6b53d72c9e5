"""The state of big_spenders.py: its rules by the `TwsTester` of PySpark 4.2, and its query over a topic by this Spark."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

from topics import last_per_key, read_topic

from spark_examples.tests.counting import events
from spark_examples.tests.programs import ORDERS
from tests.docs.pages import ROOT
from tests.installing import install

#: PySpark's client has the tester without Spark's jars: 3 MB.
CLIENT = "pyspark-client==4.2.0"
RULES = Path(__file__).with_name("big_spender_rules.py")
LIMIT_CENTS = 500_000
DEADLINE_S = 300


def test_rules_hold_by_the_tester_of_spark(tmp_path: Path) -> None:
    packages = tmp_path / "packages"
    install(Path(sys.executable), "--no-deps", "--target", str(packages), CLIENT, deadline_s=DEADLINE_S)
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            "--noconftest",
            "--rootdir",
            str(tmp_path),
            RULES,
        ],
        env={**os.environ, "PYTHONPATH": f"{packages}:{ROOT}"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert done.returncode == 0 and "3 passed" in done.stdout, done.stdout + done.stderr


def test_query_names_the_customers_that_plain_python_finds(
    run_in_session: Callable[..., str], bootstrap: str, orders_topic: str, tmp_path: Path
) -> None:
    given = ("--bootstrap", bootstrap, "--limit-cents", str(LIMIT_CENTS), "--available-now")
    run_in_session("big_spenders.py", "--checkpoint", str(tmp_path), *given)
    totals: dict[str, dict[str, int]] = defaultdict(dict)
    for event in events(ORDERS):
        totals[event.order.customer_id][event.order.order_id] = event.order.amount_cents
    expected = {name.encode() for name, amounts in totals.items() if sum(amounts.values()) > LIMIT_CENTS}
    assert expected and set(last_per_key(bootstrap, "big-spenders")) == expected
    assert sum(1 for _ in read_topic(bootstrap, "big-spenders")) == len(expected)
