"""`odradek bench`: measurements of a cluster, and the commands that run them.

- `Bench`: runs, one measurement each, by confluent-kafka, against one cluster.
- `produce`, `consume`, `latency`: the commands.
"""

from __future__ import annotations

import contextlib
import os
import statistics
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated

import typer

from .client.connection import Connection, connection_of
from .client.errors import UNREACHABLE, CommandError, Misused, status_of_code
from .client.options import Output, client_command, new_app
from .output import Progress, Table

if TYPE_CHECKING:
    from confluent_kafka import Consumer, KafkaError, Message, Producer


_BATCH = 10_000
_WAIT_S = 0.05


# ---- runs


@dataclass(slots=True)
class Load:
    """`count` records of `size` bytes each; a run ends after `seconds` at the latest."""

    count: int
    size: int
    seconds: float
    settings: dict[str, str | int] = field(default_factory=dict)
    rate: float = 100.0


class Bench:
    """Measurements against one cluster, in a topic that exists."""

    def __init__(self, connection: Connection, topic: str) -> None:
        self.connection = connection
        self.topic = topic

    def produce(self, load: Load) -> dict[str, float]:
        """Records and bytes a second until all are acknowledged."""
        from confluent_kafka import Producer

        failed: list[KafkaError] = []
        settings = {"linger.ms": 5, "queue.buffering.max.messages": 1_000_000, "delivery.report.only.error": True}
        producer = Producer(settings | load.settings | self.connection.librdkafka() | {"on_delivery": _collect(failed)})
        value = os.urandom(load.size)
        producer.list_topics(self.topic, timeout=self.connection.timeout_s)  # connected before the clock runs
        began = time.perf_counter()
        sent = 0
        while sent < load.count and time.perf_counter() - began < load.seconds:
            for _ in range(min(1000, load.count - sent)):
                self._produce(producer, value)
                sent += 1
            producer.poll(0)
        left = producer.flush(self.connection.timeout_s)
        seconds = time.perf_counter() - began
        if failed or left:
            words = failed[0].str() if failed else f"{left} records were not acknowledged"
            raise CommandError(f"bench produce: {words}", status_of_code(failed[0].code()) if failed else UNREACHABLE)
        return _rates(sent, load.size, seconds)

    def _produce(self, producer: Producer, value: bytes) -> None:
        while True:
            try:
                producer.produce(self.topic, value)
                return
            except BufferError:
                producer.poll(0.05)

    def consume(self, load: Load) -> dict[str, float]:
        """Records and bytes a second, from the first record on."""
        from confluent_kafka import OFFSET_BEGINNING, TopicPartition

        consumer = self._consumer({"fetch.queue.backoff.ms": 5})
        try:
            described = consumer.list_topics(self.topic, timeout=self.connection.timeout_s).topics[self.topic]
            began = time.perf_counter()
            consumer.assign([TopicPartition(self.topic, one, OFFSET_BEGINNING) for one in described.partitions])
            read = size = ended = 0
            while (
                read < load.count and ended < len(described.partitions) and time.perf_counter() - began < load.seconds
            ):
                for message in consumer.consume(_BATCH, _WAIT_S):
                    if message.error() is None:
                        read += 1
                        size += len(message.value() or b"")
                    else:
                        ended += 1
            seconds = time.perf_counter() - began
        finally:
            consumer.close()
        if not read:
            raise CommandError(f"bench consume: {self.topic} has no records that can be read")
        return _rates(read, size / read, seconds)

    def _consumer(self, settings: dict[str, object]) -> Consumer:
        from confluent_kafka import Consumer

        own = {"group.id": "odradek-bench", "enable.auto.commit": False, "enable.partition.eof": True}
        return Consumer(own | settings | self.connection.librdkafka())

    def latency(self, load: Load) -> dict[str, float]:
        """Times in ms from sending to the acknowledgement, and to the arrival at a consumer, at `rate` records a second."""
        from confluent_kafka import OFFSET_END, Producer, TopicPartition

        consumer = self._consumer({"fetch.wait.max.ms": 500})
        producer = Producer({"linger.ms": 0} | load.settings | self.connection.librdkafka())
        acknowledged: list[float] = []
        arrived: list[float] = []
        try:
            consumer.assign([TopicPartition(self.topic, 0, OFFSET_END)])
            deadline = time.perf_counter() + self.connection.timeout_s
            while (first := consumer.poll(0.1)) is None or first.error() is None:  # the end: the position is known
                if time.perf_counter() > deadline:
                    raise CommandError("bench latency: the consumer got no response", UNREACHABLE)
            began = time.perf_counter()
            for number in range(load.count):
                due = began + number / load.rate
                while (left := due - time.perf_counter()) > 0:
                    producer.poll(min(left, 0.001))
                self._ping(producer, consumer, load.size, acknowledged, arrived)
                if time.perf_counter() - began > load.seconds:
                    break
        finally:
            consumer.close()
        return {
            "records": len(arrived),
            **_percentiles("ack_ms", acknowledged),
            **_percentiles("end_to_end_ms", arrived),
        }

    def _ping(
        self, producer: Producer, consumer: Consumer, size: int, acknowledged: list[float], arrived: list[float]
    ) -> None:
        sent = time.perf_counter()
        done: list[float] = []

        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                raise CommandError(f"bench latency: {error.str()}", status_of_code(error.code()))
            done.append(time.perf_counter())

        producer.produce(self.topic, os.urandom(size), partition=0, on_delivery=delivered)
        came = None
        deadline = sent + self.connection.timeout_s
        while not done or came is None:
            producer.poll(0)
            message = consumer.poll(0.0005)
            if message is not None and message.error() is None:
                came = time.perf_counter()
            if time.perf_counter() > deadline:
                raise CommandError("bench latency: a record did not arrive", UNREACHABLE)
        acknowledged.append((done[0] - sent) * 1000)
        arrived.append((came - sent) * 1000)


def _collect(failed: list[KafkaError]) -> Callable[[KafkaError | None, Message], None]:
    def delivered(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            failed.append(error)

    return delivered


def _rates(count: int, size: float, seconds: float) -> dict[str, float]:
    seconds = max(seconds, 1e-9)
    return {
        "records": count,
        "seconds": round(seconds, 3),
        "records_per_s": round(count / seconds),
        "mb_per_s": round(count * size / seconds / 1e6, 2),
    }


def _percentiles(name: str, times: list[float]) -> dict[str, float]:
    ordered = sorted(times)

    def at(part: float) -> float:
        return round(ordered[min(len(ordered) - 1, int(part * len(ordered)))], 3)

    return {f"{name}_p50": at(0.5), f"{name}_p99": at(0.99), f"{name}_max": at(1.0)}


# ---- commands

app = new_app("Measure the throughput and latency of a cluster, and compare them with another cluster.")

Count = Annotated[int, typer.Option("--count", "-c", metavar="N", help="records per round")]
Size = Annotated[int, typer.Option("--size", metavar="BYTES", help="size of a record")]
Seconds = Annotated[float, typer.Option("--seconds", help="longest duration of a round")]
Rounds = Annotated[int, typer.Option("--rounds", help="rounds per cluster; the result is the median")]
Partitions = Annotated[int, typer.Option("--partitions", "-p", help="partitions of the topic")]
Replicas = Annotated[
    int, typer.Option("--replication-factor", "-r", help="replicas of each partition; -1: the broker's default")
]
Against = Annotated[str | None, typer.Option("--against", metavar="HOST:PORT", help="a second cluster to compare with")]
Acks = Annotated[str, typer.Option("--acks", help="acks of the producer: all, 1 or 0")]
Compression = Annotated[
    str, typer.Option("--compression", "-z", help="compression type: none, gzip, snappy, lz4 or zstd")
]


@app.command()
@client_command
def produce(
    connection: Connection,
    output: Output,
    count: Count = 500_000,
    size: Size = 100,
    seconds: Seconds = 30.0,
    rounds: Rounds = 3,
    partitions: Partitions = 1,
    replication_factor: Replicas = -1,
    against: Against = None,
    acks: Acks = "all",
    compression: Compression = "none",
) -> None:
    """Measure records and bytes per second that are acknowledged."""
    load = _load(count, size, seconds, rounds, acks, compression)
    _measure(connection, against, output, rounds, (partitions, replication_factor), lambda bench: bench.produce(load))


@app.command()
@client_command
def consume(
    connection: Connection,
    output: Output,
    count: Count = 500_000,
    size: Size = 100,
    seconds: Seconds = 30.0,
    rounds: Rounds = 3,
    partitions: Partitions = 1,
    replication_factor: Replicas = -1,
    against: Against = None,
) -> None:
    """Measure records and bytes per second that a consumer reads. The command writes the records first."""
    load = _load(count, size, seconds, rounds, "all", "none")
    _measure(
        connection,
        against,
        output,
        rounds,
        (partitions, replication_factor),
        lambda bench: bench.consume(load),
        before=lambda bench: bench.produce(load),
    )


@app.command()
@client_command
def latency(
    connection: Connection,
    output: Output,
    count: Count = 300,
    size: Size = 100,
    rate: Annotated[float, typer.Option("--rate", metavar="N", help="records per second")] = 100.0,
    seconds: Seconds = 30.0,
    rounds: Rounds = 3,
    replication_factor: Replicas = -1,
    against: Against = None,
    acks: Acks = "all",
) -> None:
    """Measure the time until a record is acknowledged, and until a consumer receives it."""
    load = _load(count, size, seconds, rounds, acks, "none")
    if rate <= 0:
        raise Misused("--rate must be more than 0")
    load.rate = rate
    _measure(connection, against, output, rounds, (1, replication_factor), lambda bench: bench.latency(load))


def _load(count: int, size: int, seconds: float, rounds: int, acks: str, compression: str) -> Load:
    for option, number in (("--count", count), ("--size", size), ("--seconds", seconds), ("--rounds", rounds)):
        if number <= 0:
            raise Misused(f"{option} must be more than 0")
    if acks not in ("all", "-1", "0", "1") or compression not in ("none", "gzip", "snappy", "lz4", "zstd"):
        raise Misused("--acks must be all, 1 or 0; --compression must be none, gzip, snappy, lz4 or zstd")
    return Load(count, size, seconds, {"acks": acks, "compression.type": compression})


Run = Callable[[Bench], dict[str, float]]


def _measure(
    connection: Connection,
    against: str | None,
    output: Output,
    rounds: int,
    shape: tuple[int, int],
    run: Run,
    before: Run | None = None,
) -> None:
    """Rounds in turns, so that whatever else the machine does meets both clusters alike."""
    clusters = [connection] + ([connection_of(against, None, None, [], connection.timeout_s)] if against else [])
    found: list[list[dict[str, float]]] = [[] for _ in clusters]
    with contextlib.ExitStack() as topics, Progress("rounds", rounds * len(clusters)) as progress:
        benches = [Bench(one, topics.enter_context(_topic(one, *shape))) for one in clusters]
        for bench in benches if before is not None else ():
            assert before is not None
            before(bench)
        for _ in range(rounds):
            for results, bench in zip(found, benches, strict=True):
                results.append(run(bench))
                progress.advance()
    _show(output, [one.bootstrap for one in clusters], [_median(results) for results in found])


@contextlib.contextmanager
def _topic(connection: Connection, partitions: int, replication_factor: int) -> Iterator[str]:
    """A topic for the run, deleted at its end."""
    name = f"odradek-bench-{uuid.uuid4()}"
    with connection.admin() as admin:
        admin.create_topics({name: {"num_partitions": partitions, "replication_factor": replication_factor}})
        admin.wait_for_topics([name])
        try:
            yield name
        finally:
            admin.delete_topics([name])


def _median(results: list[dict[str, float]]) -> dict[str, float]:
    return {key: statistics.median(one[key] for one in results) for key in results[0]}


def _show(output: Output, names: list[str], results: list[dict[str, float]]) -> None:
    data: list[dict[str, object]] = [{"cluster": name, **one} for name, one in zip(names, results, strict=True)]
    if len(data) > 1:
        ratio = {key: _ratio(results[0][key], results[1][key]) for key in results[0]}
        data.append({"cluster": "ratio", **ratio})
    columns = [key.upper().replace("_", " ") for key in data[0]]
    output.show(data, Table("", columns, [list(one.values()) for one in data]))


def _ratio(ours: float, theirs: float) -> float | None:
    return round(ours / theirs, 3) if theirs else None
