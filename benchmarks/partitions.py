"""Measures ten thousand partitions on one broker: the time of a clean restart, and the memory after it.

`python -m benchmarks.partitions` measures the storage alone and then the broker; `--storage` or `--broker` only one of them.
The targets are a restart within 5 s, and less than 400 MB.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from odradek.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from odradek.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from odradek.protocol.records.batch import patch
from odradek.protocol.records.record import Record, encode_batch
from odradek.storage.directory import LogDirectory, checkpoints_of
from odradek.storage.files.checkpoints import LOG_START_OFFSETS, RECOVERY_POINTS, write_offsets
from odradek.storage.log.config import LogConfig

from compat_tests.odradek_process import OdradekProcess
from compat_tests.wire import WireClient

from .brokers import Cost, memory_mb

TOPICS = 10
BATCHES_PER_PARTITION = 5
RECORDS_PER_BATCH = 2
RECORD_BYTES = 1024
MOST_SECONDS = 5.0
MOST_MB = 400.0
_PARTITIONS_PER_REQUEST = 500
_STOP_DEADLINE_S = 300


def batch() -> bytearray:
    records = [Record(offset, 1_700_000_000_000, None, b"x" * RECORD_BYTES) for offset in range(RECORDS_PER_BATCH)]
    return bytearray(encode_batch(records))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--partitions", type=int, default=10_000)
    parser.add_argument("--storage", action="store_true", help="the storage only")
    parser.add_argument("--broker", action="store_true", help="the broker only")
    parser.add_argument("--open", metavar="DIRECTORY", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.open:
        print(json.dumps(open_all(options.open)))
        return
    with tempfile.TemporaryDirectory(prefix="odradek-partitions-") as directory:
        if not options.broker:
            measure_storage(Path(directory) / "storage", options.partitions)
        if not options.storage:
            measure_broker(Path(directory) / "broker", options.partitions)


def show(what: str, partitions: int, seconds: float, cpu_s: float, memory_mb: float) -> None:
    """Prints a row. Wall-clock seconds count; CPU seconds show how much a busy machine adds to them."""
    verdict = "reached" if seconds <= MOST_SECONDS and memory_mb <= MOST_MB else "MISSED"
    print(
        f"{what:<10} {partitions:>7,} partitions   {seconds:6.2f} s   {cpu_s:6.2f} s CPU   {memory_mb:6.1f} MB   {verdict}",
        flush=True,
    )


# ---- the storage alone: a process that only opens every log


def measure_storage(path: Path, partitions: int) -> None:
    fill_storage(path, partitions)
    command = [sys.executable, "-m", "benchmarks.partitions", "--open", str(path)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    found = json.loads(done.stdout)
    assert found["records"] == partitions * RECORDS_PER_BATCH * BATCHES_PER_PARTITION, found
    show("storage", partitions, found["seconds"], found["cpu_s"], found["memory_mb"])


def fill_storage(path: Path, partitions: int) -> None:
    directory = LogDirectory.open(path)
    config, content, logs = LogConfig(), batch(), []
    for number in range(partitions):
        log = directory.open_log(f"topic-{number % TOPICS}", number // TOPICS, config, now_ms=0)
        for _ in range(BATCHES_PER_PARTITION):
            patch(content, 0, log.log_end_offset, 0)
            log.append(content, None, 0)
        logs.append(log)
    directory.close_logs(logs, 0)
    checkpoints = checkpoints_of(logs)
    write_offsets(directory.path, RECOVERY_POINTS, checkpoints.recovery_points)
    write_offsets(directory.path, LOG_START_OFFSETS, checkpoints.log_start_offsets)
    directory.mark_clean_shutdown(-1)
    directory.close()


def open_all(path: str) -> dict[str, float]:
    config = LogConfig()
    began, cpu_began = time.perf_counter(), time.process_time()
    directory = LogDirectory.open(path)
    assert directory.had_clean_shutdown
    logs = [directory.open_log(replica.topic, replica.partition, config, now_ms=0) for replica in directory.replicas()]
    seconds, cpu_s = time.perf_counter() - began, time.process_time() - cpu_began
    records = sum(log.log_end_offset for log in logs)
    memory_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6
    return {"seconds": seconds, "cpu_s": cpu_s, "memory_mb": memory_mb, "records": records}


# ---- the broker: from exec to serving


def measure_broker(path: Path, partitions: int) -> None:
    broker = OdradekProcess(path, {"log.retention.check.interval.ms": "3600000"}, start_deadline_s=120)
    with broker:
        fill_broker(broker.bootstrap, partitions)
        stop(broker, "each was written to")
        began = time.perf_counter()
        broker.start()
        seconds = time.perf_counter() - began
        show("broker", partitions, seconds, Cost.of(broker.pid).cpu_s, memory_mb(broker.pid))
        stop(broker, "none was written to")


def stop(broker: OdradekProcess, what: str) -> None:
    """Stops the broker without the deadline of tests: closing ten thousand logs takes long on a slow disk."""
    assert broker.process is not None
    began = time.perf_counter()
    broker.process.terminate()
    assert broker.process.wait(_STOP_DEADLINE_S) == 0, broker.last_words()
    broker.process = None
    print(f"{'stop':<10} {time.perf_counter() - began:.2f} s where {what}", flush=True)


def fill_broker(bootstrap: str, partitions: int) -> None:
    content, each = bytes(batch()), partitions // TOPICS
    with WireClient(bootstrap, timeout=300) as client:
        for number in range(TOPICS):
            name = f"topic-{number}"
            wanted = CreatableTopic(name=name, num_partitions=each, replication_factor=1)
            created = client.call(CreateTopicsRequest(topics=[wanted], timeout_ms=300_000), 7)
            assert not created.topics[0].error_code, created
            for _ in range(BATCHES_PER_PARTITION):
                for first in range(0, each, _PARTITIONS_PER_REQUEST):
                    produce(client, name, range(first, min(first + _PARTITIONS_PER_REQUEST, each)), content)


def produce(client: Any, topic: str, partitions: range, content: bytes) -> None:
    data = [PartitionProduceData(index=index, records=content) for index in partitions]
    request = ProduceRequest(acks=1, timeout_ms=30_000, topic_data=[TopicProduceData(name=topic, partition_data=data)])
    response = client.call(request, 9)
    errors = {one.error_code for found in response.responses for one in found.partition_responses}
    assert errors == {0}, errors


if __name__ == "__main__":
    main()
