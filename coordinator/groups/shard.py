"""The coordinator of the groups that one partition of `__consumer_offsets` holds. Uses no disk, clock or random
source.

    shard = GroupShard(config)
    shard.replay(record) ...          the log, from its start; `end_of_transaction` for its markers
    shard.loaded(now)                 and from then on
    shard.handle(message, now)        a GroupRequest, TopicsDeleted or MetadataChanged
    shard.take()                      -> Output: records to append, then replies to give when those are committed
    shard.deadline(), expire(now)     when to wake it up, and its waking

`now` is in milliseconds since 1970, as the records' timestamps are. A shard whose records cannot be appended, or
whose leadership ends, is dropped whole and loaded again from the log: it has gone ahead of it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any

from ...protocol.codec import MalformedMessage
from ...protocol.error_responses import error_response_to
from ...protocol.errors import ErrorCode
from ...protocol.internal.consumer_offsets import (
    ConsumerGroupMetadataKey,
    GroupMetadataKey,
    LegacyOffsetCommitKey,
    OffsetCommitKey,
    OffsetCommitValue,
)
from ...protocol.messages.groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    ListGroupsRequest,
    ListGroupsResponse,
    SyncGroupRequest,
)
from ...protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetFetchRequest,
    TxnOffsetCommitRequest,
)
from ...protocol.records.batch import BatchHeader, iter_headers
from ...protocol.records.control import ControlType, control_type
from ...protocol.records.record import Record as LogRecord
from ...protocol.records.record import decode_batch
from ...protocol.schema import Message
from ...protocol.varint import Buffer
from ..result import (
    GroupRequest,
    GroupsConfig,
    MetadataChanged,
    Output,
    Record,
    Timer,
    TopicsDeleted,
    UnknownRecord,
    decode_key,
    decode_value,
    encode_framed,
    number_of,
)
from . import offsets, silence
from .classic.group import ClassicGroup, State, find_or_make
from .kinds import KINDS
from .offsets import commit_transactional, delete_offsets_of_group, delete_offsets_of_topics, expire_offsets
from .state import NO_PRODUCER_ID, KeptListing, Operation, ShardState

# Validation of requests independent of the group's state, so that it can run before the lookup of the group's shard.
#
# Kafka accepts an empty group id in requests of tools and simple consumers: commits, fetches, descriptions, deletions.


#: The first version of SyncGroup that must include the protocol type and name (KIP-559).
PROTOCOL_REQUIRED_VERSION = 5

Check = Callable[[GroupsConfig, Any, int], ErrorCode]


def validate(config: GroupsConfig, request: Message, version: int) -> ErrorCode:
    """Returns the first error of the request's checks; NONE for a valid request."""
    for check in CHECKS.get(type(request), ()):
        error = check(config, request, version)
        if error is not ErrorCode.NONE:
            return error
    return ErrorCode.NONE


def group_id_is_given(config: GroupsConfig, request: Any, version: int) -> ErrorCode:
    return ErrorCode.NONE if request.group_id else ErrorCode.INVALID_GROUP_ID


def session_timeout_is_allowed(config: GroupsConfig, request: JoinGroupRequest, version: int) -> ErrorCode:
    is_allowed = config.min_session_timeout_ms <= request.session_timeout_ms <= config.max_session_timeout_ms
    return ErrorCode.NONE if is_allowed else ErrorCode.INVALID_SESSION_TIMEOUT


def protocol_is_named(config: GroupsConfig, request: SyncGroupRequest, version: int) -> ErrorCode:
    is_named = request.protocol_type is not None and request.protocol_name is not None
    may_be_left_out = version < PROTOCOL_REQUIRED_VERSION
    return ErrorCode.NONE if is_named or may_be_left_out else ErrorCode.INCONSISTENT_GROUP_PROTOCOL


CHECKS: dict[type[Message], tuple[Check, ...]] = {
    JoinGroupRequest: (group_id_is_given, session_timeout_is_allowed),
    SyncGroupRequest: (protocol_is_named, group_id_is_given),
    HeartbeatRequest: (group_id_is_given,),
    LeaveGroupRequest: (group_id_is_given,),
    OffsetDeleteRequest: (group_id_is_given,),
    TxnOffsetCommitRequest: (group_id_is_given,),
}


# Admin requests on groups: DescribeGroups 0-6, ListGroups 0-5, DeleteGroups 0-3.


#: The first version of DescribeGroups that distinguishes a missing group from a dead one (KIP-1043).
GROUP_ID_NOT_FOUND_VERSION = 6


def describe(state: ShardState, message: GroupRequest, now: int) -> None:
    request = message.request
    assert isinstance(request, DescribeGroupsRequest)
    described = []
    for group_id in request.groups:
        one = _described(state.find(ClassicGroup, group_id), group_id, message.version)
        if group_id in state.groups and one.error_code:
            one.error_message = f"Group {group_id} is not a classic group."
        described.append(one)
    state.reply(message, DescribeGroupsResponse(groups=described))


def _described(group: ClassicGroup | None, group_id: str, version: int) -> DescribedGroup:
    if group is None:
        absent = DescribedGroup(group_id=group_id, group_state=State.DEAD.value)
        if version >= GROUP_ID_NOT_FOUND_VERSION:
            absent.error_code = ErrorCode.GROUP_ID_NOT_FOUND
            absent.error_message = f"Group {group_id} not found."
        return absent
    # Only in a Stable group does every member's metadata belong to the group's protocol.
    protocol_name = group.protocol_name if group.state is State.STABLE else None
    return DescribedGroup(
        group_id=group_id,
        group_state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol_data=protocol_name or "",
        members=[member.as_described(protocol_name) for member in group.members.values()],
    )


def list_groups(state: ShardState, message: GroupRequest, now: int) -> None:
    request = message.request
    assert isinstance(request, ListGroupsRequest)
    states = {name.lower().strip() for name in request.states_filter}
    types = {name.lower() for name in request.types_filter}
    response, listings = ListGroupsResponse(), state.listings
    add = response.groups.append
    for group_id, group in state.groups.items():
        if types and group.kind not in types:
            continue
        kept, group_state, protocol_type = listings.get(group_id), group.state, group.protocol_type or ""
        if (
            kept is None
            or kept.group is not group
            or kept.state is not group_state
            or kept.protocol_type != protocol_type
        ):
            kept = listings[group_id] = KeptListing(group, group_state, protocol_type)
        if not states or kept.group_state.lower() in states:
            add(kept)
    state.reply(message, response)


def delete_groups(state: ShardState, message: GroupRequest, now: int) -> None:
    request = message.request
    assert isinstance(request, DeleteGroupsRequest)
    results = []
    for group_id in request.groups_names:
        group = state.groups.get(group_id)
        error = ErrorCode.GROUP_ID_NOT_FOUND if group is None else state.kind_of(group).validate_deletion(group)
        if group is not None and error is ErrorCode.NONE:
            delete_offsets_of_group(state, group_id)
            state.kind_of(group).delete(state, group)
        results.append(DeletableGroupResult(group_id=group_id, error_code=error))
    state.reply(message, DeleteGroupsResponse(results=results))


#: The operations of groups of all kinds; those of single kinds are in kinds.py.
OPERATIONS: dict[type[Message], Operation] = {
    OffsetCommitRequest: offsets.commit,
    OffsetFetchRequest: offsets.fetch,
    TxnOffsetCommitRequest: commit_transactional,
    OffsetDeleteRequest: offsets.delete,
    DescribeGroupsRequest: describe,
    ListGroupsRequest: list_groups,
    DeleteGroupsRequest: delete_groups,
}


def error_response(request: Message, version: int, error: ErrorCode) -> Message:
    """Returns the response to a request that failed as a whole: the schema's, or that of its kind of group."""
    own = None if type(request) in OPERATIONS else KINDS.error_response(type(request))
    return error_response_to(request, version, error) if own is None else own(request, version, error)


class GroupShard:
    def __init__(self, config: GroupsConfig, next_offset: int = 0) -> None:
        self.state = ShardState(config, KINDS.by_name, KINDS.replays, find_or_make)
        self.state.next_offset = next_offset
        self._retention_timer = Timer(("retention",))
        self._silence = silence.SilenceCheck()

    def handle(self, message: GroupRequest | TopicsDeleted | MetadataChanged, now: int) -> None:
        if type(message) is GroupRequest:
            request = message.request
            error = validate(self.state.config, request, message.version)
            if error is ErrorCode.NONE:
                operation = OPERATIONS.get(type(request)) or KINDS.operation(type(request))
                operation(self.state, message, now)
                self._silence.plan(self.state, now)
            else:
                self.state.reply(message, error_response(request, message.version, error))
        elif type(message) is MetadataChanged:
            self._metadata_changed(message)
        else:
            assert isinstance(message, TopicsDeleted)
            delete_offsets_of_topics(self.state, message.topics)

    def deadline(self) -> int | None:
        return self.state.timers.next_deadline()

    def expire(self, now: int) -> None:
        while (timer := self.state.timers.due(now)) is not None:
            self._expired(timer, now)

    def take(self) -> Output:
        """Returns the decisions since the last call. The caller appends the records before it sends any reply."""
        state = self.state
        output = Output(state.records[:], state.replies[:])
        # The lists stay: the groups hold the one of replies.
        state.records.clear()
        state.replies.clear()
        return output

    def replay(self, record: Record, producer_id: int = -1) -> None:
        self.state.replay(record, producer_id)

    def end_of_transaction(self, producer_id: int, committed: bool) -> None:
        self.state.offsets.replay_end_of_transaction(producer_id, committed)

    def loaded(self, now: int) -> None:
        self._plan_retention(now)
        for group in list(self.state.groups.values()):
            self.state.kind_of(group).restore(self.state, group, now)
        silence.shorten_sessions(self.state, now)
        self._silence.plan(self.state, now)

    def hand_over(self, now: int) -> None:
        """Writes what the next coordinator is to know, before a planned stop moves the partition."""
        silence.hand_over(self.state, now)

    def _metadata_changed(self, message: MetadataChanged) -> None:
        self.state.image = message.image
        for group in list(self.state.groups.values()) if message.topics else ():
            changed = self.state.kind_of(group).metadata_changed
            if changed is not None:
                changed(self.state, group, message.topics)

    def _plan_retention(self, now: int) -> None:
        self.state.timers.set(self._retention_timer, now + self.state.config.offsets_retention_check_interval_ms)

    def _expired(self, timer: Timer, now: int) -> None:
        if timer is self._retention_timer:
            expire_offsets(self.state, now)
            self._plan_retention(now)
        elif timer is self._silence.timer:
            self._silence.expired(self.state, now)
        else:
            KINDS.by_name[timer.event[0].partition(" ")[0]].expired(self.state, timer.event, now)


# ---- loading
#
# Loading of a group shard from its log.
#
# Of records with the same key only the last counts, as after compaction. So a quick first pass finds the last record
# of each key, and only those are decoded and replayed. Transactional records take effect with their marker, so they
# and the markers are replayed in log order between all others. The same holds for a consumer group that becomes a
# classic one: only records that are deleted with it contain its members' assignments (consumer/migration.py).
#
# Both steps run in slices, so that the caller can do other work in between: `feed` takes some batches at a time,
# `replay_some` replays some records.

# Records of `__consumer_offsets` as bytes, and back.


def prefix_of(key_class: type[Message]) -> bytes:
    """The bytes that keys of this class begin with."""
    return KINDS.prefixes[key_class]


def encode_record(record: Record) -> tuple[bytes, bytes | None]:
    """Key and value as they stand in the log; a tombstone has no value."""
    return encode_framed(KINDS.prefixes[type(record.key)], record)


def decode_record(key: Buffer, value: Buffer | None) -> Record:
    """Raises UnknownRecord, and MalformedMessage for bytes that are not what they say."""
    number = number_of(key)
    if number == 0:
        # Kafka still reads commits of its first days: the key is the same but for the number.
        legacy = decode_key(LegacyOffsetCommitKey, key)
        assert isinstance(legacy, LegacyOffsetCommitKey)
        made = OffsetCommitKey(group=legacy.group, topic=legacy.topic, partition=legacy.partition)
        return decode_value(made, OffsetCommitValue, value)
    found = KINDS.record_type(number)
    if found is None:
        raise UnknownRecord(f"a record of kind {number}")
    key_class, value_class = found
    return decode_value(decode_key(key_class, key), value_class, value)


log = logging.getLogger(__name__)

Latest = dict[bytes, tuple[int, bytes | None]]

_CLASSIC_GROUP, _CONSUMER_GROUP = prefix_of(GroupMetadataKey), prefix_of(ConsumerGroupMetadataKey)


class ShardLoader:
    def __init__(self, config: GroupsConfig, name: str) -> None:
        self.shard = GroupShard(config)
        #: The partition, for log lines.
        self.name = name
        self.record_count = 0
        #: Key -> offset and value of its last record since the last transaction, in the order of these records.
        self._latest: Latest = {}
        self._unknown: set[str] = set()

    def feed(self, batches: Buffer) -> None:
        """Takes whole batches, from the start of the log to its end. Raises CorruptBatch and related errors."""
        for position, header in iter_headers(batches):
            self.record_count += header.record_count
            if header.is_control:
                self._end_transaction(batches, position, header)
            elif header.is_transactional:
                self._feed_transaction(batches, position, header)
            else:
                self._feed_records(list(decode_batch(batches, position, header)))

    def replay_some(self, count: int) -> bool:
        """Replays up to `count` of the fed records. Returns False when none is left."""
        latest = self._latest
        for key in [key for key, _ in zip(latest, range(count))]:
            offset, value = latest.pop(key)
            self._replay(offset, key, value, NO_PRODUCER_ID)
            # The records of the group's successor may follow much later, and its kind may differ by then.
            self.shard.state.last_removed = None
        return bool(latest)

    def loaded(self, log_end_offset: int, now: int) -> GroupShard:
        """Returns the shard at the end of its log, ready for requests."""
        while self.replay_some(1_000):
            pass
        self.shard.state.next_offset = log_end_offset
        self.shard.loaded(now)
        return self.shard

    def _feed_records(self, records: Sequence[LogRecord]) -> None:
        if _becomes_classic(records):
            self._replay_in_place(records, NO_PRODUCER_ID)
            return
        latest = self._latest
        for record in records:
            if record.key is not None:
                latest.pop(record.key, None)
                latest[record.key] = (record.offset, record.value)

    def _feed_transaction(self, batches: Buffer, position: int, header: BatchHeader) -> None:
        self._replay_in_place(decode_batch(batches, position, header), header.producer_id)

    def _replay_in_place(self, records: Iterable[LogRecord], producer_id: int) -> None:
        while self.replay_some(1_000):
            pass
        for record in records:
            if record.key is not None:
                self._replay(record.offset, record.key, record.value, producer_id)

    def _end_transaction(self, batches: Buffer, position: int, header: BatchHeader) -> None:
        while self.replay_some(1_000):
            pass
        for record in decode_batch(batches, position, header):
            kind = control_type(record.key)
            if kind in (ControlType.COMMIT, ControlType.ABORT):
                self.shard.end_of_transaction(header.producer_id, kind is ControlType.COMMIT)

    def _replay(self, offset: int, key: bytes, value: bytes | None, producer_id: int) -> None:
        try:
            record = decode_record(key, value)
        except (UnknownRecord, MalformedMessage) as error:
            # As in Kafka, records of newer versions are ignored. The warning is logged once per error.
            if str(error) not in self._unknown:
                self._unknown.add(str(error))
                log.warning("%s: records from offset %d on are skipped: %s", self.name, offset, error)
            return
        self.shard.state.next_offset = offset
        self.shard.replay(record, producer_id)


def _becomes_classic(records: Sequence[LogRecord]) -> bool:
    """Returns whether a consumer group becomes a classic one in these records, which are one batch."""
    return any(
        end.value is None
        and end.key is not None
        and end.key.startswith(_CONSUMER_GROUP)
        and begin.value is not None
        and begin.key is not None
        and begin.key.startswith(_CLASSIC_GROUP)
        for end, begin in pairwise(records)
    )
