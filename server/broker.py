"""One broker with its controller: builds the parts, starts them in order, stops them in the reverse.

The order of a start: addresses are taken (their ports go into the registration) and health is served, log directories
opened (or formatted) and logs recovered, the controller replays its metadata log and the first image is published, the
coordinator of groups begins, and only then do the listeners accept, so the first client sees a whole broker.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from time import perf_counter, time
from typing import TYPE_CHECKING

from .access.subsystem import AccessSubsystem
from .assembly import cluster, coordinators, telemetry
from .controller.formatting import ensure_formatted
from .endpoints import NodeEndpoints
from .life_lines import log_started, log_starting, log_stopped, log_stopping
from .network.call import BROKER, CONTROLLER
from .network.descriptors import DESCRIPTORS
from .network.dispatch import Dispatcher
from .network.listener_set import ListenerSet
from .node import Node
from .partitions.directories import open_directories
from .runtime.background import BackgroundTasks
from .runtime.clock import Clock
from .runtime.counters import DamageCounters, Metrics
from .runtime.late_imports import LateImports
from .runtime.lazy import Lazy
from .runtime.log_lines import RepeatedLines
from .runtime.metadata_cache import MetadataCache
from .runtime.stopping import Stop, stop_each
from .runtime.thread_pools import ThreadPools
from .runtime.turn_budget import Stopwatch, TurnWatch
from .runtime.turns import Turns
from .runtime.waiters import Deadlines, Wakeups
from .services import NodeServices, Services

if TYPE_CHECKING:
    from .config.broker_config import BrokerConfig

#: A clock, or what the seconds since 1970 are read from.
AnyClock = Clock | Stopwatch


class BrokerServer(Node):
    """A node: makes its parts, starts them in order, stops them in reverse (docs/development/architecture.md).

    `clock`: seconds since 1970, or a whole clock. `turn_clock`: times turns of the loop. Both are for time that is not real.
    """

    #: True when everything is closed, and only threads may be at work.
    is_closed = False

    def __init__(self, config: BrokerConfig, *, clock: AnyClock = time, turn_clock: Stopwatch = perf_counter) -> None:
        self.config = config
        self.node_id = config.node_id
        self.cluster_id = ""
        self.clock = clock if isinstance(clock, Clock) else Clock(clock)
        #: The publisher alone replaces its image.
        self.metadata = MetadataCache()
        #: Lines of the log that peers provoke.
        self.lines = RepeatedLines()
        self.access = AccessSubsystem(config, self.clock, self.metadata)
        self.pools = ThreadPools()
        #: Turns of the loop that took too long, and the large requests that take turns.
        self.turn_watch = TurnWatch(turn_clock)
        self.turns = Turns(self.turn_watch)
        self.late_imports = LateImports(self.pools.cpu)
        #: The dependencies of the handlers; made by `start`.
        self.services = None
        has_telemetry = config.is_broker and telemetry.is_on(config)
        self.endpoints = NodeEndpoints(self.late_imports, self.access.authorizer, telemetry=has_telemetry)
        self.dispatchers = {kind: Dispatcher(kind, self.endpoints) for kind in (BROKER, CONTROLLER)}
        self.access.quotas.on_metering = self.dispatchers[BROKER].meter
        self.listeners = ListenerSet(
            config,
            self.clock,
            self.lines,
            self.access.audit,
            self.turns,
            self.access.quotas,
            self.dispatchers,
            self._count_other_nodes,
            self.access.sasl.of,
        )
        self.client_telemetry = telemetry.client_telemetry(self) if has_telemetry else None
        self.metrics_server = None
        self.metrics = Metrics()
        self.damage = DamageCounters()
        self.background = BackgroundTasks()
        self.directories = []
        self.subsystems = []
        self.peers = Lazy(lambda: cluster.peers(self))
        self._is_stopping = False

    async def start(self) -> None:
        """Returns when clients can be served. Raises InvalidConfig, LogDirectoryFailure, OSError (an address in use)."""
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        log_starting(self)
        self.failed = loop.create_future()
        self.deadlines = Deadlines(loop)
        self.wakeups = Wakeups(loop)
        self.listeners.tls.in_thread = self.pools.cpu.run_then
        try:
            await self.access.start()
            self.listeners.bind()
            self.listeners.watch_slow_requests()
            await self._serve_metrics()
            self.cluster_id = ensure_formatted(self.config)
            open_directories(self.config.log_dirs, self.directories)
            if self.config.is_broker:
                self.partitions = coordinators.partitions(self)
                self.subsystems.append(self.partitions)
            self.controller = cluster.controller(self)
            self.subsystems.append(self.controller)
            if self.config.is_broker:
                self.replicas = coordinators.replicas(self)
                self.coordinators = coordinators.coordinators(self)
                self.data_path = coordinators.data_path(self)
                self.share = coordinators.share(self)
                self.subsystems += (self.replicas, self.coordinators, self.data_path, self.share)
            self.services = self.endpoints.services = self._services()
            if self.metrics_server is not None:
                self.metrics_server.services = self.services
            for subsystem in self.subsystems:
                await subsystem.start()
            await self.listeners.start()
            if self.listeners.takes_descriptors:
                self.metadata.on_published.append(lambda _: self.listeners.plan_descriptors())
            await self.controller.run()
            log_started(self, loop.time() - began_s)
        except BaseException:
            with suppress(Exception):  # the stop has logged its own failures; the cause is the one to show
                await self.stop()
            raise

    async def stop(self, *, leave: bool = True) -> None:
        """Takes no more requests, hands over what it leads, and closes its logs: the next start scans nothing.

        Without `leave` nothing is handed over, and the others learn it as they do of a process that has died. Stops what
        a start has made, however far it came. A part that fails to stop keeps no other from it; the first such failure is
        raised in the end.
        """
        self._is_stopping = True
        began_s = asyncio.get_running_loop().time()
        log_stopping(self)
        if self.metrics_server is not None:
            self.metrics_server.is_stopping = True
        try:
            await stop_each(self._stops(leave=leave))
        finally:
            log_stopped(self, asyncio.get_running_loop().time() - began_s)

    def _stops(self, *, leave: bool) -> Iterator[Stop]:
        """Yields the stop of each part that has been made, in order."""
        if leave:
            yield self._leave_the_cluster
        if self.metrics_server is not None:
            yield self.metrics_server.stop
        yield from (self.listeners.stop, self.turns.stop)
        for subsystem in reversed(self.subsystems):
            yield subsystem.stop
        if self.peers.made is not None:
            yield self.peers.made.close
        for directory in self.directories:
            yield directory.close
        if self.client_telemetry is not None:
            yield self.client_telemetry.stop
        yield from (self.listeners.receiving.stop, self.access.stop, self.lines.stop)
        yield partial(DESCRIPTORS.forget, self.listeners)
        self.is_closed = True
        yield self.pools.stop

    async def _leave_the_cluster(self) -> None:
        """Moves leadership to other brokers, while this one still serves."""
        if self.services is None or not self.services.controller.hands_over():
            return
        if isinstance(self.services, Services):
            await self.services.coordinators.hand_over()
        await self.services.controller.leave()

    async def _serve_metrics(self) -> None:
        if self.config.get("odradek.metrics.port") is not None:
            from .observability.http import MetricsServer

            self.metrics_server = MetricsServer(self.config, self.lines, self.pools)
            await self.metrics_server.start()

    def _services(self) -> NodeServices:
        common = {name: getattr(self, name) for name in NodeServices.__slots__}
        if not self.config.is_broker:
            return NodeServices(**common)
        return Services(**common, **{name: getattr(self, name) for name in Services.__slots__})

    def _count_other_nodes(self) -> int:
        """Returns how many nodes this node may have connections to: the registered ones and the quorum's voters."""
        cluster = self.metadata.image.cluster
        nodes = {*cluster.brokers, *cluster.controllers}
        nodes.update(int(voter.partition("@")[0]) for voter in self.config.get("controller.quorum.voters"))
        return len(nodes - {self.node_id})

    @property
    def addresses(self) -> list[str]:
        """host:port of each listener that clients may use, as advertised; on a mere controller, its own."""
        listeners = self.listeners
        endpoints = listeners.advertised_endpoints() if self.config.is_broker else listeners.controller_endpoints()
        return [endpoint.address for endpoint in endpoints]
