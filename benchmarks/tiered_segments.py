"""Measures a tiered partition by the number of its remote segments: `python -m benchmarks.tiered_segments [--segments 1000
10000 100000] [--apache] [--without-objects]`.

The segments are planted: their events in `__remote_log_metadata`, their objects in the folder of the store. Rows: the CPU
from the start of a broker until it has read all segments, its memory then, the CPU of idle passes every 200 ms and the
longest callback of the loop in them, in CPU time, and the deletion of the topic with all objects. `--apache`: Apache
Kafka, too. `--without-objects`: only the last segment has objects, since half a million files take long to make. Apache's
store then fails at the deletion, which is left out.
"""

from __future__ import annotations

import argparse
import secrets
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from confluent_kafka.admin import AdminClient
from odradek.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from odradek.protocol.records.record import Record, encode_batch
from odradek.protocol.uuids import uuid_from_text
from odradek.storage.files.checkpoints import LOG_START_OFFSETS, find_offsets, write_offsets
from odradek.storage.log.config import LogConfig
from odradek.storage.log.log import Log
from odradek.tiers.events import encode_event
from odradek.tiers.metadata_topic import metadata_partition
from odradek.tiers.object_names import object_name
from odradek.tiers.segment_metadata import (
    COPY_SEGMENT_FINISHED,
    METADATA_TOPIC,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    TopicIdPartition,
)
from odradek.tiers.store import PartType

from compat_tests.broker_process import BrokerFailed, BrokerProcess
from compat_tests.recipes import eventually
from compat_tests.tiers import tiered
from compat_tests.wire import WireClient

from .brokers import ODRADEK_NAME, Cost, MeasuredOdradek, memory_mb
from .tails.__main__ import ROOT
from .tiered import kinds, tiered_broker
from .timed_turns import longest_turn_ms

OFFSETS_PER_SEGMENT, EVENTS_PER_BATCH, SEGMENT_BYTES = 10, 500, 100
IDLE_S, DEADLINE_S = 10.0, 1_800
#: Apache Kafka closes the clients of its metadata topic after its listeners, and waits for them.
STOP_S = 300
_LATEST_TIERED = -5


class WatchedOdradek(MeasuredOdradek):
    """With a watch on its event loop."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.turns_file = directory / "longest-turn"
        self.python = (sys.executable, "-m", "benchmarks.timed_turns", str(self.turns_file))

    def environment(self) -> dict[str, str]:
        return super().environment() | {"PYTHONPATH": str(ROOT)}


class Row(NamedTuple):
    """CPU and times in seconds, memory in MB, idle CPU in percent of a core."""

    broker: str
    segments: int
    start_cpu_s: float
    start_s: float
    memory_mb: float
    idle_cpu: float
    #: The longest callback of the event loop, in milliseconds; None for Apache Kafka.
    longest_turn_ms: float | None
    deletion_cpu_s: float | None
    deletion_s: float | None

    def __str__(self) -> str:
        figures = (self.longest_turn_ms, self.deletion_cpu_s, self.deletion_s)
        turn, deletion_cpu_s, deletion_s = ("" if one is None else f"{one:.1f}" for one in figures)
        return (
            f"| {self.broker} | {self.segments:,} | {self.start_cpu_s:.1f} | {self.start_s:.1f} | {self.memory_mb:.0f} | "
            f"{self.idle_cpu:.1f} | {turn} | {deletion_cpu_s} | {deletion_s} |"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--segments", type=int, nargs="+", default=[1_000, 10_000, 100_000])
    parser.add_argument("--apache", action="store_true")
    parser.add_argument("--without-objects", action="store_true")
    options = parser.parse_args()
    measured = kinds(only_odradek=not options.apache) | {ODRADEK_NAME: WatchedOdradek}
    print("| broker | segments | start, CPU s | start, s | memory, MB | CPU idle, % | longest callback, CPU ms | "
          "deletion, CPU s | deletion, s |")  # fmt: skip
    print("|---|---|---|---|---|---|---|---|---|")
    for count in options.segments:
        for name, kind in measured.items():
            print(measure(name, kind, count, has_objects=not options.without_objects), flush=True)


def measure(name: str, kind: Callable[[Path], BrokerProcess], count: int, *, has_objects: bool = True) -> Row:
    with tiered_broker(kind, {}) as (broker, store):
        broker.stop_deadline_s = STOP_S
        broker.start()
        try:
            tiered.make_topic(broker.bootstrap, retention_ms="-1")
            tiered.produce(broker.bootstrap, tiered.values_of(10))
            eventually(lambda: any(broker.data_dir.glob(f"{METADATA_TOPIC}-2")), what="the metadata topic is there")
            broker.stop()
            plant(broker.data_dir, store, count, has_objects=has_objects)
            began = time.monotonic()
            broker.start()
            end = count * OFFSETS_PER_SEGMENT
            eventually(lambda: offset_of(broker, _LATEST_TIERED) == end - 1, what="it knows all", deadline_s=DEADLINE_S)
            start_cpu_s, start_s = Cost.of(broker.pid).cpu_s, time.monotonic() - began
            idle_cpu, longest_ms = idle(broker)
            memory = memory_mb(broker.pid)
            deletes = has_objects or name == ODRADEK_NAME
            ended = deletion(broker, store) if deletes else (None, None)
            return Row(name, count, start_cpu_s, start_s, memory, idle_cpu, longest_ms, *ended)
        finally:
            with suppress(BrokerFailed):  # Apache Kafka; its figures are there
                broker.stop()


def plant(data_dir: Path, store: Path, count: int, *, has_objects: bool) -> None:
    """Has the log of a stopped broker begin behind `count` remote segments."""
    now_ms, end = int(time.time() * 1000), count * OFFSETS_PER_SEGMENT
    text = (data_dir / f"{tiered.TOPIC}-0" / "partition.metadata").read_text()
    topic_id = next(line for line in text.splitlines() if line.startswith("topic_id")).partition(":")[2].strip()
    partition = TopicIdPartition(uuid_from_text(topic_id), tiered.TOPIC, 0)
    config = LogConfig(remote_storage=True)
    log = Log.open(data_dir / f"{tiered.TOPIC}-0", tiered.TOPIC, 0, config, now_ms=now_ms, clean=True)
    epoch = max(log.epochs.latest, 0)
    log.begin_after_remote(end, now_ms, 0, [(epoch, 0)], [])
    log.close(now_ms)
    offsets = dict(find_offsets(str(data_dir), LOG_START_OFFSETS).offsets)
    write_offsets(str(data_dir), LOG_START_OFFSETS, offsets | {(tiered.TOPIC, 0): 0})
    for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
        offsets = dict(find_offsets(str(data_dir), name).offsets)
        write_offsets(str(data_dir), name, offsets | {(tiered.TOPIC, 0): end})
    number = metadata_partition(partition, 3)
    events = Log.open(
        data_dir / f"{METADATA_TOPIC}-{number}", METADATA_TOPIC, number, LogConfig(), now_ms=now_ms, clean=True
    )
    values: list[bytes] = []
    (store / "kafka-tiered-storage").mkdir(parents=True, exist_ok=True)
    for index in range(count):
        segment = segment_of(partition, index, epoch, now_ms)
        values.append(encode_event(segment))
        values.append(
            encode_event(
                RemoteLogSegmentMetadataUpdate(partition, segment.segment_id, 1, now_ms, COPY_SEGMENT_FINISHED, None)
            )
        )
        for part in PartType if has_objects or index == count - 1 else ():
            if part is not PartType.TRANSACTION_INDEX:
                path = store / "kafka-tiered-storage" / object_name(segment, part)
                path.parent.mkdir(exist_ok=True)
                path.write_bytes(b"x" * (SEGMENT_BYTES if part is PartType.LOG else 1))
    for first in range(0, len(values), EVENTS_PER_BATCH):
        start = events.log_end_offset
        some = values[first : first + EVENTS_PER_BATCH]
        records = [Record(start + place, now_ms, None, value) for place, value in enumerate(some)]
        events.append(encode_batch(records, base_offset=start), None, now_ms)
    metadata_end = events.log_end_offset
    events.close(now_ms)
    for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
        offsets = dict(find_offsets(str(data_dir), name).offsets)
        write_offsets(str(data_dir), name, offsets | {(METADATA_TOPIC, number): metadata_end})


def segment_of(partition: TopicIdPartition, index: int, epoch: int, now_ms: int) -> RemoteLogSegmentMetadata:
    start = index * OFFSETS_PER_SEGMENT
    return RemoteLogSegmentMetadata(
        partition, secrets.token_bytes(16), start, start + OFFSETS_PER_SEGMENT - 1, now_ms, 1, now_ms, SEGMENT_BYTES,
        ((epoch, start),), txn_index_empty=True,
    )  # fmt: skip


def offset_of(broker: BrokerProcess, timestamp: int) -> int:
    asked = ListOffsetsTopic(tiered.TOPIC, [ListOffsetsPartition(0, -1, timestamp)])
    with WireClient(broker.bootstrap) as client:
        found = client.call(ListOffsetsRequest(replica_id=-1, topics=[asked], timeout_ms=10_000), 11)
    return int(found.topics[0].partitions[0].offset)


def idle(broker: BrokerProcess) -> tuple[float, float | None]:
    """Returns the CPU of a broker without clients, in percent of a core, and the longest callback of its loop."""
    time.sleep(2)
    watched = broker if isinstance(broker, WatchedOdradek) else None
    if watched is not None:
        longest_turn_ms(watched.pid, watched.turns_file)  # since now
    before = Cost.of(broker.pid).cpu_s
    time.sleep(IDLE_S)
    used = (Cost.of(broker.pid).cpu_s - before) / IDLE_S * 100
    return used, None if watched is None else longest_turn_ms(watched.pid, watched.turns_file)


def deletion(broker: BrokerProcess, store: Path) -> tuple[float, float]:
    """Returns CPU and time until the store is empty."""
    last = tiered.remote_segments(store)[-1]
    began, before = time.monotonic(), Cost.of(broker.pid).cpu_s
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    (done,) = admin.delete_topics([tiered.TOPIC]).values()
    done.result(30)
    # The folder is not listed while the broker deletes in it: the file system lets one of the two at it at a time.
    eventually(lambda: not last.exists(), what="the last segment is deleted", deadline_s=DEADLINE_S)
    eventually(lambda: not tiered.remote_segments(store), what="the store is empty", deadline_s=DEADLINE_S)
    return Cost.of(broker.pid).cpu_s - before, time.monotonic() - began


if __name__ == "__main__":
    main()
