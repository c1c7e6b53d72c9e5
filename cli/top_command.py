"""`odradek top`: live figures of a cluster."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Annotated

import typer

from ..admin.connection import Connection
from ..client.user_errors import Misused
from .client.options import client_command, new_app
from .output import Output, Table
from .sampler import Sample, Sampler

if TYPE_CHECKING:
    from rich.console import Group


app = new_app("Show live metrics of a cluster.")


@app.command()
@client_command
def top(
    connection: Connection,
    output: Output,
    interval: Annotated[float, typer.Option("--interval", "-n", metavar="SECONDS", help="time between samples")] = 2.0,
    iterations: Annotated[
        int | None, typer.Option("--iterations", "-i", metavar="N", help="stop after N samples")
    ] = None,
    most: Annotated[int, typer.Option("--rows", help="most rows of each table")] = 15,
    metrics: Annotated[
        str | None,
        typer.Option("--metrics", metavar="URL", help="URL of a node's /metrics; shows its slowest requests"),
    ] = None,
) -> None:
    """Show throughput by topic, lag by group, state of replicas and slow requests, until Ctrl-C."""
    if interval <= 0 or most < 1 or (iterations is not None and iterations < 1):
        raise Misused("--interval, --rows and --iterations must be more than 0")
    with connection.admin() as admin:
        sampler = Sampler(admin, metrics)
        if output.form == "table" and sys.stdout.isatty():
            _live(sampler, interval, iterations, most)
        else:
            _lines(sampler, output, interval, iterations, most)


def _lines(sampler: Sampler, output: Output, interval: float, iterations: int | None, most: int) -> None:
    """One object or some tables for each sample, for programs and pipes."""
    number = 0
    while True:
        found = sampler.sample()
        tables = _tables(found, most)
        output.show([found], tables[-1], *tables[:-1])
        sys.stdout.flush()
        number += 1
        if iterations is not None and number >= iterations:
            return
        time.sleep(interval)


def _live(sampler: Sampler, interval: float, iterations: int | None, most: int) -> None:
    from rich.live import Live

    number = 0
    with Live(screen=True, auto_refresh=False) as live:
        while iterations is None or number < iterations:
            live.update(_rendered(sampler.sample(), most), refresh=True)
            number += 1
            time.sleep(interval)


def _rendered(sample: Sample, most: int) -> Group:
    from rich.console import Group

    from .output import rich_table

    return Group(*(rich_table(table) for table in _tables(sample, most)))


def _tables(sample: Sample, most: int) -> list[Table]:
    about = ("time", "brokers", "under_replicated", "without_leader")
    made = [
        Table("Cluster", [_head(key) for key in about], [[sample[key] for key in about]]),
        _table("Groups", sample["groups"], ("group", "state", "lag"), most),
        _table("Requests", sample["requests"], ("request", "count", "mean_ms"), most),
        _table("Topics", sample["topics"], ("topic", "records_per_s", "bytes_per_s", "bytes", "partitions"), most),
    ]
    return [table for table in made if table.rows or table.title == "Topics"]


def _table(title: str, rows: list[Sample], keys: tuple[str, ...], most: int) -> Table:
    return Table(title, [_head(key) for key in keys], [[row[key] for key in keys] for row in rows[:most]])


def _head(key: str) -> str:
    return key.upper().replace("_PER_S", "/S").replace("_", " ")
