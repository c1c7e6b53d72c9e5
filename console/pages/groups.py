"""Groups of every kind: the list, one group with members and lag, reset with a preview, deletion, dead-letter queues."""

from __future__ import annotations

import json
import time
from collections.abc import Callable

from starlette.requests import Request

from ...cli.client.errors import CommandError, Misused
from ...cli.groups.offsets import Lag, chosen_places, commit, committed_offsets, lags, targets, total_of
from ...cli.records.selection import parse_position
from ..actions import Done, required, whole
from ..actions import Form as Fields
from ..backend import Backend
from ..cluster.groups import (
    CoordinatorAway,
    Group,
    alter_share_offsets,
    described,
    queue_of,
    share_offsets,
    share_targets,
)
from ..cluster.model import GroupRow, History
from ..cluster.records import MOST_REDRIVEN, ORIGIN, Query, redrive
from ..drawings import chart, graph, scaled_sparkline
from ..formats import NONE, number
from ..parts import Badge, Charts, Drawing, Facts, Field, Form, Link, Moment, Page, Part, Picture, Table, Text
from .lists import SortKey, listed, name_in, number_of, paged, path_to
from .messages import cut, unread
from .topics import confirmed

_TONES = {"Stable": "good", "Empty": "plain", "Dead": "bad"}
_MOST_PARTITIONS = 200
KINDS = ("", "classic", "consumer", "share", "streams")


#: Columns of the list, and what it sorts by.
_KEYS: dict[str, Callable[[GroupRow], SortKey]] = {
    "Group": lambda one: one.group,
    "Kind": lambda one: one.kind,
    "State": lambda one: one.state,
    "Lag": lambda one: one.lag,
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
            _lag(one.lag, one.unknown),
            scaled_sparkline(history.values(f"lag/{one.group}"), "Lag"),
        )
        for one in chosen
    ]
    table = listed((*_KEYS, "Lag over time"), cells, "No group matches.", _KEYS)
    return Page("Groups", [pages, table], "/groups", live="/groups", live_s=5, above=[search])


def group(backend: Backend, request: Request) -> Page:
    name = name_in(request, "group")
    try:
        return _group(backend, name)
    except CoordinatorAway as error:
        return _without_coordinator(backend, name, error)


def _lag(count: int | None, unknown: int) -> str:
    return f"{number(count)}, {unknown} partitions unknown" if unknown else number(count)


def _without_coordinator(backend: Backend, name: str, error: CoordinatorAway) -> Page:
    """Figures of the last poll, until the group has a coordinator again."""
    row = next((one for one in backend.snapshot.groups if one.group == name), None)
    facts = Facts("Group", [("Kind", row.kind if row else NONE), ("Lag", number(row.lag if row else None))])
    lag = Charts([chart("Lag", *backend.poller.history.points(f"lag/{name}"), " records")])
    parts: list[Part] = [Text(str(error), "bad"), lag, facts]
    return Page(f"Group {name}", parts, "/groups", live=path_to("groups", name), live_s=3)


def _group(backend: Backend, name: str) -> Page:
    with backend.links.admin() as admin:
        found = described(admin, name, backend.away)
        behind = lags(admin, {name: found.kind}, without=backend.away).get(name, [])
    history = backend.poller.history
    # The newest point is that of the table below, not that of the last poll.
    times, values = history.points(f"lag/{name}")
    now, newest = time.time(), float(total_of(behind).lag)
    lag = Charts([chart("Lag", [*times[:-1], now], [*values[:-1], newest], " records")])
    offsets = _lag_table(name, behind, history, "Start" if found.kind == "share" else "Committed")
    parts: list[Part] = [lag, _facts(found, behind), _members(found), offsets]
    below: list[Part] = []
    if found.topology:
        below.append(Picture("Topology", graph(found.topology, found.node_kinds)))
    if found.subtopologies:
        rows = [(one, ", ".join(a), ", ".join(b), ", ".join(c)) for one, a, b, c in found.subtopologies]
        below.append(Table("Subtopologies", ("Id", "Sources", "Changelogs", "Repartition sinks"), rows))
    return Page(
        f"Group {name}", parts, "/groups", live=path_to("groups", name), live_s=3, below=[*below, *_changes(found)]
    )


def _facts(found: Group, behind: list[Lag]) -> Facts:
    total = total_of(behind)
    words = f"of which {number(total.uncommitted)} in partitions without a commit, from their first record"
    return Facts(
        "Group",
        [
            ("Kind", found.kind),
            ("State", Badge(found.state, _TONES.get(found.state, "warn"))),
            ("Coordinator", Link(f"broker {found.coordinator}", path_to("brokers", found.coordinator))),
            ("Assignor", found.assignor or NONE),
            ("Epoch", found.epoch),
            ("Members", len(found.members)),
            ("Lag", _lag(total.lag, total.unknown)),
            *([("Lag without commits", words)] if total.uncommitted else []),
        ],
    )


def _members(found: Group) -> Table:
    rows = [
        (one.member, one.client, one.host, one.epoch, " ".join(one.held)) for one in found.members[:_MOST_PARTITIONS]
    ]
    columns = ("Member", "Client", "Host", "Epoch", "Tasks" if found.kind == "streams" else "Partitions")
    return Table("Members", columns, rows, "No members.", of=len(found.members))


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


def _changes(found: Group) -> list[Part]:
    at = path_to("groups", found.name)
    fields = [
        Field("to", "To", hint="beginning, end, N, -N, @TIME, -1h", required=True),
        Field("topic", "Topic", hint="TOPIC or TOPIC:0,2; empty: all topics with offsets"),
    ]
    return [
        Form("Reset offsets", f"{at}/reset", fields, "Preview", method="get", danger=True),
        Form(
            "Delete the group",
            f"{at}/delete",
            [Field("confirm", f"Type {found.name} to confirm", required=True)],
            "Delete group",
            danger=True,
        ),
    ]


# ---- reset


def preview(backend: Backend, request: Request) -> Page:
    """The offsets that a reset would set. The form below has the same offsets."""
    name = name_in(request, "group")
    try:
        return _preview(backend, request, name)
    except CoordinatorAway as error:
        again = Link("preview again", f"{path_to('groups', name, 'reset')}?{request.query_params}")
        parts: list[Part] = [
            Text(str(error), "bad"),
            Facts("", [("Group", Link(name, path_to("groups", name))), ("Reset", again)]),
        ]
        return Page(f"Reset of group {name}", parts, "/groups")


def _preview(backend: Backend, request: Request, name: str) -> Page:
    position, topic = request.query_params.get("to", ""), request.query_params.get("topic", "").strip()
    parsed = parse_position(position)
    with backend.links.admin() as admin:
        found = described(admin, name, backend.away)
        kind = found.kind
        if kind == "share":
            before = {(one.topic, one.partition): one.start for one in share_offsets(admin, name)}
            after = share_targets(admin, before, topic, parsed)
        else:
            before = committed_offsets(admin, name)
            after = targets(admin, name, chosen_places(admin, name, [topic] if topic else []), parsed, 0)
    rows = [
        (place[0], place[1], before.get(place), offset, offset - before[place] if place in before else None)
        for place, offset in after.items()
    ]
    table = Table(f"Reset to {position}", ("Topic", "Partition", "Before", "After", "Change"), rows)
    offsets = json.dumps([[*place, offset] for place, offset in after.items()])
    form = Form(
        "Set these offsets",
        f"{path_to('groups', name)}/reset",
        [Field("offsets", "", offsets, "hidden"), Field("kind", "", kind, "hidden")],
        "Set offsets",
        danger=True,
        folded=False,
    )
    back = Facts("", [("Group", Link(name, path_to("groups", name)))])
    if found.members:
        words = Text(
            "The group has members, and takes new offsets when it has none: stop them, and preview again.", "bad"
        )
        return Page(f"Reset of group {name}", [back, words, table], "/groups")
    words = Text("Nothing has changed yet. A group takes new offsets when it has no members.")
    return Page(f"Reset of group {name}", [back, words, table], "/groups", below=[form])


def reset(backend: Backend, form: Fields) -> Done:
    name = form["group"]
    try:
        found = json.loads(required(form, "offsets"))
        offsets = {(str(topic), int(partition)): int(offset) for topic, partition, offset in found}
    except (ValueError, TypeError):
        raise Misused("the offsets of the form cannot be read: preview the reset again") from None
    with backend.links.admin() as admin:
        if form.get("kind") == "share":
            alter_share_offsets(admin, name, offsets)
        else:
            commit(admin, name, offsets)
    return Done(f"{len(offsets)} offsets of group {name} were set.", path_to("groups", name))


def delete(backend: Backend, form: Fields) -> Done:
    name = form["group"]
    confirmed(form, name)
    with backend.links.admin() as admin:
        result = admin.delete_groups([name])[name]
    if result != "OK":
        hint = "; stop its members first" if "NonEmpty" in result else ""
        raise CommandError(f"group {name}: {result.removesuffix('Error')}{hint}")
    return Done(f"Group {name} was deleted.", "/groups")


# ---- dead-letter queues of share groups: their records, and redrive to where the records came from

#: Columns by which the list sorts.
_QUEUE_KEYS: dict[str, Callable[[GroupRow], SortKey]] = {"Group": lambda one: one.group, "State": lambda one: one.state}


def queues(backend: Backend, request: Request) -> Page:
    groups = [one for one in backend.snapshot.groups if one.kind == "share"]
    chosen, search, pages = paged(request, groups, lambda one: one.group, "share groups", _QUEUE_KEYS)
    with backend.links.admin() as admin:
        names = {one.group: queue_of(admin, one.group) for one in chosen}
    rows = [
        (
            Link(one.group, path_to("groups", one.group)),
            Badge(one.state, "good" if one.state == "Stable" else "plain"),
            Link(names[one.group], path_to("share", names[one.group])) if names[one.group] else "none",
        )
        for one in chosen
    ]
    words = Text(
        "A share group writes records that its consumers could not process to the topic of its config "
        "errors.deadletterqueue.topic.name."
    )
    table = listed(("Group", "State", "Dead-letter queue"), rows, "No share group matches.", _QUEUE_KEYS)
    return Page("Dead-letter queues", [words, pages, table], "/share", above=[search])


def queue(backend: Backend, request: Request) -> Page:
    """The newest records of a queue with their origins, or those from an offset of a partition on."""
    topic = request.path_params["topic"]
    partition = number_of(request, "partition", -1)
    start = request.query_params.get("from", "").strip() or "-50"
    found = backend.records.read(Query(topic, None if partition < 0 else partition, start))
    rows = []
    for one in found.records:
        origin = {name.removeprefix(ORIGIN): value for name, value in one.headers if name.startswith(ORIGIN)}
        place = (origin.get("topic", ""), origin.get("partition", ""), origin.get("offset", ""))
        rows.append(
            (
                Moment(one.timestamp_ms),
                one.partition,
                Link(str(one.offset), path_to("topics", topic, "messages", one.partition, one.offset)),
                Link("-".join(place[:2]) + f" at {place[2]}", path_to("topics", place[0], "messages", *place[1:]))
                if all(place)
                else NONE,
                origin.get("group", NONE),
                origin.get("delivery.count", NONE),
                origin.get("message", NONE),
                cut(one.value),
            )
        )
    columns = ("Time (UTC)", "Partition", "Offset", "Origin", "Group", "Deliveries", "Cause", "Value")
    fields = [
        Field("partition", "Partition of the queue", "0", "number", required=True),
        Field("first", "From offset", kind="number", required=True),
        Field("count", "Records", "1", "number", hint=f"at most {MOST_REDRIVEN}"),
    ]
    form = Form(
        "Redrive: write records to their original topics again",
        f"{path_to('share', topic)}/redrive",
        fields,
        "Redrive",
        danger=True,
    )
    return Page(
        f"Queue {topic}",
        [*unread(topic, found), Table("Records", columns, rows, "The queue is empty.")],
        "/share",
        below=[form],
    )


def redrive_records(backend: Backend, form: Fields) -> Done:
    topic = required(form, "topic")
    count = redrive(
        backend.connection, topic, whole(form, "partition"), whole(form, "first"), whole(form, "count", 1, 1)
    )
    if not count:
        raise CommandError(f"{topic} has no record at this offset: nothing was written")
    return Done(f"{count} records of {topic} were written to their original topics.", path_to("share", topic))
