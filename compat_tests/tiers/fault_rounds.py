"""Rounds of faults on three brokers with tiered storage: `python -m compat_tests.tiers.fault_rounds --rounds 20 --seed 1`.

A step of a round is a fault of the store together with one of a broker. A round then heals all, and reads everything:
nothing that was acknowledged may be missing, no record may differ from what was produced or read before, and the store has
every part of every copied segment.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from confluent_kafka import Consumer, TopicPartition

from compat_tests.cli.commands import odradek_command
from compat_tests.cluster.mixed import MixedCluster
from compat_tests.faults.running import round_parser, run_rounds
from compat_tests.recipes import eventually
from tests.hostile import full_disk

from . import faulty_store, tiered
from .cluster import tiered_cluster
from .fault_clients import Feeder, Place, Reader, everything

PARTITIONS = 2
NODES = (1, 2, 3)
#: Size of a node's disk: the feeder's records of a round, and some more.
DISK_BYTES = 160 << 20
KILL, STOP, PAUSE, FULL_DISK, NONE = "kill -9", "stop", "pause", "full disk", "no fault"
NODE_FAULTS = (KILL, STOP, PAUSE, FULL_DISK, NONE)
#: The duration of a step, and the time for the cluster to be whole again after all of them.
LASTS_S = (2.0, 6.0)
#: The share of steps that hit the leader of a partition: it copies the segments.
LEADER_SHARE = 0.7
WHOLE_S = 240
READ_S = 240
#: The time for copies and deletions that are under way.
STORE_S = 20
#: A start on a machine with much other work.
START_S = 300
_PROPERTIES = {
    "remote.log.storage.manager.class.name": "python:compat_tests.tiers.faulty_store:FaultyStore",
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    "replica.lag.time.max.ms": "3000",
}


@dataclass
class Outcome:
    seed: int
    steps: list[str] = field(default_factory=list)
    anomalies: list[str] = field(default_factory=list)
    acknowledged: int = 0
    read: int = 0
    read_in_faults: int = 0
    remote_segments: int = 0
    #: Objects of no segment: a leader that was deposed while it uploaded and then ended leaves them, as designed.
    orphans: int = 0

    def __str__(self) -> str:
        return (
            f"seed {self.seed}: {self.acknowledged} acknowledged, {self.read} read, {self.read_in_faults} in the faults, "
            f"{self.remote_segments} segments in the store, {self.orphans} orphans, "
            f"{len(self.anomalies) or 'no'} anomalies; {'; '.join(self.steps)}"
        )


class Round:
    """One cluster with its clients. `steps`: the number of steps."""

    def __init__(self, directory: Path, seed: int, steps: int) -> None:
        self.outcome = Outcome(seed)
        self._directory = directory
        self._folder = directory / "store"
        self._rng = Random(seed)
        self._steps = steps
        self._cluster: MixedCluster

    def run(self) -> Outcome:
        with contextlib.ExitStack() as disks:
            for node_id in NODES:
                folder = self._directory / f"node-{node_id}"
                folder.mkdir()
                if has_disks():
                    disks.enter_context(full_disk.small_disk(folder / "data", DISK_BYTES))
            self._cluster = tiered_cluster(self._directory, self._folder, _PROPERTIES)
            for node in self._cluster.nodes.values():
                node.start_deadline_s = START_S
                node.stop_deadline_s = START_S
            with self._cluster:
                self._run()
        return self.outcome

    def _run(self) -> None:
        address = self._cluster.bootstrap
        tiered.make_topic(address, replication=3, partitions=PARTITIONS, min_insync_replicas="2")
        feeder, reader = Feeder(address, PARTITIONS), Reader(address, PARTITIONS)
        feeder.start()
        eventually(lambda: tiered.remote_segments(self._folder), what="a segment is copied", deadline_s=60)
        reader.start()
        for _ in range(self._steps):
            self._step()
        feeder.stop()
        reader.stop()
        self._judge(feeder, reader)

    # ---- faults

    def _step(self) -> None:
        """Has the store and a node fail together, the node preferably in the middle of a copy; then heals both."""
        kinds = self._rng.sample(faulty_store.KINDS, self._rng.randint(1, 2))
        what = self._rng.choice(NODE_FAULTS if has_disks() else (KILL, STOP, PAUSE, NONE))
        faulty_store.set_faults(self._folder, *kinds)
        time.sleep(self._rng.uniform(0.5, 2))
        node_id = self._leader() if self._rng.random() < LEADER_SHARE else self._rng.choice(NODES)
        self.outcome.steps.append(f"store: {', '.join(kinds)}, {what} of {node_id}")
        self._hit(node_id, what)
        time.sleep(self._rng.uniform(*LASTS_S))
        self._heal()

    def _leader(self) -> int:
        """Returns the leader of a partition, which copies its segments."""
        found = self._cluster.partitions(tiered.TOPIC).get(self._rng.randrange(PARTITIONS))
        return found.leader_id if found is not None and found.leader_id in NODES else NODES[0]

    def _hit(self, node_id: int, what: str) -> None:
        node = self._cluster.nodes[node_id]
        if what == KILL:
            node.kill()
        elif what == STOP:
            node.stop()
        elif what == PAUSE:
            node.pause()
        elif what == FULL_DISK:
            with contextlib.suppress(OSError):  # the broker writes, too
                full_disk.fill(node.data_dir, leave=0)

    def _heal(self) -> None:
        faulty_store.set_faults(self._folder)
        for node in self._cluster.nodes.values():
            if has_disks():
                full_disk.make_room(node.data_dir)
            if node.is_running:
                node.go_on()
        self._cluster.start_all()
        self._cluster.until(self._is_whole, "all replicas are in the ISR", WHOLE_S)

    def _is_whole(self) -> bool:
        self._cluster.start_all()
        found = self._cluster.partitions(tiered.TOPIC)
        return len(found) == PARTITIONS and all(sorted(one.isr_nodes) == list(NODES) for one in found.values())

    # ---- what must hold

    def _judge(self, feeder: Feeder, reader: Reader) -> None:
        outcome, anomalies = self.outcome, self.outcome.anomalies
        starts, ends = self._offsets()
        found = everything(self._cluster.bootstrap, PARTITIONS, ends, READ_S)
        outcome.acknowledged, outcome.read, outcome.read_in_faults = len(feeder.acknowledged), len(found), reader.reads
        outcome.remote_segments = sum(
            len(tiered.remote_segments(self._folder, partition=partition)) for partition in range(PARTITIONS)
        )
        anomalies += [f"partition {partition} starts at {start}" for partition, start in starts.items() if start]
        for partition, end in ends.items():
            missing = [offset for offset in range(end) if (partition, offset) not in found]
            if missing:
                anomalies.append(f"{len(missing)} offsets of partition {partition} are not read, from {missing[0]} on")
        anomalies += _differing("acknowledged", feeder.acknowledged, found)
        anomalies += _differing("read in the faults", reader.seen, found)
        anomalies += reader.wrong
        twice = len(found) - len(set(found.values()))
        if twice:
            anomalies.append(f"{twice} values are in the log twice, or were never sent")
        self._check_store()

    def _offsets(self) -> tuple[dict[int, int], dict[int, int]]:
        consumer = Consumer({"bootstrap.servers": self._cluster.bootstrap, "group.id": "offsets"})
        try:
            found = {
                partition: consumer.get_watermark_offsets(TopicPartition(tiered.TOPIC, partition), timeout=60)
                for partition in range(PARTITIONS)
            }
        finally:
            consumer.close()
        return {number: one[0] for number, one in found.items()}, {number: one[1] for number, one in found.items()}

    def _check_store(self) -> None:
        """Copies may be under way: what is wrong must stay wrong."""
        config = self._directory / "tier.properties"
        config.write_text(
            f"remote.log.storage.manager.class.name={tiered.STORE_CLASS}\nrsm.config.dir={self._folder}\n"
        )
        kinds: list[str] = []

        def is_whole() -> bool:
            done = odradek_command(
                "tier", "check", "--config", str(config), "-b", self._cluster.bootstrap, "--output", "json"
            )
            kinds[:] = [one["kind"] for one in json.loads(done.out)]
            return not kinds

        with contextlib.suppress(AssertionError):  # what is left then is an anomaly, or an orphan
            eventually(is_whole, what="the store has what the metadata names", deadline_s=STORE_S)
        self.outcome.orphans = kinds.count("orphan")
        self.outcome.anomalies += [f"the store: {kind}" for kind in kinds if kind != "orphan"]


def has_disks() -> bool:
    """Returns whether nodes have disks of their own, which can be full: only root may mount them."""
    return os.geteuid() == 0


def _differing(what: str, expected: dict[Place, int], found: dict[Place, int]) -> list[str]:
    wrong = [(place, number) for place, number in expected.items() if found.get(place) != number]
    return [f"{len(wrong)} records {what} are not there or differ: {wrong[:3]}"] if wrong else []


def execute(directory: Path, seed: int, steps: int) -> Outcome:
    return Round(directory, seed, steps).run()


def main() -> None:
    parser = round_parser("compat_tests.tiers.fault_rounds", __doc__)
    parser.add_argument("--steps", type=int, default=4, help="how many in a round")
    options = parser.parse_args()
    run_rounds(
        options, lambda seed, folder: execute(folder, seed, options.steps),
        lambda seed, why: Outcome(seed, anomalies=[why]), kept="node-*/broker.log",
    )  # fmt: skip


if __name__ == "__main__":
    main()
