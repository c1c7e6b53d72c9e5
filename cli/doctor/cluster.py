"""Checks of a running cluster through the Kafka protocol."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from ...admin.configs import Kind, describe_configs
from ...admin.connection import Connection
from ...admin.errors import ResponseError
from ...admin.log_directories import describe_log_dirs
from ...admin.metadata_quorum import describe_quorum
from ...admin.nodes import describe_cluster
from ...admin.open_transactions import open_transactions
from ...admin.topics import described_topics
from ...client.wording import counted
from ..transaction_command import HANGS_AFTER_MS
from .directory import disk, remote_metadata
from .finding import ERROR, WARNING, Finding, limited
from .settings import dangers

if TYPE_CHECKING:
    from ...admin.nodes import Broker
    from ...admin.session import Admin
    from ...admin.topics import Topic

#: A broker that leads so many times its share is unbalanced, in clusters with some partitions.
_SKEW, _FEWEST_LEADERS = 1.5, 30

Topics = list["Topic"]


def check_cluster(admin: Admin) -> Iterator[Finding]:
    cluster = describe_cluster(admin)
    topics = described_topics(admin, None)
    brokers = cluster.brokers
    serving = [int(broker.broker_id) for broker in brokers if not broker.is_fenced]
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


def check_remote_metadata(connection: Connection, admin: Admin) -> Iterator[Finding]:
    """Records of `__remote_log_metadata` that nodes skip; nothing in a cluster without tiered storage."""
    from ...tiers.segment_metadata import METADATA_TOPIC

    if any(topic.name == METADATA_TOPIC for topic in described_topics(admin, None)):
        from ..tier_metadata import RemoteMetadata

        metadata = RemoteMetadata(connection)
        metadata.read()
        for number in metadata.damaged_partitions():
            for one in metadata.partition(number).damaged:
                yield remote_metadata(f"{METADATA_TOPIC}-{number}, offset {one.offset}", one.reason)


def _fenced(brokers: list[Broker]) -> Iterator[Finding]:
    for broker in brokers:
        if broker.is_fenced:
            yield Finding(
                ERROR,
                "broker",
                f"broker {broker.broker_id}",
                "it is fenced",
                "check the broker's log, and restart it",
            )


def _replicas(topics: Topics) -> Iterator[Finding]:
    for topic in topics:
        for one in topic.partitions:
            subject = f"{topic.name}-{one.partition_index}"
            out = sorted(set(one.replica_nodes) - set(one.isr_nodes))
            if one.leader_id < 0:
                words = f"no leader; its replicas are on brokers {', '.join(map(str, one.replica_nodes))}"
                yield Finding(ERROR, "partition", subject, words, "start these brokers")
            elif out:
                words = f"brokers {', '.join(map(str, out))} are out of sync"
                yield Finding(
                    WARNING, "partition", subject, words, "start these brokers, or wait until they have caught up"
                )


def _leaders(topics: Topics, brokers: int) -> Iterator[Finding]:
    partitions = [one for topic in topics for one in topic.partitions if one.leader_id >= 0]
    leads = Counter(one.leader_id for one in partitions)
    share = len(partitions) / brokers if brokers else 0
    advice = "wait for auto.leader.rebalance.enable, or move replicas"
    for node, count in sorted(leads.items()):
        if len(partitions) >= _FEWEST_LEADERS and count > _SKEW * share + 1:
            words = f"it leads {counted(count, 'partition')}; an even share is {share:.0f}"
            yield Finding(WARNING, "leaders", f"broker {node}", words, advice)
    away = [one for one in partitions if one.replica_nodes and one.leader_id != one.replica_nodes[0]]
    if partitions and len(away) / len(partitions) > 0.1:
        words = f"{len(away)} of {counted(len(partitions), 'partition')} not led by the preferred replica"
        yield Finding(WARNING, "leaders", "cluster", words, advice)


def _single_replicas(topics: Topics, brokers: int) -> Iterator[Finding]:
    if brokers < 2:
        return
    for topic in topics:
        if any(len(one.replica_nodes) == 1 for one in topic.partitions):
            advice = f"`odradek topic alter {topic.name} --replication-factor {min(3, brokers)}`"
            yield Finding(
                WARNING,
                "replication",
                topic.name,
                "one replica: its records are lost when its broker is lost",
                advice,
            )


def _directories(admin: Admin, serving: list[int]) -> Iterator[Finding]:
    for broker in describe_log_dirs(admin, brokers=serving):
        for one in broker.log_dirs:
            subject = f"broker {broker.broker}: {one.log_dir}"
            if one.error_code:
                yield Finding(
                    ERROR, "log directory", subject, "it is offline", "replace the disk and restart the broker"
                )
            else:
                yield from disk(subject, one.usable_bytes or 0, one.total_bytes or 0)


def _settings(admin: Admin, serving: list[int], brokers: int) -> Iterator[Finding]:
    for node in serving:
        try:
            found = describe_configs(admin, Kind.BROKER, str(node))
        except ResponseError as error:
            advice = "check the ACLs of this user: it needs DESCRIBE_CONFIGS on the cluster"
            yield Finding(WARNING, "settings", f"broker {node}", f"its configs were not checked: {error}", advice)
            continue
        yield from dangers(f"broker {node}", {key: one.value for key, one in found.items()}, brokers=brokers)


def _quorum(admin: Admin) -> Iterator[Finding]:
    partition = describe_quorum(admin)
    voters = partition.current_voters
    newest = max((one.last_caught_up_timestamp for one in voters), default=-1)
    for one in voters:
        behind = newest - one.last_caught_up_timestamp
        if one.replica_id != partition.leader_id and behind > 60_000:
            caught_up = one.last_caught_up_timestamp
            words = f"this voter last caught up with the leader {behind // 1000} s ago"
            words = words if caught_up >= 0 else "this voter has never caught up with the leader"
            yield Finding(ERROR, "quorum", f"node {one.replica_id}", words, "start the node, or check its log")
    if len(voters) == 2:
        words = "two voters: the cluster stops when one of them fails"
        yield Finding(WARNING, "quorum", "cluster", words, "add a third controller")


def _transactions(admin: Admin) -> Iterator[Finding]:
    for one in open_transactions(admin, None):
        if one["hangs"] and one["age_ms"] >= HANGS_AFTER_MS:
            subject = f"{one['topic']}-{one['partition']}"
            words = f"the transaction of producer {one['producer_id']} hangs from offset {one['start_offset']} on"
            place = f"--topic {one['topic']} --partition {one['partition']} --producer-id {one['producer_id']}"
            yield Finding(ERROR, "transaction", subject, words, f"`odradek txn abort {place}`")
