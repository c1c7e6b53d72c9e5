"""Groups of every kind: the list, one group with members and lag, and its deletion."""

from __future__ import annotations

import time
from collections.abc import Callable

from starlette.requests import Request

from ...admin.group_lag import lags
from ...admin.groups import delete_group
from ...admin.lag import Lag, total_of
from ...client.wording import counted
from ..actions import Done, Fields, confirmed
from ..addresses import name_in, path_to
from ..backend import Backend
from ..cluster.groups import CoordinatorAway, Group, described
from ..cluster.history import History
from ..cluster.model import GroupRow
from ..command_templates import command_of
from ..drawings import chart, scaled_sparkline
from ..formats import NONE, Figure, number
from ..graphs import graph
from ..parts import (
    Badge,
    Cell,
    Charts,
    Drawing,
    Facts,
    Field,
    Form,
    Link,
    Page,
    Part,
    Picture,
    Snippet,
    Table,
    Text,
)
from .long_lists import SortKey, listed, paged

_TONES = {"Stable": "good", "Empty": "plain", "Dead": "bad"}
_MOST_PARTITIONS = 200
_CRUMBS = (Link("Groups", "/groups"),)
KINDS = ("", "classic", "consumer", "share", "streams")


#: Columns of the list, and what it sorts by.
_KEYS: dict[str, Callable[[GroupRow], SortKey]] = {
    "Group": lambda one: one.group,
    "Kind": lambda one: one.kind,
    "State": lambda one: one.state,
    "Members": lambda one: one.members,
    "Topics": lambda one: one.topics,
    "Coordinator": lambda one: one.coordinator,
    "Lag": lambda one: one.lag,
    "Without commit": lambda one: one.uncommitted,
}


def groups(backend: Backend, request: Request) -> Page:
    kind = request.query_params.get("kind", "")
    rows = [one for one in backend.snapshot.groups if kind in ("", one.kind)]
    chosen, search, pages = paged(request, rows, lambda one: one.group, "groups", _KEYS)
    search.fields = [*search.fields, Field("kind", "Kind", kind, "select", KINDS)]
    history = backend.poller.history
    cells = [
        (
            Link(one.group, path_to("groups", one.group)),
            one.kind,
            Badge(one.state, _TONES.get(one.state, "warn")),
            number(one.members),
            number(one.topics),
            Link(str(one.coordinator), path_to("brokers", one.coordinator)) if one.coordinator is not None else NONE,
            _lag(one.lag, one.unknown),
            number(one.uncommitted),
            scaled_sparkline(history.values(f"lag/{one.group}"), "Lag"),
        )
        for one in chosen
    ]
    table = listed((*_KEYS, "Lag over time"), cells, "No group matches.", _KEYS)
    if not backend.snapshot.groups and backend.snapshot.is_filled:
        table.empty = "No consumer has joined a group or committed offsets yet. A first one:"
        table.next = [Snippet(command_of(backend, "consume", "TOPIC", "--from-beginning", "--group", "NAME"))]
    return Page("Groups", [pages, table], "/groups", live="/groups", live_s=5, above=[search])


def group(backend: Backend, request: Request) -> Page:
    name = name_in(request, "group")
    try:
        return _group(backend, name)
    except CoordinatorAway as error:
        return _without_coordinator(backend, name, error)


def _lag(count: int | None, unknown: int) -> Figure:
    return Figure(f"{number(count)}, {counted(unknown, 'partition')} unknown", count) if unknown else number(count)


def _without_coordinator(backend: Backend, name: str, error: CoordinatorAway) -> Page:
    """Figures of the last poll, until the group has a coordinator again."""
    row = next((one for one in backend.snapshot.groups if one.group == name), None)
    facts = Facts("Group", [("Kind", row.kind if row else NONE), ("Lag", number(row.lag if row else None))])
    series = f"lag/{name}"
    lag = Charts([chart("Lag", *backend.poller.history.points(series), " records", series)])
    parts: list[Part] = [Text(str(error), "bad"), lag, facts]
    return Page(f"Group {name}", parts, "/groups", live=path_to("groups", name), live_s=3)


def _group(backend: Backend, name: str) -> Page:
    with backend.links.admin() as admin:
        found = described(admin, name, backend.away)
        behind = lags(admin, {name: found.kind}, without=backend.away).get(name, [])
    history = backend.poller.history
    # The newest point is that of the table below, not that of the last poll.
    times, values = history.points(f"lag/{name}")
    newest = total_of(behind).lag
    last = ([], []) if newest is None else ([time.time()], [float(newest)])
    lag = Charts([chart("Lag", [*times[:-1], *last[0]], [*values[:-1], *last[1]], " records", f"lag/{name}")])
    offsets = _lag_table(name, behind, history, "Start" if found.kind == "share" else "Committed")
    parts: list[Part] = [lag, _members(found), offsets]
    below: list[Part] = []
    if found.topology:
        below.append(Picture("Topology", graph(found.topology, found.node_kinds)))
    if found.subtopologies:
        rows = [(one, ", ".join(a), ", ".join(b), ", ".join(c)) for one, a, b, c in found.subtopologies]
        below.append(Table("Subtopologies", ("Id", "Sources", "Changelogs", "Repartition sinks"), rows))
    page = Page(f"Group {name}", parts, "/groups", live=path_to("groups", name), live_s=3, noun="Group", crumbs=_CRUMBS)
    page.below, page.figures = [*below, *_changes(backend, found)], _figures(found, behind)
    return page


def _figures(group: Group, behind: list[Lag]) -> list[tuple[str, Cell]]:
    total = total_of(behind)
    return [
        ("Kind", group.kind),
        ("State", Badge(group.state, _TONES.get(group.state, "warn"))),
        ("Coordinator", Link(f"broker {group.coordinator}", path_to("brokers", group.coordinator))),
        ("Assignor", group.assignor or NONE),
        ("Epoch", group.epoch),
        ("Members", len(group.members)),
        ("Lag", _lag(total.lag, total.unknown)),
        *([("Partitions without a commit", number(total.uncommitted))] if total.uncommitted else []),
    ]


def _members(group: Group) -> Table:
    rows = [
        (one.member, one.client, one.host, one.epoch, " ".join(one.held)) for one in group.members[:_MOST_PARTITIONS]
    ]
    columns = ("Member", "Client", "Host", "Epoch", "Tasks" if group.kind == "streams" else "Partitions")
    return Table("Members", columns, rows, "No members.", of=len(group.members))


def _lag_table(name: str, behind: list[Lag], history: History, column: str) -> Table:
    rows = [
        (
            Link(one.topic, path_to("topics", one.topic)),
            one.partition,
            one.committed,
            one.end,
            one.lag,
            _over_time(history, name, one.topic, one.partition),
        )
        for one in behind[:_MOST_PARTITIONS]
    ]
    columns = ("Topic", "Partition", column, "End", "Lag", "Over time")
    title = "Start offsets" if column == "Start" else "Offsets"
    return Table(title, columns, rows, "No offsets yet.", of=len(behind))


def _over_time(history: History, group: str, topic: str, partition: int) -> list[Drawing | str]:
    return scaled_sparkline(history.values(f"lag/{group}/{topic}/{partition}"), "Lag")


def _changes(backend: Backend, group: Group) -> list[Part]:
    at = path_to("groups", group.name)
    fields = [
        Field("to", "To", hint="beginning, end, N, -N, @TIME, -1h", required=True),
        Field("topic", "Topic", hint="TOPIC or TOPIC:0,2; empty: all topics with offsets"),
    ]
    return [
        Form(
            "Reset offsets",
            f"{at}/reset",
            fields,
            "Preview",
            method="get",
            danger=True,
            words="The next page shows the offsets before and after, and asks again.",
            command=command_of(backend, "group", "reset", group.name, template=" --to {to}[ --topic {topic}]"),
        ),
        Form(
            "Delete the group",
            f"{at}/delete",
            [Field("confirm", f"Type {group.name} to confirm", required=True)],
            "Delete group",
            danger=True,
            words="The offsets of the group are deleted. Its consumers then start by their auto.offset.reset.",
            command=command_of(backend, "group", "delete", group.name),
        ),
    ]


def delete(backend: Backend, form: Fields) -> Done:
    name = form["group"]
    confirmed(form, name)
    with backend.links.admin() as admin:
        delete_group(admin, name)
    return Done(f"Group {name} was deleted.", "/groups")
