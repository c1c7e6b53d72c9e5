"""The entry of a group in the response to ListGroups, which is kept."""

from __future__ import annotations

from enum import Enum

from ...protocol.messages.list_groups import ListedGroup
from .group import Group


class KeptListing(ListedGroup):
    """The entry of a group in ListGroups, valid while group, state and protocol type are those that it was made from.

    `content`: the entry as it was encoded for `version`; empty before that.
    """

    __slots__ = ("content", "group", "state", "version")

    def __init__(self, group: Group, state: Enum, protocol_type: str) -> None:
        super().__init__(group.group_id, protocol_type, state.value, group.kind)
        self.group = group
        self.state = state
        self.version = -1
        self.content = b""
