"""What goes into a coordinator shard and what comes out of it.

A request goes in with a token that the caller holds. Out come records, and replies by token: at once, later, or after a
timer. Of one `Output` the records are appended first; its replies go out only AFTER the high watermark has passed the
last record appended so far, reads included, so nothing that could still be lost is ever shown.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from ..metadata.image import MetadataImage
from ..protocol.schema import Message


class Record(NamedTuple):
    """One record of `__consumer_offsets`: typed key and value; a value of None is a tombstone."""

    key: Message
    value: Message | None
    value_version: int = 0
    #: Of a record that counts once this producer's transaction is committed.
    producer_id: int = -1
    producer_epoch: int = -1


class Reply(NamedTuple):
    token: object
    response: Message


class Output(NamedTuple):
    records: list[Record]
    replies: list[Reply]


@dataclass(slots=True)
class GroupRequest:
    """A request to the shard that owns its group.

    `token`: comes back with the reply, once. `request`: in the form of its newest version; `version`: the one that the
    client sent. `member_uuid`: chance for a member id that may have to be made.
    """

    token: object
    request: Message
    version: int = 0
    client_id: str = ""
    client_host: str = ""
    member_uuid: str = ""


@dataclass(frozen=True, slots=True)
class TopicsDeleted:
    """Topics that are no more, name -> id: what was committed for them goes."""

    topics: dict[str, bytes]


@dataclass(frozen=True, slots=True)
class MetadataChanged:
    """What groups are assigned by. `topics`: names of those that came, went or have other partitions than before."""

    image: MetadataImage
    topics: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class StreamsGroupsConfig:
    """What streams groups go by that have no configuration of their own (KIP-1071)."""

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000
    assignment_interval_ms: int = 1_000
    initial_rebalance_delay_ms: int = 3_000
    task_offset_interval_ms: int = 60_000
    acceptable_recovery_lag: int = 10_000
    num_standby_replicas: int = 0
    rack_aware_assignment_tags: tuple[str, ...] = ()
    max_size: int = 2_147_483_647


Bounds = tuple[int, int]


@dataclass(frozen=True, slots=True)
class GroupsConfig:
    """What the shard takes from the broker's configuration; Kafka's keys, units last."""

    initial_rebalance_delay_ms: int = 3_000
    min_session_timeout_ms: int = 6_000
    max_session_timeout_ms: int = 1_800_000
    max_group_size: int = 2_147_483_647
    #: How long a member that has never been answered may wait in JoinGroup; a constant in Kafka too.
    new_member_join_timeout_ms: int = 300_000
    offset_metadata_max_bytes: int = 4_096
    offsets_retention_ms: int = 7 * 24 * 60 * 60 * 1_000
    offsets_retention_check_interval_ms: int = 600_000
    consumer_session_timeout_ms: int = 45_000
    #: Lowest and highest of what a group may have of its own.
    consumer_session_timeout_bounds_ms: Bounds = (45_000, 60_000)
    consumer_heartbeat_interval_bounds_ms: Bounds = (5_000, 15_000)
    consumer_assignment_interval_bounds_ms: Bounds = (0, 15_000)
    consumer_heartbeat_interval_ms: int = 5_000
    consumer_assignment_interval_ms: int = 1_000
    consumer_regex_refresh_interval_ms: int = 600_000
    consumer_max_size: int = 2_147_483_647
    consumer_assignors: tuple[str, ...] = ("uniform", "range")
    #: Which way groups may change their protocol while they have members: bidirectional, upgrade, downgrade, disabled.
    consumer_migration_policy: str = "bidirectional"
    share_session_timeout_ms: int = 45_000
    share_heartbeat_interval_ms: int = 5_000
    share_assignment_interval_ms: int = 1_000
    share_max_size: int = 200
    #: How long the persister may take to begin a state before it is asked again.
    share_initialize_retry_interval_ms: int = 30_000
    streams: StreamsGroupsConfig = StreamsGroupsConfig()
    #: A group's record that is larger could not be appended (max.message.bytes of the topic).
    max_record_bytes: int = 1_048_588
