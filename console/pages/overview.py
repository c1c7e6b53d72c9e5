"""The overview: state of brokers, quorum and replicas, throughput and lag as charts."""

from __future__ import annotations

from starlette.requests import Request

from ..backend import Backend
from ..views.formats import NONE, number
from ..views.parts import Badge, Charts, Facts, Link, Page, Table, Text
from ..views.sparkline import chart
from .paging import path_to

_MOST_ROWS = 10


def overview(backend: Backend, request: Request) -> Page:
    found = backend.snapshot
    if not found.is_filled:
        return Page("Overview", [Text("Reading the cluster …")], "/", live="/", live_s=1)
    history = backend.poller.history
    fenced, silent = sum(one.fenced for one in found.brokers), sum(one.silent for one in found.brokers)
    internal = sum(one.internal for one in found.topics)
    words = f"{len(found.brokers) - fenced - silent} running, {fenced} fenced"
    words += f", {silent} without a response" if silent else ""
    state = Facts(
        "Cluster",
        [
            ("Cluster id", found.cluster_id),
            ("Brokers", Badge(words, "bad" if fenced or silent else "good")),
            ("Active controller", Link(f"node {found.quorum.leader}", "/quorum") if found.quorum.leader >= 0 else NONE),
            ("Voters", found.quorum.voters),
            ("Topics", Link(number(len(found.topics) - internal), "/topics")),
            ("Internal topics", Link(number(internal), "/topics?internal=yes")),
            ("Partitions of all topics", number(found.partitions)),
            ("Under-replicated", _count(found.under_replicated, "warn")),
            ("Without leader", _count(found.without_leader, "bad")),
            ("Groups", Link(number(len(found.groups)), "/groups")),
        ],
    )
    charts = Charts(
        [
            chart("Throughput", *history.points("records_per_s"), " records/s"),
            chart("Lag of all groups", *history.points("lag"), " records"),
            chart("Under-replicated partitions", *history.points("under_replicated")),
        ]
    )
    busy = sorted((one for one in found.topics if one.records_per_s), key=lambda one: -(one.records_per_s or 0))
    behind = sorted((one for one in found.groups if one.lag), key=lambda one: -(one.lag or 0))
    topics = Table(
        "Busiest topics",
        ("Topic", "Records/s"),
        [(Link(one.name, path_to("topics", one.name)), number(one.records_per_s)) for one in busy[:_MOST_ROWS]],
        "No topic receives records.",
        of=len(busy),
    )
    groups = Table(
        "Groups with the largest lag",
        ("Group", "State", "Lag"),
        [(Link(one.group, path_to("groups", one.group)), one.state, number(one.lag)) for one in behind[:_MOST_ROWS]],
        "No group has lag.",
        of=len(behind),
    )
    return Page("Overview", [charts, state, topics, groups], "/", live="/")


def _count(count: int, tone: str) -> Badge:
    return Badge(number(count), tone if count else "good")
