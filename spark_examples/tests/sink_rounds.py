"""Rounds of kills of a query with the sink of `format("odradek")`: `python -m spark_examples.tests.sink_rounds --rounds 40`.

copy_once.py copies a topic in small batches. In each round its driver, with the JVM and all workers of Python, or the
broker, or both, are killed at a random moment, while records are left to copy, and started again. At the end a reader of
committed records has each one once, in each partition in the order of the source. With --target apache the broker is Apache
Kafka.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from confluent_kafka import Consumer, Message, Producer, TopicPartition

sys.path.append(str(Path(__file__).resolve().parents[1]))  # the programs import each other by bare names

from topics import ensure_topic, partition_counts

from compat_tests.broker_process import BrokerProcess
from compat_tests.recipes import is_end_of_partition
from spark_examples.tests.programs import Program

SOURCE, TARGET, PARTITIONS, BATCH = "in", "copies", 3, 150
#: A killed driver has at least, and at most, so many batches more than at its start.
_LEAST_BATCHES, _MOST_BATCHES = 1, 4
#: Batches that are left in the source behind those that a round waits for. More than a query copies before its kill.
_LEFT_BATCHES = 30
_MOST_DELAY_S, _DEADLINE_S = 1.5, 300
#: The kinds of kills, of which a round draws one.
KILLS = ("driver", "driver", "broker", "both")


def fill(bootstrap: str, topic: str, partitions: int, end: int, first: int = 0) -> None:
    """Writes the numbers from `first` up to `end`, each with itself as key."""
    ensure_topic(bootstrap, topic, partitions)
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, "partitioner": "murmur2_random"})
    for number in range(first, end):
        producer.produce(topic, b"%d" % number, b"%d" % number)
        producer.poll(0)
    assert producer.flush(60) == 0


def messages(bootstrap: str, topic: str) -> Iterator[Message]:
    """All that a reader of committed records has, each partition in its order."""
    count = partition_counts(bootstrap)[topic]
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": "reader",
        "isolation.level": "read_committed",
        "enable.partition.eof": True,
        "enable.auto.commit": False,
    }
    consumer = Consumer(settings)
    try:
        consumer.assign([TopicPartition(topic, index, 0) for index in range(count)])
        ended: set[int] = set()
        while len(ended) < count:
            message = consumer.poll(30)
            assert message is not None, "no record and no end in 30 s"
            if is_end_of_partition(message):
                ended.add(message.partition())
            else:
                yield message
    finally:
        consumer.close()


def committed(bootstrap: str, topic: str) -> Iterator[bytes]:
    return (message.value() or b"" for message in messages(bootstrap, topic))


def by_partition(bootstrap: str, topic: str) -> dict[int, list[bytes]]:
    found: dict[int, list[bytes]] = {index: [] for index in range(partition_counts(bootstrap)[topic])}
    for message in messages(bootstrap, topic):
        found[message.partition() or 0].append(message.value() or b"")
    return found


def lose_last_commit(checkpoint: Path) -> None:
    """Leaves the checkpoint of a driver that ended after the sink's commit and before its own."""
    last = max((one for one in (checkpoint / "commits").iterdir() if one.name.isdigit()), key=lambda one: int(one.name))
    last.unlink()
    last.with_name(f".{last.name}.crc").unlink(missing_ok=True)


class CopyingQuery:
    """The query, and the source that it copies. `bootstrap`: that of the query; "" for the broker's. `launcher`: as that of
    `Program`.
    """

    def __init__(
        self, broker: BrokerProcess, folder: Path, bootstrap: str = "", launcher: Sequence[str] = (sys.executable,)
    ) -> None:
        self.broker, self.folder = broker, folder
        self._bootstrap, self._launcher = bootstrap, launcher
        self.program: Program | None = None
        self.written = 0

    @property
    def running(self) -> Program:
        assert self.program is not None
        return self.program

    def _start(self, *words: str) -> None:
        arguments = ("--source", SOURCE, "--target", TARGET, "--checkpoint", str(self.folder / "checkpoint"))
        bootstrap = self._bootstrap or self.broker.bootstrap
        more = ("--bootstrap", bootstrap, "--batch", str(BATCH), "--every", "0 seconds", *words)
        log = self.folder / "copy.log"
        self.program = Program(log, "copy_once.py", *arguments, *more, launcher=self._launcher)

    def _end(self) -> None:
        """Kills the query, and has another one copy the rest."""
        self.running.kill()
        self._start("--available-now")
        assert self.running.wait() == 0, self.running.last_words()

    def _fill(self, batches: int) -> None:
        """Has the source so many batches from its first record on."""
        end = max(self.written, batches * BATCH)
        fill(self.broker.bootstrap, SOURCE, PARTITIONS, end, self.written)
        self.written = end

    def _batches(self) -> int:
        commits = self.folder / "checkpoint" / "commits"
        return len([one for one in commits.glob("*") if one.name.isdigit()])


class Copies(CopyingQuery):
    """The kills of the query and of its broker."""

    def __init__(self, broker: BrokerProcess, folder: Path, seed: int) -> None:
        super().__init__(broker, folder)
        self.rng = random.Random(seed)
        self.kills: list[str] = []

    def run(self, rounds: int, kills: Sequence[str] = KILLS) -> None:
        self._fill(_LEFT_BATCHES)
        try:
            self._start()
            for _ in range(rounds):
                self._round(self.rng.choice(kills))
            self._end()
        finally:
            if self.program is not None:
                self.program.kill()
        self._check()

    def _round(self, kill: str) -> None:
        assert self.program is not None
        wanted = self._batches() + self.rng.randint(_LEAST_BATCHES, _MOST_BATCHES)
        self._fill(wanted + _LEFT_BATCHES)
        self.program.wait_until(lambda: self._batches() >= wanted, "some batches", _DEADLINE_S)
        time.sleep(self.rng.random() * _MOST_DELAY_S)  # a moment of a batch, not a wait for something
        batches = self._batches()
        assert batches * BATCH < self.written, f"{self.written} records are copied in {batches} batches before the kill"
        self.kills.append(kill)
        if kill != "driver":
            self.broker.kill()
        if kill != "broker":
            self.program.kill()
        if kill != "driver":
            self.broker.start()
        if kill != "broker" or not self.program.is_running:
            self.program.kill()
            self._start()

    def _check(self) -> None:
        source, target = (by_partition(self.broker.bootstrap, topic) for topic in (SOURCE, TARGET))
        assert sum(map(len, source.values())) == self.written
        for index in range(PARTITIONS):
            assert sorted(target[index], key=int) == sorted(source[index], key=int), (
                f"partition {index} has {len(target[index])} records of {len(source[index])}, after {self.kills}"
            )
            assert target[index] == source[index], f"the order of partition {index} changed, after {self.kills}"


def main() -> None:
    from compat_tests.odradek_process import OdradekProcess
    from compat_tests.oracle import ApacheKafka

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--target", choices=("odradek", "apache"), default="odradek")
    options = parser.parse_args()
    os.environ["PYTHONPATH"] = str(Path(__file__).resolve().parents[2])  # where Spark finds `pyspark_odradek`
    kind: type[BrokerProcess] = ApacheKafka if options.target == "apache" else OdradekProcess
    with tempfile.TemporaryDirectory() as folder, kind(Path(folder) / "broker", {}) as broker:
        copies = Copies(broker, Path(folder), options.seed)
        copies.run(options.rounds)
    print(f"{options.rounds} rounds, {copies.written} records, each once: {', '.join(copies.kills)}")


if __name__ == "__main__":
    main()
