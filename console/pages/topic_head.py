"""The head of each page of a topic: its name, a strip of figures, and the tabs."""

from __future__ import annotations

from collections.abc import Sequence

from ..addresses import path_to
from ..backend import Backend
from ..cluster.model import TopicFacts, TopicRow
from ..formats import NONE, Figure, age, size
from ..formats import number as figure
from ..parts import Badge, Cell, Link, Moment, Page, Part, Tab

MESSAGES, PARTITIONS, GROUPS, CONFIGURATION, ACCESS = "messages", "partitions", "groups", "configuration", "access"
TABS = {
    MESSAGES: "Messages",
    PARTITIONS: "Partitions",
    GROUPS: "Groups",
    CONFIGURATION: "Configuration",
    ACCESS: "Access",
}
CRUMBS = (Link("Topics", "/topics"),)


def topic_page(backend: Backend, name: str, tab: str, parts: Sequence[Part]) -> Page:
    """A page of the topic, whose figures are those of the last polls."""
    return Page(
        f"Topic {name}",
        parts,
        "/topics",
        crumbs=CRUMBS,
        noun="Topic",
        figures=_figures(backend, name),
        tabs=_tabs(backend, name, tab),
    )


def _figures(backend: Backend, name: str) -> list[tuple[str, Cell]]:
    row = backend.snapshot.topic(name)
    if row is None:  # it was just made
        row = TopicRow(name, 0, 0, 0, 0, False, None)
    facts = row.facts
    shape: Cell = NONE if not row.partitions else f"{row.partitions} \N{MULTIPLICATION SIGN} {row.replicas}"
    if row.without_leader:
        shape = [shape, Badge(f"{row.without_leader} without leader", "bad")]
    elif row.under_replicated:
        shape = [shape, Badge(f"{row.under_replicated} under-replicated", "warn")]
    return [
        ("Records", records(facts)),
        ("Size", size(facts.bytes if facts is not None else None)),
        ("Records/s", figure(row.records_per_s)),
        ("Newest record", newest(facts)),
        ("Retention", retention(facts)),
        ("Policy", facts.policy if facts is not None and facts.policy else NONE),
        ("Partitions \N{MULTIPLICATION SIGN} replicas", shape),
        ("Readers", figure(len(backend.poller.groups_of(name)))),
    ]


def records(facts: TopicFacts | None) -> Figure:
    """Offsets from start to end: they count what a compaction removed, and markers of transactions."""
    if facts is None or facts.offsets is None:
        return figure(None)
    return Figure(f"≈\N{NARROW NO-BREAK SPACE}{figure(facts.offsets)}", facts.offsets) if facts.offsets else figure(0)


def newest(facts: TopicFacts | None) -> Cell:
    return Moment(facts.newest_ms) if facts is not None and facts.newest_ms is not None else NONE


def retention(facts: TopicFacts | None) -> str:
    """As people say it: 7 d or 50 GB."""
    if facts is None or facts.retention_ms is None:
        return NONE
    if "delete" not in facts.policy:
        return "compacted"
    limits = [str(age(facts.retention_ms)).replace(".0 ", " ")] if facts.retention_ms >= 0 else []
    if facts.retention_bytes is not None and facts.retention_bytes >= 0:
        limits.append(str(size(facts.retention_bytes)))
    return " or ".join(limits) or "no limit"


def _tabs(backend: Backend, name: str, current: str) -> list[Tab]:
    row = backend.snapshot.topic(name)
    counts = {
        PARTITIONS: str(row.partitions) if row is not None else "",
        GROUPS: str(len(backend.poller.groups_of(name)) or ""),
    }
    return [
        Tab(words, path_to("topics", name, tab), tab == current, counts.get(tab, "")) for tab, words in TABS.items()
    ]
