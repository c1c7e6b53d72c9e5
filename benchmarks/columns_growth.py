"""Measures reading as a topic grows: `python -m benchmarks.columns_growth [--gigabytes 1 2 4] [--json FILE]`.

Topics of 8 partitions on one broker, of 1 KiB records, in segments of 128 MB. The segments are copies of one, and links
(columns_segments.py): 16 GB take 2 GB of the disk, and are in the page cache. So CPU, numbers and memory are those of a
large topic, and times and reads of a disk are not.

- `topics`: for each size the plan, `count()`, a scan of value and offset into DuckDB, both by `format("odradek")`, and the
  records of one partition by Fetch. Each reader without Spark is a process of its own, for its memory. Then the plan of the
  largest topic in more splits, in Python and in Spark.
- `tasks`: a count of 1 GB in few tasks of Spark and in many.
- `segments`: the plan of a partition with many segments, and the listing that each task begins with.
- `partitions`: the plan of a topic with many partitions.

CPU is that of the named processes, in seconds; memory is the largest resident set, in MB.
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
from confluent_kafka.admin import AdminClient, NewTopic
from odradek.columns import ScanDataset, Split, read_split, scan
from odradek.columns.directory import segments_of
from odradek.columns.plan import Request, plan_directory
from odradek.protocol.records.compression import Compression

from compat_tests.odradek_process import OdradekProcess
from compat_tests.oracle import SINGLE_NODE

from .columns import ROOT, batches, show
from .columns_segments import Template, fill

_TOPIC = "grown"
_PARTITIONS = 8
_SEGMENT_BYTES = 128 << 20
_NEWEST_BYTES = 64 << 10
#: Bytes of a segment of which only the number matters.
_TINY_BYTES = 32 << 10
_SAMPLE_S = 0.2
_DEADLINE_S, _START_S = 3_600, 300
Row = dict[str, Any]


# ---- readers without Spark, each in a process of its own


def plan_of_source(bootstrap: str, topic: str, split_bytes: int) -> Row:
    """The plan of `format("odradek")`, as Spark's planning process makes it."""
    from odradek.spark.source import OdradekSource

    given = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, "splitBytes": str(split_bytes)}
    source = OdradekSource(given)
    ranges = source.reader(source.schema()).partitions()
    return {"splits": len(ranges), "bytes of a split": sum(len(pickle.dumps(one)) for one in ranges) // len(ranges)}


def plan_of_directory(path: str) -> Row:
    """The plan of a partition's directory, and the listing that a task begins with."""
    plan_directory(path, Request(), lambda *partition: None)
    began = time.process_time()
    found = len(segments_of(path))
    return {"segments": found, "listing": round(time.process_time() - began, 4)}


def count(path: str) -> Row:
    return {"records": scan(path).count()}


def into_duckdb(path: str) -> Row:
    import duckdb

    database = duckdb.connect(config={"threads": 1})
    database.register("t", ScanDataset(scan(path)))
    (found,) = database.execute('select sum(octet_length(value)), max("offset"), count(*) from t').fetchall()
    return {"records": found[2]}


def by_fetch(bootstrap: str, topic: str, end: int) -> Row:
    """The records of one partition, as a task reads them that has no data directory."""
    split = Split(topic, 0, 0, end, client={"bootstrap.servers": bootstrap})
    return {"records": sum(batch.num_rows for batch in read_split(split, ("value", "offset")))}


CHILDREN: dict[str, Callable[..., Row]] = {
    one.__name__: one for one in (plan_of_source, plan_of_directory, count, into_duckdb, by_fetch)
}


def child(name: str, arguments: list[str]) -> None:
    """Prints the result of a reader with its CPU, without that of the imports, and its memory."""
    began = time.process_time()
    found = CHILDREN[name](*(int(one) if one.isdigit() else one for one in arguments))
    print(json.dumps({**found, "CPU": round(time.process_time() - began, 2), "MB": most_memory()}))


def most_memory() -> int:
    """The largest resident set of this program in MB. That of `getrusage` begins with the parent's."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) >> 10
    raise RuntimeError("this system has no VmHWM")


def apart(reader: Callable[..., Row], *arguments: object) -> Row:
    command = [sys.executable, "-m", "benchmarks.columns_growth", "--child", reader.__name__, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_DEADLINE_S, check=False, cwd=ROOT)
    if done.returncode:
        raise RuntimeError(done.stderr)
    return json.loads(done.stdout)  # type: ignore[no-any-return]


# ---- processes of Spark


class Sampled:
    """CPU, the largest memory and the most open files of Spark's processes by their names, sampled: it ends idle workers."""

    def __init__(self) -> None:
        self._cpu: dict[tuple[int, float], float] = {}
        self._most: dict[str, int] = {}
        self._files: dict[str, int] = {}
        self._ends = threading.Event()
        self._me = psutil.Process()

    def _look(self) -> None:
        for one in self._me.children(recursive=True):
            try:
                name = _name(one)
                if name is not None:
                    times = one.cpu_times()
                    self._cpu[one.pid, one.create_time()] = times.user + times.system
                    self._most[name] = max(self._most.get(name, 0), one.memory_info().rss >> 20)
                    self._files[name] = max(self._files.get(name, 0), one.num_fds())
            except psutil.Error:  # it has ended
                continue

    def _run(self) -> None:
        while not self._ends.wait(_SAMPLE_S):
            self._look()

    def __enter__(self) -> Sampled:
        self._look()
        self._before = sum(self._cpu.values())
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        self._thread.join()
        self._look()

    @property
    def row(self) -> Row:
        cpu = round(sum(self._cpu.values()) - self._before, 2)
        return {"CPU": cpu, "MB": dict(sorted(self._most.items())), "files": dict(sorted(self._files.items()))}


def _name(one: psutil.Process) -> str | None:
    """The name of a process of Spark; None of another one. The broker's CPU is no part of Spark's."""
    if one.name() == "java":
        return "JVM"
    module = one.cmdline()[-1:]
    if module == ["pyspark.worker"]:
        return "worker"
    return "planner" if module == ["pyspark.sql.worker.plan_data_source_read"] else None


class Driver:
    """A session of Spark with `format("odradek")`."""

    def __init__(self, bootstrap: str) -> None:
        sys.path.insert(0, str(ROOT / "spark_examples"))
        os.environ["PYTHONPATH"] = str(ROOT)  # where Spark finds `pyspark_odradek`
        from session import spark_session

        self._bootstrap = bootstrap
        self.session = spark_session("benchmarks.columns_growth")
        self.session.sparkContext.setLogLevel("OFF")

    def frame(self, topic: str, schema: str, **options: object) -> Any:
        given = {"kafka.bootstrap.servers": self._bootstrap, "subscribe": topic} | {
            name: str(value) for name, value in options.items()
        }
        return self.session.read.format("odradek").schema(schema).options(**given).load()

    def read(self, topic: str) -> Row:
        from pyspark.sql import functions as f

        with Sampled() as sampled:
            frame = self.frame(topic, "value binary, offset bigint")
            found = frame.agg(f.sum(f.length("value")), f.max("offset"), f.count("offset")).collect()
        return {"records": found[0][2], **sampled.row}

    def counted(self, topic: str, split_bytes: int) -> Row:
        with Sampled() as sampled:
            frame = self.frame(topic, "partition int", splitBytes=split_bytes)
            frame.count()
        return {"splits": frame.rdd.getNumPartitions(), **sampled.row}

    def planned(self, topic: str, split_bytes: int) -> Row:
        """The plan of a query in the driver, and the heap that it takes as long as the query is there."""
        before = self._heap()
        with Sampled() as sampled:
            frame = self.frame(topic, "offset bigint", splitBytes=split_bytes)
            parts = frame.rdd.getNumPartitions()
        kept = self._heap() - before
        del frame
        return {"splits": parts, "bytes of heap for a split": round(kept / parts), **sampled.row}

    def _heap(self) -> int:
        jvm = self.session._jvm
        jvm.java.lang.System.gc()
        used = jvm.java.lang.management.ManagementFactory.getMemoryMXBean().getHeapMemoryUsage().getUsed()
        return int(used)


# ---- the parts


def create(bootstrap: str, topic: str, partitions: int) -> None:
    settings = {"retention.ms": "-1", "segment.bytes": str(1 << 30)}
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.create_topics([NewTopic(topic, partitions, 1, config=settings)]).values():
        future.result(60)


@contextmanager
def grown(folder: Path, partitions: int, segments: int, closed: Template) -> Iterator[tuple[OdradekProcess, int]]:
    """A broker with the topic, and the offset after the last record of each partition."""
    broker = OdradekProcess(folder, SINGLE_NODE, start_deadline_s=_START_S)
    broker.start()
    try:
        create(broker.bootstrap, _TOPIC, partitions)
        broker.stop()
        newest = Template(batches(1024, Compression.NONE, _NEWEST_BYTES))
        end = fill([broker.data_dir / f"{_TOPIC}-{one}" for one in range(partitions)], segments, closed, newest)
        broker.start()
        yield broker, end
    finally:
        broker.kill()


@contextmanager
def of_size(gigabytes: int) -> Iterator[tuple[OdradekProcess, int]]:
    closed = Template(batches(1024, Compression.NONE, _SEGMENT_BYTES * 9 // 10))
    segments = max(1, (gigabytes << 30) // (_PARTITIONS * _SEGMENT_BYTES))
    with (
        tempfile.TemporaryDirectory(prefix="columns-growth-") as folder,
        grown(Path(folder), _PARTITIONS, segments, closed) as made,
    ):
        yield made


def topics(sizes: list[int], most_read: int) -> list[Row]:
    """The readings by size, those of Spark and by Fetch up to `most_read`; plans in more splits of the largest topic."""
    found: list[Row] = []
    for size in sizes:
        with of_size(size) as (broker, end):
            files = list(broker.data_dir.glob(f"{_TOPIC}-*/*.log"))
            row: Row = {"GB": round(sum(file.stat().st_size for file in files) / 1e9, 2), "segments": len(files)}
            path = str(broker.data_dir / _TOPIC)
            row["plan"] = apart(plan_of_source, broker.bootstrap, _TOPIC, 512 << 20)
            row["count"] = apart(count, path)
            row["into DuckDB"] = apart(into_duckdb, path)
            row["files of the broker"] = psutil.Process(broker.pid).num_fds()
            assert row["count"]["records"] == row["into DuckDB"]["records"] == _PARTITIONS * end
            if size <= most_read:
                row |= read_through(broker, end, is_first=size == sizes[0])
            found.append(row)
            show(row)
            if size == sizes[-1]:
                found += splits(broker.bootstrap)
    return found


def read_through(broker: OdradekProcess, end: int, *, is_first: bool) -> Row:
    """The readings by Fetch and by Spark."""
    fetched = _with_broker(broker, lambda: apart(by_fetch, broker.bootstrap, _TOPIC, end))
    driver = Driver(broker.bootstrap)
    if is_first:
        driver.read(_TOPIC)  # its code is compiled in the first reading
    read = driver.read(_TOPIC)
    assert fetched["records"] == end and read["records"] == _PARTITIONS * end
    return {"by Fetch": fetched, "Spark": read}


def _with_broker(broker: OdradekProcess, run: Callable[[], Row]) -> Row:
    process = psutil.Process(broker.pid)
    before = process.cpu_times()
    row = run()
    after = process.cpu_times()
    return {**row, "CPU of the broker": round(after.user + after.system - before.user - before.system, 2)}


def splits(bootstrap: str) -> list[Row]:
    driver, found = Driver(bootstrap), list[Row]()
    for split_bytes in (512 << 20, 16 << 20, 1 << 20, 128 << 10):
        row: Row = {"split bytes": split_bytes, "plan": apart(plan_of_source, bootstrap, _TOPIC, split_bytes)}
        row["Spark's plan"] = driver.planned(_TOPIC, split_bytes)
        found.append(row)
        show(row)
    return found


def in_tasks() -> list[Row]:
    """A count in few tasks and in many: the cost of a task."""
    found: list[Row] = []
    with of_size(1) as (broker, _):
        driver = Driver(broker.bootstrap)
        driver.counted(_TOPIC, 512 << 20)
        for split_bytes in (512 << 20, 8 << 20):
            found.append({"split bytes": split_bytes, "Spark's count": driver.counted(_TOPIC, split_bytes)})
            show(found[-1])
    return found


def many_segments() -> list[Row]:
    tiny = Template(batches(1024, Compression.NONE, _TINY_BYTES))
    found: list[Row] = []
    for segments in (100, 1_000, 10_000):
        with tempfile.TemporaryDirectory(prefix="columns-growth-") as folder:
            directory = Path(folder) / "many-0"
            directory.mkdir()
            fill([directory], segments, tiny, tiny)
            found.append(apart(plan_of_directory, directory))
            show(found[-1])
    return found


def many_partitions() -> list[Row]:
    tiny = Template(batches(1024, Compression.NONE, _TINY_BYTES))
    found: list[Row] = []
    for partitions in (10, 100, 1_000):
        with (
            tempfile.TemporaryDirectory(prefix="columns-growth-") as folder,
            grown(Path(folder), partitions, 1, tiny) as (broker, _),
        ):
            planned = _with_broker(broker, lambda: apart(plan_of_source, broker.bootstrap, _TOPIC, 512 << 20))
            found.append(
                {"partitions": partitions, **planned, "files of the broker": psutil.Process(broker.pid).num_fds()}
            )
            show(found[-1])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gigabytes", type=int, nargs="+", default=[1, 2, 4, 8, 16], help="sizes of the topics")
    parser.add_argument("--most-read", type=int, default=1 << 30, help="the largest size for Spark and Fetch, in GB")
    parser.add_argument("--only", choices=("topics", "tasks", "segments", "partitions"), help="one of the four parts")
    parser.add_argument("--json", type=Path, help="also write the results to this file")
    parser.add_argument("--child", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(options.child[0], options.child[1:])
        return
    parts: dict[str, Callable[[], list[Row]]] = {
        "topics": lambda: topics(sorted(options.gigabytes), options.most_read),
        "tasks": in_tasks,
        "segments": many_segments,
        "partitions": many_partitions,
    }
    found = {name: run() for name, run in parts.items() if options.only in (None, name)}
    if options.json is not None:
        options.json.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
