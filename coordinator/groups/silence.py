"""Members without a recent heartbeat, in the log: the next coordinator does not give the dead a whole session again.

A session is not in the log, and Kafka's coordinators start every session anew when they load a partition. With each move a
dead member then keeps its partitions for a whole session more. Here one record of the partition names the members that have
been silent for a large part of their session, with the time of their last heartbeat. It is written

- by a check every CHECK_MS, when members became silent or are heard again (unplanned moves);
- by `hand_over`, before a planned stop moves the partition, for members that are silent for less.

After a load such a member's session ends when it would have ended, but a live member has GRACE to find its new coordinator.
Healthy members cost no record. Apache Kafka skips the record, and gives whole sessions.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from ...protocol.schema import INT8, INT64, STRING, Message, array, message, struct, wire
from ..result import Record
from ..timers import Timer
from .kind import RecordType
from .session import Session
from .shard_state import ShardState

CHECK_MS = 5_000
#: Clients send at least three heartbeats a session. In a check, a member is silent after half of its session, and never
#: before LEAST_SILENCE_MS: a short session costs little when it starts anew.
SILENT_PART, LEAST_SILENCE_MS = 2, 10_000
#: At a planned stop, members count as silent sooner: the record is written once.
SILENT_PART_AT_STOP, LEAST_SILENCE_AT_STOP_MS = 6, 2_000
#: A third of the session, or all of one below LEAST_GRACE_MS, in which a live member finds the coordinator.
GRACE_PART, LEAST_GRACE_MS = 3, 6_000
#: Members that one check looks at, which takes 10 ms; the others get whole sessions, as with Kafka.
MOST_CHECKED = 20_000
#: The bytes of a member beside its names.
_MEMBER_BYTES = 20
#: Group and member id -> the time of the last heartbeat.
Silent = dict[tuple[str, str], int]


@message("0", key=20292)
class SilentMembersKey(Message):
    reserved: int = wire(INT8, "0")


@struct
class SilentMember(Message):
    member_id: str = wire(STRING)
    last_heard_ms: int = wire(INT64)


@struct
class SilentGroup(Message):
    group_id: str = wire(STRING)
    members: list[SilentMember] = wire(array(SilentMember))


@message("0", flexible="0+", key=20292)
class SilentMembersValue(Message):
    groups: list[SilentGroup] = wire(array(SilentGroup))


RECORD_TYPES: dict[int, RecordType] = {20292: (SilentMembersKey, SilentMembersValue)}


def sessions(state: ShardState) -> Iterator[tuple[str, Session]]:
    """Yields group and session of each member with a running session."""
    for group_id, group in state.groups.items():
        for session in state.kind_of(group).sessions(state, group):
            if session.timer.is_set:
                yield group_id, session


def find_silent(state: ShardState, now_ms: int, part: int, least_ms: int) -> Silent:
    """Returns the members without a heartbeat for a `part`th of their session, and for `least_ms`."""
    found: Silent = {}
    room = state.config.max_record_bytes
    for group_id, session in islice(sessions(state), MOST_CHECKED):
        last_heard_ms = session.timer.deadline_ms - session.timeout_ms
        is_over = session.timer.deadline_ms <= now_ms  # its member is about to be removed
        if is_over or now_ms - last_heard_ms < max(session.timeout_ms // part, least_ms):
            continue
        # A character of an id has at most four bytes.
        room -= 4 * (len(group_id) + len(session.member_id)) + _MEMBER_BYTES
        if room < 0:
            break
        found[group_id, session.member_id] = last_heard_ms
    return found


def note_silent(state: ShardState, silent: Silent) -> None:
    """Writes the record if it would say something new."""
    if silent == state.silent:
        return
    groups: dict[str, SilentGroup] = {}
    for (group_id, member_id), last_heard_ms in silent.items():
        group = groups.setdefault(group_id, SilentGroup(group_id=group_id))
        group.members.append(SilentMember(member_id=member_id, last_heard_ms=last_heard_ms))
    value = SilentMembersValue(groups=list(groups.values())) if groups else None
    state.write(Record(SilentMembersKey(), value))


def replay(state: ShardState, key: SilentMembersKey, value: SilentMembersValue | None) -> None:
    state.silent = {
        (group.group_id, member.member_id): member.last_heard_ms
        for group in (value.groups if value is not None else ())
        for member in group.members
    }


def shorten_sessions(state: ShardState, now_ms: int) -> None:
    """Ends the sessions of silent members when they would have ended, after all sessions have been started anew."""
    if not state.silent:
        return
    for group_id, session in sessions(state):
        last_heard_ms = state.silent.get((group_id, session.member_id))
        # An older note is of a member that was heard again: the dead are removed by then.
        if last_heard_ms is None or last_heard_ms < now_ms - 2 * session.timeout_ms:
            continue
        grace_ms = max(session.timeout_ms // GRACE_PART, min(session.timeout_ms, LEAST_GRACE_MS))
        deadline_ms = max(last_heard_ms + session.timeout_ms, now_ms + grace_ms)
        if deadline_ms < session.timer.deadline_ms:
            state.timers.set(session.timer, deadline_ms)


class SilenceCheck:
    """The check of a shard, for as long as its groups have members."""

    def __init__(self) -> None:
        self.timer = Timer(("silence",))

    def plan(self, state: ShardState, now_ms: int) -> None:
        """Plans the next check unless it is planned."""
        if not self.timer.is_set and state.groups:
            state.timers.set(self.timer, now_ms + CHECK_MS)

    def expired(self, state: ShardState, now_ms: int) -> None:
        note_silent(state, find_silent(state, now_ms, SILENT_PART, LEAST_SILENCE_MS))
        if next(sessions(state), None) is not None:
            self.plan(state, now_ms)


def hand_over(state: ShardState, now_ms: int) -> None:
    """Notes the members that are silent when the partition is about to move."""
    note_silent(state, find_silent(state, now_ms, SILENT_PART_AT_STOP, LEAST_SILENCE_AT_STOP_MS))
