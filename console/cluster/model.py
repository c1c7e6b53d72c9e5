"""The read model: an immutable picture of the cluster that all viewers share."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from typing import NamedTuple


class TopicFacts(NamedTuple):
    """`offsets`: ends minus starts, which are more than the records of a compacted topic. None: unknown. -1: no limit.
    `mirror`: the link that the topic follows, "" for none.
    """

    bytes: int | None
    offsets: int | None
    retention_ms: int | None
    retention_bytes: int | None
    policy: str
    newest_ms: int | None
    mirror: str = ""
    is_tiered: bool = False


class TopicRow(NamedTuple):
    """`records_per_s` is None until the topic's ends were read twice, and `facts` until they were read."""

    name: str
    partitions: int
    replicas: int
    under_replicated: int
    without_leader: int
    internal: bool
    records_per_s: float | None
    facts: TopicFacts | None = None


class BrokerRow(NamedTuple):
    """`silent`: the last poll got no response from it, and the controller has not fenced it yet."""

    broker: int
    host: str
    port: int
    rack: str | None
    fenced: bool
    leads: int
    replicas: int
    out_of_sync: int
    silent: bool = False


class GroupRow(NamedTuple):
    """`lag` is None for groups whose offsets were not read yet or cannot be, and for those without a commit. It is without
    `unknown` partitions, which have no leader that responds, and without `uncommitted` ones.
    """

    group: str
    kind: str
    state: str
    lag: int | None
    unknown: int = 0
    uncommitted: int = 0
    members: int | None = None
    topics: int | None = None
    coordinator: int | None = None


@dataclass(frozen=True, slots=True)
class Quorum:
    leader: int = -1
    epoch: int = -1
    voters: int = 0
    observers: int = 0


@dataclass(frozen=True, slots=True)
class Snapshot:
    """`topics` and `groups` are sorted by name. `controller`: the node of the active one. `error` is why the last poll
    failed; the rest is older then.
    """

    at: float = 0.0
    cluster_id: str = ""
    controller: int | None = None
    brokers: tuple[BrokerRow, ...] = ()
    quorum: Quorum = field(default_factory=Quorum)
    topics: tuple[TopicRow, ...] = ()
    groups: tuple[GroupRow, ...] = ()
    partitions: int = 0
    under_replicated: int = 0
    without_leader: int = 0
    records_per_s: float | None = None
    lag: int | None = None
    error: str = ""

    @property
    def is_filled(self) -> bool:
        return self.at > 0

    def topic(self, name: str) -> TopicRow | None:
        index = bisect_left(self.topics, name, key=lambda row: row.name)
        return self.topics[index] if index < len(self.topics) and self.topics[index].name == name else None
