"""Compares scans with Spark's stock Kafka connector and with Parquet: `python -m benchmarks.columns`.

The topics have records of 100 B, 1 KiB and 10 KiB, plain and lz4, on one broker. Every query sums the lengths of all
values, or a field of JSON, so that no engine leaves a value out. CPU is that of all processes: Python, the JVM, its
workers, the broker, in seconds for a million records, without the start of the engine. Times of one run on a busy machine
differ by a tenth.

- `decoder`: the bytes of segments in memory to Arrow, with and without the CRC, for each codec; on one core.
- `engines`: Spark's connector, `pyspark_odradek.read`, `format("odradek")`, Parquet, and tables of `odradek archive` in
  Spark, scans into DuckDB and Polars, and relations, also of keyed tables, whose tables have nine tenths of the records:
  `--rounds` times each in turn, then the medians. `--rows PATTERN` measures only rows whose names it matches, and
  `--topics TEXT` only topics with the text.
- `writers`: a topic of 100 B to a table with columns: `odradek archive`, a keyed table of it, Spark's connector to Parquet,
  and the Iceberg sink of Kafka Connect (`python -m compat_tests.ecosystem.install iceberg_sink`), in turn.
- `count`: `count()` of a topic of a hundred million records, by batch headers. It writes 3 GB.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from confluent_kafka import Producer
from odradek.archive.relation import relation
from odradek.columns import Scan, ScanDataset, Split, ValueSchema, kernel, layout, scan
from odradek.columns.batch_decoder import BatchDecoder
from odradek.columns.batch_selection import Bounds
from odradek.protocol.records.compression import Compression
from odradek.protocol.records.record import Record, encode_batch

from compat_tests.odradek_process import OdradekProcess
from compat_tests.oracle import SINGLE_NODE

from .columns_segments import Template
from .table_writers import TableWriters, TopicToKeep
from .tree_cpu import TreeCpu

ROOT = Path(__file__).resolve().parents[1]
SIZES = {"100 B": 100, "1 KiB": 1024, "10 KiB": 10_240}
#: Divisors of the number of records of 100 B: topics of 1 KiB and 10 KiB have the same bytes, two and a half times those.
_SHARES = {100: 1, 1024: 4, 10_240: 40}
_BATCH_BYTES = 16_000
_DECODED_BYTES = 64 << 20
_ROUNDS = 3
_COUNTED = 100_000_000
#: The tables of a topic by their namespaces: all records as they are, and with JSON as columns; nine tenths of them, which a
#: relation completes from the log, and the rows of their keys.
_TABLES = {
    "raw": (),
    "typed": ("--value-format", "json", "--value-schema", "infer"),
    "most": (),
    "keyed": ("--key", "key"),
}
_MOST = 0.9
#: Small, so that most records are in closed segments, as those of a large topic are.
_SEGMENT_BYTES = 64 << 20


def order(number: int, size: int) -> bytes:
    """An order of about `size` bytes, which compresses as orders do."""
    rng = random.Random(number)
    if size < 80:
        return b"%020d" % number
    made = {"id": number, "customer": f"c{rng.randrange(5000)}", "amount": rng.randrange(10_000) / 100, "note": ""}
    left = size - len(json.dumps(made))
    made["note"] = "".join(rng.choices("abcdefgh ijklmnop", k=max(left, 0)))
    return json.dumps(made).encode()


def batches(size: int, codec: Compression, bytes_: int) -> bytes:
    """Batches of 16 KB before compression: some different ones, again and again, with the next offsets."""
    per_batch = max(1, _BATCH_BYTES // size)
    different = []
    for first in range(0, 20 * per_batch, per_batch):
        values = [order(number, size) for number in range(first, first + per_batch)]
        records = [Record(n, 1_700_000_000_000, b"key %d" % n, value) for n, value in enumerate(values)]
        different.append(encode_batch(records, compression=codec, leader_epoch=0))
    made: list[bytes] = []
    for number in range(bytes_ // (per_batch * size) + 1):
        # The base offset is not under the CRC.
        made += (struct.pack(">q", number * per_batch), different[number % len(different)][8:])
    return b"".join(made)


def cpu_of(run: Callable[[], Any]) -> float:
    began = time.process_time()
    run()
    return time.process_time() - began


def decoder() -> list[dict[str, Any]]:
    found = []
    for name, size in SIZES.items():
        for codec in Compression:
            data = memoryview(batches(size, codec, _DECODED_BYTES))
            rows = np.empty((len(data) // 61 + 1, layout.HEADER_COLUMNS), np.int64)
            count, _, _ = kernel.walk_headers(np.frombuffer(data, np.uint8), 0, len(data), 0, 0, True, rows)
            rows = rows[:count]
            records, wanted = int(rows[:, layout.COUNT].sum()), np.ones(count, bool)
            row: dict[str, Any] = {"size": name, "codec": codec.name.lower()}
            for checks in (True, False):
                one = BatchDecoder("t", 0, ("offset", "timestamp", "key", "value"), check_crcs=checks)

                def run(
                    one: BatchDecoder = one, data: memoryview = data, rows: Any = rows, wanted: Any = wanted
                ) -> None:
                    for _ in one.decode(data, 0, rows, wanted, Bounds()):
                        pass

                run()
                best = min(cpu_of(run) for _ in range(_ROUNDS))
                row["M/s with CRC" if checks else "M/s"] = round(records / best / 1e6, 2)
            found.append(row)
            show(row)
    return found


# ---- engines


def write(bootstrap: str, topic: str, size: int, count: int, codec: str, first: int = 0) -> None:
    settings = {"bootstrap.servers": bootstrap, "linger.ms": 20, "batch.size": _BATCH_BYTES, "compression.type": codec}
    producer = Producer(settings | {"queue.buffering.max.messages": 2_000_000})
    values = [order(number, size) for number in range(5000)]
    for number in range(first, count):
        producer.produce(topic, values[number % len(values)], b"key %d" % (number % 1000), partition=0)
        if number % 1000 == 0:
            producer.poll(0)
    assert producer.flush(120) == 0


def archived(bootstrap: str, topic: str, warehouse: Path, *namespaces: str) -> None:
    """Keeps a topic as Iceberg tables of the namespaces, with the words of `_TABLES`."""
    for namespace in namespaces:
        where = ["--warehouse", str(warehouse), "--namespace", namespace, *_TABLES[namespace], "--once"]
        command = [sys.executable, "-m", "odradek", "archive", topic, *where, "-b", bootstrap]
        before = os.times()
        subprocess.run(command, check=True, capture_output=True, cwd=warehouse.parent)
        after = os.times()
        seconds = after.children_user + after.children_system - before.children_user - before.children_system
        show({"topic": topic, "archive": namespace, "seconds of CPU": round(seconds, 2)})


def spark_rows(session: Any, bootstrap: str, topic: str, parquet: str, warehouse: Path) -> dict[str, Callable[[], Any]]:
    from pyspark.sql import functions as f

    from pyspark_odradek import read, read_relation

    def connector() -> Any:
        options = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, "startingOffsets": "earliest"}
        return session.read.format("kafka").options(**options, includeHeaders="true").load()

    def everything(frame: Any) -> None:
        frame.write.format("noop").mode("overwrite").save()

    def values(frame: Any) -> Any:
        return frame.agg(f.sum(f.length("value")), f.max("offset")).collect()

    fields = "id bigint, customer string, amount double"

    def decoded(frame: Any) -> Any:
        parsed = frame.select(f.from_json(f.col("value").cast("string"), fields).alias("o"))
        return parsed.agg(f.sum("o.amount"), f.max("o.customer"), f.max("o.id")).collect()

    given = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, "includeHeaders": "true"}

    def source(schema: str, **options: str) -> Any:
        return session.read.format("odradek").schema(schema).options(**given, **options).load()

    def frame(schema: Any = None, **options: str) -> Any:
        return read(session, schema, **given, **options)

    def summed(frame: Any) -> Any:
        return frame.agg(f.sum("value.amount"), f.max("value.customer"), f.max("value.id")).collect()

    def table(namespace: str) -> Any:
        return session.table(f"odradek.{namespace}.{topic.replace('-', '_')}")

    def related(namespace: str) -> Any:
        made = relation(topic, bootstrap_servers=bootstrap, warehouse=warehouse, namespace=namespace)
        return read_relation(session, made, ["value", "offset"])

    all_columns = connector().schema
    return {
        "read, 8 columns": lambda: everything(frame()),
        "read, value and offset": lambda: values(frame(["value", "offset"])),
        "read, JSON": lambda: summed(frame(f"value struct<{fields}>", valueFormat="json")),
        "format odradek, 8 columns": lambda: everything(source(all_columns)),
        "format odradek, value and offset": lambda: values(source("value binary, offset bigint")),
        "format odradek, JSON": lambda: summed(source(f"value struct<{fields}>", valueFormat="json")),
        "format odradek, from_json": lambda: decoded(source("value binary")),
        "connector, 8 columns": lambda: everything(connector()),
        "connector, value and offset": lambda: values(connector()),
        "connector, JSON": lambda: decoded(connector()),
        "Parquet in Spark, 8 columns": lambda: everything(session.read.parquet(parquet)),
        "Parquet in Spark, value and offset": lambda: values(session.read.parquet(parquet)),
        "Parquet in Spark, JSON": lambda: decoded(session.read.parquet(parquet)),
        "table in Spark, all columns": lambda: everything(table("raw")),
        "table in Spark, value and offset": lambda: values(table("raw")),
        "table in Spark, JSON": lambda: summed(table("typed")),
        "relation in Spark, value and offset": lambda: values(related("most")),
        "keyed table in Spark: value and offset": lambda: values(table("keyed")),
        "keyed relation in Spark: value and offset": lambda: values(related("keyed")),
    }


def fetched(topic: str, bootstrap: str) -> Scan:
    """All records of a topic through its brokers, which are on another machine, say."""
    found = scan(topic, bootstrap_servers=bootstrap)
    client = {"bootstrap.servers": bootstrap}
    partitions = [
        replace(one, splits=(Split(topic, one.partition, one.start, one.end, client=client),))
        for one in found.plan.partitions
    ]
    return found.with_plan(replace(found.plan, partitions=tuple(partitions)))


def scan_rows(path: Path, bootstrap: str, topic: str, warehouse: Path) -> dict[str, Callable[[], Any]]:
    import duckdb
    import polars
    import pyarrow as pa

    schema = pa.schema([("id", pa.int64()), ("customer", pa.string()), ("amount", pa.float64())])

    def into_duckdb(found: Any, sql: str) -> Any:
        database = duckdb.connect(config={"threads": 1})
        database.register("t", found)
        return database.execute(sql).fetchall()

    def related(namespace: str) -> Any:
        return relation(topic, bootstrap_servers=bootstrap, warehouse=warehouse, namespace=namespace)

    def read_all() -> None:
        for _ in scan(path):
            pass

    values = 'select sum(octet_length(value)), max("offset") from t'
    fields = "select sum(value.amount), max(value.customer), max(value.id) from t"
    return {
        "scan, 8 columns": read_all,
        "scan into DuckDB, value and offset": lambda: into_duckdb(ScanDataset(scan(path)), values),
        "scan into Polars, value and offset": lambda: polars.DataFrame(scan(path, columns=["value", "offset"])).select(
            polars.col("value").bin.size().sum(), polars.col("offset").max()
        ),
        "scan into DuckDB, JSON": lambda: into_duckdb(
            ScanDataset(scan(path, values=ValueSchema("json", schema))), fields
        ),
        "relation into DuckDB, value and offset": lambda: into_duckdb(related("most"), values),
        "keyed relation into DuckDB: value and offset": lambda: into_duckdb(related("keyed"), values),
        "Fetch into DuckDB, value and offset": lambda: into_duckdb(ScanDataset(fetched(topic, bootstrap)), values),
    }


def in_turn(runs: dict[str, Callable[[], Any]], rounds: int, records: int, cpu: Callable[[], float]) -> dict[str, Any]:
    """Medians of the seconds of CPU for a million records. A round has each run once, after one that does not count."""
    for run in runs.values():
        run()
    seconds: dict[str, list[float]] = {what: [] for what in runs}
    for number in range(rounds):
        for what, run in runs.items():
            before = cpu()
            run()
            seconds[what].append((cpu() - before) / records * 1e6)
        show({"round": number + 1} | {what: round(found[-1], 3) for what, found in seconds.items()})
    return {what: round(statistics.median(found), 3) for what, found in seconds.items()}


def times_of_connector(medians: dict[str, Any]) -> dict[str, float]:
    """How much more CPU the connector takes for a query than each other way to the same rows."""
    found = {}
    for what, seconds in medians.items():
        way, _, query = what.partition(", ")
        connector = medians.get(f"connector, {query}")
        if way != "connector" and connector is not None and seconds:
            found[f"connector / {what}"] = round(connector / seconds, 2)
    return found


def engines(count: int, topics: str = "", rows: str = "", rounds: int = _ROUNDS) -> list[dict[str, Any]]:
    sys.path.insert(0, str(ROOT / "spark_examples"))
    os.environ["PYTHONPATH"] = str(ROOT)  # where Spark finds `pyspark_odradek`, also beside an editable installation
    from session import spark_session

    found = []
    with tempfile.TemporaryDirectory() as folder:
        broker = OdradekProcess(Path(folder), SINGLE_NODE | {"log.segment.bytes": str(_SEGMENT_BYTES)})
        broker.start()
        try:
            warehouse = Path(folder) / "tables"
            session = spark_session("benchmarks.columns", warehouse)
            session.sparkContext.setLogLevel("OFF")
            cpu = TreeCpu(psutil.Process(), psutil.Process(broker.process.pid))
            for name, size in SIZES.items():
                for codec in (one for one in ("none", "lz4") if topics in f"{name} {one}"):
                    topic = f"t{size}-{codec}"
                    records = count // _SHARES[size]
                    parquet = f"{folder}/{topic}.parquet"
                    runs = spark_rows(session, broker.bootstrap, topic, parquet, warehouse)
                    runs |= scan_rows(broker.data_dir / topic, broker.bootstrap, topic, warehouse)
                    runs = {what: run for what, run in runs.items() if re.search(rows, what)}
                    most = int(records * _MOST)
                    write(broker.bootstrap, topic, size, most, codec)
                    if any("relation" in what or "keyed" in what for what in runs):
                        archived(broker.bootstrap, topic, warehouse, "most", "keyed")
                    write(broker.bootstrap, topic, size, records, codec, most)
                    if any("Parquet" in what for what in runs):
                        whole = session.read.format("kafka").option("kafka.bootstrap.servers", broker.bootstrap)
                        whole.option("subscribe", topic).option("startingOffsets", "earliest").load().write.parquet(
                            parquet
                        )
                    if any(what.startswith("table") for what in runs):
                        archived(broker.bootstrap, topic, warehouse, "raw", "typed")
                    medians = in_turn(runs, rounds, records, cpu)
                    row = {"topic": f"{name} {codec}"} | medians | times_of_connector(medians)
                    found.append(row)
                    show(row)
            cpu.close()
            session.stop()
        finally:
            broker.kill()
    return found


# ---- writers


def writers(count: int, rounds: int) -> dict[str, Any]:
    sys.path.insert(0, str(ROOT / "spark_examples"))
    from session import spark_session

    with tempfile.TemporaryDirectory() as folder:
        broker = OdradekProcess(Path(folder) / "broker", SINGLE_NODE | {"log.segment.bytes": str(_SEGMENT_BYTES)})
        with broker:
            write(broker.bootstrap, "written", 100, count, "none")
            session = spark_session("benchmarks.columns")
            session.sparkContext.setLogLevel("OFF")
            try:
                topic = TopicToKeep(broker.bootstrap, broker.pid, "written", count)
                with TableWriters(topic, session, Path(folder)) as made:
                    medians = in_turn(made.runs(), rounds, count, made.cpu)
            finally:
                session.stop()
    row = {"topic": "100 B none"} | medians
    show(row)
    return row


# ---- count


def count_of_headers() -> dict[str, Any]:
    """Counts a topic whose segments are one segment with other offsets."""
    with tempfile.TemporaryDirectory() as folder:
        directory = Path(folder) / "counted-0"
        directory.mkdir()
        template, base = Template(batches(20, Compression.NONE, 640 << 20)), 0
        while base < _COUNTED:
            base = template.write(directory, base)
        began, cpu = time.perf_counter(), time.process_time()
        counted = scan(directory.parent / "counted").count()
        assert counted == base
        row = {
            "records": counted,
            "GB": round(sum(file.stat().st_size for file in directory.iterdir()) / 1e9, 2),
            "seconds": round(time.perf_counter() - began, 2),
            "CPU": round(time.process_time() - cpu, 2),
        }
        show(row)
        return row


def show(row: dict[str, Any]) -> None:
    print(json.dumps(row), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=("decoder", "engines", "writers", "count"), help="one of the parts")
    parser.add_argument(
        "--records", type=int, default=1_000_000, help="records of 100 B; a quarter of 1 KiB, a fortieth of 10 KiB"
    )
    parser.add_argument("--json", type=Path, help="also write the results to this file")
    parser.add_argument("--topics", default="", help="text in the names of the topics of `engines`")
    parser.add_argument("--rounds", type=int, default=_ROUNDS, help="rounds of `engines`")
    parser.add_argument("--rows", default="", help="regular expression of rows of `engines`")
    options = parser.parse_args()
    parts: dict[str, Callable[[], Any]] = {
        "decoder": decoder,
        "engines": lambda: engines(options.records, options.topics, options.rows, options.rounds),
        "writers": lambda: writers(options.records, options.rounds),
        "count": count_of_headers,
    }
    found = {name: run() for name, run in parts.items() if options.only in (None, name)}
    if options.json is not None:
        options.json.write_text(json.dumps({"cores": os.cpu_count(), **found}, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
