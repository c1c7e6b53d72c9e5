"""Tasks of the active controller at intervals."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ...protocol.schema import Message, Request
from ...replication.controller.maintenance import (
    MAX_ELECTIONS_PER_IMBALANCE,
    BalanceLeadersRequest,
    ElectUncleanLeadersRequest,
    MaintenanceResponse,
    WriteNoOpRequest,
)

if TYPE_CHECKING:
    from ..config.broker_config import BrokerConfig
    from ..runtime.clock import Clock
    from .driver import QuorumDriver


class PeriodicTasks:
    """Submits the requests of the tasks to the controller of this node, each at its interval, from `start` to `stop`."""

    def __init__(self, config: BrokerConfig, clock: Clock, controller: QuorumDriver) -> None:
        self._config = config
        self._clock = clock
        self._controller = controller
        self._timers: dict[type[Message], asyncio.TimerHandle] = {}
        self._is_started = False

    def start(self) -> None:
        self._is_started = True
        config = self._config
        balance_ms = config.get("leader.imbalance.check.interval.seconds") * 1000
        if config.get("auto.leader.rebalance.enable"):
            self._arm(BalanceLeadersRequest, balance_ms)
        self._arm(ElectUncleanLeadersRequest, config.get("unclean.leader.election.interval.ms"))
        idle_ms = config.get("metadata.max.idle.interval.ms")
        if idle_ms > 0:
            self._arm(WriteNoOpRequest, idle_ms)

    def stop(self) -> None:
        self._is_started = False
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def _arm(self, kind: type[Request], interval_ms: int) -> None:
        def again(response: MaintenanceResponse) -> None:
            if kind is BalanceLeadersRequest and response.elections >= MAX_ELECTIONS_PER_IMBALANCE:
                submit()

        def submit() -> None:
            # A log without followers needs no sign of life.
            if self._is_started and not (kind is WriteNoOpRequest and self._controller.is_alone):
                self._controller.decide(kind(), 0, again)

        def due() -> None:
            self._arm(kind, interval_ms)
            submit()

        self._timers[kind] = self._clock.call_at(self._clock.now_ms() + interval_ms, due)
