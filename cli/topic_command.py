"""`odradek topic`: lists, descriptions and changes of topics."""

from __future__ import annotations

import fnmatch
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, NotRequired, TypedDict

import typer

from ..admin.configs import Kind, own_values
from ..admin.connection import Connection
from ..admin.errors import ResponseError
from ..admin.log_offsets import partition_offsets
from ..admin.offsets import offsets_of
from ..admin.places import sum_by_topic
from ..admin.readings import partition_states, replica_sizes
from ..admin.record_deletion import trim_topic
from ..admin.replicas import ReplicaCounts
from ..admin.topic_alteration import alter_topic
from ..admin.topic_batches import create_topics, delete_topics
from ..admin.topic_changes import NewTopic
from ..admin.topics import described_topics
from ..client.properties import pairs
from ..client.user_errors import Misused
from ..protocol.log_places import EARLIEST, LATEST
from .client.options import DryRun, Yes, client_command, new_app
from .client.record_counter import record_counter
from .client.value_completion import complete_topic
from .messages import warn
from .output import Output, Table
from .progress import Progress

if TYPE_CHECKING:
    from ..admin.session import Admin
    from ..admin.topics import Partition, Topic

app = new_app("List, describe, create, alter and delete topics.")

Names = Annotated[list[str], typer.Argument(metavar="TOPIC...", autocompletion=complete_topic)]
Name = Annotated[str, typer.Argument(metavar="TOPIC", autocompletion=complete_topic)]
Config = Annotated[
    list[str] | None, typer.Option("--config", "-c", metavar="KEY=VALUE", help="a topic config; may be repeated")
]


@app.command("list")
@client_command
def list_topics(
    connection: Connection,
    output: Output,
    pattern: Annotated[
        str | None, typer.Argument(metavar="PATTERN", help="only topics whose name matches, such as 'orders*'")
    ] = None,
    internal: Annotated[bool, typer.Option("--internal", help="show internal topics, too")] = False,
    sizes: Annotated[bool, typer.Option("--sizes", help="show the number of offsets and bytes")] = False,
    count: Annotated[
        bool, typer.Option("--count", help="count records by the headers of their batches; needs odradek[columns]")
    ] = False,
    under_replicated: Annotated[
        bool, typer.Option("--under-replicated", help="only topics with under-replicated or leaderless partitions")
    ] = False,
) -> None:
    """List topics."""
    with connection.admin() as admin:
        topics = [
            topic
            for topic in described_topics(admin, None)
            if (internal or not topic.is_internal)
            and (pattern is None or fnmatch.fnmatchcase(topic.name, pattern))
            and (not under_replicated or _lacks_replicas(topic))
        ]
        found = [_summary(topic) for topic in topics]
        if sizes:
            _add_sizes(admin, topics, found)
    if count:
        _add_records(connection, found)
    keys = ["name", "partitions", "replicas", "under_replicated", *(["offsets", "bytes"] if sizes else [])]
    keys += ["records"] if count else []
    columns = [key.upper().replace("_", " ") for key in keys]
    shown: Sequence[Mapping[str, object]] = found
    output.show(shown, Table("", columns, [[one[key] for key in keys] for one in shown]))


class TopicSummary(TypedDict):
    name: str
    id: str
    internal: bool
    partitions: int
    replicas: int
    under_replicated: int
    offsets: NotRequired[int]
    bytes: NotRequired[int]
    records: NotRequired[int]


class DescribedPartition(TypedDict):
    partition: int
    leader: int
    leader_epoch: int
    replicas: list[int]
    isr: list[int]
    offline: list[int]
    first_offset: int | None
    end_offset: int | None
    bytes: int | None


def _summary(topic: Topic) -> TopicSummary:
    counts = ReplicaCounts().add(partition_states([topic]))
    return {
        "name": topic.name,
        "id": str(topic.topic_id or ""),
        "internal": topic.is_internal,
        "partitions": counts.partitions,
        "replicas": counts.replicas,
        "under_replicated": counts.under_replicated,
    }


def _lacks_replicas(topic: Topic) -> bool:
    return any(one.is_under_replicated or not one.has_leader for one in partition_states([topic]))


def _add_sizes(admin: Admin, topics: list[Topic], summaries: list[TopicSummary]) -> None:
    first, last = partition_offsets(admin, topics, EARLIEST), partition_offsets(admin, topics, LATEST)
    offsets, sizes = sum_by_topic(offsets_of(first, last)), sum_by_topic(replica_sizes(admin))
    for one in summaries:
        one["offsets"] = offsets.get(one["name"], 0)
        one["bytes"] = sizes.get(one["name"], 0)


def _add_records(connection: Connection, summaries: list[TopicSummary]) -> None:
    count = record_counter()
    with Progress("topics", len(summaries)) as progress:
        for one in summaries:
            one["records"] = count(connection.properties, one["name"])
            progress.advance()


@app.command()
@client_command
def describe(names: Names, connection: Connection, output: Output) -> None:
    """Show partitions, leaders, replicas, offsets, sizes and configs of topics."""
    with connection.admin() as admin:
        topics = described_topics(admin, names)
        first, last = partition_offsets(admin, topics, EARLIEST), partition_offsets(admin, topics, LATEST)
        sizes = replica_sizes(admin)
        configs = {topic.name: _configs(admin, topic.name) for topic in topics}
    described: list[dict[str, object]] = []
    rows: list[list[object]] = []
    about = []
    for topic in topics:
        name, summary, own = topic.name, _summary(topic), configs[topic.name]
        places = [_partition(name, partition, first, last, sizes) for partition in topic.partitions]
        described.append({**summary, "configs": own, "partitions": places})
        rows += [[name, *place.values()] for place in places]
        about.append((name, summary["id"], len(places), summary["replicas"], _config_text(own)))
    columns = ("TOPIC", "PARTITION", "LEADER", "EPOCH", "REPLICAS", "ISR", "OFFLINE", "FIRST", "END", "BYTES")
    overview = Table("Topics", ("NAME", "ID", "PARTITIONS", "REPLICAS", "CONFIGS"), about)
    output.show(described, Table("Partitions", columns, rows), overview)


def _configs(admin: Admin, name: str) -> dict[str, str | None] | None:
    """The configs that a topic has itself; None, with a warning, where this user may not see them."""
    try:
        return {key: one.value for key, one in own_values(admin, Kind.TOPIC, name).items()}
    except ResponseError as error:
        if not error.is_denial:
            raise
        warn(f"configs are not shown: {error}")
        return None


def _partition(
    name: str,
    partition: Partition,
    first: dict[tuple[str, int], int],
    last: dict[tuple[str, int], int],
    sizes: dict[tuple[str, int], int],
) -> DescribedPartition:
    place = (name, partition.partition_index)
    return {
        "partition": partition.partition_index,
        "leader": partition.leader_id,
        "leader_epoch": partition.leader_epoch,
        "replicas": partition.replica_nodes,
        "isr": partition.isr_nodes,
        "offline": partition.offline_replicas,
        "first_offset": first.get(place),
        "end_offset": last.get(place),
        "bytes": sizes.get(place),
    }


def _config_text(configs: Mapping[str, str | None] | None) -> str:
    if configs is None:
        return "not authorized"
    return " ".join(f"{key}={value}" for key, value in sorted(configs.items()))


@app.command()
@client_command
def create(
    names: Annotated[list[str], typer.Argument(metavar="TOPIC...")],
    connection: Connection,
    output: Output,
    partitions: Annotated[
        int | None, typer.Option("--partitions", "-p", help="number of partitions (default: num.partitions)")
    ] = None,
    replication_factor: Annotated[
        int | None,
        typer.Option(
            "--replication-factor",
            "--replicas",
            "-r",
            help="replicas of each partition (default: default.replication.factor)",
        ),
    ] = None,
    config: Config = None,
    if_not_exists: Annotated[bool, typer.Option("--if-not-exists", help="do nothing when the topic exists")] = False,
    dry_run: DryRun = False,
) -> None:
    """Create topics."""
    for option, value in (("--partitions", partitions), ("--replication-factor", replication_factor)):
        if value is not None and value < 1:
            raise Misused(f"{option} must be at least 1")
    options = NewTopic(
        -1 if partitions is None else partitions,
        -1 if replication_factor is None else replication_factor,
        pairs(config or [], "--config"),
    )
    with connection.admin() as admin, Progress("creating topics", len(names)) as progress:
        made = create_topics(
            admin, names, options, if_not_exists=if_not_exists, dry_run=dry_run, advance=progress.advance
        )
    output.changed("created", made, dry_run=dry_run)


@app.command()
@client_command
def alter(
    name: Name,
    connection: Connection,
    output: Output,
    partitions: Annotated[int | None, typer.Option("--partitions", "-p", help="new number of partitions")] = None,
    replication_factor: Annotated[
        int | None,
        typer.Option("--replication-factor", "--replicas", "-r", help="new number of replicas of each partition"),
    ] = None,
    config: Config = None,
    delete_config: Annotated[
        list[str] | None,
        typer.Option("--delete-config", metavar="KEY", help="remove a topic config; the broker's default applies"),
    ] = None,
    dry_run: DryRun = False,
) -> None:
    """Change partitions, replicas or configs of a topic."""
    configs: dict[str, tuple[str, str | None]] = {
        key: ("SET", value) for key, value in pairs(config or [], "--config").items()
    }
    configs |= dict.fromkeys(delete_config or [], ("DELETE", None))
    if partitions is None and replication_factor is None and not configs:
        raise Misused("nothing to change: give --partitions, --replication-factor, --config or --delete-config")
    with connection.admin() as admin:
        done = alter_topic(admin, name, partitions, replication_factor, configs, dry_run=dry_run)
    output.changed("altered", done, dry_run=dry_run)


@app.command()
@client_command
def delete(
    names: Names,
    connection: Connection,
    output: Output,
    if_exists: Annotated[bool, typer.Option("--if-exists", help="do nothing when the topic does not exist")] = False,
    yes: Yes = False,
    dry_run: DryRun = False,
) -> None:
    """Delete topics with their records. On a terminal, ask for confirmation first."""
    if sys.stdin.isatty() and not yes and not dry_run:
        typer.confirm(f"Delete {', '.join(names)} with all records?", abort=True, err=True)
    with connection.admin() as admin, Progress("deleting topics", len(names)) as progress:
        gone = delete_topics(admin, names, if_exists=if_exists, dry_run=dry_run, advance=progress.advance)
    output.changed("deleted", gone, dry_run=dry_run)


@app.command()
@client_command
def trim(
    name: Name,
    connection: Connection,
    output: Output,
    before: Annotated[
        str, typer.Option("--before", metavar="OFFSET|end", help="delete the records before this offset")
    ],
    partition: Annotated[
        int | None, typer.Option("--partition", "-p", help="only this partition (default: all)")
    ] = None,
    dry_run: DryRun = False,
) -> None:
    """Delete the oldest records of a topic."""
    if before != "end" and not (before.isascii() and before.isdecimal() and len(before) <= 19):
        raise Misused("--before needs an offset, or `end` for all records")
    with connection.admin() as admin:
        offset = None if before == "end" else int(before)
        done = trim_topic(admin, name, partition, offset, dry_run=dry_run, note=warn)
    output.changed("trimmed", done, dry_run=dry_run)
