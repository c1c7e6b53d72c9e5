"""A small round of `python -m tests.hostile.batches`: every reader can read each batch that the broker accepts."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from compat_tests.odradek_process import OdradekProcess
from tests.hostile.batches import run_round

pytestmark = pytest.mark.usefixtures("processes")

#: For more seeds and batches, run the program, which uses Apache's tools too.
SEED = int(os.environ.get("HOSTILE_BATCHES_SEED", "20"))
BATCHES = int(os.environ.get("HOSTILE_BATCHES", "400"))
#: The other kinds take as much time and lead through the same code.
KINDS_OF_TOPICS = ("plain", "to-gzip")


def test_mutated_batches_that_are_taken_can_be_read_to_the_end(tmp_path: Path) -> None:
    with OdradekProcess(tmp_path) as broker:
        report = run_round(broker, None, random.Random(SEED), 0, BATCHES, KINDS_OF_TOPICS)
    assert report.failures == []
    assert report.responses["NONE"] > BATCHES // 10
    assert report.responses["INVALID_RECORD"] > BATCHES // 10
