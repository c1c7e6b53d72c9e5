"""Reads of groups at their coordinators: a group that cannot be read is left out with the reason, and the others are read.

A coordinator that sends no response is waited for once, and not for each of its groups.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TypeVar

from ...admin.errors import NoResponse, RequestFailed
from ...client.explained_errors import from_library
from ...client.wording import counted

T = TypeVar("T")


class GroupReads:
    """The reads of one round. `coordinators`: the node of each group. Nodes of `away` get no request.

    `unread`: groups that were left out, with the reason of each.
    """

    def __init__(self, coordinators: Mapping[str, int], away: Collection[int]) -> None:
        self._coordinators = coordinators
        self._silent = set(away)
        self.unread: dict[str, str] = {}

    def is_known(self, group: str) -> bool:
        return group in self._coordinators

    def read(self, group: str, step: Callable[[int], T]) -> T | None:
        """Runs a step with the group's coordinator. Returns None for a group that is left out."""
        node = self._coordinators.get(group)
        if node is None:
            self.unread[group] = f"group {group} has no coordinator yet"
            return None
        if node in self._silent:
            self.unread[group] = f"broker {node}, which coordinates group {group}, does not respond"
            return None
        try:
            return step(node)
        except RequestFailed as error:
            if isinstance(error, NoResponse):
                self._silent.add(node)
            self.unread[group] = f"group {group}: {from_library(error)}"
            return None

    def trouble(self, is_chosen: Callable[[str], bool]) -> str:
        """The reason of the first of the chosen groups that were left out, and their number; "" without any."""
        reasons = [reason for group, reason in self.unread.items() if is_chosen(group)]
        return f"{reasons[0]} (as they were before: {counted(len(reasons), 'group')})" if reasons else ""
