"""`odradek bench`: the throughput and latency of a cluster, in rounds, and beside another cluster."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable, Iterator
from typing import Annotated

import typer

from ..admin import topic_changes
from ..admin.connection import Connection, connection_of
from ..admin.errors import check
from ..admin.rates import median_of, ratio_of
from ..client.user_errors import Misused
from .bench import Bench, Load
from .client.options import client_command, new_app
from .output import Output, Table
from .progress import Progress

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

Run = Callable[[Bench], dict[str, float]]


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
    _show(output, [one.bootstrap for one in clusters], [median_of(results) for results in found])


@contextlib.contextmanager
def _topic(connection: Connection, partitions: int, replication_factor: int) -> Iterator[str]:
    """A topic for the run, deleted at its end."""
    name = f"odradek-bench-{uuid.uuid4()}"
    with connection.admin() as admin:
        for made in topic_changes.create_topics(admin, {name: topic_changes.NewTopic(partitions, replication_factor)}):
            check(f"topic {name}", made.error_code, made.error_message)
        topic_changes.wait_for_topics(admin, [name])
        try:
            yield name
        finally:
            topic_changes.delete_topics(admin, [name])


def _show(output: Output, names: list[str], results: list[dict[str, float]]) -> None:
    data: list[dict[str, object]] = [{"cluster": name, **one} for name, one in zip(names, results, strict=True)]
    if len(data) > 1:
        ratio = {key: ratio_of(results[0][key], results[1][key]) for key in results[0]}
        data.append({"cluster": "ratio", **ratio})
    columns = [key.upper().replace("_", " ") for key in data[0]]
    output.show(data, Table("", columns, [list(one.values()) for one in data]))
