"""The interface of a group of any kind."""

from __future__ import annotations

from collections.abc import Collection
from enum import Enum
from typing import ClassVar, Protocol


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
