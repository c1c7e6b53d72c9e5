"""What a group of any kind shows to those that do not care which kind it is: offsets, tools, retention."""

from __future__ import annotations

from enum import Enum
from typing import ClassVar, Protocol


class Group(Protocol):
    """A group id is of one kind at a time. What may be asked of a kind is in its `Kind` (kind.py)."""

    #: As ListGroups shows it, and as timers' events begin: "classic", "consumer".
    kind: ClassVar[str]
    group_id: str

    @property
    def state(self) -> Enum:
        """Its value is the name that tools show."""

    @property
    def protocol_type(self) -> str | None: ...

    def is_subscribed_to(self, topic: str) -> bool: ...

    def cancel_timers(self) -> None:
        """All of them: the group is deleted, or replaced by one of another kind."""
