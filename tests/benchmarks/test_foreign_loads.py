"""The foreign load programs of the benchmarks measure the broker, not themselves."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from compat_tests.odradek_process import OdradekProcess

pytestmark = pytest.mark.usefixtures("processes")

ROOT = Path(__file__).resolve().parents[2]
RECORDS = 100_000
DEADLINE_S = 120


def rdkafka_load(what: str, bootstrap: str, *settings: str) -> subprocess.CompletedProcess[str]:
    program = [sys.executable, str(ROOT / "benchmarks" / "rdkafka_load.py"), what, bootstrap, "t", str(RECORDS), "100"]
    return subprocess.run([*program, *settings], check=True, capture_output=True, text=True, timeout=DEADLINE_S)


def test_a_consumer_of_librdkafka_that_is_fed_faster_than_it_reads_does_not_pause_for_a_second(tmp_path: Path) -> None:
    with OdradekProcess(tmp_path) as broker:
        rdkafka_load("produce", broker.bootstrap, "linger.ms=5")
        consumed = rdkafka_load("consume", broker.bootstrap, "debug=fetch", "queued.min.messages=5000")
    assert json.loads(consumed.stdout)["records"] >= RECORDS - 1
    # The queue of 5,000 records was full more than once, and no fetch waited long for it.
    pauses_ms = [int(found) for found in re.findall(r"Fetch backoff for (\d+)ms", consumed.stderr)]
    assert pauses_ms and max(pauses_ms) <= 10, pauses_ms
