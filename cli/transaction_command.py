"""`odradek txn`: transactions, and those that hang."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from typing import Annotated

import typer

from ..admin.connection import Connection
from ..admin.open_transactions import open_transactions
from ..admin.topics import described_topics
from ..admin.transactions import abort_in_log, describe_transactions
from ..admin.transactions import list_transactions as listed_transactions
from ..client.error_kinds import ErrorKind
from ..client.user_errors import Misused, UserError
from .client.options import DryRun, Yes, client_command, new_app, one_of
from .output import Output, Table

app = new_app("List, describe and abort transactions, also hanging ones.")

#: Kafka's transaction.max.timeout.ms and five minutes: no coordinator leaves one open for longer.
HANGS_AFTER_MS = 20 * 60_000

#: Those of the coordinator, as the protocol names them.
_STATES = (
    "Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort", "Dead", "PrepareEpochFence",
)  # fmt: skip
_HANGING = ("topic", "partition", "producer_id", "producer_epoch", "start_offset", "age_ms")


@app.command("list")
@client_command
def list_transactions(
    connection: Connection,
    output: Output,
    state: Annotated[
        str | None, typer.Option("--state", help="only this state, such as Ongoing or CompleteCommit")
    ] = None,
    hanging: Annotated[
        bool, typer.Option("--hanging", help="only transactions that are open in a log and have no coordinator")
    ] = False,
    topic: Annotated[list[str] | None, typer.Option("--topic", "-t", help="with --hanging: only these topics")] = None,
    older_than_ms: Annotated[
        int, typer.Option("--older-than-ms", min=0, help="with --hanging: age of the last record, in milliseconds")
    ] = HANGS_AFTER_MS,
) -> None:
    """List transactions."""
    state = one_of("--state", state, _STATES)
    with connection.admin() as admin:
        if hanging:
            found: Sequence[Mapping[str, object]] = [
                one for one in open_transactions(admin, topic) if one["hangs"] and one["age_ms"] >= older_than_ms
            ]
        else:
            found = [
                {
                    "transactional_id": one.transactional_id,
                    "producer_id": one.producer_id,
                    "state": one.state,
                    "coordinator": broker,
                }
                for broker, listed in sorted(listed_transactions(admin).items())
                for one in listed
                if state in (None, one.state)
            ]
    keys = _HANGING if hanging else ("transactional_id", "producer_id", "state", "coordinator")
    rows = [[one[key] for key in keys] for one in found]
    output.show(found, Table("", [key.upper().replace("_", " ") for key in keys], rows))


@app.command()
@client_command
def describe(
    name: Annotated[str, typer.Argument(metavar="TRANSACTIONAL-ID")], connection: Connection, output: Output
) -> None:
    """Show producer, state, age and partitions of a transaction."""
    found = _described(connection, name)
    rows = [(key.replace("_", " "), value) for key, value in found.items()]
    output.show([found], Table("", ("PROPERTY", "VALUE"), rows))


def _described(connection: Connection, name: str) -> dict[str, object]:
    with connection.admin() as admin:
        one = describe_transactions(admin, [name])[name]
    started = one.start_time_ms
    return {
        "transactional_id": name,
        "state": one.state,
        "coordinator": one.coordinator_id,
        "producer_id": one.producer_id,
        "producer_epoch": one.producer_epoch,
        "timeout_ms": one.timeout_ms,
        "start_ms": started if started >= 0 else None,
        "age_ms": max(0, int(time.time() * 1000) - started) if started >= 0 else None,
        "partitions": sorted(f"{topic}-{index}" for topic, index in one.partitions),
    }


@app.command()
@client_command
def producers(topic: Annotated[str, typer.Argument(metavar="TOPIC")], connection: Connection, output: Output) -> None:
    """Show producers that write to a topic, and their open transactions."""
    with connection.admin() as admin:
        found: Sequence[Mapping[str, object]] = open_transactions(admin, [topic], every=True)
    keys = ("partition", "producer_id", "producer_epoch", "last_sequence", "last_timestamp", "start_offset", "hangs")
    rows = [[one[key] for key in keys] for one in found]
    output.show(found, Table("", [key.upper().replace("_", " ") for key in keys], rows))


@app.command()
@client_command
def abort(
    connection: Connection,
    output: Output,
    name: Annotated[str | None, typer.Argument(metavar="[TRANSACTIONAL-ID]")] = None,
    topic: Annotated[str | None, typer.Option("--topic", "-t", help="topic of a hanging transaction")] = None,
    partition: Annotated[
        int | None, typer.Option("--partition", "-p", help="partition of a hanging transaction")
    ] = None,
    producer_id: Annotated[
        int | None, typer.Option("--producer-id", help="producer id of a hanging transaction")
    ] = None,
    yes: Yes = False,
    dry_run: DryRun = False,
) -> None:
    """Abort a transaction: by its id, which fences its producer, or a hanging one by partition and producer id."""
    by_place = topic is not None and partition is not None and producer_id is not None
    has_place = (topic, partition, producer_id) != (None, None, None)
    if (name is None) != by_place or (name is not None and has_place):
        raise Misused("give a TRANSACTIONAL-ID, or --topic, --partition and --producer-id of a hanging one")
    subject = name if name is not None else f"{topic}-{partition}, producer {producer_id}"
    if sys.stdin.isatty() and not yes and not dry_run:
        typer.confirm(f"Abort the transaction of {subject}?", abort=True, err=True)
    if name is not None:
        _abort_by_id(connection, name, dry_run=dry_run)
    else:
        _abort_by_place(connection, str(topic), int(partition or 0), int(producer_id or 0), dry_run=dry_run)
    output.changed("aborted", [subject], dry_run=dry_run)


def _abort_by_id(connection: Connection, name: str, *, dry_run: bool) -> None:
    """A new producer with the id makes the coordinator abort what the old one left open (KIP-98)."""
    found = _described(connection, name)
    if found["state"] not in ("Ongoing", "PrepareAbort"):
        raise UserError(f"transaction {name} is not open: its state is {found['state']}")
    if dry_run:
        return
    from confluent_kafka import Producer

    producer = Producer(connection.librdkafka(transactional_id=name))
    producer.init_transactions(connection.timeout_s)


def _abort_by_place(connection: Connection, topic: str, partition: int, producer_id: int, *, dry_run: bool) -> None:
    with connection.admin() as admin:
        described_topics(admin, [topic])
        for one in open_transactions(admin, [topic]):
            if (one["partition"], one["producer_id"]) == (partition, producer_id):
                if one["hangs"] is None:
                    raise UserError(
                        "not every transaction coordinator can be asked now: try again", ErrorKind.UNREACHABLE
                    )
                if not one["hangs"]:
                    raise UserError(
                        f"transaction {one['transactional_id']} has a coordinator: abort it by its transactional id"
                    )
                if not dry_run:
                    abort_in_log(admin, (topic, partition), producer_id, one["producer_epoch"])
                return
    raise UserError(f"{topic}-{partition} has no open transaction of producer {producer_id}", ErrorKind.NOT_FOUND)
