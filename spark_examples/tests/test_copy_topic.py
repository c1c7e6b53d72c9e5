"""copy_topic.py: a copy has the keys, values and headers of its original, partition by partition, in their order."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from confluent_kafka import Producer
from copy_topic import copier, make_copies
from pyspark.sql import SparkSession
from topics import ensure_topic, partition_counts, read_topic

from spark_examples.tests.programs import ORDERS

_DEADLINE_S = 60
Records = dict[int, list[tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]]]]]


def records(bootstrap: str, topic: str) -> Records:
    """Returns the records of each partition, in order."""
    found = defaultdict(list)
    for message in read_topic(bootstrap, topic):
        found[message.partition()].append((message.key(), message.value(), message.headers() or []))
    return dict(found)


def fill(bootstrap: str, topic: str, count: int, partitions: int = 2, first_ms: int | None = None) -> None:
    """Writes `count` records to the partitions in turn; with `first_ms`, one millisecond apart from there on."""
    ensure_topic(bootstrap, topic, partitions)
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(count):
        at = {} if first_ms is None else {"timestamp": first_ms + number}
        partition = number % partitions
        producer.produce(topic, b"%s-%d" % (topic.encode(), number), b"k%d" % (number % 7), partition=partition, **at)
    producer.flush()


def run_now(spark: SparkSession, bootstrap: str, checkpoint: Path, choice: dict[str, str], **options: str) -> None:
    """Copies the available records, in the session that the tests share."""
    query = copier(spark, bootstrap, choice, {"startingOffsets": "earliest", **options}, "copy-of-")
    query.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start().awaitTermination()


def test_a_whole_topic_is_copied_record_by_record(
    run_in_session: Callable[..., str], bootstrap: str, orders_topic: str, tmp_path: Path
) -> None:
    choice = ["--subscribe", orders_topic, "--prefix", "whole.", "--checkpoint", str(tmp_path)]
    run_in_session("copy_topic.py", "--bootstrap", bootstrap, *choice, "--available-now")
    original = records(bootstrap, orders_topic)
    assert sum(len(rows) for rows in original.values()) == ORDERS
    assert original[0][0][2] == [("schema", b"order/1"), ("attempt", b"1")]
    assert records(bootstrap, f"whole.{orders_topic}") == original


def test_copy_of_a_record_adds_nothing(
    spark: SparkSession, bootstrap: str, tmp_path: Path, unique: Callable[[str], str]
) -> None:
    """Records without key, value or headers, with empty ones, with a header without a value, and with a repeated name."""
    topic = unique("odd")
    ensure_topic(bootstrap, topic, 1)
    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce(topic)
    producer.produce(topic, b"", b"")
    producer.produce(topic, None, b"tombstone", headers=[("why", None), ("why", b""), ("why", b"\x00\xff")])
    producer.produce(topic, b"\xff\xfe", None, headers=[("", b"no name")])
    producer.flush()
    run_now(spark, bootstrap, tmp_path, {"subscribe": topic})
    copy = records(bootstrap, f"copy-of-{topic}")
    assert copy == records(bootstrap, topic)
    assert [len(headers) for _, _, headers in copy[0]] == [0, 0, 3, 1]


def test_a_pattern_follows_topics_that_appear_while_the_copy_runs(
    spark: SparkSession, bootstrap: str, tmp_path: Path, unique: Callable[[str], str]
) -> None:
    stem = unique("shop")
    fill(bootstrap, f"{stem}.one", 200)
    fill(bootstrap, f"another-{stem}.one", 5)
    options = {"startingOffsets": "earliest", "kafka.metadata.max.age.ms": "500"}
    query = copier(spark, bootstrap, {"subscribePattern": f"{stem}\\..*"}, options, "copy-of-")
    running = query.option("checkpointLocation", str(tmp_path)).trigger(processingTime="200 milliseconds").start()
    try:
        wait_for_copies(bootstrap, [f"{stem}.one"])
        fill(bootstrap, f"{stem}.two", 300, partitions=3)
        fill(bootstrap, f"{stem}.one", 100)
        wait_for_copies(bootstrap, [f"{stem}.one", f"{stem}.two"])
    finally:
        running.stop()
    assert running.exception() is None
    copied = {name for name in partition_counts(bootstrap) if stem in name and name.startswith("copy-of-")}
    assert copied == {f"copy-of-{stem}.one", f"copy-of-{stem}.two"}


def wait_for_copies(bootstrap: str, topics: list[str]) -> None:
    give_up = time.monotonic() + _DEADLINE_S
    while not all(is_copied(bootstrap, topic) for topic in topics):
        assert time.monotonic() < give_up, f"not copied: {topics}"
        time.sleep(0.2)


def is_copied(bootstrap: str, topic: str) -> bool:
    exists = f"copy-of-{topic}" in partition_counts(bootstrap)
    return exists and records(bootstrap, f"copy-of-{topic}") == records(bootstrap, topic)


def test_a_pattern_that_would_feed_on_its_own_copies_is_refused(bootstrap: str, unique: Callable[[str], str]) -> None:
    stem = unique("endless")
    fill(bootstrap, stem, 1)
    with pytest.raises(ValueError, match="copies would be copied again"):
        make_copies(bootstrap, {"subscribePattern": f".*{stem}"}, "copy-of-")
    assert f"copy-of-{stem}" not in partition_counts(bootstrap)


def test_a_topic_that_appeared_between_two_runs_is_copied_from_its_first_record(
    spark: SparkSession, bootstrap: str, tmp_path: Path, unique: Callable[[str], str]
) -> None:
    stem = unique("market")
    for number in (1, 2):
        fill(bootstrap, f"{stem}.{number}", 100 * number)
        run_now(spark, bootstrap, tmp_path, {"subscribePattern": f"{stem}\\..*"})
        assert all(is_copied(bootstrap, f"{stem}.{made}") for made in range(1, number + 1))


def test_partitions_that_are_assigned_are_copied_from_a_time_on(
    spark: SparkSession, bootstrap: str, tmp_path: Path, unique: Callable[[str], str]
) -> None:
    topic = unique("assigned")
    first_ms = int(datetime.now(UTC).timestamp() * 1000) - 60_000
    fill(bootstrap, topic, 300, partitions=3, first_ms=first_ms)
    start = {"startingTimestamp": str(first_ms + 151), "startingOffsetsByTimestampStrategy": "latest"}
    run_now(spark, bootstrap, tmp_path, {"assign": f'{{"{topic}":[0,2]}}'}, **start)
    copy, original = records(bootstrap, f"copy-of-{topic}"), records(bootstrap, topic)
    assert partition_counts(bootstrap)[f"copy-of-{topic}"] == 3
    # Records 0, 3, ... are in partition 0, and 2, 5, ... in partition 2: 153 and 152 are the first in the range.
    assert copy == {0: original[0][51:], 2: original[2][50:]}


def test_a_copy_in_pieces_has_the_same_records(
    spark: SparkSession, bootstrap: str, orders_topic: str, tmp_path: Path
) -> None:
    run_now(spark, bootstrap, tmp_path, {"subscribe": orders_topic}, minPartitions="9")
    original, copy = records(bootstrap, orders_topic), records(bootstrap, f"copy-of-{orders_topic}")
    assert {partition: sorted(rows) for partition, rows in copy.items()} == {
        partition: sorted(rows) for partition, rows in original.items()
    }


@pytest.mark.parametrize("batch", ["200", "100000"], ids=["small-batches", "at-once"])
def test_one_run_of_what_is_available_takes_all_of_it(
    spark: SparkSession, bootstrap: str, tmp_path: Path, unique: Callable[[str], str], batch: str
) -> None:
    topic = unique("limited")
    fill(bootstrap, topic, 1_000)
    run_now(spark, bootstrap, tmp_path, {"subscribe": topic}, maxOffsetsPerTrigger=batch)
    assert is_copied(bootstrap, topic)
