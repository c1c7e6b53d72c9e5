"""`odradek txn`: transactions, and those that hang."""

from __future__ import annotations

import sys
import time
from collections.abc import Container, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, TypedDict

import typer

from .client.admin import described_topics
from .client.connection import Connection
from .client.errors import NOT_FOUND, UNREACHABLE, CommandError, Misused
from .client.options import DryRun, Output, Yes, client_command, new_app
from .output import Table

if TYPE_CHECKING:
    from kafka.structs import TopicPartition

    from .client.admin import AdminClient, ProducerState

# Open transactions in partitions' logs, and those of them that no coordinator has (KIP-664).


#: Partitions in one question to the brokers.
_AT_ONCE = 500
_TRANSACTION_LOG = "__transaction_state"


class OpenTransaction(TypedDict):
    """A producer's state in a partition's log. `start_offset` is None without an open transaction."""

    topic: str
    partition: int
    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: int
    start_offset: int | None
    age_ms: int
    transactional_id: str | None
    hangs: bool | None


def open_transactions(
    admin: AdminClient, topics: Sequence[str] | None, *, every: bool = False, without: Container[int] = ()
) -> list[OpenTransaction]:
    """Producers with an open transaction, or with `every` all producers, of topics or of all that are not internal.

    Brokers of `without` are not asked: partitions that they lead are left out.

    `hangs` is True when no coordinator has a transaction of that producer with the partition. It is None when some
    coordinators were not asked, or moved meanwhile: then one of them may have the transaction.
    """
    from kafka.structs import TopicPartition

    described = described_topics(admin, topics)
    places = [
        TopicPartition(topic["name"], partition["partition_index"])
        for topic in described
        if topics is not None or not topic["is_internal"]
        for partition in topic["partitions"]
        if partition["leader_id"] >= 0 and partition["leader_id"] not in without
    ]
    found: list[OpenTransaction] = []
    now_ms = int(time.time() * 1000)
    for start in range(0, len(places), _AT_ONCE):
        response = admin.describe_producers(places[start : start + _AT_ONCE])
        for place, state in sorted(response.items()):
            for producer in state.active_producers:
                if every or producer.current_transaction_start_offset >= 0:
                    found.append(_row(place, producer, now_ms))
    known, is_whole = _known(admin, {one["producer_id"] for one in found if one["start_offset"] is not None}, without)
    for one in found:
        transactional_id, held = known.get(one["producer_id"], (None, frozenset()))
        one["transactional_id"] = transactional_id
        is_held = one["start_offset"] is None or (one["topic"], one["partition"]) in held
        one["hangs"] = False if is_held else True if is_whole else None
    return found


def _row(place: TopicPartition, one: ProducerState, now_ms: int) -> OpenTransaction:
    start = one.current_transaction_start_offset
    return {
        "topic": place.topic,
        "partition": place.partition,
        "producer_id": one.producer_id,
        "producer_epoch": one.producer_epoch,
        "last_sequence": one.last_sequence,
        "last_timestamp": one.last_timestamp,
        "start_offset": start if start >= 0 else None,
        "age_ms": max(0, now_ms - one.last_timestamp),
        "transactional_id": None,
        "hangs": None,
    }


def _known(
    admin: AdminClient, producer_ids: set[int], without: Container[int]
) -> tuple[dict[int, tuple[str, frozenset[tuple[str, int]]]], bool]:
    """Transactions of the coordinators: producer id -> its transactional id and the partitions of its open transaction;
    and whether these are of all coordinators.
    """
    if not producer_ids:
        return {}, True
    brokers = [one["broker_id"] for one in admin.describe_cluster()["brokers"] if not one.get("is_fenced")]
    asked = [broker for broker in brokers if broker not in without]
    before = _coordinators(admin)
    listed = [
        one
        for found in admin.list_transactions(asked, producer_id_filters=sorted(producer_ids)).values()
        for one in found
        if one.state.value in ("Ongoing", "PrepareCommit", "PrepareAbort")
    ]
    described = admin.describe_transactions([one.transactional_id for one in listed]) if listed else {}
    known = {
        one.producer_id: (
            one.transactional_id,
            frozenset((place.topic, place.partition) for place in described[one.transactional_id].topic_partitions),
        )
        for one in listed
    }
    return known, before == _coordinators(admin) and all(leader in asked for leader, _ in before.values())


def _coordinators(admin: AdminClient) -> dict[int, tuple[int, int]]:
    """Leader and epoch of each partition of the transaction log; none where the cluster has no such topic yet."""
    return {
        one["partition_index"]: (one["leader_id"], one["leader_epoch"])
        for topic in admin.describe_topics([_TRANSACTION_LOG])
        for one in topic["partitions"]
    }


# ---- the commands

app = new_app("List, describe and abort transactions, also hanging ones.")

#: Kafka's transaction.max.timeout.ms and five minutes: no coordinator leaves one open for longer.
_HANGS_AFTER_MS = 20 * 60_000


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
        int, typer.Option("--older-than-ms", help="with --hanging: age of the last record, in milliseconds")
    ] = _HANGS_AFTER_MS,
) -> None:
    """List transactions."""
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
                    "state": str(one.state.value),
                    "coordinator": broker,
                }
                for broker, listed in sorted(admin.list_transactions().items())
                for one in listed
                if state is None or state.lower() == str(one.state.value).lower()
            ]
    keys = _HANGING if hanging else ("transactional_id", "producer_id", "state", "coordinator")
    rows = [[one[key] for key in keys] for one in found]
    output.show(found, Table("", [key.upper().replace("_", " ") for key in keys], rows))


_HANGING = ("topic", "partition", "producer_id", "producer_epoch", "start_offset", "age_ms")


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
        one = admin.describe_transactions([name])[name]
    started = one.transaction_start_time_ms
    return {
        "transactional_id": name,
        "state": str(one.state.value),
        "coordinator": one.coordinator_id,
        "producer_id": one.producer_id,
        "producer_epoch": one.producer_epoch,
        "timeout_ms": one.transaction_timeout_ms,
        "start_ms": started if started >= 0 else None,
        "age_ms": max(0, int(time.time() * 1000) - started) if started >= 0 else None,
        "partitions": sorted(f"{place.topic}-{place.partition}" for place in one.topic_partitions),
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
    if (name is None) != by_place:
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
        raise CommandError(f"transaction {name} is not open: its state is {found['state']}")
    if dry_run:
        return
    from confluent_kafka import Producer

    producer = Producer(connection.librdkafka(transactional_id=name))
    producer.init_transactions(connection.timeout_s)


def _abort_by_place(connection: Connection, topic: str, partition: int, producer_id: int, *, dry_run: bool) -> None:
    from kafka.admin import AbortTransactionSpec
    from kafka.structs import TopicPartition

    with connection.admin() as admin:
        described_topics(admin, [topic])
        for one in open_transactions(admin, [topic]):
            if (one["partition"], one["producer_id"]) == (partition, producer_id):
                if one["hangs"] is None:
                    raise CommandError("not every transaction coordinator can be asked now: try again", UNREACHABLE)
                if not one["hangs"]:
                    raise CommandError(
                        f"transaction {one['transactional_id']} has a coordinator: abort it by its transactional id"
                    )
                if not dry_run:
                    place = TopicPartition(topic, partition)
                    admin.abort_transaction(AbortTransactionSpec(place, producer_id, one["producer_epoch"]))
                return
    raise CommandError(f"{topic}-{partition} has no open transaction of producer {producer_id}", NOT_FOUND)
