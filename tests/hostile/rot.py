"""Damages the disks of a cluster of three real processes: `python -m tests.hostile.rot --seed 7 --minutes 10`.

An idempotent producer writes and a consumer reads all the time. Meanwhile the program flips, cuts, zeroes and removes
closed segments of one replica after the other. After each damage all replicas must become equal again, byte for byte. At
the end the consumer must have read each record exactly once, and so must a consumer that reads from the start.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from odradek.protocol.messages.create_topics import CreatableTopicConfig
from odradek.protocol.records.errors import BatchError
from odradek.storage.segments.damage import FILE_NAME

from compat_tests.faults.replicas import differing
from tests.hostile.attack_target import BUG_LINES
from tests.hostile.damaged_files import DAMAGES, segments_of
from tests.server.harness.cluster_process import COMBINED, Cluster

TOPIC = "rotting"
COUNT = 3
PARTITIONS = 2
SETTINGS = {"internal.segment.bytes": "16384", "index.interval.bytes": "1024", "min.insync.replicas": "2"}
#: The time between two messages: a few segments roll each second.
PAUSE_S = 0.002
HEALED_S = 40


class Traffic:
    """The producer and the consumer beside the damage, each in a thread."""

    def __init__(self, bootstrap: str) -> None:
        self.acknowledged: list[bytes] = []
        self.read: list[bytes] = []
        self.errors: list[str] = []
        self._bootstrap = bootstrap
        self._is_over = threading.Event()
        self._has_stopped_writing = threading.Event()
        self._threads = [threading.Thread(target=work, daemon=True) for work in (self._write, self._read)]
        for thread in self._threads:
            thread.start()

    def _write(self) -> None:
        producer = Producer(
            {"bootstrap.servers": self._bootstrap, "enable.idempotence": True, "log_level": 0, "linger.ms": 5,
             "batch.num.messages": 10}
        )  # fmt: skip

        def delivered(error: Any, message: Any) -> None:
            if error is not None:
                self.errors.append(f"produce: {error}")
            else:
                self.acknowledged.append(message.value())

        number = 0
        while not self._is_over.is_set():
            value = b"%08d" % number + b"x" * 400
            producer.produce(TOPIC, value, partition=number % PARTITIONS, on_delivery=delivered)
            producer.poll(0)
            number += 1
            time.sleep(PAUSE_S)
        producer.flush(30)
        self._has_stopped_writing.set()

    def _read(self) -> None:
        self.read += self.all_records(until=lambda got: self._has_stopped_writing.is_set() and self._is_all(got))

    def _is_all(self, got: list[bytes]) -> bool:
        return len(got) >= len(self.acknowledged)

    def all_records(self, until: Any = None, deadline_s: float = 60) -> list[bytes]:
        """Returns the records of a consumer that reads from the start."""
        consumer = Consumer(
            {"bootstrap.servers": self._bootstrap, "group.id": "rot", "check.crcs": True, "log_level": 0,
             "enable.auto.commit": False}
        )  # fmt: skip
        consumer.assign([TopicPartition(TOPIC, index, 0) for index in range(PARTITIONS)])
        got: list[bytes] = []
        quiet_since = time.monotonic()
        try:
            while not (until or self._is_all)(got):
                message = consumer.poll(0.2)
                if message is not None:
                    quiet_since = time.monotonic()
                    if message.error():
                        self.errors.append(f"consume: {message.error()}")
                    else:
                        got.append(message.value())
                elif time.monotonic() - quiet_since > deadline_s:
                    self.errors.append(f"consume: {len(got)} of {len(self.acknowledged)} records")
                    break
        finally:
            consumer.close()
        return got

    def stop(self) -> None:
        self._is_over.set()
        for thread in self._threads:
            thread.join(90)


class Rot:
    """A cluster and its damage, from one seed."""

    def __init__(self, directory: Path, seed: int, *, restart_share: float = 0.0) -> None:
        """`restart_share`: the share of damage to a node that is down, after a clean stop or a kill."""
        self._restart_share = restart_share
        self._random = random.Random(seed)
        self.blows: list[str] = []
        self.cluster = Cluster(
            directory,
            [COMBINED] * COUNT,
            odradek_scrub_interval_ms="300",
            odradek_scrub_bytes_per_second=str(64 << 20),
            offsets_topic_num_partitions="1",
        )

    def data_of(self, node: int) -> Path:
        return Path(self.cluster.nodes[node].properties["log.dirs"])

    def strike(self) -> bool:
        """Damages a closed segment of a replica. Returns False if there is none yet."""
        node, index = self._random.randint(1, COUNT), self._random.randrange(PARTITIONS)
        closed = segments_of(self.data_of(node) / f"{TOPIC}-{index}")[:-2]
        if not closed:
            return False
        segment, kind = self._random.choice(closed), self._random.choice(list(DAMAGES))
        down = ""
        if self._random.random() < self._restart_share:
            down = self._random.choice(("stopped", "killed"))
            (self.cluster.nodes[node].stop if down == "stopped" else self.cluster.nodes[node].kill)()
        with contextlib.suppress(FileNotFoundError, IndexError, BatchError):  # it is being healed, or was hit before
            DAMAGES[kind](segment)
        self.blows.append(f"{kind} in {segment.name} of {TOPIC}-{index} on {node} {down}")
        if down:
            self.cluster.nodes[node].start()
        return True

    def differences(self) -> list[str]:
        return list(differing([self.data_of(node) for node in self.cluster.nodes], TOPIC, PARTITIONS))

    def wait_until_healed(self) -> None:
        """Waits until all replicas are equal. Active segments grow meanwhile and only a simultaneous look at all of them can
        find equal replicas, so it compares often.
        """
        deadline = time.monotonic() + HEALED_S
        while found := self.damaged():
            assert time.monotonic() < deadline, f"{found} after {self.blows[-3:]}\n{self.words()}"
            time.sleep(0.05)

    def damaged(self) -> list[str]:
        """Returns the partitions whose replicas differ in the segments that all have closed, wherever segments begin."""
        found: list[str] = []
        for index in range(PARTITIONS):
            folders = [self.data_of(node) / f"{TOPIC}-{index}" for node in self.cluster.nodes]
            with contextlib.suppress(FileNotFoundError):  # the broker replaces a segment
                closed = [b"".join(file.read_bytes() for file in segments_of(folder)[:-1]) for folder in folders]
                end = min(map(len, closed))
                is_equal = len({data[:end] for data in closed}) == 1
                if is_equal and not any((folder / FILE_NAME).exists() for folder in folders):
                    continue
            found.append(f"{TOPIC}-{index}")
        return found

    def words(self) -> str:
        return "\n".join(f"--- {node.node_id}\n{node.last_words(40)}" for node in self.cluster.nodes.values())

    def execute(self, seconds: float) -> None:
        with self.cluster as cluster:
            configs = [CreatableTopicConfig(key, value) for key, value in SETTINGS.items()]
            cluster.create_topic(TOPIC, [[1, 2, 3], [2, 3, 1]][:PARTITIONS], configs=configs)
            traffic = Traffic(cluster.bootstrap)
            deadline = time.monotonic() + seconds
            while time.monotonic() < deadline or not self.blows:
                if self.strike():
                    self.wait_until_healed()
                else:
                    time.sleep(0.05)
            traffic.stop()
            self.check(traffic)

    def check(self, traffic: Traffic) -> None:
        again = traffic.all_records()
        acknowledged = sorted(traffic.acknowledged)
        assert traffic.errors == [], f"{traffic.errors[:3]} after {self.blows}\n{self.words()}"
        assert sorted(traffic.read) == acknowledged, f"read on: {len(traffic.read)} of {len(acknowledged)}"
        assert sorted(again) == acknowledged, f"read again: {len(again)} of {len(acknowledged)}"
        assert not self.differences(), self.differences()
        lines = [line for node in self.cluster.nodes.values() for line in node.last_words(10_000).splitlines()]
        bugs = [line for line in lines if any(words in line for words in BUG_LINES)]
        assert not bugs, bugs[:5]
        assert any("are now repaired from" in line for line in lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--restart-share", type=float, default=0.1)
    options = parser.parse_args()
    end = time.monotonic() + options.minutes * 60
    seed = options.seed
    while time.monotonic() < end:
        with tempfile.TemporaryDirectory() as directory:
            rot = Rot(Path(directory), seed, restart_share=options.restart_share)
            rot.execute(min(60.0, max(1.0, end - time.monotonic())))
            print(f"seed {seed}: {len(rot.blows)} blows healed")
        seed += 1


if __name__ == "__main__":
    main()
