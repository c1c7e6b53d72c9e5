"""The rows of the comparison, as data: their loads and figures.

A figure is a ratio Odradek / Apache Kafka; `target` is the project's bound for it, and `higher` tells whether more is
better.
"""

from __future__ import annotations

from collections.abc import Iterator

from . import loads
from .loads import Load
from .reporting.kinds import CPU_PER_GB, CPU_PER_REQUEST, LATENCY_P50, LATENCY_P99, THROUGHPUT, Row
from .share_rows import share_rows
from .transaction_rows import transaction_rows

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
KIB = 1024


def produce_rows(scale: float) -> Iterator[Row]:
    for size, records in ((KIB, int(400_000 * scale)), (100, int(2_000_000 * scale))):
        for acks in ("1", "all"):
            for codec in CODECS:
                yield java_produce_row(size, records, acks, codec)
    for size, records in ((KIB, int(400_000 * scale)), (100, int(1_000_000 * scale))):
        for acks in ("1", "all"):
            yield rdkafka_produce_row(size, records, acks)


def java_produce_row(size: int, records: int, acks: str, codec: str) -> Row:
    def run(bootstrap: str, topic: str) -> Load:
        return loads.java_produce(bootstrap, topic, records, size, acks=acks, compression_type=codec)

    return Row(f"produce {label(size)} acks={acks} {codec}", "Java", run, (THROUGHPUT, CPU_PER_GB))


def rdkafka_produce_row(size: int, records: int, acks: str) -> Row:
    def run(bootstrap: str, topic: str) -> Load:
        return loads.rdkafka(bootstrap, topic, "produce", records, size, acks=acks, linger_ms="5")

    return Row(f"produce {label(size)} acks={acks} none", "librdkafka", run, (THROUGHPUT, CPU_PER_GB))


def unbatched_rows(scale: float) -> Iterator[Row]:
    records = int(60_000 * scale)

    def by_java(bootstrap: str, topic: str) -> Load:
        return loads.java_produce(bootstrap, topic, records, 100, acks="1", batch_size="0", linger_ms="0")

    def by_rdkafka(bootstrap: str, topic: str) -> Load:
        return loads.rdkafka(bootstrap, topic, "produce", records, 100, acks="1", batch_num_messages="1", linger_ms="0")

    yield Row("produce 100 B unbatched", "Java", by_java, (THROUGHPUT, CPU_PER_REQUEST, LATENCY_P50, LATENCY_P99))
    yield Row("produce 100 B unbatched", "librdkafka", by_rdkafka, (THROUGHPUT, CPU_PER_REQUEST))


def consume_rows(scale: float) -> Iterator[Row]:
    for size, records in ((KIB, int(800_000 * scale)), (100, int(3_000_000 * scale))):
        yield from consume_row_pair(size, records)


def consume_row_pair(size: int, records: int) -> Iterator[Row]:
    def fill(bootstrap: str, topic: str) -> Load:
        return loads.java_produce(bootstrap, topic, records, size, acks="1")

    def by_java(bootstrap: str, topic: str) -> Load:
        return loads.java_consume(bootstrap, topic, records, size)

    def by_rdkafka(bootstrap: str, topic: str) -> Load:
        return loads.rdkafka(bootstrap, topic, "consume", records, size)

    name = f"consume {label(size)} from the start"
    yield Row(name, "Java", by_java, (THROUGHPUT, CPU_PER_GB), feeds=fill)
    yield Row(name, "librdkafka", by_rdkafka, (THROUGHPUT, CPU_PER_GB), feeds=fill)


def latency_rows(scale: float) -> Iterator[Row]:
    records = int(5_000 * scale)

    def by_java(bootstrap: str, topic: str) -> Load:
        return loads.java_end_to_end(bootstrap, topic, records, 100, "1")

    def by_rdkafka(bootstrap: str, topic: str) -> Load:
        return loads.rdkafka(bootstrap, topic, "tail", records, 100)

    joins = max(5, int(20 * scale))

    def joins_by_java(bootstrap: str, topic: str) -> Load:
        return loads.java_joins(bootstrap, topic, 2 * joins, 100)

    def joins_by_rdkafka(bootstrap: str, topic: str) -> Load:
        return loads.rdkafka(bootstrap, topic, "join", joins, 100)

    def one(bootstrap: str, topic: str) -> Load:
        return loads.rdkafka(bootstrap, topic, "produce", 100, 100)

    both = (LATENCY_P50, LATENCY_P99)
    yield Row("end to end, one at a time", "Java", by_java, both)
    yield Row("end to end, at the tail", "librdkafka", by_rdkafka, (*both, CPU_PER_REQUEST))
    yield Row("group join to first record", "Java", joins_by_java, (LATENCY_P50,), feeds=one)
    yield Row("group join to first record", "librdkafka", joins_by_rdkafka, (LATENCY_P50,), feeds=one)


def all_rows(scale: float) -> list[Row]:
    data = [*produce_rows(scale), *unbatched_rows(scale), *consume_rows(scale), *latency_rows(scale)]
    return [*data, *transaction_rows(scale), *share_rows(scale)]


def label(size: int) -> str:
    return f"{size // KIB} KiB" if size % KIB == 0 else f"{size} B"
