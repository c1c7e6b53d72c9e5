"""Measures tiered storage beside Apache Kafka: `python -m benchmarks.tiered [--megabytes 1024] [--readers 10]
[--only-odradek]`.

Both brokers take turns, each as a single node with a store in a folder (Apache's LocalTieredStorage), in segments of
64 MiB. The rows: the copy of all closed segments, a read of all of them by one consumer in pieces of 1 MiB, and the latency
of a paced producer and consumer of local records, alone and beside consumers that read the store. CPU is the broker's.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from odradek.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from odradek.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic

from compat_tests.broker_process import BrokerProcess
from compat_tests.java.fetch import TIERS, home
from compat_tests.recipes import eventually
from compat_tests.tiers.tiered import properties
from compat_tests.wire import WireClient

from .brokers import APACHE_NAME, ODRADEK_NAME, Cost, MeasuredKafka, MeasuredOdradek
from .many_clients import Clients
from .tails.__main__ import ROOT, WARM_UP_S, shown
from .tails.neighbours import MEGABYTE, Reader, bulk_request, create, produce
from .tails.paced import TOPIC

HISTORY, SEGMENT_BYTES, BATCH_BYTES = "history", 64 << 20, 200_000
PACE, PACED_S = 500, 15.0
_LIST_OFFSETS, _ALTER = 9, 1
_TOPIC_RESOURCE, _SET = 2, 0
_LOCAL_START, _LATEST_TIERED = -4, -5
_WAIT_S = 600
_MORE = {"log.retention.check.interval.ms": "500", "remote.log.manager.task.interval.ms": "500"}


class TieredKafka(MeasuredKafka):
    """Apache Kafka with its store in a folder on the class path."""

    def command(self) -> list[str]:
        command = super().command()
        at = command.index("-cp") + 1
        command[at] = os.pathsep.join((command[at], str(home(TIERS) / "*")))
        return command


def main() -> None:
    options = arguments()
    if options.read:
        read_again(options.read, options.readers, options.end)
    for name, kind in kinds(only_odradek=options.only_odradek).items():
        with tiered_broker(kind) as (broker, _), broker:
            for row, value in measure(broker, options.megabytes * MEGABYTE, options.readers):
                print(f"{name}: {row}: {value}", flush=True)


def kinds(*, only_odradek: bool) -> dict[str, Callable[[Path], BrokerProcess]]:
    """Returns the brokers that take turns, by their names."""
    return (
        {ODRADEK_NAME: MeasuredOdradek} if only_odradek else {ODRADEK_NAME: MeasuredOdradek, APACHE_NAME: TieredKafka}
    )


@contextmanager
def tiered_broker(
    kind: Callable[[Path], BrokerProcess], more: Mapping[str, str] = _MORE
) -> Iterator[tuple[BrokerProcess, Path]]:
    """Makes a broker that is not started, and the folder of its store; `more`: properties beside those of tests."""
    with tempfile.TemporaryDirectory(prefix="tiered-") as folder:
        store = Path(folder) / "store"
        broker = kind(Path(folder) / "broker")
        broker.properties |= properties(store) | more
        yield broker, store


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=1024, help="of the topic (default: 1024)")
    parser.add_argument("--readers", type=int, default=10, help="consumers of the store (default: 10)")
    parser.add_argument("--only-odradek", action="store_true")
    parser.add_argument("--read", metavar="HOST:PORT", help=argparse.SUPPRESS)
    parser.add_argument("--end", type=int, default=0, help=argparse.SUPPRESS)
    return parser.parse_args()


def measure(broker: BrokerProcess, size: int, readers: int) -> Iterator[tuple[str, str]]:
    with WireClient(broker.bootstrap) as client:
        create(client, HISTORY, segment_bytes=str(SEGMENT_BYTES))
        create(client, TOPIC)
        for _ in range(size // BATCH_BYTES):
            produce(client, bulk_request(HISTORY))
        closed = size // SEGMENT_BYTES * SEGMENT_BYTES
        last = closed // 1100  # an offset in the last closed segment: headers make a record longer than 1,000 B

        def is_copied() -> bool:
            return offset(client, _LATEST_TIERED) >= last

        with costs(broker, closed) as cost:
            set_config(client, "remote.storage.enable", "true")
            eventually(is_copied, what="closed segments are copied", deadline_s=_WAIT_S)
        yield "copy", cost()
        set_config(client, "local.retention.bytes", "1")
        end = offset(client, _LATEST_TIERED) + 1
        eventually(
            lambda: offset(client, _LOCAL_START) >= end, what="the disk has no copied segment", deadline_s=_WAIT_S
        )
    yield "p50, p99, p99.9, max alone, ms", paced(broker)
    reader = Reader(broker.bootstrap, HISTORY, end)
    with Clients([reader]), costs(broker, end * 1000) as cost:
        before = -1
        while reader.offset >= before:  # at the end it begins again
            before = reader.offset
            reader.fetch()
            reader.advance()
    yield "read of the store", cost()
    words = ["--read", broker.bootstrap, "--readers", str(readers), "--end", str(end)]
    with subprocess.Popen([sys.executable, "-m", "benchmarks.tiered", *words], cwd=ROOT) as neighbour:
        try:
            yield f"p50, p99, p99.9, max beside {readers} consumers of the store, ms", paced(broker)
            assert neighbour.poll() is None, "the consumers of the store ended"
        finally:
            neighbour.kill()


@contextmanager
def costs(broker: BrokerProcess, size: int) -> Iterator[Callable[[], str]]:
    """Measures a block that moves so many bytes: its rate, and the CPU of the broker for 10^9 bytes."""
    began, before, ended = time.perf_counter(), Cost.of(broker.pid).cpu_s, [0.0, 0.0]

    def words() -> str:
        return f"{size / ended[0] / MEGABYTE:.0f} MB/s, {ended[1] / size * 1e9:.2f} s of CPU a GB"

    yield words
    ended[:] = time.perf_counter() - began, Cost.of(broker.pid).cpu_s - before


def paced(broker: BrokerProcess) -> str:
    """Returns the latencies of records from a producer to a consumer."""
    words = [broker.bootstrap, str(PACE), str(PACED_S), str(WARM_UP_S)]
    command = [sys.executable, "-m", "benchmarks.tails.paced", *words]
    done = subprocess.run(command, check=True, capture_output=True, cwd=ROOT)
    return shown(json.loads(done.stdout)["consumed"])


def offset(client: WireClient, timestamp: int) -> int:
    request = ListOffsetsRequest(-1, topics=[ListOffsetsTopic(HISTORY, [ListOffsetsPartition(0, -1, timestamp)])])
    found: int = client.call(request, _LIST_OFFSETS).topics[0].partitions[0].offset
    return found


def set_config(client: WireClient, name: str, value: str) -> None:
    resource = AlterConfigsResource(_TOPIC_RESOURCE, HISTORY, [AlterableConfig(name, _SET, value)])
    response = client.call(IncrementalAlterConfigsRequest([resource]), _ALTER)
    assert not response.responses[0].error_code, response


def read_again(bootstrap: str, count: int, end: int) -> None:
    """Reads the store with so many consumers until the process is killed."""
    readers = [Reader(bootstrap, HISTORY, end) for _ in range(count)]
    with Clients(readers) as clients:
        for one in readers:
            one.fetch()
        while True:
            for one in clients.ready():
                one.advance()
                one.fetch()


if __name__ == "__main__":
    main()
