"""Turns as jobs of Spark, with tasks that run in this process: the commits of the driver."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from odradek.archive import ArchiveError, ArchiveOptions, Owner
from odradek.archive.topic_archive import Cluster, TopicArchive
from odradek.columns import ValueSchema

from tests.archive.harness.broker import Harness
from tests.archive.harness.tables import open_table, source_of

spark_tasks = pytest.importorskip("odradek.archive.spark_tasks")

_NUMBERS = ValueSchema("json", pa.schema([("v", pa.int64())]))
_TEXTS = ValueSchema("json", pa.schema([("v", pa.string())]))
_PARTITIONS, _RECORDS = 3, 30


class Jobs:
    """As much of a session of Spark as the driver uses. `failing`: numbers of jobs whose tasks fail."""

    def __init__(self, *failing: int) -> None:
        self.sparkContext = SimpleNamespace(defaultParallelism=1)
        self.conf = {"spark.app.name": "archive"}
        self.failing = failing
        self.tasks: list[int] = []

    def range(self, first: int, end: int, step: int, parts: int) -> Jobs:
        self.tasks.append(end)
        return self

    def mapInArrow(self, run: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]], result: str) -> Any:
        def collect() -> list[Any]:
            if len(self.tasks) in self.failing:
                raise spark_tasks.PySparkException("a task failed")
            numbers = (pa.RecordBatch.from_pydict({"id": [one]}) for one in range(self.tasks[-1]))
            return [SimpleNamespace(**row) for batch in run(numbers) for row in batch.to_pylist()]

        return SimpleNamespace(collect=collect)


@pytest.fixture(autouse=True)
def small_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Splits of some records, of which a job has two."""
    monkeypatch.setattr(spark_tasks, "SPLIT_BYTES", 1 << 10)
    monkeypatch.setattr(spark_tasks, "_FEWEST_TASKS", 2)
    monkeypatch.setattr(spark_tasks, "_TASKS_PER_SLOT", 2)


def archive(folder: Path, topic: str, spark: Jobs, **options: Any) -> TopicArchive:
    table = open_table("iceberg", folder, Owner(topic))
    return spark_tasks.SparkTopicArchive(spark, topic, table, ArchiveOptions(**options))  # type: ignore[no-any-return]


def turns(harness: Harness, made: TopicArchive) -> int:
    """The number of turns to the end of the topic."""
    count = 0
    with Cluster(harness.client) as cluster:
        while not made.archived.is_caught_up:
            made.advance(cluster)
            count += 1
    made.close()
    return count


def offsets(folder: Path, topic: str, *, dead_letters: bool = False) -> list[tuple[int, int]]:
    source = source_of("iceberg", folder, topic, dead_letters=dead_letters)
    found = [(one, source.read(one, 0, 1 << 40).column("offset").to_pylist()) for one in range(_PARTITIONS)]
    return sorted((partition, offset) for partition, rows in found for offset in rows)


def filled(harness: Harness, topic: str) -> list[tuple[int, int]]:
    harness.create(topic, _PARTITIONS)
    for partition in range(_PARTITIONS):
        harness.write(topic, [b'{"v": %d, "text": "%s"}' % (one, b"x" * 200) for one in range(_RECORDS)], partition)
    return [(partition, offset) for partition in range(_PARTITIONS) for offset in range(_RECORDS)]


def test_turns_commit_a_part_of_the_splits_each(harness: Harness, tmp_path: Path) -> None:
    expected = filled(harness, "parts")
    made = archive(tmp_path, "parts", spark := Jobs())
    assert turns(harness, made) > 2 and set(spark.tasks) <= {1, 2}
    assert offsets(tmp_path, "parts") == expected


@pytest.mark.parametrize("failing", [(), (1,)], ids=["whole", "a failure"])
def test_table_that_is_made_anew_has_all_of_its_rows_in_each_commit(
    harness: Harness, tmp_path: Path, failing: tuple[int, ...]
) -> None:
    topic = f"anew_{len(failing)}"
    expected = filled(harness, topic)
    turns(harness, archive(tmp_path, topic, Jobs(), values=_NUMBERS))
    made = archive(tmp_path, topic, Jobs(*failing), values=_TEXTS, rebuild=True)
    with Cluster(harness.client) as cluster:
        if failing:
            with pytest.raises(ArchiveError, match="a task failed"):
                made.advance(cluster)
            assert offsets(tmp_path, topic) == expected
        made.advance(cluster)
    made.close()
    assert offsets(tmp_path, topic) == expected and made.archived.is_caught_up
    assert source_of("iceberg", tmp_path, topic).schema.field("value").type == pa.struct([("v", pa.string())])


def test_records_that_are_gone_are_one_dead_letter_record_where_no_other_is_left(
    harness: Harness, tmp_path: Path
) -> None:
    expected = filled(harness, "gone")
    turns(harness, archive(tmp_path, "gone", Jobs()))
    harness.write("gone", [b"late"] * 5)
    harness.delete_records("gone", {0: _RECORDS + 5})
    made = archive(tmp_path, "gone", Jobs(), skip_unreadable=True)
    with Cluster(harness.client) as cluster:
        for _ in range(3):
            made.advance(cluster)
    harness.write("gone", [b"later"])
    made.archived.is_caught_up = False
    turns(harness, made)
    assert offsets(tmp_path, "gone") == sorted([*expected, (0, _RECORDS + 5)])
    assert offsets(tmp_path, "gone", dead_letters=True) == [(0, _RECORDS)]
