"""A member of a classic group.

`awaiting_join` and `awaiting_sync` are the tokens of its pending requests. Each request of the member restarts its
session timer. While a request is pending the member counts as alive, and the response restarts the timer. A member
that `is_new` is the exception: it does not have its id yet, so it cannot reconnect and wait again. It is removed
after `GroupsConfig.new_member_join_timeout_ms`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ....protocol.internal.consumer_offsets import MemberMetadata
from ....protocol.messages.describe_groups import DescribedClassicMember
from ...timers import Timer


@dataclass(slots=True)
class ClassicMember:
    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    #: Protocol name -> the member's metadata in that protocol, in order of preference.
    protocols: dict[str, bytes]
    session: Timer
    assignment: bytes = b""
    is_new: bool = False
    #: The member has joined the classic group under this coordinator, so its protocols are current.
    has_joined: bool = False
    awaiting_join: object | None = field(default=None, repr=False)
    awaiting_sync: object | None = field(default=None, repr=False)

    def has_same_protocols(self, protocols: dict[str, bytes]) -> bool:
        """Returns whether these are its protocols, in the same order of preference."""
        return self.protocols == protocols and list(self.protocols) == list(protocols)

    def keeps_its_session(self) -> bool:
        """Returns whether an expired session timer keeps the member, since a request of it is pending."""
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

    def as_described(self, protocol_name: str | None) -> DescribedClassicMember:
        return DescribedClassicMember(
            member_id=self.member_id,
            group_instance_id=self.group_instance_id,
            client_id=self.client_id,
            client_host=self.client_host,
            member_metadata=self.protocols[protocol_name] if protocol_name is not None else b"",
            member_assignment=self.assignment,
        )
