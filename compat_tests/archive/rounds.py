"""Rounds of an archiver that is killed while a producer writes, records are deleted, and files are merged.

A round has a broker, an archiver of a topic of several partitions, and a producer whose values are numbers. The archiver
dies at the round's place, starts again, and so on, until it has died often enough. Meanwhile the program deletes the records
that the table covers, segments roll, and the table merges files and expires snapshots. In the end, the table's rows are
compared with the producer's records, and counted and added up: a number that comes twice, or not at all, is an anomaly.
"""

from __future__ import annotations

import itertools
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from kafka import KafkaAdminClient, TopicPartition
from kafka.admin import NewTopic
from kafka.errors import KafkaError
from odradek.archive import ArchiveError, IcebergSource, ParquetSource, open_catalog
from odradek.archive.parquet import MANIFEST
from odradek.archive.store import Covered, Source
from pyiceberg.exceptions import NoSuchTableError
from sqlalchemy.exc import SQLAlchemyError

from compat_tests.archive.dying import PLACES
from compat_tests.odradek_process import OdradekProcess

TOPIC, PARTITIONS = "numbers", 3
_MODULE = "compat_tests.archive.dying"
_DEADLINE_S = 900
_POLL_S = 0.02
#: Every so many values are no JSON: dead-letter records.
_BROKEN = 11
#: The producer's rate: records between two pauses.
_CHUNK, _CHUNK_S = 100, 0.1
_ROOT = Path(__file__).resolve().parents[2]


@dataclass
class Outcome:
    seed: int
    kind: str
    place: str
    kills: int = 0
    written: int = 0
    seconds: float = 0.0
    #: The archiver was killed at another moment, since it did not come to the place.
    missed_place: bool = False
    anomalies: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        result = "ok" if not self.anomalies else f"{len(self.anomalies)} anomalies"
        place = f"«{self.place}»" + (" (not reached)" if self.missed_place else "")
        return (
            f"seed {self.seed} {self.kind}: killed {self.kills} times at {place}, {self.written} records, "
            f"{self.seconds:.0f} s: {result}"
        )


def values_of(number: int) -> bytes:
    return b"broken %d" % number if number % _BROKEN == 0 else b'{"number": %d}' % number


class Round:
    """One round. `records`: the producer's, `kills`: deaths of the archiver."""

    def __init__(self, folder: Path, seed: int, kind: str, place: str, *, records: int, kills: int) -> None:
        self._rng = random.Random(seed)
        self._folder = folder
        self._kind = kind
        self._records = records
        self._kills = kills
        self._is_written, self._is_killed = threading.Event(), threading.Event()
        #: Partition -> numbers in the order of its offsets.
        self._sent: dict[int, list[int]] = {one: [] for one in range(PARTITIONS)}
        self.outcome = Outcome(seed, kind, place)
        self._broker = OdradekProcess(folder / "broker", start_deadline_s=_DEADLINE_S)

    def execute(self) -> Outcome:
        began = time.monotonic()
        with self._broker:
            self._create_topic()
            threads = [threading.Thread(target=step) for step in (self._produce, self._delete_covered)]
            for one in threads:
                one.start()
            try:
                self._kill_archivers()
            finally:
                self._is_killed.set()
                for one in threads:
                    one.join(_DEADLINE_S)
            done = self._archive("none", 0, "--once")
            if done.returncode:
                self.outcome.anomalies.append(f"the last archiver ended with {done.returncode}: {done.stderr[-500:]}")
        self._compare()
        self.outcome.seconds = time.monotonic() - began
        return self.outcome

    # ---- beside the archiver

    def _create_topic(self) -> None:
        admin = KafkaAdminClient(bootstrap_servers=self._broker.bootstrap)
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1, topic_configs={"segment.ms": "2000"})])
        admin.close()

    def _produce(self) -> None:
        producer = Producer(
            {"bootstrap.servers": self._broker.bootstrap, "linger.ms": 5, "enable.idempotence": True, "log_level": 0}
        )
        for number in itertools.count():
            if number >= self._records and self._is_killed.is_set():
                break
            partition = self._rng.randrange(PARTITIONS)
            self._sent[partition].append(number)
            producer.produce(TOPIC, values_of(number), b"k", partition)
            if number % _CHUNK == 0:
                producer.flush(_DEADLINE_S)
                self._is_killed.wait(_CHUNK_S)
        assert producer.flush(_DEADLINE_S) == 0
        self._is_written.set()

    def _delete_covered(self) -> None:
        """Deletes the records that the table covers, as retention would."""
        admin = KafkaAdminClient(bootstrap_servers=self._broker.bootstrap)
        while not self._is_written.wait(0.5):
            covered = self._covered()
            if covered is not None and covered.offsets:
                places = {TopicPartition(TOPIC, one): offset for one, offset in covered.offsets.items()}
                with suppress(KafkaError):  # the broker is away
                    admin.delete_records(places)
        admin.close()

    def _covered(self) -> Covered | None:
        try:
            if self._kind == "parquet":
                return Covered.from_text((self._folder / "tables" / TOPIC / MANIFEST).read_text())
            from odradek.archive.iceberg import covered_of

            return covered_of(open_catalog(self._folder / "tables", {}).load_table(f"kafka.{TOPIC}"))
        except (OSError, NoSuchTableError, SQLAlchemyError):  # no table yet, or a file that was replaced just now
            return None

    # ---- the archiver

    def _command(self, place: str, number: int, *options: str) -> list[str]:
        where = "--parquet" if self._kind == "parquet" else "--warehouse"
        words = [TOPIC, where, str(self._folder / "tables"), "-b", self._broker.bootstrap, "--value-format", "json"]
        words += ["--value-schema", "infer"]
        more = ["--freshness", "0.3", "--keep-snapshots", "1", *options]
        return [sys.executable, "-m", _MODULE, place, str(number), *words, *more]

    def _archive(self, place: str, number: int, *options: str) -> subprocess.CompletedProcess[str]:
        command = self._command(place, number, *options)
        return subprocess.run(command, capture_output=True, text=True, timeout=_DEADLINE_S, check=False, cwd=_ROOT)

    def _kill_archivers(self) -> None:
        """Starts archivers that die at the place. One that does not come there is killed at a random moment."""
        while self.outcome.kills < self._kills:
            with subprocess.Popen(
                self._command(self.outcome.place, self._rng.randrange(1, 4)), cwd=_ROOT, stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE, text=True,
            ) as process:  # fmt: skip
                deadline = time.monotonic() + self._rng.uniform(20, 40)
                while process.poll() is None and time.monotonic() < deadline:
                    time.sleep(_POLL_S)
                process.kill()
                _, errors = process.communicate()
            if process.returncode != -9:
                self.outcome.anomalies.append(f"an archiver ended with {process.returncode}: {errors[-500:]}")
                return
            self.outcome.kills += 1

    # ---- the comparison

    def _source(self, *, dead_letters: bool) -> Source | None:
        try:
            if self._kind == "parquet":
                return ParquetSource(self._folder / "tables" / TOPIC, dead_letters=dead_letters)
            name = f"kafka.{TOPIC}{'_dead_letters' if dead_letters else ''}"
            return IcebergSource(open_catalog(self._folder / "tables", {}), name)
        except ArchiveError as error:
            self.outcome.anomalies.append(str(error))
            return None

    def _compare(self) -> None:
        self.outcome.written = sum(map(len, self._sent.values()))
        for dead_letters in (False, True):
            source = self._source(dead_letters=dead_letters)
            if source is None:
                return
            for partition, numbers in self._sent.items():
                expected = {
                    (offset, values_of(number) if dead_letters else number)
                    for offset, number in enumerate(numbers)
                    if (number % _BROKEN == 0) is dead_letters
                }
                self._compare_rows(source, partition, expected, dead_letters=dead_letters)

    def _compare_rows(self, source: Source, partition: int, expected: set[Any], *, dead_letters: bool) -> None:
        rows = source.read(partition, 0, 1 << 40).select(["offset", "value"]).to_pylist()
        found = Counter((row["offset"], row["value"] if dead_letters else row["value"]["number"]) for row in rows)
        name = f"{source.name}, partition {partition}"
        repeated = [one for one, count in found.items() if count > 1]
        for words, wrong in (
            ("twice", repeated), ("missing", expected - set(found)), ("unexpected", set(found) - expected)
        ):  # fmt: skip
            if wrong:
                self.outcome.anomalies.append(f"{name}: {len(wrong)} records {words}: {sorted(wrong)[:3]}")
        count, total = len(rows), sum(offset for offset, _ in found.elements())
        if not repeated and (count, total) != (len(expected), sum(offset for offset, _ in expected)):
            self.outcome.anomalies.append(f"{name}: {count} records with the sum {total} of offsets")


def places(seed: int) -> tuple[str, str]:
    """The kind of table and the place of a seed: each place of each kind once before the first comes again."""
    every = [(kind, place) for kind, of_kind in PLACES.items() for place in of_kind]
    return every[seed % len(every)]
