"""`odradek cluster describe|quorum|features|log-dirs`: the state of a running cluster."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from ..admin.connection import Connection
from ..admin.features import describe_features
from ..admin.log_directories import describe_log_dirs
from ..admin.metadata_quorum import describe_quorum
from ..admin.nodes import check_running, describe_cluster
from ..admin.quorum import quorum_replicas
from ..admin.readings import controller_of, partition_states, quorum_members
from ..admin.replicas import ReplicaCounts
from ..admin.topics import described_topics
from .client.options import client_command, new_app
from .output import Output, Table

if TYPE_CHECKING:
    from ..admin.log_directories import LogDirectory

describe_app = new_app("Show brokers, controller and the state of replicas.")
quorum_app = new_app("Show the metadata quorum.")
features_app = new_app("Show features and their levels.")
log_dirs_app = new_app("Show log directories of brokers.")


@describe_app.command("describe")
@client_command
def describe(connection: Connection, output: Output) -> None:
    """Show brokers, controller and the state of replicas."""
    with connection.admin() as admin:
        cluster = describe_cluster(admin)
        topics = described_topics(admin, None)
        controller = controller_of(admin, cluster)
    counts = ReplicaCounts().add(partition_states(topics))
    brokers = [
        {
            "broker": broker.broker_id,
            "host": broker.host,
            "port": broker.port,
            "rack": broker.rack,
            "fenced": bool(broker.is_fenced),
            "controller": broker.broker_id == controller,
            "leads": counts.leads[broker.broker_id],
            "replicas": counts.holds[broker.broker_id],
            "out_of_sync": counts.lacks[broker.broker_id],
        }
        for broker in sorted(cluster.brokers, key=lambda broker: broker.broker_id)
    ]
    found = {
        "cluster_id": cluster.cluster_id,
        "controller": controller,
        "topics": len(topics),
        "partitions": counts.partitions,
        "under_replicated": counts.under_replicated,
        "without_leader": counts.without_leader,
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
        partition = describe_quorum(admin)
    members = quorum_members(partition)
    found = [asdict(one) for one in quorum_replicas(partition.leader_id, partition.high_watermark, members)]
    about = {
        "leader": partition.leader_id,
        "epoch": partition.leader_epoch,
        "high_watermark": partition.high_watermark,
    }
    columns = [name.upper().replace("_", " ") for name in found[0]] if found else []
    main = Table("Replicas", columns, [list(one.values()) for one in found])
    described = Table("Quorum", ("PROPERTY", "VALUE"), [(key.replace("_", " "), value) for key, value in about.items()])
    output.show([{**about, "replicas": found}], main, described)


@features_app.command("features")
@client_command
def features(connection: Connection, output: Output) -> None:
    """Show each feature's level in use, and the levels that the broker supports."""
    with connection.admin() as admin:
        response = describe_features(admin)
    found = []
    for name, feature in sorted(response.items()):
        supported, finalized = feature.supported, feature.finalized
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
        check_running(admin, broker or ())
        topics = [
            (one.name, [each.partition_index for each in one.partitions]) for one in described_topics(admin, topic)
        ]
        asked = dict(topics) if topic else None
        response = describe_log_dirs(admin, asked, broker or None)
    found: list[dict[str, object]] = []
    for node in sorted(response, key=lambda node: node.broker):
        for directory in node.log_dirs:
            found += _rows(node.broker, directory, by_replica=bool(topic))
    columns = [name.upper().replace("_", " ") for name in found[0]] if found else ["BROKER"]
    output.show(found, Table("", columns, [list(one.values()) for one in found]))


def _rows(broker: int, directory: LogDirectory, *, by_replica: bool) -> list[dict[str, object]]:
    replicas = [(topic.name, partition) for topic in directory.topics for partition in topic.partitions]
    if by_replica:
        return [
            {
                "broker": broker,
                "directory": directory.log_dir,
                "topic": name,
                "partition": one.partition_index,
                "bytes": one.partition_size,
                "offset_lag": one.offset_lag,
                "future": one.is_future_key,
            }
            for name, one in replicas
        ]
    return [
        {
            "broker": broker,
            "directory": directory.log_dir,
            "online": directory.error_code == 0,
            "replicas": len(replicas),
            "bytes": sum(one.partition_size for _, one in replicas),
            "disk_bytes": directory.total_bytes,
            "free_bytes": directory.usable_bytes,
        }
    ]
