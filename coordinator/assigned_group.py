"""What every group has that the coordinator assigns (KIP-848, 932, 1071): members, a target for each, and timers.

Its epoch is counted when members, subscriptions or topics change; `target_epoch` is that of the target assignment, which
follows. All that survives is set by replaying records: a kind says which record is replayed by what (`REPLAYS`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from ..protocol.errors import ErrorCode
from ..protocol.schema import Message
from .timers import Timer

if TYPE_CHECKING:
    from .kind import Replay
    from .state import ShardState

AMember = TypeVar("AMember")
ATarget = TypeVar("ATarget")

#: Kafka counts from one: the first members make it two.
FIRST_EPOCH = 1


class AssignedGroup(Generic[AMember, ATarget]):
    kind: ClassVar[str]
    protocol_type: ClassVar[str]
    #: Key of a record -> what replays it: the group, the key, the value; None is a tombstone's.
    REPLAYS: ClassVar[Mapping[type[Message], Callable[[Any, Any, Any], None]]]

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.target_epoch = FIRST_EPOCH
        #: When the target was made; 0 when it never was, or for members who are gone.
        self.target_timestamp_ms = 0
        self.members: dict[str, AMember] = {}
        #: Member id -> what it is to have.
        self.targets: dict[str, ATarget] = {}
        #: Topics may have changed since the group was last compared with them.
        self.is_outdated = True
        #: Member id -> what is timed of it -> the timer.
        self.timers: dict[str, dict[str, Timer]] = {}

    # Questions.

    @property
    def state(self) -> Enum:
        raise NotImplementedError

    def is_subscribed_to(self, topic: str) -> bool:
        raise NotImplementedError

    def refuse_deletion(self) -> ErrorCode:
        return ErrorCode.NON_EMPTY_GROUP if self.members else ErrorCode.NONE

    # Replay.

    def replay(self, key: Message, value: Message | None) -> None:
        self.REPLAYS[type(key)](self, key, value)

    @staticmethod
    def target_from(value: Any) -> ATarget:
        """Out of the record of a member's target."""
        raise NotImplementedError

    def replay_target(self, key: Any, value: Message | None) -> None:
        self.targets.pop(key.member_id, None)
        if value is not None:
            self.targets[key.member_id] = self.target_from(value)

    def replay_target_epoch(self, key: Message, value: Any) -> None:
        self.target_epoch = 0 if value is None else value.assignment_epoch
        self.target_timestamp_ms = 0 if value is None else value.assignment_timestamp

    # Timers.

    def timer(self, what: str, member_id: str) -> Timer:
        """`what` is the first word of its event: "consumer session"."""
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
    """Of a kind: records go into the group that they are of. The first makes it, the tombstone of its metadata ends it."""

    def replay(state: ShardState, key: Any, value: Message | None) -> None:
        group_id: str = key.group_id
        group = state.find(group_class, group_id)
        if group is None:
            if value is None:
                if type(key) is metadata_key:
                    # Compaction has left nothing of it but that it was there.
                    state.last_removed = group_class(group_id)
                return
            # Only offsets may have made a classic group of it, or it was one before.
            group = group_class(group_id)
            state.put(group)
        if value is None and type(key) is metadata_key:
            state.remove(group_id)
        else:
            group.replay(key, value)

    return dict.fromkeys(group_class.REPLAYS, replay)
