"""`odradek cluster describe|quorum|features|log-dirs|elect-leaders|set-feature`: commands for a running cluster.

The first four show its state. `elect_leaders` and `set_feature` change leaders and feature levels.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Annotated

import typer

from .client.admin import api_error, ask, check, described_topics
from .client.connection import Connection
from .client.errors import NOT_FOUND, CommandError, Misused
from .client.options import DryRun, Output, client_command, complete_topic, new_app
from .client.properties import pairs
from .output import Table

if TYPE_CHECKING:
    from ..protocol.messages.partitions import ElectLeadersResponse
    from .client.admin import LogDirectory, Partition, QuorumPartition, QuorumReplica


# ---- state

describe_app = new_app("Show brokers, controller and the state of replicas.")
quorum_app = new_app("Show the metadata quorum.")
features_app = new_app("Show features and their levels.")
log_dirs_app = new_app("Show log directories of brokers.")


@describe_app.command("describe")
@client_command
def describe(connection: Connection, output: Output) -> None:
    """Show brokers, controller and the state of replicas."""
    with connection.admin() as admin:
        cluster = admin.describe_cluster()
        topics = described_topics(admin, None)
    partitions = [partition for topic in topics for partition in topic["partitions"]]
    leads = Counter(partition["leader_id"] for partition in partitions)
    holds = Counter(node for partition in partitions for node in partition["replica_nodes"])
    lacks = Counter(
        node for partition in partitions for node in set(partition["replica_nodes"]) - set(partition["isr_nodes"])
    )
    brokers = [
        {
            "broker": broker["broker_id"],
            "host": broker["host"],
            "port": broker["port"],
            "rack": broker["rack"],
            "fenced": bool(broker.get("is_fenced")),
            "controller": broker["broker_id"] == cluster["controller_id"],
            "leads": leads[broker["broker_id"]],
            "replicas": holds[broker["broker_id"]],
            "out_of_sync": lacks[broker["broker_id"]],
        }
        for broker in sorted(cluster["brokers"], key=lambda broker: broker["broker_id"])
    ]
    found = {
        "cluster_id": cluster["cluster_id"],
        "topics": len(topics),
        "partitions": len(partitions),
        "under_replicated": sum(len(one["isr_nodes"]) < len(one["replica_nodes"]) for one in partitions),
        "without_leader": sum(one["leader_id"] < 0 for one in partitions),
        "brokers": brokers,
    }
    about = [(key.replace("_", " "), value) for key, value in found.items() if key != "brokers"]
    columns = [name.upper().replace("_", " ") for name in brokers[0]] if brokers else []
    main = Table("Brokers", columns, [list(broker.values()) for broker in brokers])
    output.show([found], main, Table("Cluster", ("PROPERTY", "VALUE"), about))


@quorum_app.command("quorum")
@client_command
def quorum(connection: Connection, output: Output) -> None:
    """Show leader, epoch and replicas of the metadata log, and the lag of each replica."""
    with connection.admin() as admin:
        response = admin.describe_metadata_quorum()
    (partition,) = response["topics"][0]["partitions"]
    ends = [one["log_end_offset"] for one in partition["current_voters"] if one["replica_id"] == partition["leader_id"]]
    end = ends[0] if ends else partition["high_watermark"]
    caught_up = {one["replica_id"]: one["last_caught_up_timestamp"] for one in _replicas(partition)}
    now = max(caught_up.values(), default=-1)
    found = [
        {
            "node": one["replica_id"],
            "role": _role(one["replica_id"], partition),
            "directory": str(one.get("replica_directory_id") or ""),
            "end_offset": one["log_end_offset"],
            "lag": max(0, end - one["log_end_offset"]) if one["log_end_offset"] >= 0 else None,
            "ms_behind": now - one["last_caught_up_timestamp"] if one["last_caught_up_timestamp"] >= 0 else None,
        }
        for one in _replicas(partition)
    ]
    about = {
        "leader": partition["leader_id"],
        "epoch": partition["leader_epoch"],
        "high_watermark": partition["high_watermark"],
    }
    columns = [name.upper().replace("_", " ") for name in found[0]] if found else []
    main = Table("Replicas", columns, [list(one.values()) for one in found])
    described = Table("Quorum", ("PROPERTY", "VALUE"), [(key.replace("_", " "), value) for key, value in about.items()])
    output.show([{**about, "replicas": found}], main, described)


def _replicas(partition: QuorumPartition) -> list[QuorumReplica]:
    return [*partition["current_voters"], *partition["observers"]]


def _role(node: int, partition: QuorumPartition) -> str:
    if node == partition["leader_id"]:
        return "leader"
    return "voter" if any(one["replica_id"] == node for one in partition["current_voters"]) else "observer"


@features_app.command("features")
@client_command
def features(connection: Connection, output: Output) -> None:
    """Show each feature's level in use, and the levels that the broker supports."""
    with connection.admin() as admin:
        response = admin.describe_features()
    found = []
    for name, feature in sorted(response.items()):
        supported, finalized = feature.get("supported"), feature.get("finalized")
        found.append(
            {
                "feature": name,
                "level": finalized[1] if finalized else 0,
                "min": supported[0] if supported else None,
                "max": supported[1] if supported else None,
            }
        )
    output.show(found, Table("", ("FEATURE", "LEVEL", "MIN", "MAX"), [list(one.values()) for one in found]))


@log_dirs_app.command("log-dirs")
@client_command
def log_dirs(
    connection: Connection,
    output: Output,
    broker: Annotated[list[int] | None, typer.Option("--broker", help="only this broker; may be repeated")] = None,
    topic: Annotated[
        list[str] | None, typer.Option("--topic", "-t", help="show the replicas of this topic, one row each")
    ] = None,
) -> None:
    """Show log directories and their disk space, or the replicas of a topic in each directory."""
    with connection.admin() as admin:
        topics = [
            (one["name"], [p["partition_index"] for p in one["partitions"]]) for one in described_topics(admin, topic)
        ]
        asked = dict(topics) if topic else None
        response = admin.describe_log_dirs(asked, broker or None)
    found: list[dict[str, object]] = []
    for node in sorted(response, key=lambda node: int(node["broker"])):
        for directory in node["log_dirs"]:
            found += _rows(node["broker"], directory, by_replica=bool(topic))
    columns = [name.upper().replace("_", " ") for name in found[0]] if found else ["BROKER"]
    output.show(found, Table("", columns, [list(one.values()) for one in found]))


def _rows(broker: int, directory: LogDirectory, *, by_replica: bool) -> list[dict[str, object]]:
    replicas = [(topic["name"], partition) for topic in directory["topics"] for partition in topic["partitions"]]
    if by_replica:
        return [
            {
                "broker": broker,
                "directory": directory["log_dir"],
                "topic": name,
                "partition": one["partition_index"],
                "bytes": one["partition_size"],
                "offset_lag": one["offset_lag"],
                "future": one["is_future_key"],
            }
            for name, one in replicas
        ]
    return [
        {
            "broker": broker,
            "directory": directory["log_dir"],
            "online": directory["error_code"] == 0,
            "replicas": len(replicas),
            "bytes": sum(one["partition_size"] for _, one in replicas),
            "disk_bytes": directory.get("total_bytes"),
            "free_bytes": directory.get("usable_bytes"),
        }
    ]


# ---- changes

elect_leaders_app = new_app("Elect the preferred leaders of partitions.")
set_feature_app = new_app("Upgrade and downgrade features.")

_PREFERRED, _UNCLEAN = 0, 1
_ELECTION_NOT_NEEDED = 84
_UPGRADE, _SAFE_DOWNGRADE, _UNSAFE_DOWNGRADE = 1, 2, 3


@elect_leaders_app.command("elect-leaders")
@client_command
def elect_leaders(
    connection: Connection,
    output: Output,
    topics: Annotated[
        list[str] | None,
        typer.Argument(metavar="[TOPIC...]", help="default: all topics", autocompletion=complete_topic),
    ] = None,
    unclean: Annotated[
        bool,
        typer.Option(
            "--unclean", help="only leaderless partitions: a replica outside the ISR leads; records may be lost"
        ),
    ] = False,
    dry_run: DryRun = False,
) -> None:
    """Make the first replica of each partition its leader again, where it is in the ISR and does not lead."""
    from ..protocol.messages.partitions import ElectLeadersRequest, TopicPartitions

    with connection.admin() as admin:
        wanted = [
            (str(topic["name"]), one["partition_index"])
            for topic in described_topics(admin, topics)
            for one in topic["partitions"]
            if (one["leader_id"] < 0 if unclean else _has_other_leader(one))
        ]
        if wanted and not dry_run:
            named: dict[str, list[int]] = {}
            for topic, index in wanted:
                named.setdefault(topic, []).append(index)
            request = ElectLeadersRequest(
                election_type=_UNCLEAN if unclean else _PREFERRED,
                topic_partitions=[TopicPartitions(topic, indexes) for topic, indexes in named.items()],
            )
            _check_elections(ask(admin, request, admin.describe_cluster()["controller_id"]))
    output.changed("elected", [f"{topic}-{index}" for topic, index in wanted], dry_run=dry_run)


def _has_other_leader(partition: Partition) -> bool:
    preferred = partition["replica_nodes"][0]
    return bool(partition["leader_id"] != preferred and preferred in partition["isr_nodes"])


def _check_elections(response: ElectLeadersResponse) -> None:
    """Raises CommandError for the first partition that has no new leader."""
    check("election", response.error_code)
    for topic in response.replica_election_results:
        for one in topic.partition_result:
            if one.error_code and one.error_code != _ELECTION_NOT_NEEDED:
                raise api_error(f"{topic.topic}-{one.partition_id}", one.error_code, one.error_message)


@set_feature_app.command("set-feature")
@client_command
def set_feature(
    levels: Annotated[list[str], typer.Argument(metavar="NAME=LEVEL...", help="feature and level; 0 disables it")],
    connection: Connection,
    output: Output,
    unsafe: Annotated[
        bool, typer.Option("--unsafe", help="downgrade although metadata of the newer level is lost")
    ] = False,
    dry_run: DryRun = False,
) -> None:
    """Upgrade or downgrade features to the levels. With --dry-run the controller only validates them."""
    from ..protocol.messages.api_versions import FeatureUpdateKey, UpdateFeaturesRequest

    wanted = {name: _level(name, text) for name, text in pairs(levels, "set-feature").items()}
    with connection.admin() as admin:
        described = admin.describe_features()
        updates = []
        for name, level in wanted.items():
            if name not in described:
                raise CommandError(f"there is no feature {name}; `odradek cluster features` lists them", NOT_FOUND)
            finalized = described[name].get("finalized")
            downgrade = _UNSAFE_DOWNGRADE if unsafe else _SAFE_DOWNGRADE
            kind = downgrade if finalized and level < finalized[1] else _UPGRADE
            updates.append(FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=kind))
        response = ask(admin, UpdateFeaturesRequest(feature_updates=updates, validate_only=dry_run))
    check("features", response.error_code, response.error_message)
    for one in response.results:
        check(f"feature {one.feature}", one.error_code, one.error_message)
    output.changed("set", [f"{name}={level}" for name, level in wanted.items()], dry_run=dry_run)


def _level(name: str, text: str) -> int:
    if not (text.isascii() and text.isdecimal() and int(text) < 1 << 15):
        raise Misused(f"{name}={text!r}: a level is a number from 0 to 32767")
    return int(text)
