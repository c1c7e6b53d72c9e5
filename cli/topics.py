"""`odradek topic`: its commands, and the changes that they and the console make."""

from __future__ import annotations

import fnmatch
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, NotRequired, TypedDict

import typer

from .client.admin import (
    EARLIEST,
    LATEST,
    alter_configs,
    api_error,
    check,
    config_values,
    described_topics,
    partition_offsets,
    replica_sizes,
)
from .client.errors import CommandError, Misused
from .client.options import Connection, DryRun, Output, Yes, client_command, complete_topic, new_app
from .client.properties import pairs
from .output import Progress, Table

if TYPE_CHECKING:
    from .client.admin import AdminClient, Partition, Topic, TopicOptions, TopicResult

# Changes of topics. Each function returns names of what was changed, or with `dry_run` of what would be.


_UNKNOWN_TOPIC, _TOPIC_EXISTS = 3, 36
#: Topics in one request.
_AT_ONCE = 100


def create_topics(
    admin: AdminClient, names: Sequence[str], options: TopicOptions, *, if_not_exists: bool, dry_run: bool
) -> list[str]:
    """With `dry_run` the broker validates and creates nothing."""
    outcome = _Outcome("created")
    with Progress("creating topics", len(names)) as progress:
        for some in _batches(names):
            asked = dict.fromkeys(some, options)
            response = admin.create_topics(asked, validate_only=dry_run, raise_errors=False)
            for topic in response["topics"]:
                progress.advance()
                if not (if_not_exists and topic["error_code"] == _TOPIC_EXISTS):
                    outcome.add(topic["name"], topic["error_code"], topic["error_message"])
    if outcome.done and not dry_run:
        # Other brokers learn of a topic a moment later: the next command may go to one of them.
        admin.wait_for_topics(outcome.done)
    return outcome.result()


class _Outcome:
    """The outcome of a request for each of several topics: some may be done although others have errors."""

    def __init__(self, word: str) -> None:
        self._word = word
        self.done: list[str] = []
        self._errors: list[CommandError] = []

    def add(self, name: str, code: int, message: str | None = None) -> None:
        if code:
            self._errors.append(api_error(f"topic {name}", code, message))
        else:
            self.done.append(name)

    def result(self) -> list[str]:
        """Raises CommandError for the first error; the line names what was done all the same."""
        if not self._errors:
            return self.done
        words = [str(error) for error in self._errors[:3]]
        if len(self._errors) > 3:
            words.append(f"and {len(self._errors) - 3} more errors")
        if self.done:
            words.append(f"{self._word} nevertheless: {', '.join(self.done)}")
        raise CommandError("; ".join(words), self._errors[0].status)


def delete_topics(admin: AdminClient, names: Sequence[str], *, if_exists: bool, dry_run: bool) -> list[str]:
    outcome = _Outcome("deleted")
    with Progress("deleting topics", len(names)) as progress:
        for some in _batches(names):
            topics: Sequence[Topic | TopicResult]
            if dry_run:
                topics = admin.describe_topics(some)
            else:
                topics = admin.delete_topics(some, raise_errors=False)["topics"]
            for topic in topics:
                progress.advance()
                if not (if_exists and topic["error_code"] == _UNKNOWN_TOPIC):
                    outcome.add(topic["name"], topic["error_code"])
    return outcome.result()


def _batches(names: Sequence[str]) -> list[list[str]]:
    return [list(names[start : start + _AT_ONCE]) for start in range(0, len(names), _AT_ONCE)]


def alter_topic(
    admin: AdminClient,
    name: str,
    partitions: int | None,
    replication_factor: int | None,
    configs: Mapping[str, tuple[str, str | None]],
    *,
    dry_run: bool,
) -> list[str]:
    (topic,) = described_topics(admin, [name])
    done = []
    if configs:
        alter_configs(admin, "topic", name, configs, dry_run=dry_run)
        done += [
            f"{name}: {key}" if word == "DELETE" else f"{name}: {key}={value}" for key, (word, value) in configs.items()
        ]
    if partitions is not None:
        response = admin.create_partitions({name: partitions}, validate_only=dry_run, raise_errors=False)
        for result in response.results:
            check(f"topic {name}", result.error_code, result.error_message)
        done.append(f"{name}: {partitions} partitions")
    if replication_factor is not None:
        moved = _placed(admin, topic, replication_factor)
        if not dry_run:
            _reassign(admin, name, moved)
        done += [
            f"{name}-{index}: replicas {','.join(map(str, replicas))}" for index, replicas in sorted(moved.items())
        ]
    return done


def _placed(admin: AdminClient, topic: Topic, count: int) -> dict[int, list[int]]:
    """New replicas for each partition whose number differs. The first that run stay; new ones go where the fewest are."""
    brokers = [broker["broker_id"] for broker in admin.describe_cluster()["brokers"] if not broker.get("is_fenced")]
    if not 1 <= count <= len(brokers):
        raise Misused(f"--replication-factor {count}: the cluster has only {len(brokers)} brokers")
    held = Counter(node for partition in topic["partitions"] for node in partition["replica_nodes"])
    placed = {}
    for partition in topic["partitions"]:
        old = list(partition["replica_nodes"])
        if len(old) == count:
            continue
        # A dead replica in place of one that runs would leave the partition with fewer live copies than `count`.
        new = sorted(old, key=lambda node: node not in brokers)[:count] if count < len(old) else old
        while len(new) < count:
            node = min((broker for broker in brokers if broker not in new), key=lambda broker: (held[broker], broker))
            held[node] += 1
            new.append(node)
        placed[partition["partition_index"]] = new
    return placed


def _reassign(admin: AdminClient, name: str, moved: Mapping[int, list[int]]) -> None:
    from kafka.structs import TopicPartition

    if not moved:
        return
    asked = {TopicPartition(name, index): replicas for index, replicas in moved.items()}
    for where, error in admin.alter_partition_reassignments(asked).items():
        if error is not None:
            raise CommandError(f"{name}-{where.partition}: {getattr(error, 'message', error.__name__)}")


def trim_topic(admin: AdminClient, name: str, partition: int | None, before: int | None, *, dry_run: bool) -> list[str]:
    """Deletes records before an offset, None for all, of one partition or of all."""
    from kafka.structs import TopicPartition

    (topic,) = described_topics(admin, [name])
    chosen = [one["partition_index"] for one in topic["partitions"] if partition in (None, one["partition_index"])]
    if not chosen:
        raise Misused(f"{name} has no partition {partition}")
    ends = partition_offsets(admin, [topic], LATEST)
    if leaderless := [f"{name}-{index}" for index in chosen if (name, index) not in ends]:
        raise CommandError(
            f"{', '.join(leaderless)}: no leader now, and nothing was deleted; start a broker with a replica"
        )
    offsets = {index: ends[name, index] if before is None else min(before, ends[name, index]) for index in chosen}
    if not dry_run:
        admin.delete_records({TopicPartition(name, index): offset for index, offset in offsets.items()})
    return [f"{name}-{index}: before offset {offset}" for index, offset in offsets.items()]


# ---- the commands

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
    sizes: Annotated[bool, typer.Option("--sizes", help="show the number of records and bytes")] = False,
    under_replicated: Annotated[
        bool, typer.Option("--under-replicated", help="only topics with under-replicated or leaderless partitions")
    ] = False,
) -> None:
    """List topics."""
    with connection.admin() as admin:
        topics = [
            topic
            for topic in described_topics(admin, None)
            if (internal or not topic["is_internal"])
            and (pattern is None or fnmatch.fnmatchcase(topic["name"], pattern))
            and (not under_replicated or _lacks_replicas(topic))
        ]
        found = [_summary(topic) for topic in topics]
        if sizes:
            _add_sizes(admin, topics, found)
    columns = ["NAME", "PARTITIONS", "REPLICAS", "UNDER REPLICATED", *(["RECORDS", "BYTES"] if sizes else [])]
    keys = ["name", "partitions", "replicas", "under_replicated", *(["records", "bytes"] if sizes else [])]
    shown: Sequence[Mapping[str, object]] = found
    output.show(shown, Table("", columns, [[one[key] for key in keys] for one in shown]))


class TopicSummary(TypedDict):
    name: str
    id: str
    internal: bool
    partitions: int
    replicas: int
    under_replicated: int
    records: NotRequired[int]
    bytes: NotRequired[int]


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
    partitions = topic["partitions"]
    return {
        "name": topic["name"],
        "id": str(topic["topic_id"]),
        "internal": topic["is_internal"],
        "partitions": len(partitions),
        "replicas": max((len(partition["replica_nodes"]) for partition in partitions), default=0),
        "under_replicated": sum(_is_short(partition) for partition in partitions),
    }


def _is_short(partition: Partition) -> bool:
    return len(partition["isr_nodes"]) < len(partition["replica_nodes"]) or partition["leader_id"] < 0


def _lacks_replicas(topic: Topic) -> bool:
    return any(_is_short(partition) for partition in topic["partitions"])


def _add_sizes(admin: AdminClient, topics: list[Topic], found: list[TopicSummary]) -> None:
    first, last = partition_offsets(admin, topics, EARLIEST), partition_offsets(admin, topics, LATEST)
    sizes = replica_sizes(admin)
    for one in found:
        places = [place for place in last if place[0] == one["name"]]
        one["records"] = sum(last[place] - first.get(place, 0) for place in places)
        one["bytes"] = sum(size for place, size in sizes.items() if place[0] == one["name"])


@app.command()
@client_command
def describe(names: Names, connection: Connection, output: Output) -> None:
    """Show partitions, leaders, replicas, offsets, sizes and configs of topics."""
    with connection.admin() as admin:
        topics = described_topics(admin, names)
        first, last = partition_offsets(admin, topics, EARLIEST), partition_offsets(admin, topics, LATEST)
        sizes = replica_sizes(admin)
        configs = {
            topic["name"]: {key: value["value"] for key, value in found.items()}
            for topic in topics
            for found in [config_values(admin, "topic", topic["name"], which="modified")]
        }
    described: list[dict[str, object]] = []
    rows: list[list[object]] = []
    about = []
    for topic in topics:
        name, summary, own = topic["name"], _summary(topic), configs[topic["name"]]
        places = [_partition(name, partition, first, last, sizes) for partition in topic["partitions"]]
        described.append({**summary, "configs": own, "partitions": places})
        rows += [[name, *place.values()] for place in places]
        about.append((name, summary["id"], len(places), summary["replicas"], _config_text(own)))
    columns = ("TOPIC", "PARTITION", "LEADER", "EPOCH", "REPLICAS", "ISR", "OFFLINE", "FIRST", "END", "BYTES")
    overview = Table("Topics", ("NAME", "ID", "PARTITIONS", "REPLICAS", "CONFIGS"), about)
    output.show(described, Table("Partitions", columns, rows), overview)


def _partition(
    name: str,
    partition: Partition,
    first: dict[tuple[str, int], int],
    last: dict[tuple[str, int], int],
    sizes: dict[tuple[str, int], int],
) -> DescribedPartition:
    place = (name, partition["partition_index"])
    return {
        "partition": partition["partition_index"],
        "leader": partition["leader_id"],
        "leader_epoch": partition["leader_epoch"],
        "replicas": partition["replica_nodes"],
        "isr": partition["isr_nodes"],
        "offline": partition["offline_replicas"],
        "first_offset": first.get(place),
        "end_offset": last.get(place),
        "bytes": sizes.get(place),
    }


def _config_text(configs: Mapping[str, str | None]) -> str:
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
    options: TopicOptions = {
        "num_partitions": -1 if partitions is None else partitions,
        "replication_factor": -1 if replication_factor is None else replication_factor,
        "configs": pairs(config or [], "--config"),
    }
    with connection.admin() as admin:
        made = create_topics(admin, names, options, if_not_exists=if_not_exists, dry_run=dry_run)
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
    with connection.admin() as admin:
        gone = delete_topics(admin, names, if_exists=if_exists, dry_run=dry_run)
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
        done = trim_topic(admin, name, partition, None if before == "end" else int(before), dry_run=dry_run)
    output.changed("trimmed", done, dry_run=dry_run)
