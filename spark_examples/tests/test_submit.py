"""spark-submit with the block of docs/spark.md: its settings stay, and the modules of a program come by --py-files."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from spark_examples.tests.counting import by_region, events, unique_orders
from spark_examples.tests.programs import EXAMPLES, ORDERS, SUBMIT
from spark_examples.tests.quick_jvm import QUICK_JVM
from tests.docs.pages import DOCS, ROOT, blocks


def test_programs_run_in_spark_submit_with_their_modules_as_py_files(
    bootstrap: str, orders_topic: str, tmp_path: Path
) -> None:
    (text,) = (block.text for block in blocks(DOCS / "spark.md") if block.title == SUBMIT)
    (tmp_path / ".tools").symlink_to(ROOT / ".tools")
    (tmp_path / "spark_examples").symlink_to(EXAMPLES)
    # spark-submit adds the folder of the program to the path of Python: here it has no other module.
    (tmp_path / "alone").mkdir()
    shutil.copy(EXAMPLES / "batch_report.py", tmp_path / "alone")
    script = text.replace("spark_examples/batch_report.py", "alone/batch_report.py").replace(
        "127.0.0.1:9092", bootstrap
    )
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script], cwd=tmp_path, env={**os.environ, **QUICK_JVM, "PATH": path},
        capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4_000:]
    for region, total in by_region(unique_orders(events(ORDERS))).items():
        assert region in done.stdout and f"{total.cents / 100:,.2f}" in done.stdout
