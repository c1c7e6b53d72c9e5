"""One broker with its controller: builds the parts, starts them in order, stops them in the reverse.

The order of a start: addresses are taken (their ports go into the registration), log directories opened (or formatted) and
logs recovered, the controller replays its metadata log and the first image is published, the coordinator of groups begins,
and only then do the listeners accept, so the first client sees a whole broker.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..metadata.image import EMPTY_IMAGE, MetadataImage
from .dispatch import Dispatcher
from .listener import ConnectionLimits, Endpoint, Listener, parse_endpoints

if TYPE_CHECKING:
    from .config import BrokerConfig
    from .connection import Connection

log = logging.getLogger("odradek.broker")


class BrokerServer:
    """What handlers find here is in docs/architecture.md.

    `clock`: seconds since 1970, for loops whose time is not real.
    """

    def __init__(self, config: BrokerConfig, *, clock: Callable[[], float] = time.time) -> None:
        self.config = config
        self.node_id: int = config.get("node.id")
        self.cluster_id = ""
        #: What Metadata answers from; the publisher replaces it.
        self.image: MetadataImage = EMPTY_IMAGE
        self.listeners: list[Listener] = []
        #: The APIs that brokers' listeners serve, as ApiVersions shows them.
        self.dispatcher = Dispatcher("broker")
        #: Called with each connection that ended.
        self.on_connection_lost: list[Callable[[Connection], None]] = []
        self.partitions: Any = None
        self.controller: Any = None
        self.groups: Any = None
        self.fetch_sessions: Any = None
        self.metrics: Any = None
        self._clock = clock

    async def start(self) -> None:
        """Returns when clients can be served. Raises InvalidConfig, LogDirectoryFailure, OSError (an address in use)."""
        try:
            self._bind()
            for listener in self.listeners:
                await listener.start()
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        for listener in self.listeners:
            await listener.stop()

    def _bind(self) -> None:
        config = self.config
        limits = ConnectionLimits(
            config.get("max.connections"), config.get("max.connections.per.ip"), _overrides(config)
        )
        controllers = set(config.get("controller.listener.names"))
        for endpoint in parse_endpoints(config.get("listeners")):
            dispatcher = Dispatcher("controller") if endpoint.name in controllers else self.dispatcher
            listener = Listener(self, endpoint, dispatcher, limits)
            self.listeners.append(listener)
            listener.bind()

    # What others ask of it.

    @property
    def addresses(self) -> list[str]:
        """host:port of each listener that clients may use, as it is advertised."""
        return [endpoint.address for endpoint in self.advertised_endpoints()]

    def advertised_endpoints(self) -> list[Endpoint]:
        """What clients are told; a listener that `advertised.listeners` does not name is told as it is bound."""
        said = {endpoint.name: endpoint for endpoint in parse_endpoints(self.config.get("advertised.listeners") or "")}
        return [
            _advertised(listener.endpoint, said.get(listener.name))
            for listener in self.listeners
            if listener.dispatcher is self.dispatcher
        ]

    @property
    def log_dirs(self) -> list[str]:
        return list(self.config.get("log.dirs") or [self.config.get("log.dir")])

    def now_ms(self) -> int:
        return int(self._clock() * 1000)

    def call_at(self, deadline_ms: int, function: Callable[[], object]) -> asyncio.TimerHandle:
        """Calls `function` on the loop at that time (ms since 1970); `.cancel()` of what is returned prevents it."""
        return asyncio.get_running_loop().call_later(max(0.0, deadline_ms / 1000 - self._clock()), function)

    def connection_lost(self, connection: Connection) -> None:
        for function in self.on_connection_lost:
            function(connection)


def _advertised(bound: Endpoint, said: Endpoint | None) -> Endpoint:
    """Port 0 in `advertised.listeners` stands for the port that was found; a wildcard host for this machine."""
    host = said.host if said is not None and said.host else bound.host
    port = said.port if said is not None and said.port else bound.port
    if host in ("", "0.0.0.0", "::"):
        host = "localhost"
    return Endpoint(bound.name, host, port)


def _overrides(config: BrokerConfig) -> dict[str, int]:
    """max.connections.per.ip.overrides: "host:count,host:count"."""
    text = config.get("max.connections.per.ip.overrides")
    pairs = (entry.rpartition(":") for entry in text.split(",") if entry.strip())
    return {host.strip(): int(count) for host, _, count in pairs}
