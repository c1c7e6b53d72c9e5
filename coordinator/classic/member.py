"""A member of a classic group.

`awaiting_join` and `awaiting_sync` are the tokens of requests whose answers it waits for. Its session timer runs from
each sign of life; while it waits for an answer it is taken to be alive (the answer starts the timer anew), except when it
`is_new`: it does not know its id yet, so it could not come back to wait again, and is let go after a while (see
`GroupsConfig.new_member_join_timeout_ms`).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ...protocol.internal.classic_group_records import MemberMetadata
from ...protocol.messages.describe_groups import DescribedGroupMember
from ..timers import Timer


@dataclass(slots=True)
class Member:
    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    #: Protocol name -> what this member says about itself in that protocol; its favourite first.
    protocols: dict[str, bytes]
    session: Timer
    assignment: bytes = b""
    is_new: bool = False
    #: Since the coordinator knows it in a classic group: what it said of itself is of then.
    has_joined: bool = False
    awaiting_join: object | None = field(default=None, repr=False)
    awaiting_sync: object | None = field(default=None, repr=False)

    def speaks_the_same(self, protocols: dict[str, bytes]) -> bool:
        """Whether these are its protocols, in the same order of preference."""
        return self.protocols == protocols and list(self.protocols) == list(protocols)

    def vote(self, candidates: set[str]) -> str:
        return next(name for name in self.protocols if name in candidates)

    def keeps_its_session(self) -> bool:
        """Whether the end of the session timer finds it waiting for us rather than gone."""
        return not self.is_new and (self.awaiting_join is not None or self.awaiting_sync is not None)

    def as_record(self, protocol_name: str, assignment: bytes) -> MemberMetadata:
        return MemberMetadata(
            member_id=self.member_id,
            group_instance_id=self.group_instance_id,
            client_id=self.client_id,
            client_host=self.client_host,
            rebalance_timeout=self.rebalance_timeout_ms,
            session_timeout=self.session_timeout_ms,
            subscription=self.protocols[protocol_name],
            assignment=assignment,
        )

    def as_described(self, protocol_name: str | None) -> DescribedGroupMember:
        return DescribedGroupMember(
            member_id=self.member_id,
            group_instance_id=self.group_instance_id,
            client_id=self.client_id,
            client_host=self.client_host,
            member_metadata=self.protocols[protocol_name] if protocol_name is not None else b"",
            member_assignment=self.assignment,
        )
