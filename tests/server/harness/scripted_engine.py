"""The engine that commits what a controller appends, as the test sets it."""

from __future__ import annotations

from odradek.server.controller.commit_engine import CommitEngine
from odradek.server.controller.quorum_voters import QuorumVoters


class ScriptedEngine(CommitEngine):
    """`calls`: the names of the methods that were called. `asked_at`: the offsets of which the voters were wanted."""

    epoch = 0
    kraft_version = 0
    leads = False
    is_caught_up = False

    def __init__(
        self, *, epoch: int = 0, leads: bool = False, is_caught_up: bool = False, kraft_version: int = 0
    ) -> None:
        self.epoch, self.leads, self.is_caught_up, self.kraft_version = epoch, leads, is_caught_up, kraft_version
        self.voters = QuorumVoters(kraft_version)
        self.calls: list[str] = []
        self.asked_at: list[int] = []

    def voters_at(self, end_offset: int) -> QuorumVoters:
        self.asked_at.append(end_offset)
        return self.voters

    def appended(self) -> None:
        self.calls.append("appended")

    async def until_idle(self) -> None:
        self.calls.append("until_idle")

    def halt(self) -> None:
        self.calls.append("halt")

    async def leave(self) -> None:
        self.calls.append("leave")
