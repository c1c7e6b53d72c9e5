"""Rounds of faults while relations are read: `python -m tests.archive.relation_rounds --kind iceberg --rounds 30`.

`odradek archive` keeps a topic's table as a process of its own. In each round records and transactions are written, while
the broker or the archiver is killed, files are merged and snapshots expire, and records of the log are deleted by
DeleteRecords or by retention. Meanwhile Arrow, DuckDB, Polars, `odradek query` and a server of Flight SQL read the relation.

Each reading is what a client has read from the first record on, up to one offset of each partition: the end of the relation,
or one between those that the client had before the reading and has after it. A reading may fail with an error in words for a
person; at the end of a round each engine has one that does not.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import duckdb
import polars
from adbc_driver_manager import Error as FlightError
from confluent_kafka import Consumer, KafkaException, TopicPartition
from odradek.archive.relation import Relation, relation
from odradek.archive.store import ArchiveError
from odradek.archive.topic_archive import is_explained
from odradek.query.sources import QuerySources, TablePlace

from compat_tests.cli.commands import odradek_command
from compat_tests.recipes import eventually, is_end_of_partition
from tests.archive.harness.broker import NOW_MS, Harness
from tests.query.flight.serving import rows_of, served

TOPIC, PARTITIONS, KEYS = "followed", 2, 12
KINDS = ("iceberg", "parquet", "keyed")
ENGINES = ("arrow", "duckdb", "polars", "query", "flight")
SQL = f'select partition, "offset", key, value from {TOPIC}'
COLUMNS = ("partition", "offset", "key", "value")
_RECORDS, _SNAPSHOTS_S, _DEADLINE_S, _LEAST_PAUSE_S = 120, 2.0, 120, 0.05
#: Properties of the broker: retention is soon.
BROKER = {"log.retention.check.interval.ms": "300"}
_ARCHIVER = ("--freshness", "0.1", "--keep-snapshots", str(_SNAPSHOTS_S))
#: Offset, key and value of a row.
Row = tuple[int, bytes | None, bytes | None]
Partitions = dict[int, list[Row]]


class Client:
    """A consumer of committed records that reads the topic from its first record on, and keeps all of them."""

    def __init__(self, properties: dict[str, str]) -> None:
        settings = {"group.id": "client", "isolation.level": "read_committed", "enable.partition.eof": True}
        settings |= {"log_level": 0}  # it writes a line for each try while the broker is down
        self._consumer = Consumer(properties | settings | {"enable.auto.commit": False})
        self._consumer.assign([TopicPartition(TOPIC, one, 0) for one in range(PARTITIONS)])
        self.records: Partitions = {one: [] for one in range(PARTITIONS)}
        #: Partition -> the offset up to which all committed records are there.
        self.ends = dict.fromkeys(range(PARTITIONS), 0)
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._stopped.is_set():
            message = self._consumer.poll(0.1)
            if message is None or (message.error() and not is_end_of_partition(message)):
                continue
            partition, offset = message.partition(), message.offset()
            assert partition is not None and offset is not None
            if not is_end_of_partition(message):
                self.records[partition].append((offset, message.key(), message.value()))
                offset += 1
            self.ends[partition] = max(self.ends[partition], offset)

    def close(self) -> None:
        self._stopped.set()
        self._thread.join()
        self._consumer.close()


def states(records: list[Row], is_keyed: bool, least: int) -> Iterator[list[Row]]:
    """The rows of a partition as of each end from `least` on."""
    rows: dict[bytes | int, Row] = {}
    for row in records:
        if row[0] >= least:
            yield sorted(rows.values(), key=_offset)
        name = (row[1] or b"") if is_keyed else row[0]
        rows.pop(name, None)
        if not is_keyed or row[2] is not None:
            rows[name] = row
    yield sorted(rows.values(), key=_offset)


def _offset(row: Row) -> int:
    return row[0]


def is_as_of_one_point(found: list[Row], records: list[Row], is_keyed: bool, least: int, end: int | None) -> bool:
    """Returns whether rows are those of a partition as of its end; None: of any end from `least` on."""
    if end is not None:
        records, least = [row for row in records if row[0] < end], 1 << 61
    return any(found == rows for rows in states(records, is_keyed, least))


class Readings:
    """Readings of the relation by each engine, compared with what the client has."""

    def __init__(self, harness: Harness, client: Client, kind: str, folder: Path, flight: Any) -> None:
        self._harness, self._client, self._folder, self._flight = harness, client, folder, flight
        self._is_keyed = kind == "keyed"
        self._place: dict[str, Any] = {"parquet" if kind == "parquet" else "warehouse": folder}
        self.equal: Counter[str] = Counter()
        self.errors: Counter[str] = Counter()
        #: The first reading that was wrong, or that failed without an explanation.
        self.failure: BaseException | None = None

    def relation(self) -> Relation:
        return relation(TOPIC, client=self._harness.client, **self._place)

    def read(self, engine: str) -> bool:
        """Reads once. Returns False after an error in words for a person. Raises AssertionError for other rows."""
        least = dict(self._client.ends)
        ends: Mapping[int, int] | None = None
        try:
            if engine == "query":
                found = self._by_command()
            elif engine == "flight":
                found = rows_of(self._flight, SQL)
            else:
                made = self.relation()
                ends = {partition: end for partition, (_, end) in made.offsets.items()}
                found = self._by_engine(engine, made)
        except Exception as error:
            text = self._explained(error)
            self.errors[f"{engine}: {text}"] += 1
            return False
        self._check(engine, found, least, ends)
        self.equal[engine] += 1
        return True

    def _by_engine(self, engine: str, followed: Relation) -> list[tuple[Any, ...]]:
        try:
            if engine == "arrow":
                table = followed.to_table(list(COLUMNS))
            elif engine == "duckdb":
                with duckdb.connect() as database:
                    database.register(TOPIC, followed)
                    return database.execute(SQL).fetchall()
            else:
                table = polars.scan_pyarrow_dataset(followed).select(COLUMNS).collect().to_arrow()
        except Exception:
            if followed.failure is not None:
                raise followed.failure from None
            raise
        return [tuple(row[name] for name in COLUMNS) for row in table.to_pylist()]

    def _by_command(self) -> list[tuple[Any, ...]]:
        where = [word for name, place in self._place.items() for word in (f"--{name}", str(place))]
        words = [sys.executable, "-m", "odradek", "query", SQL, *where, "--output", "jsonl"]
        done = subprocess.run(
            [*words, "-b", self._harness.process.bootstrap],
            capture_output=True,
            text=True,
            timeout=_DEADLINE_S,
            check=False,
        )
        if done.returncode:
            raise ArchiveError(done.stderr)
        return [tuple(json.loads(line)[name] for name in COLUMNS) for line in done.stdout.splitlines()]

    def _explained(self, error: Exception) -> str:
        """The first line of an error that has words for a person. Raises AssertionError for any other."""
        text = str(error).strip()
        is_of_flight = isinstance(error, FlightError)
        assert is_explained(error) or is_of_flight, f"{type(error).__name__}: {text}"
        assert not any(word in text for word in ("Traceback", "failed with", "bug", "line ")), text
        assert is_of_flight or text.count("\n") == 0, text
        return text.partition("\n")[0].replace(str(self._folder), "FOLDER")

    def _check(
        self, engine: str, found: list[tuple[Any, ...]], least: Mapping[int, int], ends: Mapping[int, int] | None
    ) -> None:
        by_partition: Partitions = {one: [] for one in range(PARTITIONS)}
        for partition, offset, key, value in found:
            by_partition[partition].append((offset, _bytes(key), _bytes(value)))
        for partition, rows in by_partition.items():
            last = max((row[0] for row in rows), default=-1)
            needed = max(last + 1, ends[partition] if ends is not None else 0)
            eventually(
                lambda partition=partition, needed=needed: self._client.ends[partition] >= needed,
                what=f"the client has {TOPIC}-{partition} up to {needed}", deadline_s=_DEADLINE_S,
            )  # fmt: skip
            records, end = list(self._client.records[partition]), None if ends is None else ends[partition]
            assert end is None or end >= least[partition]
            is_equal = is_as_of_one_point(sorted(rows, key=_offset), records, self._is_keyed, least[partition], end)
            assert is_equal, (
                f"{engine}: the {len(rows)} rows of partition {partition} up to offset {last} are not those of "
                f"{len(records)} records as of {end}, at least {least[partition]}"
            )

    def run(self, engine: str, stopped: threading.Event) -> None:
        try:
            lasted = 0.0
            while not stopped.wait(max(lasted, _LEAST_PAUSE_S)):  # leaves half of the time to the faults
                began = time.monotonic()
                self.read(engine)
                lasted = time.monotonic() - began
        except BaseException as error:
            self.failure = self.failure or error


def _bytes(value: bytes | str | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else value


class Rounds:
    """The broker, the archiver's process, and the faults."""

    def __init__(self, harness: Harness, kind: str, folder: Path, seed: int) -> None:
        self._harness, self._kind, self._folder = harness, kind, folder / "tables"
        self._log = (folder / "archive.log").open("ab")
        self._rng = random.Random(seed)
        self._number = 0
        self._archiver: subprocess.Popen[bytes] | None = None
        self.done: list[str] = []
        harness.create(TOPIC, PARTITIONS, retention_ms=-1)
        self.write()
        self._start_archiver()
        self._client = Client(harness.client)

    @contextmanager
    def readings(self) -> Iterator[Readings]:
        with ExitStack() as stack:
            stack.callback(self.close)
            eventually(self._has_table, what="the archiver commits", deadline_s=_DEADLINE_S)
            place = TablePlace(parquet=self._folder) if self._kind == "parquet" else TablePlace(self._folder)
            flight = stack.enter_context(served(self._harness.client, QuerySources(place=place)))
            yield Readings(self._harness, self._client, self._kind, self._folder, flight)

    def _has_table(self) -> bool:
        with suppress(ArchiveError):
            place: Any = {"parquet" if self._kind == "parquet" else "warehouse": self._folder}
            return bool(relation(TOPIC, client=self._harness.client, **place).offsets[0][0])
        return False

    def close(self) -> None:
        self._kill_archiver()
        self._client.close()
        self._log.close()

    def write(self) -> None:
        """Records with keys that have a partition each, and tombstones; and a transaction that may abort."""
        producer = self._harness.producer(enable_idempotence=True)
        for _ in range(_RECORDS):
            self._produce(producer)
        assert producer.flush(_DEADLINE_S) == 0
        transactional = self._harness.producer(transactional_id="of-rounds")
        transactional.init_transactions(_DEADLINE_S)
        transactional.begin_transaction()
        for _ in range(5):
            self._produce(transactional)
        end = self._rng.choice((transactional.commit_transaction, transactional.abort_transaction))
        _again(lambda: end(_DEADLINE_S))

    def _produce(self, producer: Any) -> None:
        self._number += 1
        key = self._rng.randrange(KEYS)
        value = self._rng.choice([b"%d" % self._number] * 5 + [None])
        producer.produce(TOPIC, value, b"k%d" % key, key % PARTITIONS, timestamp=NOW_MS + self._number)
        producer.poll(0)

    # ---- faults

    def kill_broker(self) -> None:
        self._harness.process.kill()
        self._harness.process.start()

    def kill_archiver(self) -> None:
        self._kill_archiver()
        self._start_archiver()

    def delete_records(self) -> None:
        """Deletes the records of the log that the table has, and the client."""
        before = {one: min(start, self._client.ends[one]) for one, start in self._covered().items()}
        self._harness.delete_records(TOPIC, before)

    def let_retention_delete(self) -> None:
        """Waits until the table has all records, and lets retention delete the log."""
        ends = self._ends(1)
        eventually(
            lambda: self._covered() == ends and self._client.ends == ends,
            what="the table has all",
            deadline_s=_DEADLINE_S,
        )
        self._configure("retention.ms=1000")
        eventually(lambda: self._ends(0) == ends, what="retention deletes the log", deadline_s=_DEADLINE_S)
        self._configure("retention.ms=-1")

    def expire_snapshots(self) -> None:
        """Merges what is due, and expires all snapshots but the newest, beside the archiver."""
        if self._kind != "parquet":
            with suppress(AssertionError):  # the archiver commits at the same moment
                done = odradek_command("table", "maintain", "--warehouse", str(self._folder), "--keep-snapshots", "0")
                assert done.status == 0, done

    def _configure(self, pair: str) -> None:
        done = odradek_command("config", "set", "topic", TOPIC, pair, "-b", self._harness.process.bootstrap)
        assert done.status == 0, done

    def _covered(self) -> dict[int, int]:
        place: Any = {"parquet" if self._kind == "parquet" else "warehouse": self._folder}
        self._supervise()
        return {one: start for one, (start, _) in relation(TOPIC, client=self._harness.client, **place).offsets.items()}

    def _ends(self, which: int) -> dict[int, int]:
        """The first offsets of the log, or those after its last ones."""
        consumer = Consumer(self._harness.client | {"group.id": "watermarks"})
        try:
            return {
                one: consumer.get_watermark_offsets(TopicPartition(TOPIC, one), timeout=_DEADLINE_S)[which]
                for one in range(PARTITIONS)
            }
        finally:
            consumer.close()

    def _start_archiver(self) -> None:
        where = "--parquet" if self._kind == "parquet" else "--warehouse"
        words = [sys.executable, "-m", "odradek", "archive", TOPIC, where, str(self._folder), *_ARCHIVER]
        words += ["--key", "key"] if self._kind == "keyed" else []
        self._archiver = subprocess.Popen(
            [*words, "-b", self._harness.process.bootstrap],
            stdout=self._log,
            stderr=self._log,
            stdin=subprocess.DEVNULL,
        )

    def _kill_archiver(self) -> None:
        if self._archiver is not None:
            self._archiver.kill()
            self._archiver.wait()

    def _supervise(self) -> None:
        """Starts an archiver again that has ended by itself, as a supervisor does."""
        assert self._archiver is not None
        if self._archiver.poll() is not None:
            self._start_archiver()

    # ---- rounds

    def run(self, readings: Readings, rounds: int, engines: tuple[str, ...] = ENGINES) -> None:
        faults = (
            self.kill_broker,
            self.kill_archiver,
            self.delete_records,
            self.let_retention_delete,
            self.expire_snapshots,
        )
        for number in range(rounds):
            stopped = threading.Event()
            threads = [threading.Thread(target=readings.run, args=(engine, stopped)) for engine in engines]
            for one in threads:
                one.start()
            try:
                self._strike(self._rng.sample(faults, 3) if rounds > 1 else list(faults))
            finally:
                stopped.set()
                for one in threads:
                    one.join()
            if readings.failure is not None:
                raise AssertionError(f"round {number + 1}, after {self.done[-9:]}") from readings.failure
            for engine in engines:
                eventually(lambda engine=engine: readings.read(engine), what=f"{engine} reads", deadline_s=_DEADLINE_S)

    def _strike(self, faults: list[Callable[[], None]]) -> None:
        for fault in faults:
            writer = threading.Thread(target=self.write)
            if fault != self.let_retention_delete:  # which would delete what the table does not have
                writer.start()
            try:
                fault()
                self.done.append(fault.__name__)
            finally:
                if writer.ident is not None:
                    writer.join()
            self._supervise()


def _again(step: Callable[[], None]) -> None:
    """Runs a step of a transaction until its error is not one to repeat it."""
    while True:
        try:
            return step()
        except KafkaException as error:
            if not error.args[0].retriable():
                raise


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kind", choices=KINDS, default=KINDS[0])
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        harness = Harness(Path(folder) / "broker", BROKER)
        with harness.process:
            rounds = Rounds(harness, options.kind, Path(folder), options.seed)
            with rounds.readings() as readings:
                rounds.run(readings, options.rounds)
    print(f"{options.rounds} rounds of {options.kind}, {len(rounds.done)} faults: {dict(Counter(rounds.done))}")
    print(f"equal: {dict(readings.equal)}")
    for text, count in readings.errors.most_common():
        print(f"{count:5} {text}")


if __name__ == "__main__":
    main()
