"""Topics: the list, and the creation of one."""

from __future__ import annotations

from collections.abc import Callable

from starlette.requests import Request

from ...admin.topic_batches import create_topics
from ...admin.topic_changes import NewTopic
from ...client.properties import pairs
from ..actions import Done, Fields, required, whole
from ..addresses import path_to
from ..backend import Backend
from ..cluster.model import TopicRow
from ..command_templates import command_of
from ..formats import number, size
from ..parts import Badge, Cell, Field, Form, Link, Page
from ..whole_numbers import MOST_INT16, MOST_INT32
from .long_lists import SortKey, listed, paged
from .topic_head import newest, records, retention

#: Columns of the list, and what it sorts by.
_KEYS: dict[str, Callable[[TopicRow], SortKey]] = {
    "Topic": lambda one: one.name,
    "Records": lambda one: one.facts.offsets if one.facts is not None else None,
    "Size": lambda one: one.facts.bytes if one.facts is not None else None,
    "Records/s": lambda one: one.records_per_s,
    "Newest record": lambda one: one.facts.newest_ms if one.facts is not None else None,
    "Retention": lambda one: one.facts.retention_ms if one.facts is not None else None,
    "Policy": lambda one: one.facts.policy if one.facts is not None else None,
    "Partitions": lambda one: one.partitions,
    "Replicas": lambda one: one.replicas,
    "Under-replicated": lambda one: one.under_replicated + one.without_leader,
}


def topics(backend: Backend, request: Request) -> Page:
    found = backend.snapshot
    internal = request.query_params.get("internal") == "yes"
    short = request.query_params.get("short") == "yes"
    rows = [
        one
        for one in found.topics
        if (internal or not one.internal) and (not short or one.under_replicated or one.without_leader)
    ]
    chosen, search, pages = paged(request, rows, lambda one: one.name, "topics", _KEYS)
    hidden = 0 if internal else sum(one.internal for one in found.topics)
    pages.text += f", without {hidden} internal" if hidden else ""
    search.fields = [
        *search.fields,
        Field("internal", "Internal topics", "yes" if internal else "", "check"),
        Field("short", "Under-replicated only", "yes" if short else "", "check"),
    ]
    table = listed(tuple(_KEYS), [_row(one) for one in chosen], "No topic matches.", _KEYS)
    if not rows and found.is_filled:
        table.empty = "The cluster has no topics yet. Create the first one, or let a producer create it."
    return Page(
        "Topics", [pages, table], "/topics", live="/topics", live_s=5, above=[search], below=[_creation(backend)]
    )


def _row(row: TopicRow) -> list[Cell]:
    facts = row.facts
    return [
        Link(row.name, path_to("topics", row.name, "messages")),
        records(facts),
        size(facts.bytes if facts is not None else None),
        number(row.records_per_s),
        newest(facts),
        retention(facts),
        facts.policy if facts is not None else None,
        row.partitions,
        row.replicas,
        _health(row.under_replicated, row.without_leader),
    ]


def _health(under_replicated: int, without_leader: int) -> Cell:
    if without_leader:
        return Badge(f"{without_leader} without leader", "bad")
    return Badge(str(under_replicated), "warn") if under_replicated else number(0)


def _creation(backend: Backend) -> Form:
    fields = [
        Field("name", "Name", required=True),
        Field("partitions", "Partitions", kind="number", hint="empty: the broker's default"),
        Field("replicas", "Replicas", kind="number", hint="empty: the broker's default"),
        Field("configs", "Configs", kind="area", hint="one KEY=VALUE per line"),
    ]
    words = " {name}[ --partitions {partitions}][ --replicas {replicas}][ --config {configs}]"
    return Form(
        "Create a topic",
        "/topics",
        fields,
        "Create topic",
        command=command_of(backend, "topic", "create", template=words),
    )


def create(backend: Backend, form: Fields) -> Done:
    name = required(form, "name")
    lines = [line.strip() for line in form.get("configs", "").splitlines() if line.strip()]
    options = NewTopic(
        whole(form, "partitions", MOST_INT32, -1, 1),
        whole(form, "replicas", MOST_INT16, -1, 1),
        pairs(lines, "configs"),
    )
    with backend.links.admin() as admin:
        create_topics(admin, [name], options, if_not_exists=False, dry_run=False)
    return Done(f"Topic {name} was created.", path_to("topics", name, "messages"))
