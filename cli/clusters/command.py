"""`odradek cluster describe|quorum|features|log-dirs`: their commands."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Annotated

import typer

from ..client.admin_calls import described_topics
from ..client.connection import Connection
from ..client.options import Output, client_command, new_app
from ..output.results import Table

if TYPE_CHECKING:
    from ..client.admin import LogDirectory, QuorumPartition, QuorumReplica


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
