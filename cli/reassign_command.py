"""`odradek reassign`: moves replicas between brokers, by a plan in the form of kafka-reassign-partitions.sh."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..admin.balance import Balance
from ..admin.connection import Connection
from ..admin.places import Place
from ..admin.readings import replica_sizes
from ..admin.reassignments import alter_reassignments, list_reassignments
from ..admin.topics import described_topics
from ..client.user_errors import Misused, UserError
from .client.options import DryRun, client_command, new_app
from .client.value_completion import complete_topic
from .messages import warn
from .output import Output, Table
from .progress import Progress
from .reassignment_plan import check_brokers, lines_of, placement_of, plan_of, racks_of, text_of
from .reassignment_throttle import remove_throttle, set_throttle

if TYPE_CHECKING:
    from ..admin.session import Admin

app = new_app("Move replicas: plan, run, status, cancel.")

_POLL_S = 0.2

Topics = Annotated[
    list[str] | None, typer.Argument(metavar="[TOPIC...]", help="default: all topics", autocompletion=complete_topic)
]


@app.command("plan")
@client_command
def plan(
    connection: Connection,
    output: Output,
    topics: Topics = None,
    brokers: Annotated[
        str | None, typer.Option("--brokers", metavar="ID,...", help="brokers that may hold replicas (default: all)")
    ] = None,
    file: Annotated[Path | None, typer.Option("--file", "-f", help="write the plan to this file")] = None,
) -> None:
    """Plan moves that balance leaders, replicas and bytes over brokers and racks. Nothing is changed."""
    with connection.admin() as admin:
        racks = racks_of(admin, brokers)
        before = placement_of(described_topics(admin, topics))
        sizes = replica_sizes(admin)
    try:
        after = Balance(before, racks, sizes).plan()
    except ValueError as error:
        raise Misused(str(error)) from None
    moved = {place: held for place, held in after.items() if held != before[place]}
    if file is not None:
        file.write_text(text_of(moved), encoding="utf-8")
    found = [
        {
            "topic": topic,
            "partition": index,
            "before": before[topic, index],
            "after": held,
            "bytes": sizes.get((topic, index), 0) * len(set(held) - set(before[topic, index])),
        }
        for (topic, index), held in moved.items()
    ]
    columns = ("TOPIC", "PARTITION", "BEFORE", "AFTER", "BYTES")
    output.show(found, Table("", columns, [list(one.values()) for one in found]))
    if not found and output.form == "table":
        warn("no replica moves: leaders, replicas and bytes are balanced")


@app.command("run")
@client_command
def run(
    plan: Annotated[Path, typer.Argument(metavar="PLAN", help="file of `reassign plan`, or of Kafka's tool")],
    connection: Connection,
    output: Output,
    rollback: Annotated[
        Path | None, typer.Option("--rollback", help="write the placement of now to this file, as a plan")
    ] = None,
    throttle: Annotated[
        int | None,
        typer.Option("--throttle", metavar="BYTES", help="limit of the bandwidth of each broker, per second"),
    ] = None,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="wait until all replicas have moved")] = True,
    dry_run: DryRun = False,
) -> None:
    """Move replicas by a plan. A throttle is removed at the end, or by `reassign status --clear-throttle`."""
    if throttle is not None and throttle <= 0:
        raise Misused("--throttle must be more than 0")
    wanted = plan_of(plan)
    with connection.admin() as admin:
        before = placement_of(described_topics(admin, sorted({topic for topic, _ in wanted})))
        if missing := [f"{topic}-{index}" for topic, index in wanted if (topic, index) not in before]:
            raise UserError(f"{', '.join(missing[:5])} of the plan do not exist")
        check_brokers(admin, wanted)
        moved = {place: held for place, held in wanted.items() if held != before[place]}
        if rollback is not None and not dry_run:
            rollback.write_text(text_of({place: before[place] for place in moved}), encoding="utf-8")
        if moved and not dry_run:
            if throttle is not None:
                set_throttle(admin, before, moved, throttle)
            alter_reassignments(admin, moved)
            if wait:
                _await(admin, set(moved))
                if throttle is not None:
                    remove_throttle(admin, {topic for topic, _ in moved})
    why = "all replicas are where the plan has them" if wanted else f"{plan} has no partitions"
    output.changed("moved" if wait else "begun", lines_of(moved), dry_run=dry_run, nothing=why)


@app.command("status")
@client_command
def status(
    connection: Connection,
    output: Output,
    clear_throttle: Annotated[
        bool, typer.Option("--clear-throttle", help="remove throttles, where no replica moves any more")
    ] = False,
) -> None:
    """List the moves that are under way."""
    with connection.admin() as admin:
        found = [
            {"topic": topic, "partition": index, "replicas": one.replicas, "adding": one.adding,
             "removing": one.removing}
            for (topic, index), one in list_reassignments(admin).items()
        ]  # fmt: skip
        if clear_throttle and not found:
            remove_throttle(admin, {str(topic.name) for topic in described_topics(admin, None)})
    columns = ("TOPIC", "PARTITION", "REPLICAS", "ADDING", "REMOVING")
    output.show(found, Table("", columns, [list(one.values()) for one in found]))


@app.command("cancel")
@client_command
def cancel(connection: Connection, output: Output, topics: Topics = None, dry_run: DryRun = False) -> None:
    """Cancel moves that are under way: replicas are where they were before."""
    with connection.admin() as admin:
        described_topics(admin, topics or [])  # raises the error for one that does not exist
        places = {place: None for place in list_reassignments(admin) if topics is None or place[0] in topics}
        if places and not dry_run:
            alter_reassignments(admin, places)
    names = [f"{topic}-{index}" for topic, index in places]
    output.changed("cancelled", names, dry_run=dry_run, nothing="no replicas move")


def _await(admin: Admin, places: set[Place]) -> None:
    left = len(places)
    with Progress("moving partitions", left) as progress:
        while left:
            now = len(places & list_reassignments(admin).keys())
            progress.advance(left - now)
            left = now
            if left:
                time.sleep(_POLL_S)
