"""Real-time mode of Spark with its Kafka connector: each record is copied within its batch, and a restart goes on."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from confluent_kafka import Producer
from topics import ensure_topic, read_topic

from spark_examples.tests.programs import Program
from spark_examples.tests.real_time_latency import PARTITIONS, latencies

#: One batch runs longer than all records take: none of them waits for its end.
EVERY_S = 600
RECORDS = 50


def started(folder: Path, bootstrap: str, source: str, target: str, every: str) -> Program:
    words = ("--source", source, "--target", target, "--checkpoint", str(folder / "c"), "--every", every)
    return Program(folder / "log", "real_time.py", *words, "--bootstrap", bootstrap)


def committed_end(checkpoint: Path) -> int:
    """The sum of the offsets at the end of the last batch that is done."""
    done = [int(file.name) for file in checkpoint.glob("commits/*") if file.name.isdecimal()]
    if not done:
        return 0
    *_, ends = (checkpoint / "offsets" / str(max(done))).read_text(encoding="utf-8").splitlines()
    return sum(end for partitions in json.loads(ends).values() for end in partitions.values())


def test_records_are_copied_while_their_batch_runs(
    bootstrap: str, unique: Callable[[str], str], tmp_path: Path
) -> None:
    source, target = unique("real-time"), unique("copied")
    ensure_topic(bootstrap, source, PARTITIONS)
    program = started(tmp_path, bootstrap, source, target, f"{EVERY_S} seconds")
    try:
        assert len(latencies(bootstrap, source, target, RECORDS)) == RECORDS - 1
        assert program.is_running and committed_end(tmp_path / "c") == 0
    finally:
        program.kill()


def test_query_that_is_killed_goes_on_after_its_last_batch(
    bootstrap: str, unique: Callable[[str], str], tmp_path: Path
) -> None:
    source, target = unique("killed"), unique("copied")
    ensure_topic(bootstrap, source, PARTITIONS)
    producer = Producer({"bootstrap.servers": bootstrap})
    sent: list[bytes] = []

    def send(count: int) -> None:
        for number in range(len(sent), len(sent) + count):
            sent.append(b"R%d" % number)
            producer.produce(source, sent[-1], partition=number % PARTITIONS)
        assert producer.flush(60) == 0

    def are_committed() -> bool:
        return committed_end(tmp_path / "c") >= len(sent)

    send(100)
    program = started(tmp_path, bootstrap, source, target, "5 seconds")
    try:
        program.wait_until(are_committed, "the records are in a batch that is done")
        program.kill()
        send(100)
        program = started(tmp_path, bootstrap, source, target, "5 seconds")
        program.wait_until(are_committed, "the query goes on")
    finally:
        program.kill()
    assert Counter(message.value() for message in read_topic(bootstrap, target)) == Counter(sent)
