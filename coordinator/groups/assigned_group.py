"""The base of groups with server-side assignment (KIP-848, 932, 1071): members, their targets, and timers.

The group epoch is incremented when members, subscriptions or topics change. `target_epoch` is the epoch of the target
assignment, which follows. Only replayed records change the durable state: `REPLAYS` of a kind has the replay functions.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, Protocol, TypeVar

from ...metadata.image import MetadataImage, TopicImage
from ...protocol.errors import ErrorCode
from ...protocol.schema import Message
from ..result import Record, Timer
from .state import Session

if TYPE_CHECKING:
    from .state import Replay, ShardState


AMember = TypeVar("AMember")
ATarget = TypeVar("ATarget")

#: Kafka begins at one: the first members increment it to two.
FIRST_EPOCH = 1


class AssignedGroup(ABC, Generic[AMember, ATarget]):
    kind: ClassVar[str]
    protocol_type: ClassVar[str]
    #: Key class of a record -> its replay function, with the group, the key, and the value (None for a tombstone).
    REPLAYS: ClassVar[Mapping[type[Message], Callable[[Any, Any, Any], None]]]

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.epoch = FIRST_EPOCH
        self.target_epoch = FIRST_EPOCH
        #: Time of the target assignment; 0 if there was none, or if all its members are gone.
        self.target_timestamp_ms = 0
        self.members: dict[str, AMember] = {}
        #: Member id -> its target.
        self.targets: dict[str, ATarget] = {}
        #: Topics may have changed since the group was last compared with them.
        self.is_outdated = True
        #: Member id -> event name -> timer.
        self.timers: dict[str, dict[str, Timer]] = {}

    # Queries.

    @property
    @abstractmethod
    def state(self) -> Enum: ...

    @abstractmethod
    def is_subscribed_to(self, topic: str) -> bool: ...

    @abstractmethod
    def input_topics(self) -> Collection[str]: ...

    def validate_deletion(self) -> ErrorCode:
        return ErrorCode.NON_EMPTY_GROUP if self.members else ErrorCode.NONE

    # Replay.

    def replay(self, key: Message, value: Message | None) -> None:
        self.REPLAYS[type(key)](self, key, value)

    @staticmethod
    @abstractmethod
    def target_from(value: Any) -> ATarget:
        """Returns a member's target from its record."""

    def replay_target(self, key: Any, value: Message | None) -> None:
        self.targets.pop(key.member_id, None)
        if value is not None:
            self.targets[key.member_id] = self.target_from(value)

    def replay_target_epoch(self, key: Message, value: Any) -> None:
        self.target_epoch = 0 if value is None else value.assignment_epoch
        self.target_timestamp_ms = 0 if value is None else value.assignment_timestamp

    # Timers.

    def timer(self, what: str, member_id: str) -> Timer:
        """Returns a timer of a member. `what` is the first element of its event: "consumer session"."""
        of_member = self.timers.setdefault(member_id, {})
        timer = of_member.get(what)
        if timer is None:
            timer = of_member[what] = Timer((what, self.group_id, member_id))
        return timer

    def session(self, member_id: str) -> Timer:
        return self.timer(f"{self.kind} session", member_id)

    def revocation(self, member_id: str) -> Timer:
        return self.timer(f"{self.kind} revocation", member_id)

    def cancel_timers_of(self, member_id: str) -> None:
        for timer in self.timers.pop(member_id, {}).values():
            timer.cancel()

    def cancel_timers(self) -> None:
        for member_id in list(self.timers):
            self.cancel_timers_of(member_id)


def replays(group_class: type[AssignedGroup[Any, Any]], metadata_key: type[Message]) -> dict[type[Message], Replay]:
    """Returns the replay functions of a kind.

    The first record of a group creates it, and the tombstone of its metadata removes it.
    """

    def replay(state: ShardState, key: Any, value: Message | None) -> None:
        group_id: str = key.group_id
        group = state.find(group_class, group_id)
        if group is None:
            if value is None:
                if type(key) is metadata_key:
                    # Compaction has left only the tombstone of the group.
                    state.last_removed = group_class(group_id)
                return
            # The group may be a classic one here, created by offset commits or by earlier records.
            group = group_class(group_id)
            state.put(group)
        if value is None and type(key) is metadata_key:
            state.remove(group_id)
        else:
            group.replay(key, value)

    return dict.fromkeys(group_class.REPLAYS, replay)


# The need of an assigned group for a new target assignment, and the sessions of its members after a load.


class TargetNeed(Enum):
    """The need for a new target assignment."""

    NONE = "the target is of the group's epoch"
    DELAYED = "the last target is younger than the assignment interval; a later heartbeat computes the next one"
    NOW = "the target is older than the group's epoch"


def target_need(group: AssignedGroup[Any, Any], interval_ms: int, now: int) -> TargetNeed:
    """`interval_ms`: the shortest time between two targets."""
    if group.epoch <= group.target_epoch:
        return TargetNeed.NONE
    if group.target_timestamp_ms and now < group.target_timestamp_ms + interval_ms:
        return TargetNeed.DELAYED
    return TargetNeed.NOW


def topics_by_name(image: MetadataImage, names: Iterable[str]) -> dict[str, TopicImage]:
    """Returns the topics that exist among these."""
    return {name: topic for name in names if (topic := image.topic(name)) is not None}


def restart_sessions(
    state: ShardState, group: AssignedGroup[Any, Any], now: int, timeout_ms: Callable[[ShardState, str], int]
) -> None:
    """Starts a whole session for every member after a load."""
    for member_id in group.members:
        state.timers.set(group.session(member_id), now + timeout_ms(state, group.group_id))


def sessions(
    state: ShardState, group: AssignedGroup[Any, Any], timeout_ms: Callable[[ShardState, str], int]
) -> Iterator[Session]:
    """Yields the sessions of all members, which have one length."""
    length_ms = timeout_ms(state, group.group_id)
    for member_id in group.members:
        yield Session(member_id, group.session(member_id), length_ms)


# The records that every kind of assigned group has: members, their targets and current assignments.


def write(state: ShardState, key: Message, value: Message | None) -> None:
    """Writes a record; None is a tombstone."""
    state.write(Record(key, value, 0))


@dataclass(frozen=True)
class AssignedRecords(Generic[ATarget]):
    """Writes these records of one kind, in Kafka's order. The keys are the message classes of the kind."""

    member_key: Callable[..., Message]
    current_key: Callable[..., Message]
    target_key: Callable[..., Message]
    target_epoch_key: Callable[..., Message]
    target_epoch_value: Callable[..., Message]
    #: Returns the record value of a member's target.
    target_value: Callable[[ATarget], Message]

    def write_target(self, state: ShardState, group_id: str, member_id: str, target: ATarget) -> None:
        write(state, self.target_key(group_id=group_id, member_id=member_id), self.target_value(target))

    def write_targets(
        self,
        state: ShardState,
        group: AssignedGroup[Any, ATarget],
        targets: Mapping[str, ATarget],
        epoch: int,
        now: int,
    ) -> None:
        """Writes the targets that changed, then the target epoch."""
        for member_id, target in targets.items():
            if group.targets.get(member_id) != target:
                self.write_target(state, group.group_id, member_id, target)
        self.write_target_epoch(state, group.group_id, epoch, now)

    def write_target_epoch(self, state: ShardState, group_id: str, epoch: int, timestamp_ms: int) -> None:
        """`timestamp_ms` is 0 if the next target need not wait for the assignment interval."""
        value = self.target_epoch_value(assignment_epoch=epoch, assignment_timestamp=timestamp_ms)
        write(state, self.target_epoch_key(group_id=group_id), value)

    def remove_member(self, state: ShardState, group_id: str, member_id: str) -> None:
        for key in (self.current_key, self.target_key, self.member_key):
            write(state, key(group_id=group_id, member_id=member_id), None)


# Validation errors of members that all groups with server-side assignment share (KIP-848, 932, 1071).
#
# The messages are Kafka's. The checks of a single kind are in consumer/heartbeat.py, share/heartbeat.py and
# streams/heartbeat.py, in their order.


class ValidationError(NamedTuple):
    error: ErrorCode
    message: str | None


AnyMember = TypeVar("AnyMember", covariant=True)


class Membership(Protocol[AnyMember]):
    """A group with its members and static members."""

    group_id: str

    @property
    def members(self) -> Mapping[str, AnyMember]: ...

    @property
    def static_members(self) -> Mapping[str, str]:
        """group.instance.id -> member id."""


class Identity(Protocol):
    """The identity of a request's sender."""

    member_id: str
    instance_id: str | None


def first_error(checks: Iterable[Callable[..., ValidationError | None]], *arguments: object) -> ValidationError | None:
    for check in checks:
        validation_error = check(*arguments)
        if validation_error is not None:
            return validation_error
    return None


def invalid(words: str) -> ValidationError:
    return ValidationError(ErrorCode.INVALID_REQUEST, words)


def validate_names(request: Any, *, needs_member_id: bool = True) -> ValidationError | None:
    """Checks the names of a consumer's or a streams member's heartbeat, in Kafka's order."""
    if needs_member_id and not request.member_id.strip():
        return invalid("MemberId can't be empty.")
    if not request.group_id.strip():
        return invalid("GroupId can't be empty.")
    if request.instance_id is not None and not request.instance_id.strip():
        return invalid("InstanceId can't be empty.")
    if request.rack_id is not None and not request.rack_id.strip():
        return invalid("RackId can't be empty.")
    return None


def no_group(groups: Mapping[str, object], group_id: str, kind: str, what: str | None = None) -> ValidationError:
    """Returns the error for a missing group or one of another kind.

    `what`: the noun in the message for a missing group; by default "Consumer group" for the kind "consumer".
    """
    is_other = group_id in groups
    absent = f"{what or f'{kind.capitalize()} group'} {group_id} not found."
    return ValidationError(
        ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a {kind} group." if is_other else absent
    )


def full(kind: str, limit: int) -> ValidationError:
    words = f"The {kind} group has reached its maximum capacity of {limit} members."
    return ValidationError(ErrorCode.GROUP_MAX_SIZE_REACHED, words)


def unknown_member(group_id: str, member_id: str) -> ValidationError:
    return ValidationError(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {group_id}.")


def find_member(group: Membership[AnyMember], request: Identity) -> AnyMember | ValidationError:
    """Returns the existing member that sends a heartbeat or leaves, or an error."""
    if request.instance_id is None:
        return group.members.get(request.member_id) or unknown_member(group.group_id, request.member_id)
    owner_id = group.static_members.get(request.instance_id)
    if owner_id is None:
        return ValidationError(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {request.instance_id} is unknown.")
    if owner_id != request.member_id:
        words = (
            f"Static member {request.member_id} with instance id {request.instance_id} was fenced by member {owner_id}."
        )
        return ValidationError(ErrorCode.FENCED_INSTANCE_ID, words)
    return group.members[owner_id]


def unreleased(request: Identity, owner_id: str) -> ValidationError:
    words = (
        f"Static member {request.member_id} with instance id {request.instance_id} cannot join the group because the "
        f"instance id is owned by {owner_id} member."
    )
    return ValidationError(ErrorCode.UNRELEASED_INSTANCE_ID, words)


def wrong_epoch(kind: str, size: str, epoch: int, known_epoch: int, besides: str = "") -> ValidationError:
    """Returns the error for a wrong epoch. `size`: "greater" or "smaller" than the known epoch."""
    words = (
        f"The {kind} group member has a {size} member epoch ({epoch}) than the one known by the group coordinator "
        f"({known_epoch}){besides}. The member must abandon all its partitions and rejoin."
    )
    return ValidationError(ErrorCode.FENCED_MEMBER_EPOCH, words)


# The part that ConsumerGroupDescribe, ShareGroupDescribe and StreamsGroupDescribe have in common.

DescribedGroup = TypeVar("DescribedGroup", bound=AssignedGroup[Any, Any])
Described = TypeVar("Described")


def described(
    state: ShardState,
    group_id: str,
    group_class: type[DescribedGroup],
    described_class: Callable[..., Described],
    own_fields: Callable[[DescribedGroup], dict[str, object]],
) -> Described:
    """Returns the description of a group; `own_fields` returns what only this kind has. A group that does not exist, or
    is of another kind, is described by an error.
    """
    group = state.find(group_class, group_id)
    if group is None:
        error, words = no_group(state.groups, group_id, group_class.kind, "Group")
        return described_class(group_id=group_id, error_code=error, error_message=words)
    return described_class(
        group_id=group_id,
        group_state=group.state.value,
        group_epoch=group.epoch,
        assignment_epoch=group.target_epoch,
        **own_fields(group),
    )
