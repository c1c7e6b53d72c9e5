"""`odradek doctor`: checks of a data directory, of settings, and of a running cluster.

- `check_directory`: checks a data directory without its broker. Nothing is changed.
- `check_properties`, `dangers`: find settings with which acknowledged records can be lost.
- `check_cluster`: checks a running cluster through the Kafka protocol.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from .client.admin import config_values, described_topics
from .client.connection import Connection
from .client.errors import NOT_FOUND, CommandError
from .client.options import Output, client_command, new_app
from .output import Progress, Table
from .transactions import open_transactions

if TYPE_CHECKING:
    from .client.admin import AdminClient, Broker, Topic


ERROR, WARNING = "error", "warning"
#: Findings of one check that are shown; a cluster may have thousands of partitions.
_MOST_SHOWN = 50


class Finding(NamedTuple):
    """`check`: which one found it. `subject`: the file, partition, broker or key. `advice`: what to do."""

    severity: str
    check: str
    subject: str
    words: str
    advice: str


def limited(findings: Iterable[Finding]) -> Iterator[Finding]:
    """The first findings of a check, and one that counts the others."""
    more = 0
    last: Finding | None = None
    for number, one in enumerate(findings):
        if number < _MOST_SHOWN:
            yield one
        else:
            more, last = more + 1, one
    if last is not None:
        yield Finding(last.severity, last.check, f"and {more} more", last.words, last.advice)


#: Free space of a disk, as a part of it.
_LITTLE, _TOO_LITTLE = 0.15, 0.05
_OFFSET_ENTRY_BYTES, _TIME_ENTRY_BYTES = 8, 12
#: Folders that a broker makes besides partitions.
_OWN_FOLDERS = frozenset(("__cluster_metadata-0",))
_SUFFIXES = {
    "-stray": "a replica that was not assigned to this broker when it started: delete it when no data is missing",
    "-delete": "a deleted partition: the broker removes it within file.delete.delay.ms, or at its next start",
    "-future": "a replica that moves from another log directory: the broker continues when it starts",
}


# ---- a data directory


def check_directory(directory: Path) -> Iterator[Finding]:
    """Raises OSError when the directory cannot be read."""
    yield from _damage(directory)
    yield from _metadata_log(directory)
    yield from limited(_folders(directory))
    yield from limited(_indexes(directory))
    yield from disk(str(directory), *_space(directory))


def _space(directory: Path) -> tuple[int, int]:
    usage = shutil.disk_usage(directory)
    return usage.free, usage.total


def disk(subject: str, free: int, total: int) -> Iterator[Finding]:
    """A finding for a disk that is almost full. Sizes in bytes."""
    if total <= 0 or free / total >= _LITTLE:
        return
    severity = ERROR if free / total < _TOO_LITTLE else WARNING
    words = f"{free / total:.0%} of the disk is free ({free >> 20} MB)"
    yield Finding(severity, "disk", subject, words, "lower retention.ms or retention.bytes, or add a log directory")


def _damage(directory: Path) -> Iterator[Finding]:
    """Damaged and torn batches, checkpoints and metadata files, as `odradek repair` finds them."""
    from ..server.controller.repairing import findings

    def found() -> Iterator[Finding]:
        for one in findings(directory):
            if one.decision is not None:
                advice = f"stop the broker, then `odradek repair --data-dir {directory} {one.decision}`"
                yield Finding(ERROR, "damage", str(directory), one.words, advice)
            else:
                advice = (
                    "the broker repairs it at its next start, from other replicas if there are any; "
                    "see docs/specialists/damage.md"
                )
                yield Finding(WARNING, "damage", str(directory), one.words, advice)

    yield from limited(found())


def _metadata_log(directory: Path) -> Iterator[Finding]:
    """Records that an earlier release wrote and Apache Kafka cannot read."""
    from ..server.controller.metadata_log import DIRECTORY_NAME
    from ..server.controller.repairing import newer_leader_changes

    log = directory / DIRECTORY_NAME
    found = newer_leader_changes(log) if log.is_dir() else []
    if found:
        words = (
            f"{len(found)} LeaderChange records of version 1, the last at offset {found[-1]}: a node of Apache Kafka "
            "that reads one ends"
        )
        advice = (
            "before such a node joins, let a snapshot replace them: start all controllers with "
            "metadata.log.max.snapshot.interval.ms=10000 and metadata.max.retention.bytes=1 until this finding is gone"
        )
        yield Finding(WARNING, "metadata log", str(log), words, advice)


def _folders(directory: Path) -> Iterator[Finding]:
    from ..storage.directory import parse_replica_directory

    for path in sorted(directory.iterdir()):
        if not path.is_dir() or path.name in _OWN_FOLDERS:
            continue
        replica = parse_replica_directory(str(path))
        if replica is None:
            words = "the folder does not belong to a partition"
            yield Finding(WARNING, "stray folder", str(path), words, "move it out of this directory: no broker uses it")
        elif replica.suffix:
            meaning = next((text for suffix, text in _SUFFIXES.items() if suffix in replica.suffix), "left over")
            words, _, advice = meaning.partition(": ")
            yield Finding(WARNING, "stray folder", str(path), words, advice)


def _indexes(directory: Path) -> Iterator[Finding]:
    for log in sorted(directory.glob("*-*/*.log")):
        if log.parent.name in _OWN_FOLDERS:
            continue
        for suffix, entry_bytes in ((".index", _OFFSET_ENTRY_BYTES), (".timeindex", _TIME_ENTRY_BYTES)):
            index = log.with_suffix(suffix)
            if not index.exists():
                yield _index(index, "missing")
            elif index.stat().st_size % entry_bytes:
                yield _index(index, "its size is not a multiple of the entry size")


def _index(path: Path, words: str) -> Finding:
    return Finding(WARNING, "index", str(path), words, "the broker rebuilds it from the segment at its next start")


# ---- settings


def check_properties(file: Path) -> Iterator[Finding]:
    """Settings of a server.properties with which data can be lost. Raises Misused when it cannot be read."""
    from .client.properties import read_client_properties

    yield from dangers(str(file), read_client_properties(file), brokers=None)


def dangers(subject: str, values: Mapping[str, str | None], *, brokers: int | None) -> Iterator[Finding]:
    """Findings for a broker's configs. `brokers` None: their number is not known, so more than one is assumed."""
    several = brokers is None or brokers > 1

    def found(key: str, words: str, advice: str) -> Finding:
        return Finding(WARNING, "setting", f"{subject}: {key}={values.get(key)}", words, advice)

    if values.get("unclean.leader.election.enable") == "true":
        words = "a replica that lacks acknowledged records may become leader"
        yield found("unclean.leader.election.enable", words, "set it to false")
    if several:
        yield from _of_several(values, found_factors=(brokers or 3), subject=subject)
    if values.get("delete.topic.enable") == "false":
        yield found("delete.topic.enable", "topics cannot be deleted", "set it to true, unless this is intended")
    if values.get("log.cleaner.enable") == "false":
        yield found(
            "log.cleaner.enable", "compacted topics, committed offsets among them, grow forever", "set it to true"
        )


_FACTORS = (
    "default.replication.factor",
    "offsets.topic.replication.factor",
    "transaction.state.log.replication.factor",
    "share.coordinator.state.topic.replication.factor",
)


def _of_several(values: Mapping[str, str | None], *, found_factors: int, subject: str) -> Iterator[Finding]:
    for key in _FACTORS:
        if values.get(key) == "1":
            words = "new topics have one replica: their records are lost when a broker is lost"
            advice = f"set it to {min(3, found_factors)}"
            yield Finding(WARNING, "setting", f"{subject}: {key}=1", words, advice)
    for key in ("min.insync.replicas", "transaction.state.log.min.isr"):
        if values.get(key) == "1" and found_factors > 2:
            words = "a write is acknowledged when one replica has it"
            yield Finding(WARNING, "setting", f"{subject}: {key}=1", words, "set it to 2, with three replicas")


#: A broker that leads so many times its share is unbalanced, in clusters with some partitions.
_SKEW, _FEWEST_LEADERS = 1.5, 30
_HANGS_AFTER_MS = 20 * 60_000


# ---- a running cluster

Topics = list["Topic"]


def check_cluster(admin: AdminClient) -> Iterator[Finding]:
    cluster = admin.describe_cluster()
    topics = described_topics(admin, None)
    brokers = cluster["brokers"]
    serving = [int(broker["broker_id"]) for broker in brokers if not broker.get("is_fenced")]
    checks: tuple[Callable[[], Iterator[Finding]], ...] = (
        lambda: _fenced(brokers),
        lambda: _replicas(topics),
        lambda: _leaders(topics, len(brokers)),
        lambda: _single_replicas(topics, len(brokers)),
        lambda: _directories(admin, serving),
        lambda: _settings(admin, serving, len(brokers)),
        lambda: _quorum(admin),
        lambda: _transactions(admin),
    )
    for check in checks:
        yield from limited(check())


def _fenced(brokers: list[Broker]) -> Iterator[Finding]:
    for broker in brokers:
        if broker.get("is_fenced"):
            yield Finding(
                ERROR,
                "broker",
                f"broker {broker['broker_id']}",
                "it is fenced",
                "check the broker's log, and restart it",
            )


def _replicas(topics: Topics) -> Iterator[Finding]:
    for topic in topics:
        for one in topic["partitions"]:
            subject = f"{topic['name']}-{one['partition_index']}"
            out = sorted(set(one["replica_nodes"]) - set(one["isr_nodes"]))
            if one["leader_id"] < 0:
                words = f"no leader; its replicas are on brokers {', '.join(map(str, one['replica_nodes']))}"
                yield Finding(ERROR, "partition", subject, words, "start these brokers")
            elif out:
                words = f"brokers {', '.join(map(str, out))} are out of sync"
                yield Finding(
                    WARNING, "partition", subject, words, "start these brokers, or wait until they have caught up"
                )


def _leaders(topics: Topics, brokers: int) -> Iterator[Finding]:
    partitions = [one for topic in topics for one in topic["partitions"] if one["leader_id"] >= 0]
    leads = Counter(one["leader_id"] for one in partitions)
    share = len(partitions) / brokers if brokers else 0
    advice = "wait for auto.leader.rebalance.enable, or move replicas"
    for node, count in sorted(leads.items()):
        if len(partitions) >= _FEWEST_LEADERS and count > _SKEW * share + 1:
            words = f"it leads {count} partitions; an even share is {share:.0f}"
            yield Finding(WARNING, "leaders", f"broker {node}", words, advice)
    away = [one for one in partitions if one["replica_nodes"] and one["leader_id"] != one["replica_nodes"][0]]
    if partitions and len(away) / len(partitions) > 0.1:
        words = f"{len(away)} of {len(partitions)} partitions are not led by their preferred replica"
        yield Finding(WARNING, "leaders", "cluster", words, advice)


def _single_replicas(topics: Topics, brokers: int) -> Iterator[Finding]:
    if brokers < 2:
        return
    for topic in topics:
        if any(len(one["replica_nodes"]) == 1 for one in topic["partitions"]):
            advice = f"`odradek topic alter {topic['name']} --replication-factor {min(3, brokers)}`"
            yield Finding(
                WARNING,
                "replication",
                topic["name"],
                "one replica: its records are lost when its broker is lost",
                advice,
            )


def _directories(admin: AdminClient, serving: list[int]) -> Iterator[Finding]:
    for broker in admin.describe_log_dirs(brokers=serving):
        for one in broker["log_dirs"]:
            subject = f"broker {broker['broker']}: {one['log_dir']}"
            if one["error_code"]:
                yield Finding(
                    ERROR, "log directory", subject, "it is offline", "replace the disk and restart the broker"
                )
            else:
                yield from disk(subject, one.get("usable_bytes") or 0, one.get("total_bytes") or 0)


def _settings(admin: AdminClient, serving: list[int], brokers: int) -> Iterator[Finding]:
    for node in serving:
        values = {key: value["value"] for key, value in config_values(admin, "broker", str(node)).items()}
        yield from dangers(f"broker {node}", values, brokers=brokers)


def _quorum(admin: AdminClient) -> Iterator[Finding]:
    partition = admin.describe_metadata_quorum()["topics"][0]["partitions"][0]
    voters = partition["current_voters"]
    newest = max((one["last_caught_up_timestamp"] for one in voters), default=-1)
    for one in voters:
        behind = newest - one["last_caught_up_timestamp"]
        if one["replica_id"] != partition["leader_id"] and behind > 60_000:
            caught_up = one["last_caught_up_timestamp"]
            words = f"this voter last caught up with the leader {behind // 1000} s ago"
            words = words if caught_up >= 0 else "this voter has never caught up with the leader"
            yield Finding(ERROR, "quorum", f"node {one['replica_id']}", words, "start the node, or check its log")
    if len(voters) == 2:
        words = "two voters: the cluster stops when one of them fails"
        yield Finding(WARNING, "quorum", "cluster", words, "add a third controller")


def _transactions(admin: AdminClient) -> Iterator[Finding]:
    for one in open_transactions(admin, None):
        if one["hangs"] and one["age_ms"] >= _HANGS_AFTER_MS:
            subject = f"{one['topic']}-{one['partition']}"
            words = f"the transaction of producer {one['producer_id']} hangs from offset {one['start_offset']} on"
            place = f"--topic {one['topic']} --partition {one['partition']} --producer-id {one['producer_id']}"
            yield Finding(ERROR, "transaction", subject, words, f"`odradek txn abort {place}`")


# ---- the command

app = new_app("Check a data directory or a running cluster, and print advice.")

_KEYS = ("severity", "check", "subject", "finding", "advice")


@app.command()
@client_command
def doctor(
    connection: Connection,
    output: Output,
    data_dir: Annotated[
        Path | None,
        typer.Option("--data-dir", metavar="D", help="check this data directory instead of a running cluster"),
    ] = None,
    config: Annotated[
        Path | None, typer.Option("--config", metavar="server.properties", help="check the settings in this file")
    ] = None,
) -> None:
    """Check a data directory or a running cluster, and print advice. Exit status 1 when it finds a problem."""
    found: list[Finding] = []
    with Progress("findings", None) as progress:
        for one in _findings(connection, data_dir, config):
            found.append(one)
            progress.advance()
    if found or output.form != "table":
        data = [dict(zip(_KEYS, one, strict=True)) for one in found]
        output.show(data, Table("", [key.upper() for key in _KEYS], found))
    else:
        typer.echo("nothing was found")
    if found:
        raise typer.Exit(1)


def _findings(connection: Connection, data_dir: Path | None, config: Path | None) -> Iterator[Finding]:

    if data_dir is not None:
        if not data_dir.is_dir():
            raise CommandError(f"{data_dir} is not a directory", NOT_FOUND)
        yield from check_directory(data_dir)
    if config is not None:
        yield from check_properties(config)
    if data_dir is None and config is None:
        with connection.admin() as admin:
            yield from check_cluster(admin)
