"""The rows of one target in one round. The source's topics of the catch-up and of many partitions are filled once."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from argparse import Namespace
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from odradek.metadata.mirror_keys import LINGER

from compat_tests.broker_process import BrokerProcess
from compat_tests.ecosystem.reference_client import create

from .. import free_memory, loads
from ..brokers import Cost
from ..rows import KIB, label
from ..tails.paced import TOPIC as PACED_TOPIC
from .ends import Ends, ends_at
from .figures import (
    CPU,
    CPU_S,
    LAG_P50,
    LAG_P99,
    MEMORY,
    PRODUCER_P99,
    PRODUCER_P99_BEFORE,
    RATE,
    SOURCE_CPU,
    TIME,
    Figure,
)
from .targets import Target, peak_mb, running

ROOT = Path(__file__).parents[2]
PARTITIONS = 12
#: Records a second by their size.
RATES = {KIB: 2000, 100: 5000}
PACED_S, WARM_UP_S = 20, 10
#: Rate and times of the producer beside a catch-up. It runs again until the catch-up has ended.
BESIDE_RATE, BESIDE_S, BESIDE_WARM_UP_S = 500, 10, 2
_FIRST_RECORDS = 600
_HISTORY = "history"
_WIDE_TOPICS, _RECORDS_OF_PARTITION = 20, 100
_POLL_S = 0.1

Measured = Iterator[tuple[str, Figure, float]]


class Rows:
    """`options`: those of the program."""

    def __init__(self, source: BrokerProcess, options: Namespace) -> None:
        self._source = source
        self._only: str = options.only
        self._most_s: float = options.most_minutes * 60
        self._link = {} if options.linger is None else {LINGER: str(options.linger)}
        self._rates = {size: max(1, int(rate * options.pace)) for size, rate in RATES.items()}
        self._bulk_bytes = options.megabytes * 1_000_000
        self._catch_up_bytes = int(options.catch_up * 1e9)
        self._wide_partitions: int = options.partitions // _WIDE_TOPICS
        self._wide = [f"wide-{number}" for number in range(_WIDE_TOPICS)]

    def fill(self) -> None:
        bootstrap = self._source.bootstrap
        if self._only in "catch-up":
            create(bootstrap, _HISTORY, PARTITIONS)
            loads.java_produce(bootstrap, _HISTORY, self._catch_up_bytes // KIB, KIB, acks="1")
        if self._only in "partitions":
            for topic in self._wide:
                create(bootstrap, topic, self._wide_partitions)
                loads.rdkafka(bootstrap, topic, "produce", self._wide_partitions * _RECORDS_OF_PARTITION, 100)

    def measure(self, name: str, folder: Path) -> Measured:
        with running(name, folder, self._link) as target:
            kinds = [kind for kind in ("paced", "bulk") if self._only in kind]
            if kinds:
                yield from self._followed(target, folder.name.lower(), kinds)
            if self._only in "catch-up":
                yield from self._catch_up(target)
            if kinds or self._only in "catch-up":
                yield "all rows above", MEMORY, peak_mb(target)
        if self._only in "partitions":
            with running(name, folder.with_name(folder.name + "-wide"), self._link) as target:
                yield from self._many_partitions(target)

    # ---- loads that are written while the mirror follows

    def _followed(self, target: Target, prefix: str, kinds: list[str]) -> Measured:
        topics = {(kind, size): f"{prefix}-{kind}-{size}" for kind in kinds for size in RATES}
        for topic in topics.values():
            create(self._source.bootstrap, topic, PARTITIONS)
            loads.rdkafka(self._source.bootstrap, topic, "produce", _FIRST_RECORDS, 100)
        target.mirror(self._source.bootstrap, f"{prefix}-.*")
        for topic in topics.values():
            self._await_mirrored(target, [topic], PARTITIONS)
        for (kind, size), topic in topics.items():
            free_memory.get_back()
            yield from (self._paced if kind == "paced" else self._bulk)(target, topic, size)

    def _paced(self, target: Target, topic: str, size: int) -> Measured:
        row = f"paced {label(size)}, {self._rates[size]:,}/s"
        numbers = map(str, (PARTITIONS, size, self._rates[size], PACED_S, WARM_UP_S))
        words = [self._source.bootstrap, target.broker.bootstrap, topic, *numbers]
        command = [sys.executable, "-m", "benchmarks.mirror_maker.lag", *words]
        with costs(target, self._source) as spent:
            done = subprocess.run(command, check=True, stdout=subprocess.PIPE, cwd=ROOT)
        lags = json.loads(done.stdout)["lags"]
        yield row, LAG_P50, lags[len(lags) // 2] / 1000
        yield row, LAG_P99, lags[len(lags) * 99 // 100] / 1000
        yield from _cpu_rows(row, spent, self._rates[size] * (PACED_S + WARM_UP_S) * size)

    def _bulk(self, target: Target, topic: str, size: int) -> Measured:
        row, count = f"bulk {label(size)}", self._bulk_bytes // size
        with costs(target, self._source) as spent:
            loads.java_produce(self._source.bootstrap, topic, count, size, acks="1")
            self._await_mirrored(target, [topic], PARTITIONS)
        yield row, RATE, count * size / 1e6 / spent[2]
        yield from _cpu_rows(row, spent, count * size)

    def _await_mirrored(self, target: Target, topics: list[str], partitions: int) -> None:
        wanted = ends_at(self._source.bootstrap, topics, partitions)
        assert len(wanted) == len(topics) * partitions and any(wanted.values()), "the source has no such records"
        with closing(Ends(target.broker.bootstrap)) as ends:
            ends.wait(wanted, self._most_s)

    # ---- a mirror that begins

    def _catch_up(self, target: Target) -> Measured:
        row = f"catch-up {self._catch_up_bytes / 1e9:g} GB"
        create(target.broker.bootstrap, PACED_TOPIC, 1)
        with paced_producer(target) as producer:
            yield row, PRODUCER_P99_BEFORE, p99_ms(producer)
        free_memory.get_back()
        began = time.monotonic()
        with costs(target, self._source) as spent:
            target.mirror(self._source.bootstrap, _HISTORY)
            worst_ms, ended, share = self._beside(target, began + self._most_s)
        mirrored = self._catch_up_bytes * share
        yield row, PRODUCER_P99, worst_ms
        if share == 1:
            yield row, TIME, ended - began
        else:
            print(
                f"{target.name}: {row}: {share:.0%} in {self._most_s:g} s, of which the other figures are", flush=True
            )
        yield row, RATE, mirrored / 1e6 / (ended - began)
        yield from _cpu_rows(row, spent, mirrored)

    def _beside(self, target: Target, deadline: float) -> tuple[float, float, float]:
        """Runs the paced producer until all is mirrored, or to a deadline. Returns its worst p99, when that was, and the
        mirrored share.
        """
        wanted, worst_ms = ends_at(self._source.bootstrap, [_HISTORY], PARTITIONS), 0.0
        ended = share = 0.0
        with closing(Ends(target.broker.bootstrap)) as ends:
            while not ended:
                with paced_producer(target) as producer:
                    until = time.monotonic() + BESIDE_S + BESIDE_WARM_UP_S
                    while not ended and time.monotonic() < until:
                        share = sum(ends.of(wanted).values()) / sum(wanted.values())
                        if share == 1 or time.monotonic() > deadline:
                            ended = time.monotonic()
                        time.sleep(_POLL_S)
                    worst_ms = max(worst_ms, p99_ms(producer))
        assert share > 0, "nothing is mirrored"
        return worst_ms, ended, share

    def _many_partitions(self, target: Target) -> Measured:
        row = f"{self._wide_partitions * _WIDE_TOPICS:,} partitions"
        try:
            with costs(target, self._source) as spent:
                target.mirror(self._source.bootstrap, "wide-.*")
                self._await_mirrored(target, self._wide, self._wide_partitions)
        except TimeoutError as error:
            print(f"{target.name}: {row}: {error}", flush=True)
            return
        yield row, TIME, spent[2]
        yield row, CPU_S, spent[0]
        yield row, MEMORY, peak_mb(target)


@contextmanager
def costs(target: Target, source: BrokerProcess) -> Iterator[list[float]]:
    """Measures a block: the target's seconds of CPU, the source's, and the time."""
    spent: list[float] = []
    began, of_source = time.monotonic(), Cost.of(source.pid).cpu_s
    before = {pid: Cost.of(pid).cpu_s for pid in target.pids()}
    yield spent
    # A process that has begun meanwhile counts whole.
    of_target = sum(Cost.of(pid).cpu_s - before.get(pid, 0) for pid in target.pids())
    spent += [of_target, Cost.of(source.pid).cpu_s - of_source, time.monotonic() - began]


def _cpu_rows(row: str, spent: list[float], size: int) -> Measured:
    yield row, CPU, spent[0] / size * 1e9
    yield row, SOURCE_CPU, spent[1] / size * 1e9


@contextmanager
def paced_producer(target: Target) -> Iterator[subprocess.Popen[bytes]]:
    """A producer and a consumer of another topic of the target."""
    numbers = map(str, (BESIDE_RATE, BESIDE_S, BESIDE_WARM_UP_S))
    command = [sys.executable, "-m", "benchmarks.tails.paced", target.broker.bootstrap, *numbers]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT) as producer:
        yield producer


def p99_ms(producer: subprocess.Popen[bytes]) -> float:
    """The p99 of a producer that ends."""
    printed, _ = producer.communicate()
    assert producer.returncode == 0, "the paced producer failed"
    latencies_us = json.loads(printed)["produced"]
    return float(latencies_us[len(latencies_us) * 99 // 100]) / 1000
