"""The base of groups with server-side assignment (KIP-848, 932, 1071): members, their targets, and timers.

The group epoch is incremented when members, subscriptions or topics change. `target_epoch` is the epoch of the target
assignment, which follows. Only replayed records change the durable state: `REPLAYS` of a kind has the replay functions.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from ...protocol.errors import ErrorCode
from ...protocol.schema import Message
from ..timers import Timer

if TYPE_CHECKING:
    from .kind import Replay
    from .shard_state import ShardState

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


def replays(
    group_class: type[AssignedGroup[AMember, ATarget]], metadata_key: type[Message]
) -> dict[type[Message], Replay[ShardState]]:
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
