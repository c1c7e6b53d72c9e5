"""Measures the metadata of many partitions alone: the cost of a partition in memory, in a snapshot, in an election.

Requests and records build a controller and an image, with as many brokers as the cluster would have; no broker receives
them. `python -m benchmarks.growth_paper 10000 100000` measures, each size in its own process.
"""

from __future__ import annotations

import gc
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from odradek.metadata.delta import MetadataDelta
from odradek.metadata.image import EMPTY_IMAGE, MetadataImage
from odradek.metadata.metadata_version import DEFAULT
from odradek.protocol.codec import encode
from odradek.protocol.internal.cluster_metadata import BrokerEndpoint, FeatureLevelRecord, RegisterBrokerRecord
from odradek.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from odradek.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from odradek.protocol.messages.metadata import MetadataRequest, MetadataResponse
from odradek.protocol.schema import Message
from odradek.replication.controller.controller import Controller
from odradek.replication.controller.maintenance import FenceBrokerRequest
from odradek.replication.controller.result import ControllerResult
from odradek.server.controller.cluster_view import ClusterView
from odradek.server.controller.metadata_batches import encode_in_batches, encode_records
from odradek.server.controller.metadata_snapshots import read_snapshot, write_image_snapshot
from odradek.server.controller.quorum_voters import QuorumVoters
from odradek.server.endpoints import metadata
from odradek.server.runtime.sliced_work import STEPS_PER_SLICE, without_gc
from odradek.server.runtime.turn_budget import SLICE_S

PARTITIONS_PER_BROKER = 10_000
PARTITIONS_PER_TOPIC = 1000
REPLICAS = 3
FEWEST_BROKERS = 5
HEARTBEATS = 2000

#: Name of a figure to its unit, in the order of the table.
UNITS = {
    "brokers": "",
    "decide, append and replay a new partition": "us",
    "image in memory, a partition": "bytes",
    "snapshot, a partition": "bytes",
    "snapshot": "MB",
    "CPU to write the snapshot": "s",
    "CPU to load the snapshot": "s",
    "longest slice of that": "ms",
    "CPU of a new controller to learn what there is": "s",
    "longest slice of learning": "ms",
    "CPU to describe every topic to a client": "s",
    "longest slice of describing": "ms",
    "CPU to encode that response, in one piece": "s",
    "partitions changed by the death of a broker": "",
    "decide, append and replay one of these": "us",
    "longest decision of these": "ms",
    "decide a heartbeat": "us",
}


def measure(sizes: list[int]) -> dict[int, dict[str, float]]:
    found = {}
    for size in sizes:
        command = [sys.executable, "-m", "benchmarks.growth_paper", "--one", str(size)]
        found[size] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return found


def table(measured: dict[int, dict[str, float]]) -> str:
    lines = ["| partitions | " + " | ".join(f"{size:,}" for size in measured) + " |", "|---|" + "---|" * len(measured)]
    for name, unit in UNITS.items():
        values = " | ".join(
            f"{figures[name]:,.3g}" if unit else f"{figures[name]:,.0f}" for figures in measured.values()
        )
        lines.append(f"| {name}{', ' * bool(unit)}{unit} | {values} |")
    return "\n".join(lines)


def measure_one(partitions: int) -> dict[str, float]:
    brokers = max(FEWEST_BROKERS, partitions * REPLICAS // PARTITIONS_PER_BROKER)
    machine = Machine(brokers)
    found: dict[str, float] = {"brokers": brokers}
    gc.collect()
    began_kb = _resident_kb()
    began = time.process_time()
    for number in range(partitions // PARTITIONS_PER_TOPIC):
        machine.do(CreateTopicsRequest([CreatableTopic(f"topic-{number}", PARTITIONS_PER_TOPIC, REPLICAS)], 60_000), 7)
    found["decide, append and replay a new partition"] = (time.process_time() - began) / partitions * 1e6
    gc.collect()
    found["image in memory, a partition"] = (_resident_kb() - began_kb) * 1024 / partitions
    found |= measure_snapshot(machine.controller.image, partitions)
    found |= measure_learning(machine.controller.image)
    found |= measure_metadata(machine.controller.image)
    found |= measure_death(machine)
    heartbeat = BrokerHeartbeatRequest(broker_id=2, broker_epoch=2, current_metadata_offset=1 << 40)
    began = time.process_time()
    for _ in range(HEARTBEATS):
        machine.do(heartbeat, 2)
    found["decide a heartbeat"] = (time.process_time() - began) / HEARTBEATS * 1e6
    return found


def measure_snapshot(image: MetadataImage, partitions: int) -> dict[str, float]:
    with tempfile.TemporaryDirectory(prefix="growth-") as folder:
        began = time.process_time()
        snapshot = write_image_snapshot(Path(folder), image, QuorumVoters(), 0)
        written_s = time.process_time() - began
        file = Path(folder) / snapshot.file_name
        for _ in islice(read_snapshot(file), PARTITIONS_PER_TOPIC):
            pass  # codecs are compiled at their first use
        began = time.process_time()
        loading = Sliced(without_gc(read_snapshot(file)))
        applying = time.process_time()
        loaded = loading.result.delta.apply(image.offset, image.epoch, image.last_append_timestamp_ms)
        ended, size = time.process_time(), file.stat().st_size
        longest = max(loading.longest_s, ended - applying)
        assert loaded.topics == image.topics, "what was written is what was read"
    return {
        "snapshot, a partition": size / partitions,
        "snapshot": size / 1e6,
        "CPU to write the snapshot": written_s,
        "CPU to load the snapshot": ended - began,
        "longest slice of that": longest * 1000,
    }


def measure_learning(image: MetadataImage) -> dict[str, float]:
    learning = Sliced(Controller(2, "4L6g3nShT-eMCtK--X86sw", {}, random.Random(1)).learn(image))
    return {
        "CPU of a new controller to learn what there is": learning.took_s,
        "longest slice of learning": learning.longest_s * 1000,
    }


def measure_metadata(image: MetadataImage) -> dict[str, float]:
    """Measures the Metadata response for all topics."""
    view, response, version = ClusterView(image, "PLAINTEXT"), MetadataResponse(), 12
    services: Any = None  # no access rule is looked up: the request wants no authorized operations
    topics = [topic for _, topic in sorted(image.topics.by_name.items())]
    call = SimpleNamespace(version=version)
    describing = Sliced(metadata.described(services, call, MetadataRequest(None), view, topics, response.topics))
    began = time.process_time()
    encode(response, version)
    return {
        "CPU to describe every topic to a client": describing.took_s,
        "longest slice of describing": describing.longest_s * 1000,
        "CPU to encode that response, in one piece": time.process_time() - began,
    }


class Sliced:
    """Does work in slices as the event loop does, without other tasks between them."""

    def __init__(self, steps: Iterator[None]) -> None:
        self.result: Any = None
        self.took_s = self.longest_s = 0.0
        over = False
        while not over:
            began = time.process_time()
            over = self._slice(steps, began + SLICE_S)
            took_s = time.process_time() - began
            self.took_s, self.longest_s = self.took_s + took_s, max(self.longest_s, took_s)

    def _slice(self, steps: Iterator[None], until: float) -> bool:
        for _ in range(STEPS_PER_SLICE):
            try:
                next(steps)
            except StopIteration as end:
                self.result = end.value
                return True
            if time.process_time() >= until:
                break
        return False


def measure_death(machine: Machine) -> dict[str, float]:
    began, changed, longest = time.process_time(), 0, 0.0
    epoch = machine.broker_epoch(1)
    while not machine.is_fenced(1):
        step = time.process_time()
        changed += len(machine.do(FenceBrokerRequest(broker_id=1, broker_epoch=epoch), 0).records)
        longest = max(longest, time.process_time() - step)
    return {
        "partitions changed by the death of a broker": changed,
        "decide, append and replay one of these": (time.process_time() - began) / changed * 1e6,
        "longest decision of these": longest * 1000,
    }


class Machine:
    """A controller with unfenced brokers; its decisions are encoded as for its log, and replayed."""

    def __init__(self, brokers: int) -> None:
        self.controller = Controller(1, "4L6g3nShT-eMCtK--X86sw", {}, random.Random(1))
        delta = MetadataDelta(EMPTY_IMAGE)
        delta.replay(FeatureLevelRecord(name="metadata.version", feature_level=DEFAULT))
        delta.replay(FeatureLevelRecord(name="eligible.leader.replicas.version", feature_level=1))
        for broker in range(1, brokers + 1):
            delta.replay(
                RegisterBrokerRecord(
                    broker_id=broker,
                    incarnation_id=broker.to_bytes(16, "big"),
                    broker_epoch=broker,
                    end_points=[BrokerEndpoint("PLAINTEXT", f"broker-{broker}", 9092, 0)],
                    fenced=False,
                    log_dirs=[(1000 + broker).to_bytes(16, "big")],
                )
            )
        self.controller.load(delta.apply(brokers, 1, 0), brokers + 1, 0)

    def do(self, request: Message, version: int) -> ControllerResult:
        result = self.controller.handle(request, version)
        assert not getattr(result.response, "error_code", 0), result.response
        if result.records:
            offset, level = self.controller.next_offset, self.controller.image.features.metadata_version
            if result.atomic:
                encode_records(result.records, offset, 1, 0, level)
            else:
                list(encode_in_batches(result.records, offset, 1, 0, level))
            self.controller.replay(result.records, 1, 0)
        return result

    def broker_epoch(self, broker_id: int) -> int:
        broker = self.controller.image.broker(broker_id)
        assert broker is not None
        return broker.epoch

    def is_fenced(self, broker_id: int) -> bool:
        broker = self.controller.image.broker(broker_id)
        return broker is None or broker.fenced


def _resident_kb() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def main(words: list[str]) -> None:
    if words[:1] == ["--one"]:
        print(json.dumps(measure_one(int(words[1]))))
    else:
        print(table(measure([int(word) for word in words])))


if __name__ == "__main__":
    main(sys.argv[1:])
