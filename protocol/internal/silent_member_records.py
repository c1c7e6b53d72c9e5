"""A record of `__consumer_offsets` that Apache Kafka does not have: the members of groups without a recent heartbeat.

Its number is far from Kafka's, whose readers skip records of unknown numbers. A partition has at most one such record.
"""

from __future__ import annotations

from ..schema import INT8, INT64, STRING, Message, array, message, struct, wire


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
