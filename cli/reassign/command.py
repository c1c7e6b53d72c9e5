"""`odradek reassign`: moves replicas between brokers, by a plan in the form of kafka-reassign-partitions.sh."""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..client.admin_calls import alter_configs, check, described_topics, replica_sizes
from ..client.completing import complete_topic
from ..client.connection import Connection
from ..client.errors import CommandError, Misused
from ..client.options import DryRun, Output, client_command, new_app
from ..client.wire_requests import ask
from ..output.progress import Progress
from ..output.results import Table
from .balance import Balance, Place, Placement

if TYPE_CHECKING:
    from ...protocol.messages.list_partition_reassignments import OngoingPartitionReassignment
    from ..client.admin import AdminClient, Topic


app = new_app("Move replicas: plan, run, status, cancel.")

_POLL_S = 0.2
_NO_REASSIGNMENT = 85
_RATES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
_REPLICAS = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")
#: A plan has 100 bytes for each partition; larger files are none.
_MOST_PLAN_BYTES = 64 << 20

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
        racks = _racks(admin, brokers)
        before = _placement(described_topics(admin, topics))
        sizes = replica_sizes(admin)
    try:
        after = Balance(before, racks, sizes).plan()
    except ValueError as error:
        raise Misused(str(error)) from None
    moved = {place: held for place, held in after.items() if held != before[place]}
    if file is not None:
        file.write_text(_text_of(moved), encoding="utf-8")
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
    output.show(
        found, Table("", [name.upper() for name in found[0]] if found else (), [list(one.values()) for one in found])
    )


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
    wanted = _plan_of(plan)
    with connection.admin() as admin:
        before = _placement(described_topics(admin, sorted({topic for topic, _ in wanted})))
        if missing := [f"{topic}-{index}" for topic, index in wanted if (topic, index) not in before]:
            raise CommandError(f"{', '.join(missing[:5])} of the plan do not exist")
        moved = {place: held for place, held in wanted.items() if held != before[place]}
        if rollback is not None and not dry_run:
            rollback.write_text(_text_of({place: before[place] for place in moved}), encoding="utf-8")
        if moved and not dry_run:
            if throttle is not None:
                _throttle(admin, before, moved, throttle)
            _send(admin, moved)
            if wait:
                _await(admin, set(moved))
                if throttle is not None:
                    _clear(admin, {topic for topic, _ in moved})
    output.changed("moved" if wait else "begun", _lines(moved), dry_run=dry_run)


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
            {"topic": topic, "partition": one.partition_index, "replicas": list(one.replicas),
             "adding": list(one.adding_replicas), "removing": list(one.removing_replicas)}
            for (topic, _), one in _ongoing(admin).items()
        ]  # fmt: skip
        if clear_throttle and not found:
            _clear(admin, {str(topic["name"]) for topic in described_topics(admin, None)})
    columns = ("TOPIC", "PARTITION", "REPLICAS", "ADDING", "REMOVING")
    output.show(found, Table("", columns, [list(one.values()) for one in found]))


@app.command("cancel")
@client_command
def cancel(connection: Connection, output: Output, topics: Topics = None, dry_run: DryRun = False) -> None:
    """Cancel moves that are under way: replicas are where they were before."""
    with connection.admin() as admin:
        places = {place: None for place in _ongoing(admin) if topics is None or place[0] in topics}
        if places and not dry_run:
            _send(admin, places)
    output.changed("cancelled", [f"{topic}-{index}" for topic, index in places], dry_run=dry_run)


# ---- plans


def _racks(admin: AdminClient, brokers: str | None) -> dict[int, str | None]:
    known = {one["broker_id"]: one["rack"] for one in admin.describe_cluster()["brokers"] if not one.get("is_fenced")}
    if brokers is None:
        return known
    try:
        chosen = [int(text) for text in brokers.split(",")]
    except ValueError:
        raise Misused(f"--brokers {brokers!r}: give ids, as 1,2,3") from None
    if unknown := [str(one) for one in chosen if one not in known]:
        raise Misused(
            f"--brokers: {', '.join(unknown)} do not run; brokers that run: {', '.join(map(str, sorted(known)))}"
        )
    return {one: known[one] for one in chosen}


def _placement(topics: Iterable[Topic]) -> Placement:
    return {
        (str(topic["name"]), one["partition_index"]): list(one["replica_nodes"])
        for topic in topics
        for one in topic["partitions"]
    }


def _text_of(placement: Mapping[Place, list[int]]) -> str:
    partitions = [{"topic": topic, "partition": index, "replicas": held} for (topic, index), held in placement.items()]
    return json.dumps({"version": 1, "partitions": partitions}, indent=1) + "\n"


def _plan_of(file: Path) -> Placement:
    try:
        with file.open("rb") as opened:
            content = json.loads(opened.read(_MOST_PLAN_BYTES))
        made = {(str(one["topic"]), int(one["partition"])): [int(node) for node in one["replicas"]]
                for one in content["partitions"]}  # fmt: skip
    except OSError as error:
        raise Misused(f"cannot read {file}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError) as error:
        raise Misused(f"{file} is not a plan: {error}") from None
    if wrong := [f"{topic}-{index}" for (topic, index), held in made.items() if not held or len(set(held)) < len(held)]:
        raise Misused(f"{file}: replicas of {', '.join(wrong[:5])} are missing, or named twice")
    return made


def _lines(placement: Mapping[Place, list[int]]) -> list[str]:
    return [f"{topic}-{index}: replicas {','.join(map(str, held))}" for (topic, index), held in placement.items()]


# ---- moves


def _send(admin: AdminClient, wanted: Mapping[Place, list[int] | None]) -> None:
    """Begins moves; None cancels one. Raises CommandError for the first that is refused."""
    from ...protocol.messages import alter_partition_reassignments as alter

    named: dict[str, list[alter.ReassignablePartition]] = defaultdict(list)
    for (topic, index), held in wanted.items():
        named[topic].append(alter.ReassignablePartition(index, held))
    topics = [alter.ReassignableTopic(topic, partitions) for topic, partitions in named.items()]
    response = ask(admin, alter.AlterPartitionReassignmentsRequest(topics=topics))
    check("reassignment", response.error_code, response.error_message)
    for topic in response.responses:
        for one in topic.partitions:
            if one.error_code != _NO_REASSIGNMENT:
                check(f"{topic.name}-{one.partition_index}", one.error_code, one.error_message)


def _ongoing(admin: AdminClient) -> dict[Place, OngoingPartitionReassignment]:
    from ...protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest

    response = admin.repeated(lambda: ask(admin, ListPartitionReassignmentsRequest(topics=None)))
    check("reassignments", response.error_code, response.error_message)
    return {(topic.name, one.partition_index): one for topic in response.topics for one in topic.partitions}


def _await(admin: AdminClient, places: set[Place]) -> None:
    left = len(places)
    with Progress("moving partitions", left) as progress:
        while left:
            now = len(places & _ongoing(admin).keys())
            progress.advance(left - now)
            left = now
            if left:
                time.sleep(_POLL_S)


def _throttle(admin: AdminClient, before: Placement, moved: Mapping[Place, list[int]], rate: int) -> None:
    """Leaders are those that have a replica before, followers those that get one, as Kafka's tool has it."""
    brokers = {node for place, held in moved.items() for node in (*held, *before[place])}
    for node in sorted(brokers):
        changes = {key: ("SET", str(rate)) for key in _RATES}
        alter_configs(admin, "broker", str(node), changes, dry_run=False)
    for name in sorted({topic for topic, _ in moved}):
        places = [place for place in moved if place[0] == name]
        leading = [f"{place[1]}:{node}" for place in places for node in before[place]]
        following = [f"{place[1]}:{node}" for place in places for node in moved[place] if node not in before[place]]
        values = dict(zip(_REPLICAS, (",".join(leading), ",".join(following)), strict=True))
        alter_configs(admin, "topic", name, {key: ("SET", value) for key, value in values.items()}, dry_run=False)


def _clear(admin: AdminClient, topics: Iterable[str]) -> None:
    for node in [one["broker_id"] for one in admin.describe_cluster()["brokers"]]:
        alter_configs(admin, "broker", str(node), dict.fromkeys(_RATES, ("DELETE", None)), dry_run=False)
    for name in sorted(topics):
        alter_configs(admin, "topic", name, dict.fromkeys(_REPLICAS, ("DELETE", None)), dry_run=False)
