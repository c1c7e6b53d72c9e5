"""Metrics and health of a node, as one subsystem; without a port for them it imports nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..runtime.subsystem import Subsystem

if TYPE_CHECKING:
    from ..config.broker_config import BrokerConfig
    from ..runtime.log_lines import RepeatedLines
    from ..runtime.thread_pools import ThreadPools
    from ..services import NodeServices
    from .http import MetricsServer


class ObservabilitySubsystem(Subsystem):
    """Serves health from its start to its stop, and metrics while the node's subsystems are there."""

    name = "observability"

    def __init__(self, config: BrokerConfig, lines: RepeatedLines, pools: ThreadPools) -> None:
        self._config = config
        self._lines = lines
        self._pools = pools
        #: None unless odradek.metrics.port is set.
        self.metrics_server: MetricsServer | None = None

    async def start(self) -> None:
        """Raises OSError when the address cannot be had."""
        if self._config.get("odradek.metrics.port") is not None:
            from .http import MetricsServer

            self.metrics_server = MetricsServer(self._config, self._lines, self._pools)
            await self.metrics_server.start()

    def observe(self, services: NodeServices | None) -> None:
        """Shows these subsystems from now on; None while they start or stop."""
        if self.metrics_server is not None:
            self.metrics_server.services = services

    def node_stops(self) -> None:
        """Shows that the node is not ready any more."""
        if self.metrics_server is not None:
            self.metrics_server.is_stopping = True

    async def stop(self) -> None:
        if self.metrics_server is not None:
            await self.metrics_server.stop()
