"""`odradek archive` and `odradek replay`: results, and mistakes in one line."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.archive.harness.broker import Harness
from tests.archive.harness.tables import source_of


def run(harness: Harness, *words: str, status: int = 0) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "odradek", *words, "-b", harness.process.bootstrap]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == status, done.stderr
    return done


def test_archive_follows_its_topics_until_a_signal_and_reports_the_rows(harness: Harness, tmp_path: Path) -> None:
    harness.create("orders")
    harness.write("orders", [b'{"id": 1}', b"broken"])
    command = [sys.executable, "-m", "odradek", "archive", "orders", "--warehouse", str(tmp_path), "--output", "json"]
    command += ["--value-format", "json", "--freshness", "0.3", "-b", harness.process.bootstrap]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        deadline = time.monotonic() + 60
        while not (tmp_path / "kafka/orders/data").exists():
            assert process.poll() is None and time.monotonic() < deadline
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        out, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    assert json.loads(out) == [{"topic": "orders", "rows": 1, "dead_letter_records": 1, "commits": 1}]
    assert source_of("iceberg", tmp_path, "orders").read(0, 0, 9).column("value").to_pylist() == [{"id": 1}]


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        (["archive", "orders"], 2, "give --warehouse DIR"),
        (["archive", "orders", "--warehouse", "w", "--parquet", "p"], 2, "give --warehouse DIR"),
        (["replay", "nothing", "orders", "--parquet", "p"], 1, "has no manifest.json"),
        (["replay", "kafka.nothing", "orders", "--warehouse", "w"], 1, "the catalog has no table kafka.nothing"),
    ],
)
def test_mistakes_are_one_line_and_a_status(
    harness: Harness, words: list[str], status: int, message: str, tmp_path: Path
) -> None:
    done = run(harness, *(str(tmp_path / one) if len(one) == 1 else one for one in words), status=status)
    assert message in done.stderr and "Traceback" not in done.stderr and done.stderr.count("\n") <= 2
