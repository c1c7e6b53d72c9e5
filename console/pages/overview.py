"""The first page: state of brokers, quorum and replicas, throughput and lag as charts."""

from __future__ import annotations

from starlette.requests import Request

from ...client.wording import counted
from ..addresses import path_to
from ..backend import Backend
from ..cluster.model import Snapshot
from ..drawings import chart
from ..formats import NONE, number
from ..parts import Badge, Charts, Facts, Link, Page, Part, Table, Text

_MOST_ROWS = 10


def overview(backend: Backend, request: Request) -> Page:
    snapshot = backend.snapshot
    if not snapshot.is_filled:
        return Page("Overview", [Text("Reading the cluster …")], "/", live="/", live_s=1)
    history = backend.poller.history
    fenced, silent = sum(each.fenced for each in snapshot.brokers), sum(each.silent for each in snapshot.brokers)
    internal = sum(each.internal for each in snapshot.topics)
    words = f"{len(snapshot.brokers) - fenced - silent} running, {fenced} fenced"
    words += f", {silent} without a response" if silent else ""
    state = Facts(
        "Cluster",
        [
            ("Cluster id", snapshot.cluster_id),
            ("Brokers", Badge(words, "bad" if fenced or silent else "good")),
            (
                "Active controller",
                Link(f"node {snapshot.controller}", "/quorum") if snapshot.controller is not None else NONE,
            ),
            ("Voters", snapshot.quorum.voters),
            ("Topics", Link(number(len(snapshot.topics) - internal), "/topics")),
            ("Internal topics", Link(number(internal), "/topics?internal=yes")),
            ("Partitions of all topics", number(snapshot.partitions)),
            ("Under-replicated", _count(snapshot.under_replicated, "warn")),
            ("Without leader", _count(snapshot.without_leader, "bad")),
            ("Groups", Link(number(len(snapshot.groups)), "/groups")),
        ],
    )
    charts = Charts(
        [
            chart("Throughput", *history.points("records_per_s"), " records/s", "records_per_s"),
            chart("Lag of all groups", *history.points("lag"), " records", "lag"),
            chart("Under-replicated partitions", *history.points("under_replicated"), series="under_replicated"),
        ]
    )
    busy = sorted((each for each in snapshot.topics if each.records_per_s), key=lambda each: -(each.records_per_s or 0))
    behind = sorted((each for each in snapshot.groups if each.lag), key=lambda each: -(each.lag or 0))
    topics = Table(
        "Busiest topics",
        ("Topic", "Records/s"),
        [(Link(each.name, path_to("topics", each.name)), number(each.records_per_s)) for each in busy[:_MOST_ROWS]],
        "No topic receives records.",
        of=len(busy),
    )
    groups = Table(
        "Groups with the largest lag",
        ("Group", "State", "Lag"),
        [
            (Link(each.group, path_to("groups", each.group)), each.state, number(each.lag))
            for each in behind[:_MOST_ROWS]
        ],
        "No group has lag.",
        of=len(behind),
    )
    return Page("Overview", [*_needs(backend, snapshot, fenced, silent), charts, state, topics, groups], "/", live="/")


def _needs(backend: Backend, snapshot: Snapshot, fenced: int, silent: int) -> list[Part]:
    """States that need a person, the worst first, each with its page; or a line that none does."""
    needs = [
        (
            f"{counted(snapshot.without_leader, 'partition')} without a leader",
            "/topics?short=yes",
            "bad",
            snapshot.without_leader,
        ),
        (f"No response from {counted(silent, 'broker')}", "/brokers", "bad", silent),
        (f"Fenced: {counted(fenced, 'broker')}", "/brokers", "bad", fenced),
        (
            f"{counted(snapshot.under_replicated, 'partition')} under-replicated",
            "/topics?short=yes",
            "warn",
            snapshot.under_replicated,
        ),
        *(
            (f"{one.kind} {one.name}: {one.state}", path_to("pipelines", one.kind, one.name), "bad", 1)
            for one in backend.pipelines.failed
        ),
    ]
    rows = [(Badge(words, tone), Link("Show", href)) for words, href, tone, count in needs if count]
    if rows:
        return [Table("Needs you", ("What", "Where"), rows)]
    brokers = len(snapshot.brokers)
    return [Text(f"{brokers} broker{'s' if brokers != 1 else ''} in sync; nothing needs you.")]


def _count(count: int, tone: str) -> Badge:
    return Badge(number(count), tone if count else "good")
