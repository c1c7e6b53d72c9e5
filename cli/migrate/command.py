"""`odradek migrate plan|check`: the way of a cluster from Apache Kafka to Odradek, node by node, and back."""

from __future__ import annotations

import time
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from ...admin.connection import Connection
from ...client.error_kinds import ErrorKind
from ...client.user_errors import Misused, UserError
from ..client.options import client_command, new_app
from ..messages import warn
from ..output import Output, Table
from .findings import BY_MIRROR, FINDING_COLUMNS, STOPS, MigrationFinding, closed_quorum, of_file, to_apache, to_odradek
from .local_nodes import change_all
from .steps import look, order
from .survey import APACHE, ODRADEK, Survey, SurveyedNode, survey

app = new_app("Plan and watch the way of a cluster from Apache Kafka to Odradek, node by node, and back.")

#: A node that recovers its logs and catches up may take long.
DEFAULT_WAIT_S = 600.0
_POLL_S = 0.5

Config = Annotated[
    list[Path] | None,
    typer.Option(
        "--config", metavar="server.properties", help="also read a node of this machine and its disks; may be repeated"
    ),
]


class Target(StrEnum):
    odradek = "odradek"
    apache = "apache"

    @property
    def program(self) -> str:
        return ODRADEK if self is Target.odradek else APACHE


To = Annotated[Target, typer.Option("--to", help="the program that all nodes shall run")]


@app.command("plan")
@client_command
def plan(
    connection: Connection,
    output: Output,
    to: To = Target.odradek,
    config: Config = None,
    run: Annotated[
        bool, typer.Option("--run", help="stop and start the nodes of --config, one after the other, as planned")
    ] = False,
    apache_start: Annotated[
        str | None,
        typer.Option(
            "--apache-start", metavar="COMMAND", help="with --run --to apache: starts a node; its file is appended"
        ),
    ] = None,
) -> None:
    """Print what will work, what will not, and in which order the nodes change. Exit status 1 when something stops it."""
    if run and not config:
        raise Misused("--run needs the server.properties of the nodes: --config FILE, once for each")
    if run and to is Target.apache and not apache_start:
        raise Misused("--run --to apache needs --apache-start, as in bin/kafka-server-start.sh")
    with connection.admin() as admin:
        closed = closed_quorum(admin) if to is Target.odradek else None
        found = survey(admin) if closed is None else None
    if closed is not None or found is None:
        assert closed is not None
        output.show([{"to": to.program, "findings": [closed._asdict()]}], Table("", FINDING_COLUMNS, [closed]))
        raise typer.Exit(1)
    findings = list(to_odradek(found) if to is Target.odradek else to_apache(found))
    for file in config or ():
        findings += of_file(file, to.program)
    _show_plan(output, found, findings, order(found, to.program), to.program)
    if any(one.verdict == STOPS for one in findings):
        if to is Target.odradek:
            typer.echo(f"Where a finding cannot be removed: {BY_MIRROR}", err=True)
        raise typer.Exit(1)
    if run:
        change_all(connection, config or [], to.program, apache_start)


def _show_plan(
    output: Output, survey: Survey, findings: list[MigrationFinding], steps: list[SurveyedNode], program: str
) -> None:
    findings = sorted(findings, key=lambda one: (one.verdict != STOPS, one.verdict == "works"))
    nodes = [(node.id, node.roles, node.program, node.release, _state(node)) for node in survey.nodes.values()]
    actions = [(number, node.id, _action(node, program)) for number, node in enumerate(steps, 1)]
    data: dict[str, object] = {
        "cluster_id": survey.cluster_id,
        "to": program,
        "nodes": [dict(zip(("node", "roles", "program", "release", "state"), one, strict=True)) for one in nodes],
        "findings": [one._asdict() for one in findings],
        "order": [node.id for node in steps],
    }
    main = Table(f"To {program}", FINDING_COLUMNS, findings)
    described = Table(f"Nodes of {survey.cluster_id}", ("NODE", "ROLES", "PROGRAM", "RELEASE", "STATE"), nodes)
    todo = Table("Order", ("STEP", "NODE", "ACTION"), actions)
    output.show([data], main, described, todo)


def _state(node: SurveyedNode) -> str:
    return "fenced" if node.is_fenced else "serving" if node.is_broker else "not a broker"


def _action(node: SurveyedNode, program: str) -> str:
    if node.program is None:
        return f"if it does not run {program} yet: stop it, start {program} on the same directories"
    return f"stop it, start {program} on the same directories, then `odradek migrate check`"


@app.command("check")
@client_command
def check(
    connection: Connection,
    output: Output,
    to: To = Target.odradek,
    wait: Annotated[
        float, typer.Option("--wait", metavar="SECONDS", help="how long to wait for it; 0 looks once")
    ] = DEFAULT_WAIT_S,
) -> None:
    """Wait until all replicas are in sync and the quorum has caught up, and name the next node. Exit status 1 when they
    are not in time.
    """
    found, why = _settled(connection, wait)
    steps = order(found, to.program)
    next_id = steps[0].id if steps and not why else None
    changed = sum(node.program == to.program for node in found.brokers)
    data = {"ready": not why, "waits_for": why, "changed": changed, "brokers": len(found.brokers), "next": next_id}
    rows = [("ready", not why), (f"brokers with {to.program}", f"{changed} of {len(found.brokers)}")]
    rows += [("waits for", words) for words in why]
    rows += [("next node", next_id if next_id is not None else "none")] if not why else []
    output.show([data], Table("", ("PROPERTY", "VALUE"), rows))
    if why:
        raise typer.Exit(1)


def _settled(connection: Connection, wait_s: float) -> tuple[Survey, list[str]]:
    """Returns the cluster and what the next step still waits for; nothing when it may go. Tells what it waits for. Raises
    UserError when the cluster does not respond for the timeout of the connection.
    """
    deadline = time.monotonic() + wait_s
    responded, said = time.monotonic(), ""
    while True:
        step = look(connection)
        now = time.monotonic()
        responded = responded if step.found is None else now
        if step.found is None and now > min(deadline, responded + connection.timeout_s):
            raise UserError(step.waits_for[0], ErrorKind.UNREACHABLE)
        if step.found is not None and (not step.waits_for or now > deadline):
            return step.found, step.waits_for
        if (words := "; ".join(step.waits_for)) != said:
            said = words
            limit = wait_s if step.found is not None else min(wait_s, connection.timeout_s)
            warn(f"waits up to {limit:g} s: {words}")
        time.sleep(_POLL_S)
