"""Changes of one topic: its configs, more partitions, and another number of replicas."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from ..client.user_errors import Misused
from ..client.wording import counted
from . import topic_changes
from .config_alteration import alter_configs
from .errors import check
from .nodes import describe_cluster
from .reassignments import alter_reassignments
from .session import Admin
from .topics import Topic, described_topics


def alter_topic(
    admin: Admin,
    name: str,
    partitions: int | None,
    replication_factor: int | None,
    configs: Mapping[str, tuple[str, str | None]],
    *,
    dry_run: bool,
) -> list[str]:
    """Returns what was changed, or with `dry_run` what would be."""
    (topic,) = described_topics(admin, [name])
    done = []
    if configs:
        alter_configs(admin, "topic", name, configs, dry_run=dry_run)
        done += [
            f"{name}: {key}" if word == "DELETE" else f"{name}: {key}={value}" for key, (word, value) in configs.items()
        ]
    if partitions is not None:
        for result in topic_changes.create_partitions(admin, {name: partitions}, validate_only=dry_run):
            check(f"topic {name}", result.error_code, result.error_message)
        done.append(f"{name}: {counted(partitions, 'partition')}")
    if replication_factor is not None:
        moved = _placed(admin, topic, replication_factor)
        if not dry_run:
            _reassign(admin, name, moved)
        done += [
            f"{name}-{index}: replicas {','.join(map(str, replicas))}" for index, replicas in sorted(moved.items())
        ]
    return done


def _placed(admin: Admin, topic: Topic, count: int) -> dict[int, list[int]]:
    """New replicas for each partition whose number differs. The first that run stay; new ones go where the fewest are."""
    brokers = [broker.broker_id for broker in describe_cluster(admin).brokers if not broker.is_fenced]
    if not 1 <= count <= len(brokers):
        raise Misused(f"--replication-factor {count}: the cluster has only {counted(len(brokers), 'broker')}")
    held = Counter(node for partition in topic.partitions for node in partition.replica_nodes)
    placed = {}
    for partition in topic.partitions:
        old = list(partition.replica_nodes)
        if len(old) == count:
            continue
        # A dead replica in place of one that runs would leave the partition with fewer live copies than `count`.
        new = sorted(old, key=lambda node: node not in brokers)[:count] if count < len(old) else old
        while len(new) < count:
            node = min((broker for broker in brokers if broker not in new), key=lambda broker: (held[broker], broker))
            held[node] += 1
            new.append(node)
        placed[partition.partition_index] = new
    return placed


def _reassign(admin: Admin, name: str, moved: Mapping[int, list[int]]) -> None:
    if moved:
        alter_reassignments(admin, {(name, index): replicas for index, replicas in moved.items()})
