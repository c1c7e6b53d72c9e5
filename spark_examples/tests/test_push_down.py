"""Conditions of Spark SQL over `format("odradek")` with push-down: the rows of the same query without it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from pyspark_odradek import read
from tests.columns.harness.logs import NOW_MS
from tests.columns.harness.world import World

SETTING = "spark.sql.python.filterPushdown.enabled"
COUNT = 200
CONDITIONS = [
    "key = 'k3'",
    "key = X'6b33' and offset > 20",
    "key in ('k1', 'k5') and timestamp is not null",
    "key <=> 'k3' or offset = 7",
    "key is null",
    "offset between 30 and 40 and partition = 0",
    f"timestamp >= timestamp_millis({NOW_MS + COUNT - 15})",
    "offset < 0",
    "key = 'nowhere'",
    "not key = 'k3'",
]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    made = World(tmp_path_factory.mktemp("world"))
    with made.broker:
        made.create("t", internal_segment_bytes="2000")
        producer = made.producer(batch_num_messages="5")
        for number in range(COUNT):
            key = None if number % 17 == 0 else b"k%d" % (number // 20)
            producer.produce("t", b"v" * 60, key, partition=0, timestamp=NOW_MS + number)
            if number % 10 == 9:
                producer.flush()
        producer.flush()
        yield made


def test_conditions_that_are_pushed_down_change_no_rows(spark: SparkSession, world: World) -> None:
    given = {"kafka.bootstrap.servers": world.broker.bootstrap_servers, "subscribe": "t"}

    def rows(condition: str) -> list[tuple[int, bytes]]:
        frame = spark.read.format("odradek").options(**given).load().where(condition)
        return [(row.offset, row.key) for row in frame.select("offset", "key").orderBy("offset").collect()]

    expected = {condition: rows(condition) for condition in CONDITIONS}
    assert len(expected[CONDITIONS[0]]) > 10 and len(expected[CONDITIONS[6]]) == 15
    spark.conf.set(SETTING, "true")
    try:
        assert {condition: rows(condition) for condition in CONDITIONS} == expected
    finally:
        spark.conf.unset(SETTING)


def test_option_key_has_the_rows_of_the_condition(spark: SparkSession, world: World) -> None:
    given = {"kafka.bootstrap.servers": world.broker.bootstrap_servers, "subscribe": "t"}
    expected = sorted(row.offset for row in read(spark, **given).where("key = 'k3'").collect())
    assert expected
    for key in ("k3", b"k3"):
        frame = read(spark, ["offset"], key=key, **given)
        assert frame.columns == ["offset"] and sorted(row.offset for row in frame.collect()) == expected
    source = spark.read.format("odradek").options(**given, key="k3").load()
    assert sorted(row.offset for row in source.collect()) == expected
