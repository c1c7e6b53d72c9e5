"""Pipelines: mirrors, tiered topics, archives, queries and sinks of Spark, replays and connectors, each with its lag."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.requests import Request

from ...client.error_kinds import ErrorKind
from ...client.user_errors import UserError
from ..addresses import name_in, path_to
from ..backend import Backend
from ..cluster.model import GroupRow
from ..command_templates import command_of
from ..drawings import chart, scaled_sparkline
from ..formats import NONE, age, number, size
from ..parts import Badge, Cell, Charts, Link, Moment, Page, Part, Snippet, Table, Text
from ..pipelines.pipeline import Kind, Pipeline

#: The beginning of the names of groups of Kafka Connect's sinks.
_CONNECTORS = "connect-"
_CRUMBS = (Link("Pipelines", "/pipelines"),)
_TITLES = {
    Kind.mirror: "Mirrors",
    Kind.tier: "Tiered topics",
    Kind.archive: "Archives",
    Kind.query: "Queries of Spark",
    Kind.sink: "Sinks of Spark",
    Kind.replay: "Replays",
}
_COLUMNS = {
    Kind.mirror: ("Link", "Source", "State", "Topics", "Lag", "Behind", "Newest progress", "Lag over time"),
    Kind.tier: ("Topic", "Store", "State", "Offsets on disks alone", "Copy lag", "Segments", "Copy lag over time"),
    Kind.archive: (
        "Table", "In", "State", "Topics", "Lag", "Offsets/s", "Behind", "Dead letters", "Newest commit", "Lag over time",
    ),
    Kind.query: (
        "Query", "Checkpoint or group", "State", "Topics", "Lag", "Offsets/s", "Behind", "Batch", "Newest batch",
        "Lag over time",
    ),
    Kind.sink: ("Ledger", "Topic", "State", "Batch"),
    Kind.replay: ("Replay", "Group", "State", "Topics", "Left in the table", "Newest transaction", "Left over time"),
}  # fmt: skip
_MOST_ROWS = 1000


def pipelines(backend: Backend, request: Request) -> Page:
    watch = backend.pipelines
    parts: list[Part] = []
    for kind in Kind:
        if kind in watch.errors:
            parts.append(Text(f"{_TITLES[kind]}: {watch.errors[kind]}", "bad"))
        found = watch.pipelines.get(kind, ())
        table = Table(_TITLES[kind], _COLUMNS[kind], [_row(backend, one) for one in found])
        table.empty, table.next = _empty(backend, kind)
        parts.append(table)
    every = [one for found in watch.pipelines.values() for one in found]
    groups = [one for one in backend.snapshot.groups if one.group.startswith(_CONNECTORS)]
    parts.append(_groups(backend, groups))
    failed = len(watch.failed)
    figures: list[tuple[str, Cell]] = [
        ("Pipelines", number(len(every) + len(groups))),
        ("Failed", Badge(str(failed), "bad") if failed else 0),
    ]
    return Page("Pipelines", parts, "/pipelines", live="/pipelines", live_s=5, figures=figures)


def _row(backend: Backend, pipeline: Pipeline) -> list[Cell]:
    head: list[Cell] = [
        Link(pipeline.name, path_to("pipelines", pipeline.kind, pipeline.name)),
        pipeline.place,
        Badge(pipeline.state, pipeline.tone),
    ]
    if pipeline.kind is Kind.sink:
        return [*head, pipeline.batch]
    over_time = scaled_sparkline(backend.poller.history.values(pipeline.series), "Lag")
    if pipeline.kind is Kind.tier:
        return [*head, number(pipeline.lag), size(pipeline.lag_bytes), number(pipeline.lag_segments), over_time]
    return [
        *head,
        number(len(pipeline.topics)),
        number(pipeline.lag),
        *(cell for _, cell in _pace(pipeline)),
        _moment(pipeline.progress_ms),
        over_time,
    ]


def _pace(pipeline: Pipeline) -> list[tuple[str, Cell]]:
    """Returns the cells of a pipeline between its lag and its newest progress, with their names."""
    behind: tuple[str, Cell] = ("Behind", _behind(pipeline))
    rate: tuple[str, Cell] = ("Offsets/s", number(None if pipeline.rate is None else round(pipeline.rate, 1)))
    match pipeline.kind:
        case Kind.mirror:
            return [behind]
        case Kind.archive:
            return [rate, behind, ("Dead letters", number(pipeline.dead_letters))]
        case Kind.query:
            return [rate, behind, ("Batch", pipeline.batch if pipeline.batch >= 0 else NONE)]
        case _:
            return []


def _behind(pipeline: Pipeline) -> Cell:
    return age(round(pipeline.behind_s * 1000)) if pipeline.behind_s is not None else NONE


def _moment(timestamp_ms: int | None) -> Cell:
    return Moment(timestamp_ms) if timestamp_ms is not None else NONE


def _empty(backend: Backend, kind: Kind) -> tuple[str, Sequence[Cell]]:
    """The words where there is none, and the next action."""
    match kind:
        case Kind.mirror:
            command = command_of(backend, "mirror", "create", "NAME", template=" --from HOST:PORT --topics REGEX")
            return "No topic follows another cluster. A link copies topics at the same offsets:", [Snippet(command)]
        case Kind.tier:
            words = ("config", "set", "topic", "TOPIC", "remote.storage.enable=true")
            return (
                "No topic is tiered. With a store, closed segments leave the disks of brokers:",
                [Snippet(command_of(backend, *words))],
            )
        case Kind.archive:
            if backend.settings.archives:
                command = command_of(backend, "archive", "TOPIC", template=" --warehouse DIR")
                return f"{backend.settings.archives.place} has no table of this cluster. A first one:", [
                    Snippet(command)
                ]
            return "No archive commits to a group here. Start the console with the place of other tables:", [
                Snippet("odradek console --warehouse DIR")
            ]
        case Kind.query:
            return "No query of Spark commits to a group here. Start the console with the folders of checkpoints:", [
                Snippet("odradek console --checkpoint DIR")
            ]
        case Kind.sink:
            return "No query writes exactly once here: writeStream.format('odradek') does.", []
        case Kind.replay:
            command = command_of(backend, "replay", "TABLE", "TOPIC", template=" --warehouse DIR")
            return "No table was written back into a topic:", [Snippet(command)]


def _groups(backend: Backend, groups: Sequence[GroupRow]) -> Table:
    rows = [
        (
            Link(one.group, path_to("groups", one.group)),
            one.state,
            number(one.topics),
            number(one.lag),
            scaled_sparkline(backend.poller.history.values(f"lag/{one.group}"), "Lag"),
        )
        for one in groups[:_MOST_ROWS]
    ]
    table = Table(
        "Sinks of Kafka Connect, by their groups",
        ("Group", "State", "Topics", "Lag", "Lag over time"),
        rows,
        "No group is of a sink of Kafka Connect. Groups of applications have a page of their own:",
        of=len(groups),
    )
    table.next = [Link("Groups", "/groups")]
    return table


def pipeline(backend: Backend, request: Request) -> Page:
    kind, name = request.path_params["kind"], name_in(request, "name")
    one = backend.pipelines.find(kind, name)
    if one is None:
        raise UserError(f"there is no {kind} {name}", ErrorKind.NOT_FOUND)
    unit = " bytes" if one.kind is Kind.tier else " offsets"
    lag = Charts(
        [
            chart(
                "Copy lag" if one.kind is Kind.tier else "Lag",
                *backend.poller.history.points(one.series),
                unit,
                one.series,
            )
        ]
    )
    return Page(
        f"{_TITLES[one.kind]} {name}",
        [*_notes(backend, one), lag, _readings(one)],
        "/pipelines",
        live=path_to("pipelines", one.kind, name),
        live_s=5,
        noun=_TITLES[one.kind],
        crumbs=_CRUMBS,
        figures=_figures(one),
        links=_links(one),
    )


def _notes(backend: Backend, pipeline: Pipeline) -> list[Part]:
    if pipeline.error and backend.masks:
        return [Text("The error is not shown: it may have contents of records, and this console masks fields.", "bad")]
    if pipeline.error:
        return [Text(pipeline.error, "bad")]
    if pipeline.kind is Kind.tier and pipeline.lag_bytes is None:
        if pipeline.unknown:
            return [Text(f"The copy lag is not known: {pipeline.unknown}.", "bad")]
        return [Text("Copy lag: start the console with --metrics URL of each node's /metrics.")]
    return []


def _figures(pipeline: Pipeline) -> list[tuple[str, Cell]]:
    figures: list[tuple[str, Cell]] = [
        ("State", Badge(pipeline.state, pipeline.tone)),
        (_COLUMNS[pipeline.kind][1], pipeline.place),
        ("Topics", number(len(pipeline.topics))),
        ("Partitions", number(len(pipeline.readings))),
    ]
    if pipeline.kind is Kind.tier:
        return [
            *figures,
            ("Offsets on disks alone", number(pipeline.lag)),
            ("Copy lag", size(pipeline.lag_bytes)),
            ("Segments that wait", number(pipeline.lag_segments)),
        ]
    if pipeline.kind is Kind.sink:
        return [*figures[:2], ("Batch", pipeline.batch)]
    figures.append((_COLUMNS[pipeline.kind][4], number(pipeline.lag)))
    return [*figures, *_pace(pipeline), (_COLUMNS[pipeline.kind][-2], _moment(pipeline.progress_ms))]


def _readings(pipeline: Pipeline) -> Table:
    has_states = any(reading.state for reading in pipeline.readings)
    rows: list[list[Cell]] = []
    for reading in pipeline.readings[:_MOST_ROWS]:
        row: list[Cell] = [
            Link(reading.topic, path_to("topics", reading.topic)),
            reading.partition,
            reading.position,
            reading.end,
            reading.lag,
        ]
        rows.append([*row, reading.state, reading.reason] if has_states else row)
    position = {
        Kind.tier: "First offset on disks alone",
        Kind.replay: "Offset of the table",
    }.get(pipeline.kind, "Position")
    end = {Kind.mirror: "End at the source", Kind.replay: "End of the table"}.get(pipeline.kind, "End")
    columns = ("Topic", "Partition", position, end, "Offsets" if pipeline.kind is Kind.tier else "Lag")
    return Table(
        "Partitions",
        (*columns, "State", "Reason") if has_states else columns,
        rows,
        "No partition has been read yet.",
        of=len(pipeline.readings),
    )


def _links(pipeline: Pipeline) -> list[Link]:
    """The group of a pipeline has its commits; a tiered topic has its page."""
    if pipeline.group:
        return [Link("Group", path_to("groups", pipeline.group))]
    return [Link("Topic", path_to("topics", pipeline.name))] if pipeline.kind is Kind.tier else []
