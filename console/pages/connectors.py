"""Connectors of the Kafka Connect cluster whose address is configured: their states, and pause, resume and restart."""

from __future__ import annotations

from starlette.requests import Request

from ...client.error_kinds import ErrorKind
from ...client.properties import shown_value
from ...client.user_errors import Misused, UserError
from ..actions import Done, Fields, required
from ..addresses import name_in, path_to
from ..backend import Backend
from ..cluster.connect import ACTIONS, ConnectCluster, Connector
from ..parts import Badge, Button, Cell, Code, Link, Page, Part, Table, Text

_TONES = {"RUNNING": "good", "PAUSED": "plain", "STOPPED": "plain", "UNASSIGNED": "warn", "FAILED": "bad"}


def _cluster(backend: Backend) -> ConnectCluster:
    if backend.connect is None:
        raise UserError("this console has no Kafka Connect cluster: start it with --connect URL", ErrorKind.NOT_FOUND)
    return backend.connect


def connectors(backend: Backend, request: Request) -> Page:
    cluster = _cluster(backend)
    found = cluster.connectors()
    rows = [_row(one) for one in found]
    columns = ("Connector", "Type", "State", "Tasks", "Worker", "")
    table = Table("Connectors", columns, rows, "The cluster has no connectors.")
    failed = sum(_failed(one) for one in found)
    return Page(
        "Connect",
        [table],
        "/connect",
        live="/connect",
        live_s=5,
        figures=[
            ("Connectors", len(found)),
            ("Failed", Badge(str(failed), "bad") if failed else 0),
            ("Kafka Connect", cluster.url),
        ],
    )


def _failed(connector: Connector) -> bool:
    return connector.state == "FAILED" or any(task.state == "FAILED" for task in connector.tasks)


def _row(connector: Connector) -> list[Cell]:
    running = sum(task.state == "RUNNING" for task in connector.tasks)
    failed = sum(task.state == "FAILED" for task in connector.tasks)
    words = f"{running} of {len(connector.tasks)} running"
    tasks: Cell = Badge(f"{words}, {failed} failed", "bad") if failed else words
    state = Badge(connector.state.lower(), _TONES.get(connector.state, "plain"))
    return [
        Link(connector.name, path_to("connect", connector.name)),
        connector.kind,
        state,
        tasks,
        connector.worker,
        _buttons(connector),
    ]


def _buttons(connector: Connector) -> list[Cell]:
    """Pause or resume, and restart."""
    turn = "resume" if connector.state in ("PAUSED", "STOPPED") else "pause"
    return [
        Button(
            word.capitalize(),
            f"{path_to('connect', connector.name)}/{word}",
            {},
            f"{word.capitalize()} the connector {connector.name}?",
            danger=False,
        )
        for word in (turn, "restart")
    ]


def connector(backend: Backend, request: Request) -> Page:
    name, cluster = name_in(request, "connector"), _cluster(backend)
    one = next((found for found in cluster.connectors() if found.name == name), None)
    if one is None:
        raise UserError(f"Kafka Connect has no connector {name}", ErrorKind.NOT_FOUND)
    tasks = [(task.id, Badge(task.state.lower(), _TONES.get(task.state, "plain")), task.worker) for task in one.tasks]
    configs = [(key, shown_value(key, value)) for key, value in sorted(cluster.config(name).items())]
    traces: list[Part] = [Code(f"Error of task {task.id}", task.trace) for task in one.tasks if task.trace]
    if one.trace:
        traces.insert(0, Code("Error of the connector", one.trace))
    if traces and backend.masks:
        traces = [Text("The errors are not shown: they may have contents of records, and this console masks fields.")]
    return Page(
        f"Connector {name}",
        [
            Table("Tasks", ("Task", "State", "Worker"), tasks, "No tasks."),
            *traces,
            Table("Configs", ("Key", "Value"), configs),
        ],
        "/connect",
        noun="Connector",
        crumbs=(Link("Connect", "/connect"),),
        figures=[
            ("State", Badge(one.state.lower(), _TONES.get(one.state, "plain"))),
            ("Type", one.kind),
            ("Worker", one.worker),
            ("Change", _buttons(one)),
        ],
    )


def act(backend: Backend, form: Fields) -> Done:
    name, word = form["connector"], required(form, "word")
    if word not in ACTIONS:
        raise Misused(f"{word[:40]!r} is not an action")
    _cluster(backend).act(name, word)
    done = {"pause": "paused", "resume": "resumed", "restart": "restarted"}[word]
    return Done(f"The connector {name} was {done}.", "/connect")
