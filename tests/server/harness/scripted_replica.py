"""The state machine of a quorum's replica, whose effects a test sets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from odradek.replication.quorum.effects import Effect, Input
from odradek.replication.quorum.roles import Role, Unattached
from odradek.replication.quorum.voters import VoterHistory, VoterSet


class ScriptedReplica:
    """Notes its `inputs` and the times at which it has `expired`. `next`: the effects, or the failure, of each of them.

    `due`: the time at which its timer is to expire. `now_ms`: the clock that inputs must agree with.
    """

    def __init__(
        self, voters: VoterSet, now_ms: Callable[[], int] | None = None, *, epoch: int = 3, kraft_version: int = 1
    ) -> None:
        self._now_ms = now_ms
        self.epoch = epoch
        self.role: Role = Unattached(epoch, None)
        self.voter_set = voters
        self.voters = VoterHistory(voters, kraft_version)
        self.kraft_version = kraft_version
        self.high_watermark = 0
        self.is_leader = False
        self.inputs: list[Any] = []
        self.expired: list[int] = []
        self.next: list[Any] = []
        self.effects: list[Effect] = []
        self.due: int | None = None

    def handle(self, message: Input, now_ms: int) -> None:
        assert self._now_ms is None or now_ms == self._now_ms()
        self.inputs.append(message)
        self._step()

    def expire(self, now_ms: int) -> None:
        self.expired.append(now_ms)
        self.due = None
        self._step()

    def _step(self) -> None:
        effects = self.next.pop(0) if self.next else []
        if isinstance(effects, Exception):
            raise effects
        self.effects += effects

    def take(self) -> list[Effect]:
        effects, self.effects = self.effects, []
        return effects

    def deadline(self) -> int | None:
        return self.due
