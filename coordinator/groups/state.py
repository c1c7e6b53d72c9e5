"""The groups of a shard: their kinds, their interface, their records, and the one way to change their state.

- `Group`: a group of any kind. `group_record`, `offset_record`: records of classic groups and of committed offsets.
- `ShardState`: the state of a shard. `write` records a decision and replays it at once. Durable state is set in no
  other way, so a shard that replays its log reaches the same state (`ClassicGroup.durable`, what consumer groups are,
  and the committed offsets).
- `validate_commit`, `validate_fetch`, `validate_delete`: offset rules of groups with server-side assignment (KIP-848,
  KIP-1071).
- `OffsetStore`: the committed offsets, and those of open transactions.
- `Kind`: the parts of a kind of groups. The shard, the offsets and the tools use them, and know no kind by name. A new
  kind is a folder with a module `kind` that makes one of these, and a row in kinds.py.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol, TypeVar

from ...metadata.image import EMPTY_IMAGE, GROUP_RESOURCE, MetadataImage
from ...protocol.errors import ErrorCode
from ...protocol.internal.consumer_offsets import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from ...protocol.messages.groups import ListedGroup
from ...protocol.messages.offsets import OffsetCommitRequest, OffsetFetchRequestGroup, TxnOffsetCommitRequest
from ...protocol.schema import Message
from .. import result
from ..result import Bounds, Event, GroupRequest, GroupsConfig, Record, Reply, Timer, Timers

if TYPE_CHECKING:
    from ...metadata.delta import Part

# ---- kinds of groups

Operation = Callable[["ShardState", GroupRequest, int], None]
#: Replays one record of a kind: the state, the record's key, its value.
Replay = Callable[["ShardState", Any, Any], None]
#: Makes the response to a request that failed as a whole: the request, its version, the error.
ErrorResponse = Callable[[Any, int, ErrorCode], Message]
#: Classes of a record's key and value.
RecordType = tuple[type[Message], type[Message]]


class Session(NamedTuple):
    """The session of a member: its timer, and its length."""

    member_id: str
    timer: Timer
    timeout_ms: int


@dataclass(frozen=True)
class OffsetRules:
    """The rules for the offsets of a group. `group` is always of the kind; now is in milliseconds."""

    #: (state, group, request, version, now) -> of the whole request
    validate_commit: Callable[[ShardState, Any, OffsetCommitRequest, int, int], ErrorCode]
    #: (group, request) -> of the whole request
    validate_transactional_commit: Callable[[Any, TxnOffsetCommitRequest], ErrorCode]
    #: (group) -> may offsets of topics without subscribers be deleted?
    validate_delete: Callable[[Any], ErrorCode]
    #: (state, group, topic, committed, now) -> has its retention passed?
    is_expired: Callable[[ShardState, Any, str, CommittedOffset, int], bool]
    #: (group, request, topic id, partition) -> error of one partition; None if `validate_commit` is enough.
    validate_partition: Callable[[Any, OffsetCommitRequest, bytes, int], ErrorCode] | None = None
    #: The same within a transaction, where one partition that is refused refuses the whole request.
    validate_transactional_partition: Callable[[Any, TxnOffsetCommitRequest, bytes, int], ErrorCode] | None = None
    #: (group, request) -> error of the whole group; None if there is nothing to check.
    validate_fetch: Callable[[Any, OffsetFetchRequestGroup], ErrorCode] | None = None


@dataclass(frozen=True)
class Kind:
    #: The name of the kind and of its groups' class, and the first word of their timers' events.
    name: str
    operations: Mapping[type[Message], Operation]
    #: Key of a record -> what replays it.
    replays: Mapping[type[Message], Replay]
    #: The number that a key begins with -> key and value.
    record_types: Mapping[int, RecordType]
    #: Request -> its response with one error, where that is not the one of the schema.
    error_responses: Mapping[type[Message], ErrorResponse]
    offsets: OffsetRules
    #: (state, group, now): after the log was loaded.
    restore: Callable[[ShardState, Any, int], None]
    #: (state, group): the sessions of its members, without those of which a request waits.
    sessions: Callable[[ShardState, Any], Iterable[Session]]
    #: (state, event, now): a timer whose event begins with the kind's name and a space.
    expired: Callable[[ShardState, Event, int], None]
    #: (state, group): writes the records that delete an empty group, without its offsets.
    delete: Callable[[ShardState, Any], None]
    #: (group): why it may not be deleted; NONE when it is empty.
    validate_deletion: Callable[[Any], ErrorCode]
    #: (state, group, names of topics that came, went or have other partitions): `state.image` is the new one.
    metadata_changed: Callable[[ShardState, Any, frozenset[str]], None] | None = None
    #: Whether an empty group goes when its last offset does.
    expires: bool = True
    #: Whether an empty group makes room for one of another kind that begins under its id.
    replaceable_when_empty: bool = True
    #: Handlers of classic requests to a group of the kind that has members: (state, group, message, now).
    classic_requests: Mapping[type[Message], Callable[[ShardState, Any, GroupRequest, int], None]] = field(
        default_factory=dict
    )
    #: Requests whose members are given an id when they come without.
    joins: tuple[type[Message], ...] = field(default=())


# ---- groups of any kind
#
# The interface of groups of any kind, for code that is independent of the kind: offsets, tools, retention.


class Group(Protocol):
    """A group. A group id has one kind at a time; the operations of a kind are in its `Kind`."""

    #: The name in ListGroups, and the prefix of timer events: "classic", "consumer".
    kind: ClassVar[str]
    group_id: str

    @property
    def state(self) -> Enum:
        """Returns the state. Its value is the name in tools."""

    @property
    def protocol_type(self) -> str | None: ...

    def is_subscribed_to(self, topic: str) -> bool: ...

    def input_topics(self) -> Collection[str]:
        """Returns the topics that the members read, as far as they are known."""

    def cancel_timers(self) -> None:
        """Cancels all timers: the group is deleted, or replaced by one of another kind."""


class KeptListing(ListedGroup):
    """The entry of a group in ListGroups, valid while group, state and protocol type are those that it was made from.

    `content`: the entry as it was encoded for `version`; empty before that.
    """

    __slots__ = ("content", "group", "state", "version")

    def __init__(self, group: Group, state: Enum, protocol_type: str) -> None:
        super().__init__(group.group_id, protocol_type, state.value, group.kind)
        self.group = group
        self.state = state
        self.version = -1
        self.content = b""


# ---- records
#
# Records of classic groups and of committed offsets, in the versions that Kafka 4.4 writes.
#
# GroupMetadataValue 3, OffsetCommitValue 4, or 1 when the client asked for a retention time of its own.


GROUP_METADATA_VERSION = 3
OFFSET_COMMIT_VERSION = 4
#: The version that has an expiry of its own.
OFFSET_COMMIT_EXPIRING_VERSION = 1


def group_record(group_id: str, value: GroupMetadataValue | None) -> Record:
    return Record(GroupMetadataKey(group=group_id), value, GROUP_METADATA_VERSION)


def offset_record(
    group_id: str,
    topic: str,
    partition: int,
    value: OffsetCommitValue | None,
    producer_id: int = -1,
    producer_epoch: int = -1,
) -> Record:
    expires = value is not None and value.expire_timestamp != -1
    version = OFFSET_COMMIT_EXPIRING_VERSION if expires else OFFSET_COMMIT_VERSION
    key = OffsetCommitKey(group=group_id, topic=topic, partition=partition)
    return Record(key, value, version, producer_id, producer_epoch)


def encoded_size(value: GroupMetadataValue) -> int:
    return result.encoded_size(value, GROUP_METADATA_VERSION)


# ---- committed offsets
#
# The committed offsets of a shard's groups, and the pending offsets of open transactions. Offsets of a transaction are
# pending, under its producer id, until its marker is replayed. A commit marker applies them unless a later record has
# committed the partition since. An abort marker discards them (KIP-98).

NO_PRODUCER_ID = -1


class CommittedOffset(NamedTuple):
    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp_ms: int
    #: -1 unless the client requested its own retention (OffsetCommit 2-4).
    expire_timestamp_ms: int
    #: Zero for a commit that was written before Kafka 4.1 or so.
    topic_id: bytes
    #: The record's offset in the log.
    record_offset: int


Partitions = dict[int, CommittedOffset]
Topics = dict[str, Partitions]


class OffsetStore:
    def __init__(self) -> None:
        self._by_group: dict[str, Topics] = {}
        #: Producer id -> group -> topic -> partition.
        self._pending: dict[int, dict[str, Topics]] = {}

    def of_group(self, group_id: str) -> Topics:
        return self._by_group.get(group_id, {})

    def get(self, group_id: str, topic: str, partition: int) -> CommittedOffset | None:
        return self._by_group.get(group_id, {}).get(topic, {}).get(partition)

    def groups(self) -> Iterator[tuple[str, Topics]]:
        return iter(self._by_group.items())

    def is_pending(self, group_id: str, topic: str, partition: int) -> bool:
        """Returns whether an open transaction has a pending commit of this offset (`require_stable`, KIP-447)."""
        if not self._pending:
            return False
        return any(partition in groups.get(group_id, {}).get(topic, {}) for groups in self._pending.values())

    def has_pending(self, group_id: str) -> bool:
        return any(group_id in groups for groups in self._pending.values())

    def pending_of(self, group_id: str) -> Iterator[tuple[str, int]]:
        """Yields topic and partition of each pending offset, possibly with duplicates."""
        for groups in self._pending.values():
            for topic, partitions in groups.get(group_id, {}).items():
                yield from ((topic, partition) for partition in partitions)

    def replay(
        self, key: OffsetCommitKey, value: OffsetCommitValue | None, record_offset: int, producer_id: int
    ) -> None:
        if value is None:
            _discard(self._by_group, key.group, key.topic, key.partition)
            for pending in self._pending.values():
                _discard(pending, key.group, key.topic, key.partition)
            return
        committed = CommittedOffset(
            value.offset,
            value.leader_epoch,
            value.metadata,
            value.commit_timestamp,
            value.expire_timestamp,
            value.topic_id,
            record_offset,
        )
        target = self._by_group if producer_id == NO_PRODUCER_ID else self._pending.setdefault(producer_id, {})
        _put(target, key.group, key.topic, key.partition, committed)

    def replay_end_of_transaction(self, producer_id: int, committed: bool) -> None:
        for group_id, topics in self._pending.pop(producer_id, {}).items() if committed else ():
            for topic, partitions in topics.items():
                for partition, offset in partitions.items():
                    existing = self.get(group_id, topic, partition)
                    if existing is None or offset.record_offset > existing.record_offset:
                        _put(self._by_group, group_id, topic, partition, offset)
        self._pending.pop(producer_id, None)


def _put(groups: dict[str, Topics], group_id: str, topic: str, partition: int, offset: CommittedOffset) -> None:
    topics = groups.get(group_id)
    if topics is None:
        topics = groups[group_id] = {}
    partitions = topics.get(topic)
    if partitions is None:
        partitions = topics[topic] = {}
    partitions[partition] = offset


def _discard(groups: dict[str, Topics], group_id: str, topic: str, partition: int) -> None:
    """Removes an offset with its empty parents, so that a deleted group leaves nothing behind."""
    topics = groups.get(group_id, {})
    partitions = topics.get(topic, {})
    partitions.pop(partition, None)
    if not partitions:
        topics.pop(topic, None)
    if not topics:
        groups.pop(group_id, None)


# ---- state


@dataclass(slots=True)
class GroupCounters:
    offset_commits: int = 0
    """Offsets, in transactions too."""
    offset_deletions: int = 0
    """Offsets that requests have deleted."""
    offset_expirations: int = 0
    classic_rebalances: int = 0
    """Completed ones: the leader has assigned."""
    consumer_rebalances: int = 0
    """New epochs of groups since members, subscriptions or topics are others."""
    share_rebalances: int = 0
    streams_rebalances: int = 0
    descriptions_kept: int = 0
    """Of topologies (KIP-1331)."""
    descriptions_rejected: int = 0
    descriptions_reported: int = 0
    descriptions_deleted: int = 0


# Settings of a group: its own configuration if present, else the broker's.


def number(state: ShardState, group_id: str, key: str, of_broker: int, bounds: Bounds | None = None) -> int:
    """Returns a setting. The group's own value is clamped to the broker's bounds, which may have changed since."""
    own = state.image.config(GROUP_RESOURCE, group_id).get(key)
    if own is None:
        return of_broker
    return int(own) if bounds is None else min(max(int(own), bounds[0]), bounds[1])


AGroup = TypeVar("AGroup", bound=Group)


class ShardState:
    """`make_simple_group`: makes the group that a committed offset without a group stands for."""

    def __init__(
        self,
        config: GroupsConfig,
        kinds: Mapping[str, Kind],
        replays: Mapping[type[Message], Replay],
        make_simple_group: Callable[[ShardState, str], Group],
    ) -> None:
        self.config = config
        self._make_simple_group = make_simple_group
        self._kinds = kinds
        self._replays = replays
        self.groups: dict[str, Group] = {}
        #: The entries of groups that ListGroups has listed.
        self.listings: dict[str, KeptListing] = {}
        #: The last group of which a record said that it is no more: a record behind that may say what became of it.
        self.last_removed: Group | None = None
        #: The parts of the metadata whose changes concern the groups.
        self.interest: set[Part] = set()
        #: Topics and the groups' own configurations, as last published.
        self.image: MetadataImage = EMPTY_IMAGE
        self.offsets = OffsetStore()
        self.counters = GroupCounters()
        self.timers = Timers()
        #: Members without a recent heartbeat, as last written (silence.py): group and member id -> last heartbeat.
        self.silent: dict[tuple[str, str], int] = {}
        self.records: list[Record] = []
        self.replies: list[Reply] = []
        #: The offset that the next record will have in the log; this shard is its partition's only writer.
        self.next_offset = 0

    def reply(self, message: GroupRequest, response: Message) -> None:
        self.replies.append(Reply(message.token, response))

    def is_too_large(self, data: bytes) -> bool:
        """Returns True if no record of the topic can hold it."""
        return len(data) > self.config.max_record_bytes

    # Groups.

    def find(self, kind: type[AGroup], group_id: str) -> AGroup | None:
        """The group, if it is of this kind."""
        group = self.groups.get(group_id)
        return group if isinstance(group, kind) else None

    def every(self, kind: type[AGroup]) -> list[AGroup]:
        return [group for group in self.groups.values() if isinstance(group, kind)]

    def kind_of(self, group: Group) -> Kind:
        return self._kinds[group.kind]

    def put(self, group: Group) -> None:
        """In the place of the group of another kind that had its id. For what replays."""
        self._take_out(group.group_id)
        self.groups[group.group_id] = group
        if self._kinds[group.kind].metadata_changed is not None:
            self.interest.add("topics")

    def remove(self, group_id: str) -> None:
        """Removes a group. Called by replay functions only."""
        self.last_removed = self._take_out(group_id)

    def _take_out(self, group_id: str) -> Group | None:
        group = self.groups.pop(group_id, None)
        self.listings.pop(group_id, None)
        if group is not None:
            group.cancel_timers()
        return group

    def may_replace(self, group_id: str) -> bool:
        """Returns whether the id is free for a group of another kind: no group has it, or an empty group."""
        group = self.groups.get(group_id)
        if group is None:
            return True
        kind = self.kind_of(group)
        return kind.replaceable_when_empty and kind.validate_deletion(group) is ErrorCode.NONE

    def replace(self, group_id: str) -> bool:
        """Deletes the empty group that has the id; its offsets stay. False when it may not be."""
        group = self.groups.get(group_id)
        if group is None:
            return True
        if not self.may_replace(group_id):
            return False
        self.kind_of(group).delete(self, group)
        return True

    def respond_as_other_kind(self, message: GroupRequest, group_id: str, now: int) -> bool:
        """Has a group of another kind answer a request of the classic protocol; False when there is none that does."""
        group = self.groups.get(group_id)
        if group is None or self.may_replace(group_id):
            return False
        response = self.kind_of(group).classic_requests.get(type(message.request))
        if response is None:
            return False
        response(self, group, message, now)
        return True

    # Changes.

    def write_offset(self, group_id: str, topic: str, partition: int, value: OffsetCommitValue | None) -> None:
        """`value` None deletes the committed offset."""
        self.write(offset_record(group_id, topic, partition, value))

    def write_transactional_offset(
        self, group_id: str, topic: str, partition: int, value: OffsetCommitValue, producer: tuple[int, int]
    ) -> None:
        """`producer`: id and epoch of the one whose transaction it is of."""
        self.write(offset_record(group_id, topic, partition, value, *producer))

    def replay(self, record: Record, producer_id: int = -1) -> None:
        """`producer_id` is not -1 for a record of a transaction, which counts once the transaction is committed."""
        key, value, *_ = record
        if isinstance(key, OffsetCommitKey):
            assert value is None or isinstance(value, OffsetCommitValue)
            if value is not None and key.group not in self.groups:
                self._make_simple_group(self, key.group)
            self.offsets.replay(key, value, self.next_offset, producer_id)
        else:
            self._replays[type(key)](self, key, value)
        self.next_offset += 1

    def write(self, record: Record) -> None:
        self.records.append(record)
        self.replay(record, record.producer_id)


# ---- commits of members
#
# Commits and fetches are fenced by the member epoch, so that a member that lost a partition cannot commit its offset.

#: The first version whose clients support member epochs.
MEMBER_EPOCH_VERSION = 9


class Committer(Protocol):
    @property
    def epoch(self) -> int: ...

    @property
    def is_classic(self) -> bool:
        """Returns whether the member uses the classic protocol."""


class CommittingGroup(Protocol):
    @property
    def members(self) -> Mapping[str, Committer]: ...

    def is_subscribed_to(self, topic: str) -> bool: ...


def stale(member: Committer) -> ErrorCode:
    """Returns the error for a wrong epoch, depending on the member's protocol."""
    return ErrorCode.ILLEGAL_GENERATION if member.is_classic else ErrorCode.STALE_MEMBER_EPOCH


def validate_commit(
    state: ShardState, group: CommittingGroup, request: OffsetCommitRequest, version: int, now: int
) -> ErrorCode:
    """Validates a whole request. In a group without members a commit without an epoch is valid."""
    epoch = request.generation_id_or_member_epoch
    if epoch < 0 and not group.members:
        return ErrorCode.NONE
    member = group.members.get(request.member_id)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if version < MEMBER_EPOCH_VERSION and not member.is_classic:
        return ErrorCode.UNSUPPORTED_VERSION
    return stale(member) if epoch > member.epoch else ErrorCode.NONE


def validate_fetch(group: CommittingGroup, asked: OffsetFetchRequestGroup) -> ErrorCode:
    """Validates a fetch. Requests of tools have no member."""
    if asked.member_id is None and asked.member_epoch < 0:
        return ErrorCode.NONE
    member = group.members.get(asked.member_id or "")
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    return ErrorCode.NONE if asked.member_epoch == member.epoch else stale(member)


def validate_delete(group: CommittingGroup) -> ErrorCode:
    """Validates an offset deletion: always valid, since the subscribed topics are always known."""
    return ErrorCode.NONE


def is_expired(state: ShardState, group: CommittingGroup, topic: str, committed: CommittedOffset, now: int) -> bool:
    if group.is_subscribed_to(topic):
        return False
    return now - committed.commit_timestamp_ms >= state.config.offsets_retention_ms
