"""Kill -9 of an archiver within its commits: short runs of the program in this folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from compat_tests.archive.rounds import Round
from compat_tests.archive.spark_rounds import SparkRound

pytestmark = pytest.mark.timeout(1_200)


@pytest.mark.parametrize(
    ("kind", "place"),
    [("iceberg", "dead-letter records committed"), ("parquet", "manifest written, not renamed")],
)
def test_archivers_that_die_within_commits_neither_repeat_nor_skip_records(
    kind: str, place: str, tmp_path: Path
) -> None:
    outcome = Round(tmp_path, 1, kind, place, records=2_000, kills=1).execute()
    assert outcome.anomalies == [] and outcome.kills == 1


@pytest.mark.spark
def test_drivers_of_spark_that_die_within_commits_neither_repeat_nor_skip_records(tmp_path: Path) -> None:
    place = "metadata written, catalog not"
    outcome = SparkRound(tmp_path, 1, place, records=1_000, victims=["driver"], master="local[1]").execute()
    assert outcome.anomalies == [] and outcome.kills == 1 and not outcome.missed_place
