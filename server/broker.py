"""A node, a broker or a controller or both: the composition root, which lists the subsystems. None imports it.

The order of a start: addresses are taken (their ports go into the registration) and health is served, log directories
opened (or formatted) and logs recovered, the controller replays its metadata log and the first image is published, the
coordinators begin, and only then do the listeners accept, so the first client sees a whole broker.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from contextlib import suppress
from time import perf_counter, time
from typing import TYPE_CHECKING

from ..version import __version__
from .access.subsystem import AccessSubsystem
from .controller.formatting import ensure_formatted
from .controller.subsystem import ControllerSubsystem
from .coordinators.subsystem import CoordinatorsSubsystem
from .data_path.subsystem import DataPathSubsystem
from .endpoints import NodeEndpoints
from .network.subsystem import NetworkSubsystem
from .partitions.parked_requests import Deadlines, Wakeups
from .partitions.partitions import open_directories
from .partitions.subsystem import PartitionsSubsystem
from .publisher import Publisher
from .replicas.subsystem import ReplicasSubsystem
from .runtime.clock import Clock
from .runtime.counters import BackgroundTasks, DamageCounters, Metrics
from .runtime.halting import decide
from .runtime.late_imports import LateImports
from .runtime.log_lines import RepeatedLines
from .runtime.sliced_work import Stopwatch, Turns, TurnWatch
from .runtime.subsystem import MetadataCache, Stop, Subsystem, stop_each
from .runtime.thread_pools import ThreadPools
from .services import NodeServices, Services
from .share.subsystem import ShareSubsystem
from .telemetry.subsystem import TelemetrySubsystem, is_on

if TYPE_CHECKING:
    from ..storage.directory import LogDirectory
    from .config.broker_config import BrokerConfig
    from .observability.subsystem import ObservabilitySubsystem
    from .services import CommonServices


log = logging.getLogger("odradek.broker")

#: A clock, or what the seconds since 1970 are read from.
AnyClock = Clock | Stopwatch


class BrokerServer:
    """A node: makes its subsystems, starts them in order, stops them in reverse (docs/development/architecture.md).

    `clock`: seconds since 1970, or a whole clock. `turn_clock`: times turns of the loop. Both are for time that is not real.
    """

    #: True when everything is closed, and only threads may be at work.
    is_closed = False

    # Made by the start.
    cluster_id = ""
    #: The failure because of which the node cannot continue.
    failed: asyncio.Future[Exception]
    controller: ControllerSubsystem
    # On a node that is only a controller there are no partitions, and none of what lives in them.
    partitions: PartitionsSubsystem
    replicas: ReplicasSubsystem
    coordinators: CoordinatorsSubsystem
    data_path: DataPathSubsystem
    share: ShareSubsystem
    #: The dependencies of the handlers; None until they are made.
    services: NodeServices | None = None

    def __init__(self, config: BrokerConfig, *, clock: AnyClock = time, turn_clock: Stopwatch = perf_counter) -> None:
        self.config = config
        self.node_id = config.node_id
        self.clock = clock if isinstance(clock, Clock) else Clock(clock)
        #: The publisher alone replaces its image.
        self.metadata = MetadataCache()
        #: Lines of the log that peers provoke.
        self.lines = RepeatedLines()
        self.pools = ThreadPools()
        #: Turns of the loop that took too long, and the large requests that take turns.
        self.turn_watch = TurnWatch(turn_clock)
        self.turns = Turns(self.turn_watch)
        self.late_imports = LateImports(self.pools.cpu)
        self.metrics = Metrics()
        self.damage = DamageCounters()
        #: Failures of background work.
        self.background = BackgroundTasks()
        self.directories: list[LogDirectory] = []
        #: In the order of their start, which is that in which they follow an image.
        self.subsystems: list[Subsystem] = []
        self.access = AccessSubsystem(config, self.clock, self.metadata)
        self.endpoints = NodeEndpoints(self.late_imports, self.access.authorizer, telemetry=is_on(config))
        self.network = NetworkSubsystem(
            config, self.clock, self.metadata, self.lines, self.pools, self.turns, self.access, self.endpoints
        )
        self.telemetry = TelemetrySubsystem(config, self.clock, self.lines, self.pools, self.network.listeners)
        #: Metrics and health; None unless odradek.metrics.port is set.
        self.observability = self._make_observability()

    async def start(self) -> None:
        """Returns when clients can be served. Raises InvalidConfig, LogDirectoryFailure, OSError (an address in use)."""
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        self._log_starting()
        self.failed = loop.create_future()
        try:
            observability = () if self.observability is None else (self.observability,)
            await self._start(self.access, self.network, *observability, self.telemetry)
            self.cluster_id = ensure_formatted(self.config)
            open_directories(self.config.log_dirs, self.directories)
            await self._start(*self._make_subsystems(Deadlines(loop), Wakeups(loop)))
            await self.network.accept()
            await self.controller.run()
            self._log_started(loop.time() - began_s)
        except BaseException:
            with suppress(Exception):  # the stop has logged its own failures; the cause is the one to show
                await self.stop()
            raise

    async def _start(self, *subsystems: Subsystem) -> None:
        """All of them follow images from now on: the first one comes while they start."""
        self.subsystems += subsystems
        for subsystem in subsystems:
            await subsystem.start()

    def _make_subsystems(self, deadlines: Deadlines, wakeups: Wakeups) -> tuple[Subsystem, ...]:
        """Returns the subsystems that live in the log directories."""
        if not self.config.is_broker:
            self.controller = self._make_controller()
            self._serve(NodeServices(*self._common()))
            return (self.controller,)
        config, clock, metadata = self.config, self.clock, self.metadata
        self.partitions = PartitionsSubsystem(
            config, clock, metadata, self.metrics, self.lines, self.pools, self.background, self.directories, self.halt
        )
        hosted = self.partitions.hosted
        self.controller = self._make_controller()
        self.replicas = ReplicasSubsystem(
            config,
            clock,
            metadata,
            self.lines,
            self.pools,
            self.background,
            self.damage,
            self.partitions,
            self.controller,
            self.network.peers,
        )
        leaders = self.replicas.leaders
        self.coordinators = CoordinatorsSubsystem(
            config,
            clock,
            metadata,
            self.lines,
            self.late_imports,
            hosted,
            leaders,
            self.network.peers,
            self.controller,
        )
        self._make_request_paths(deadlines, wakeups)
        subsystems: list[Subsystem] = [
            self.partitions, self.controller, self.replicas, self.coordinators, self.data_path, self.share
        ]  # fmt: skip
        if config.is_tiered:
            subsystems.append(self._make_remote())
        self._serve(
            Services(
                *self._common(),
                self.partitions,
                self.replicas,
                self.coordinators,
                self.data_path,
                self.share,
                self.telemetry,
            )
        )
        return tuple(subsystems)

    def _make_observability(self) -> ObservabilitySubsystem | None:
        """Returns metrics and health, of which nodes without a port for them import nothing."""
        if self.config.get("odradek.metrics.port") is None:
            return None
        from .observability.subsystem import ObservabilitySubsystem

        return ObservabilitySubsystem(self.config, self.lines, self.pools)

    def _make_remote(self) -> Subsystem:
        """Returns tiered storage, of which other brokers import nothing."""
        from .remote.subsystem import RemoteSubsystem

        return RemoteSubsystem(
            self.config,
            self.clock,
            self.metadata,
            self.pools,
            self.background,
            self.partitions.hosted,
            self.replicas.leaders,
            self.network.peers,
            self.coordinators.topic_creation(),
            self.controller.driver.has_commits_until,
        )

    def _make_request_paths(self, deadlines: Deadlines, wakeups: Wakeups) -> None:
        self.data_path = DataPathSubsystem(
            self.config,
            self.clock,
            self.metadata,
            self.pools,
            self.turns,
            deadlines,
            wakeups,
            self.access,
            self.network.listeners,
            self.partitions.hosted,
            self.replicas,
            self.coordinators,
        )
        self.share = ShareSubsystem(
            self.config,
            self.clock,
            self.metadata,
            self.metrics,
            self.pools,
            self.network.listeners,
            self.partitions.hosted,
            self.replicas.leaders,
            self.coordinators,
            self.data_path.fetch,
            self.network.peers,
        )

    def _make_controller(self) -> ControllerSubsystem:
        return ControllerSubsystem(
            self.config,
            self.clock,
            self.metadata,
            self.lines,
            self.pools,
            self.background,
            self.cluster_id,
            self.directories,
            self.access,
            self.network.listeners,
            self.network.peers,
            self.partitions.hosted if self.config.is_broker else None,
            Publisher(self.config, self.metadata, self.subsystems),
            self.endpoints.of_request,
            self.halt,
            self.failed,
        )

    def _common(self) -> CommonServices:
        return (
            self.config,
            self.node_id,
            self.cluster_id,
            self.clock,
            self.metadata,
            self.pools,
            self.metrics,
            self.turn_watch,
            self.damage,
            self.background,
            self.directories,
            self.access,
            self.network,
            self.controller,
        )

    def _serve(self, services: NodeServices) -> None:
        """Gives the handlers and the metrics what they use."""
        self.services = self.endpoints.services = services
        if self.observability is not None:
            self.observability.services = services

    async def stop(self, *, leave: bool = True, clean: bool = True) -> None:
        """Takes no more requests, hands over what it leads, and closes its logs: the next start scans nothing.

        Without `leave` nothing is handed over, and the others learn it as they do of a process that has died. Without
        `clean` the directories are left as such a process leaves them, and the next start recovers the logs. Stops what
        a start has made, however far it came. A part that fails to stop keeps no other from it; its failure is logged and
        raised in the end.
        """
        began_s = asyncio.get_running_loop().time()
        log.info("stopping node %d", self.node_id)
        if self.observability is not None:
            self.observability.is_stopping = True
        for subsystem in self.subsystems:
            subsystem.stops_cleanly = clean
        try:
            await stop_each(self._stops(leave=leave))
        except Exception:
            log.exception("a part of the node did not stop; the others did")
            raise
        finally:
            took_s = asyncio.get_running_loop().time() - began_s
            log.info("node %d stopped in %.0f ms", self.node_id, took_s * 1000)

    def _stops(self, *, leave: bool) -> Iterator[Stop]:
        """Yields the stops, in order."""
        if leave:
            yield self._leave_the_cluster
        if self.observability is not None:
            self.observability.services = None
        yield self.network.refuse
        for subsystem in reversed(self.subsystems):
            yield subsystem.stop
        for directory in self.directories:
            yield directory.close
        yield self.lines.stop
        self.is_closed = True
        yield self.pools.stop

    async def _leave_the_cluster(self) -> None:
        """Moves leadership to other brokers, while this one still serves."""
        if self.services is None or not self.controller.hands_over():
            return
        if self.config.is_broker:
            await self.coordinators.hand_over()
        await self.controller.leave()

    def halt(self, failure: Exception) -> bool:
        """The only way to end a node that runs; whether that failure is one to halt for, see halting.py."""
        if self.failed.done():
            return True
        cause = decide(failure)
        if cause is not None:
            self.failed.set_result(failure)
        return cause is not None

    @property
    def addresses(self) -> list[str]:
        """host:port of each listener that clients may use, as advertised; on a mere controller, its own."""
        listeners = self.network.listeners
        endpoints = listeners.advertised_endpoints() if self.config.is_broker else listeners.controller_endpoints()
        return [endpoint.address for endpoint in endpoints]

    def _log_starting(self) -> None:
        held = {"broker": self.config.is_broker, "controller": self.config.is_controller}
        log.info(
            "starting Odradek %s as node %d (%s) with log directories %s",
            __version__, self.node_id, " and ".join(role for role in held if held[role]), ", ".join(self.config.log_dirs),
        )  # fmt: skip

    def _log_started(self, took_s: float) -> None:
        listeners = ", ".join(f"{one.name}://{one.endpoint.address}" for one in self.network.listeners)
        log.info(
            "node %d of cluster %s started in %.0f ms; listeners %s",
            self.node_id, self.cluster_id, took_s * 1000, listeners,
        )  # fmt: skip
