"""Short scans do not pay for packages that take longer to import than their records to read."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.columns.harness.logs import GeneratedLog

pytestmark = pytest.mark.usefixtures("processes")
SCAN = """
import sys
from odradek.columns import scan
rows = scan(sys.argv[1]).to_table().num_rows
found = sum(batch.num_rows for batch in scan(sys.argv[1], columns=["offset", "value", "timestamp"]))
print(rows, found, scan(sys.argv[1]).count())
"""
ROWS = """
import sys
from odradek.columns import scan
from odradek.spark.options import parse
from odradek.spark.rows import _TYPES, fields_of, records
from pyspark.sql.types import StructType
options = parse({"subscribe": "t", "kafka.bootstrap.servers": "x:1", "includeHeaders": "true"})
made = [scan(sys.argv[1]).splits, StructType(fields_of(_TYPES))]
rows = sum(batch.num_rows for split in made[0] for batch in records(split, options, made[1]))
print(rows, rows, rows)
"""


@pytest.mark.parametrize("program", [SCAN, ROWS], ids=["scan", "rows of Spark"])
def test_reading_imports_neither_numba_nor_pandas(tmp_path: Path, program: str) -> None:
    pytest.importorskip("odradek_kernel")
    if program is ROWS:
        pytest.importorskip("pyspark")
    log = GeneratedLog(tmp_path, 1)
    log.fill(40)
    log.close()
    program += "print(*({'numba', 'pandas'} & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", program, str(log.topic_path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    counts, imported = done.stdout.split("\n")[:2]
    assert set(counts.split()) == {str(len(log.rows))} and imported == ""
