"""The first page: state of brokers, quorum and replicas, throughput and lag as charts; or the state of each cluster."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.requests import Request

from ..backend import Backend
from ..drawings import chart
from ..formats import NONE, number
from ..parts import Badge, Charts, Facts, Link, Page, Table, Text
from .lists import path_to

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


# ---- several clusters

_COLUMNS = (
    "Cluster", "State", "Cluster id", "Brokers", "Topics", "Under-replicated", "Without leader", "Records/s", "Lag",
)  # fmt: skip


def overview_of(clusters: Mapping[str, Backend]) -> Page:
    rows = []
    for name, backend in clusters.items():
        found = backend.snapshot
        is_read = found.is_filled
        rows.append(
            (
                Link(name, f"/clusters/{name}/"),
                _state(backend),
                found.cluster_id or NONE,
                number(len(found.brokers)) if is_read else None,
                number(sum(not one.internal for one in found.topics)) if is_read else None,
                Badge(str(found.under_replicated), "warn" if found.under_replicated else "good") if is_read else NONE,
                Badge(str(found.without_leader), "bad" if found.without_leader else "good") if is_read else NONE,
                number(found.records_per_s),
                number(found.lag),
            )
        )
    return Page("Clusters", [Table("Clusters", _COLUMNS, rows)], "/", live="/")


def _state(backend: Backend) -> Badge:
    found = backend.snapshot
    if backend.trouble:
        return Badge(backend.trouble, "bad")
    if not found.is_filled:
        return Badge("reading")
    away = sum(one.fenced or one.silent for one in found.brokers)
    return Badge(f"{away} brokers away", "bad") if away else Badge("running", "good")
