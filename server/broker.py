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
from .endpoints import NodeEndpoints
from .fetch.subsystem import FetchSubsystem
from .mirror.start import MirrorSubsystem
from .network.subsystem import NetworkSubsystem
from .partitions.online_directories import open_directories
from .partitions.parked_requests import Deadlines, Wakeups
from .partitions.subsystem import PartitionsSubsystem
from .produce.subsystem import ProduceSubsystem
from .publisher import Publisher
from .replicas.subsystem import ReplicasSubsystem
from .runtime.node import AnyClock, Node
from .runtime.subsystem import Stop, Subsystem, stop_each
from .runtime.turn_budget import Stopwatch
from .services import NodeServices, Services
from .share.subsystem import ShareSubsystem
from .telemetry.subsystem import TelemetrySubsystem, is_on

if TYPE_CHECKING:
    from .config.broker_config import BrokerConfig
    from .config.table_settings import TableSettings
    from .mirror.here import Here
    from .observability.subsystem import ObservabilitySubsystem

log = logging.getLogger("odradek.broker")


class BrokerServer:
    """A node: makes its subsystems, starts them in order, stops them in reverse (docs/development/architecture.md).

    `clock`: seconds since 1970, or a whole clock. `turn_clock`: times turns of the loop. Both are for time that is not real.
    """

    #: True when everything is closed, and only threads may be at work.
    is_closed = False
    #: The dependencies of the handlers; None until they are made.
    services: NodeServices | None = None
    controller: ControllerSubsystem
    # A node that is only a controller has no partitions, and no subsystem that lives in them.
    partitions: PartitionsSubsystem
    replicas: ReplicasSubsystem
    coordinators: CoordinatorsSubsystem
    fetch: FetchSubsystem
    share: ShareSubsystem
    mirror: MirrorSubsystem

    def __init__(self, config: BrokerConfig, *, clock: AnyClock = time, turn_clock: Stopwatch = perf_counter) -> None:
        self.node = node = Node.of(config, clock=clock, turn_clock=turn_clock)
        self.config = config
        self.node_id = config.node_id
        #: In the order of their start, which is that in which they follow an image.
        self.subsystems: list[Subsystem] = []
        self.access = AccessSubsystem(node)
        self.endpoints = NodeEndpoints(node.late_imports, self.access.authorizer, telemetry=is_on(config))
        self.network = NetworkSubsystem(node, self.access, self.endpoints)
        self.telemetry = TelemetrySubsystem(node, self.network)
        #: None where this node has no place for tables that follow topics. Wrong ones keep it from its start.
        self._table_settings = self._read_table_settings()
        #: Metrics and health; None unless odradek.metrics.port is set.
        self.observability = self._make_observability()

    @property
    def failed(self) -> asyncio.Future[Exception]:
        """The failure because of which the node cannot continue, from the start on."""
        return self.node.halt.failed

    async def start(self) -> None:
        """Returns when clients can be served. Raises InvalidConfig, LogDirectoryFailure, OSError (an address in use), and
        the failure for which the node halts before.
        """
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        self._log_starting()
        self.node.halt.begin()
        try:
            await self.node.halt.during(self._start_all(loop))
            self._log_started(loop.time() - began_s)
        except BaseException:
            has_halted = self.failed.done()
            with suppress(Exception):  # the stop has logged its own failures; the cause is the one to show
                await self.stop(leave=not has_halted, clean=not has_halted)
            raise

    async def _start_all(self, loop: asyncio.AbstractEventLoop) -> None:
        observability = () if self.observability is None else (self.observability,)
        await self._start(self.access, self.network, *observability, self.telemetry)
        self.node.identity.formatted(ensure_formatted(self.config))
        open_directories(self.config.log_dirs, self.node.directories)
        await self._start(*self._make_subsystems(Deadlines(loop), Wakeups(loop)))
        await self.network.accept()
        await self.controller.run()

    async def _start(self, *subsystems: Subsystem) -> None:
        """All of them follow images from now on: the first one comes while they start."""
        self.subsystems += subsystems
        for subsystem in subsystems:
            await subsystem.start()

    def _make_subsystems(self, deadlines: Deadlines, wakeups: Wakeups) -> tuple[Subsystem, ...]:
        """Returns the subsystems that live in the log directories."""
        node, access, network = self.node, self.access, self.network
        publisher = Publisher(self.config, node.metadata, self.subsystems)
        if not self.config.is_broker:
            self.controller = ControllerSubsystem(node, access, network, None, publisher, self.endpoints.of_request)
            self._serve(NodeServices(node=node, access=access, network=network, controller=self.controller))
            return (self.controller,)
        self.partitions = partitions = PartitionsSubsystem(node)
        self.controller = controller = ControllerSubsystem(
            node, access, network, partitions.hosted, publisher, self.endpoints.of_request
        )
        self.replicas = replicas = ReplicasSubsystem(node, network, partitions, controller)
        self.coordinators = coordinators = CoordinatorsSubsystem(node, network, partitions, replicas, controller)
        produce = ProduceSubsystem(node, deadlines, partitions, replicas, coordinators)
        self.fetch = fetch = FetchSubsystem(node, deadlines, wakeups, access, network, partitions, replicas)
        self.share = share = ShareSubsystem(node, network, partitions, replicas, coordinators, fetch)
        remote = (self._make_remote(),) if self.config.is_tiered else ()
        self.mirror = mirror = MirrorSubsystem(self._make_mirror_port)
        node.metadata.on_published.append(mirror.published)
        self._serve(
            Services(
                node=node,
                access=access,
                network=network,
                controller=controller,
                partitions=partitions,
                replicas=replicas,
                coordinators=coordinators,
                produce=produce,
                fetch=fetch,
                share=share,
                telemetry=self.telemetry,
                mirror=mirror,
            )
        )
        tables = self._make_tables()
        return (partitions, controller, replicas, coordinators, produce, fetch, share, *remote, mirror, *tables)

    def _make_observability(self) -> ObservabilitySubsystem | None:
        """Returns metrics and health, of which nodes without a port for them import nothing."""
        if self.config.get("odradek.metrics.port") is None:
            return None
        from .observability.subsystem import ObservabilitySubsystem

        return ObservabilitySubsystem(self.node)

    def _make_remote(self) -> Subsystem:
        """Returns tiered storage, of which other brokers import nothing."""
        from .remote.subsystem import RemoteSubsystem

        return RemoteSubsystem(
            self.node, self.network, self.partitions, self.replicas, self.coordinators, self.controller
        )

    def _read_table_settings(self) -> TableSettings | None:
        """Raises InvalidConfig."""
        if (
            self.config.get("odradek.table.warehouse") is None
            and self.config.get("odradek.table.catalog.config") is None
        ):
            return None
        from .config.table_settings import table_settings

        return table_settings(self.config)

    def _make_tables(self) -> tuple[Subsystem, ...]:
        """Returns tables that follow topics, of which nodes without a place for them import nothing."""
        settings = self._table_settings
        if settings is None:
            return ()
        from .tables.subsystem import TablesSubsystem
        from .tables.table_process import TableProcess

        listeners = self.network.listeners
        process = TableProcess(settings, lambda: listeners.address_with(settings.protocol), self.node.pools.disk)
        return (TablesSubsystem(self.node_id, process),)

    def _make_mirror_port(self) -> Here:
        """Returns what links to other clusters use of this broker."""
        from .mirror.here import Here

        return Here(
            node=self.node,
            partitions=self.partitions.hosted,
            groups=self.coordinators.groups,
            leaders=self.replicas.leaders,
            peers=self.network.peers,
            submit=self.controller.driver.submit,
            truncations=self.replicas.truncations,
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
        for directory in self.node.directories:
            yield directory.close
        yield self.node.lines.stop
        self.is_closed = True
        yield self.node.pools.stop

    async def _leave_the_cluster(self) -> None:
        """Moves leadership to other brokers, while this one still serves."""
        if self.services is None or not self.controller.hands_over():
            return
        if self.config.is_broker:
            await self.coordinators.hand_over()
        await self.controller.leave()

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
            self.node_id, self.node.identity.cluster_id, took_s * 1000, listeners,
        )  # fmt: skip
