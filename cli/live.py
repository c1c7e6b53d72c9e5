"""`odradek top`: its figures and its command.

- `Sampler`: records a second by topic, lag of groups, state of replicas, slow requests.
- `top`: the command.
"""

from __future__ import annotations

import re
import sys
import time
import urllib.request
from collections import defaultdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .client.admin import LATEST, described_topics, partition_offsets, replica_sizes
from .client.connection import Connection
from .client.errors import UNREACHABLE, CommandError, Misused
from .client.options import Output, client_command, new_app
from .groups.offsets import lags, total_of
from .output import Table

if TYPE_CHECKING:
    from rich.console import Group

    from .client.admin import AdminClient, Topic


# ---- figures

Sample = dict[str, Any]
#: Limit of a /metrics page.
_MOST_METRICS_BYTES = 32 << 20
_REQUEST_TIME = re.compile(r'^kafka_network_requestmetrics_totaltimems_(sum|count)\{request="(\w+)"[^}]*\}\s+(\S+)')


class Sampler:
    """Each `sample` compares with the one before it; rates of the first are None."""

    def __init__(self, admin: AdminClient, metrics: str | None) -> None:
        if metrics is not None and not metrics.startswith(("http://", "https://")):
            raise Misused("--metrics needs the http:// URL of a node's /metrics")
        self._admin = admin
        self._metrics = metrics
        self._ends: dict[tuple[str, int], int] = {}
        self._sizes: dict[str, int] = {}
        self._requests: dict[str, tuple[float, float]] = {}
        self._at: float | None = None

    def sample(self) -> Sample:
        self._admin.forget_places()
        topics = described_topics(self._admin, None)
        visible = [topic for topic in topics if not topic["is_internal"]]
        ends = partition_offsets(self._admin, visible, LATEST)
        now = time.monotonic()
        elapsed = None if self._at is None else now - self._at
        made = {
            "time": time.strftime("%H:%M:%S"),
            "brokers": sum(not one.get("is_fenced") for one in self._admin.describe_cluster()["brokers"]),
            "under_replicated": sum(
                len(one["isr_nodes"]) < len(one["replica_nodes"]) for topic in topics for one in topic["partitions"]
            ),
            "without_leader": sum(one["leader_id"] < 0 for topic in topics for one in topic["partitions"]),
            "topics": self._topics(visible, ends, elapsed),
            "groups": self._groups(),
            "requests": self._slow_requests(),
        }
        self._ends, self._at = ends, now
        return made

    def _topics(self, topics: list[Topic], ends: dict[tuple[str, int], int], elapsed: float | None) -> list[Sample]:
        sizes: dict[str, int] = defaultdict(int)
        for (name, _), size in replica_sizes(self._admin).items():
            sizes[name] += size
        grown: dict[str, int] = defaultdict(int)
        for place, end in ends.items():
            grown[place[0]] += max(0, end - self._ends.get(place, end))
        found = []
        for topic in topics:
            name = topic["name"]
            bytes_grown = max(0, sizes[name] - self._sizes.get(name, sizes[name]))
            found.append(
                {
                    "topic": name,
                    "records_per_s": round(grown[name] / elapsed, 1) if elapsed else None,
                    "bytes_per_s": round(bytes_grown / elapsed) if elapsed else None,
                    "bytes": sizes[name],
                    "partitions": len(topic["partitions"]),
                }
            )
        self._sizes = dict(sizes)
        return sorted(found, key=lambda one: (-(one["records_per_s"] or 0), one["topic"]))

    def _groups(self) -> list[Sample]:
        listed = {one["group_id"]: one for one in self._admin.list_groups()}
        kinds = {name: str(one.get("group_type") or "classic").lower() for name, one in listed.items()}
        found = [
            {"group": group, "state": listed[group].get("group_state"), "lag": total_of(behind).lag}
            for group, behind in lags(self._admin, kinds).items()
        ]
        return sorted(found, key=lambda one: (-one["lag"], one["group"]))

    def _slow_requests(self) -> list[Sample]:
        """Mean times by kind of request since the last sample, from one Odradek node's /metrics; the slowest first. A node
        measures one request in 64.
        """
        if self._metrics is None:
            return []
        try:
            with urllib.request.urlopen(self._metrics, timeout=5) as response:
                text = response.read(_MOST_METRICS_BYTES).decode(errors="replace")
        except (OSError, ValueError) as error:
            raise CommandError(f"no response from {self._metrics}: {error}", UNREACHABLE) from None
        now = request_times(text)
        found = []
        for name, (total_ms, count) in now.items():
            before = self._requests.get(name, (0.0, 0.0))
            if count > before[1]:
                mean_ms = round((total_ms - before[0]) / (count - before[1]), 3)
                found.append({"request": name, "count": int(count - before[1]), "mean_ms": mean_ms})
        self._requests = now
        return sorted(found, key=lambda one: -one["mean_ms"])


def request_times(text: str) -> dict[str, tuple[float, float]]:
    """Sums of milliseconds and counts by kind of request, of an Odradek node's page."""
    sums: dict[str, list[float]] = {}
    for line in text.splitlines():
        matched = _REQUEST_TIME.match(line)
        if matched is not None:
            sums.setdefault(matched[2], [0.0, 0.0])[matched[1] == "count"] = float(matched[3])
    return {name: (kept[0], kept[1]) for name, kept in sums.items()}


# ---- command

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


def _rendered(found: Sample, most: int) -> Group:
    from rich.console import Group

    from .output import rich_table

    return Group(*(rich_table(table) for table in _tables(found, most)))


def _tables(found: Sample, most: int) -> list[Table]:
    about = ("time", "brokers", "under_replicated", "without_leader")
    made = [
        Table("Cluster", [_head(key) for key in about], [[found[key] for key in about]]),
        _table("Groups", found["groups"], ("group", "state", "lag"), most),
        _table("Requests", found["requests"], ("request", "count", "mean_ms"), most),
        _table("Topics", found["topics"], ("topic", "records_per_s", "bytes_per_s", "bytes", "partitions"), most),
    ]
    return [table for table in made if table.rows or table.title == "Topics"]


def _table(title: str, rows: list[Sample], keys: tuple[str, ...], most: int) -> Table:
    return Table(title, [_head(key) for key in keys], [[row[key] for key in keys] for row in rows[:most]])


def _head(key: str) -> str:
    return key.upper().replace("_PER_S", "/S").replace("_", " ")
