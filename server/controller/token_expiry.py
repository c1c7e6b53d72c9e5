"""The expiry of delegation tokens on the active controller (KIP-48)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ...replication.controller.delegation_tokens import RemoveExpiredTokensRequest

if TYPE_CHECKING:
    from ..config.broker_config import BrokerConfig
    from ..runtime.clock import Clock
    from .driver import QuorumDriver


class TokenExpiry:
    """Removes the tokens that have expired, on the active controller, at each
    `delegation.token.expiry.check.interval.ms` from `start` to `stop`.
    """

    def __init__(self, config: BrokerConfig, clock: Clock, controller: QuorumDriver) -> None:
        self._interval_ms = config.get("delegation.token.expiry.check.interval.ms")
        self._clock = clock
        self._controller = controller
        self._timer: asyncio.TimerHandle

    def start(self) -> None:
        self._timer = self._clock.call_at(self._clock.now_ms() + self._interval_ms, self._due)

    def stop(self) -> None:
        self._timer.cancel()

    def _due(self) -> None:
        self.start()
        if self._controller.is_active:
            self._controller.decide(RemoveExpiredTokensRequest(), 0, _done)


def _done(_response: object) -> None:
    """The tokens that are left expire at the next check."""
