"""One broker with its controller: builds the parts, starts them in order, stops them in the reverse.

The order of a start: addresses are taken (their ports go into the registration), log directories opened (or formatted)
and logs recovered, the controller replays its metadata log and the first image is published, the coordinator of groups
begins, and only then do the listeners accept, so the first client sees a whole broker.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import cached_property
from time import perf_counter, time
from typing import TYPE_CHECKING, Any

from ..metadata.image import EMPTY_IMAGE, MetadataImage
from ..storage.directory import LogDirectory
from ..storage.files import LogDirectoryFailure
from .cluster.auto_creation import AutoCreation
from .cluster.producer_ids import ProducerIds
from .coordinators.coordinator_driver import GroupDriver
from .coordinators.streams_topics import StreamsTopics
from .coordinators.transaction_driver import TransactionDriver
from .fetch.fetch_sessions import FetchSessions
from .life_lines import log_started, log_starting, log_stopped, log_stopping
from .log_maintenance.log_cleaner import LogCleaner
from .log_maintenance.log_maintenance import LogMaintenance
from .log_maintenance.replica_moves import ReplicaMoves
from .log_maintenance.scrubber import Scrubber
from .network.connection_limits import ConnectionLimits
from .network.descriptors import DESCRIPTORS, other_nodes
from .network.dispatch import Dispatcher
from .network.listener import Endpoint, Listener
from .network.listener_changes import ListenerChanges
from .network.own_endpoints import advertised_endpoints, own_endpoints
from .network.receive_budget import ReceiveBudget
from .partitions.online_directories import open_directories
from .partitions.partitions import Partitions
from .publisher import Publisher
from .quorum.driver import QuorumDriver
from .quorum.formatting import ensure_formatted
from .replica_fetch.healing import Healer
from .runtime.counters import Metrics
from .runtime.damage_counters import DamageCounters
from .runtime.halting import decide
from .runtime.repeated_lines import RepeatedLines
from .runtime.turn_budget import Clock, TurnWatch
from .runtime.turns import Turns
from .runtime.waiters import Deadlines, Wakeups

if TYPE_CHECKING:
    from .cluster.broker_lifecycle import BrokerLifecycle
    from .cluster.broker_sessions import BrokerSessionWatch
    from .cluster.controller_channel import Forwarding
    from .cluster.stopped_brokers import StoppedBrokers
    from .config.broker_config import BrokerConfig
    from .coordinators.persister import Persister
    from .coordinators.share_state_driver import ShareStateDriver
    from .metrics.http import MetricsServer
    from .network.connection import Connection
    from .peers.peers import Peers
    from .replica_fetch.replication import Replication
    from .share.dead_letters import DeadLetters
    from .share.share_partitions import SharePartitions
    from .share.share_sessions import ShareSession, ShareSessions

log = logging.getLogger("odradek.broker")

RACK_AWARE_SELECTOR = "org.apache.kafka.common.replica.RackAwareReplicaSelector"


class BrokerServer:
    """What handlers find here is in docs/architecture.md.

    `clock`: seconds since 1970. `turn_clock`: times turns of the loop. Both are for loops whose time is not real.
    """

    def __init__(self, config: BrokerConfig, *, clock: Clock = time, turn_clock: Clock = perf_counter) -> None:
        self.config = config
        self.node_id = config.node_id
        self.cluster_id = ""
        #: What Metadata answers from; the publisher replaces it.
        self.image: MetadataImage = EMPTY_IMAGE
        self.listeners: list[Listener] = []
        self._limits = ConnectionLimits(config)
        #: The memory for requests that have not come whole.
        self.receiving = ReceiveBudget(self)
        #: Lines of the log that peers provoke.
        self.lines = RepeatedLines()
        self._listener_changes = ListenerChanges(self)
        #: The APIs that brokers' listeners serve, as ApiVersions shows them.
        self.dispatcher = Dispatcher("broker")
        #: Called with each connection that ended.
        self.on_connection_lost: list[Callable[[Connection], None]] = []
        #: Called with each image, when it is the one that handlers answer from.
        self.on_published: list[Callable[[MetadataImage], None]] = []
        #: Which brokers live; None on a node that is no controller for others.
        self.broker_sessions: BrokerSessionWatch | None = None
        #: This broker in a cluster; None on a node that is alone, or no broker.
        self.lifecycle: BrokerLifecycle | None = None
        #: Brokers that have just gone; None where there are no others.
        self.stopped_brokers: StoppedBrokers | None = None
        self.metrics = Metrics()
        #: Turns of the loop that took too long, and the large requests that take turns.
        self.turn_watch = TurnWatch(turn_clock)
        self.turns = Turns(self.turn_watch)
        #: None unless odradek.metrics.port is set.
        self.metrics_server: MetricsServer | None = None
        self.fetch_sessions = FetchSessions(
            config.get("max.incremental.fetch.session.cache.slots"),
            config.get("odradek.fetch.session.cache.partitions"),
        )
        self.on_connection_lost.append(self.fetch_sessions.connection_lost)
        self.producer_ids = ProducerIds(self)
        self.upkeep = LogMaintenance(self)
        self.cleaner = LogCleaner(self)
        self.damage = DamageCounters()
        self.scrubber = Scrubber(self)
        self.healer = Healer(self)
        self.fetch_max_bytes: int = config.get("fetch.max.bytes")
        #: Whether consumers are told of replicas in their rack; Kafka's own selector is the only one there is.
        self.selects_replicas: bool = config.get("replica.selector.class") == RACK_AWARE_SELECTOR
        self.directories: list[LogDirectory] = []
        self._clock = clock
        #: Topics that come to be because somebody asks for their metadata.
        self.auto_creation = AutoCreation(self)
        self.streams_topics = StreamsTopics(self)
        self._is_stopping = False
        #: Set when the broker cannot go on: what it was that failed.
        self.failed: asyncio.Future[Exception]

    # The parts that need a running loop; made by `start`, in this order.
    deadlines: Deadlines
    wakeups: Wakeups
    # On a node that is only a controller there are no partitions, and none of what lives in them.
    partitions: Partitions
    moves: ReplicaMoves
    groups: GroupDriver
    transactions: TransactionDriver
    controller: QuorumDriver

    async def start(self) -> None:
        """Returns when clients can be served. Raises InvalidConfig, LogDirectoryFailure, OSError (an address in use)."""
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        log_starting(self)
        self.failed = loop.create_future()
        self.deadlines = Deadlines(loop)
        self.wakeups = Wakeups(loop)
        try:
            self._bind()
            self.cluster_id = ensure_formatted(self.config)
            self.directories += open_directories(self.config.log_dirs)
            if self.config.is_broker:
                self.partitions = Partitions(self, self.directories)
                self.moves = ReplicaMoves(self)
                self.groups = GroupDriver(self)
                self.transactions = TransactionDriver(self)
            self.controller = QuorumDriver(self, Publisher(self))
            self.controller.register_controller = self._register_controller
            await self.controller.start(self.directories)
            self._watch_brokers()
            if not self.controller.is_alone:
                await self._join_quorum()
            if self.config.is_broker:
                self.moves.resume()
                self.upkeep.start()
                self.cleaner.start()
                self.scrubber.start()
            await self._serve_metrics()
            for listener in self.listeners:
                if not listener.is_started:
                    await listener.start()
            self.config.subscribe(self._listener_changes.config_changed)
            if any(listener.takes_descriptors for listener in self.listeners):
                self.on_published.append(lambda _: DESCRIPTORS.peers_are(self, other_nodes(self)))
            if self.lifecycle is not None:
                await self.lifecycle.run()
            log_started(self, loop.time() - began_s)
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """Takes no more requests, hands over what it leads, and closes its logs: the next start scans nothing."""
        self._is_stopping = True
        began_s = asyncio.get_running_loop().time()
        log_stopping(self)
        await self._leave_the_cluster()
        if self.metrics_server is not None:
            await self.metrics_server.stop()
        await self._listener_changes.stop()
        for listener in self.listeners:
            await listener.stop()
        self.turns.stop()
        await self.healer.stop()
        await self.scrubber.stop()
        await self.cleaner.stop()
        await self.upkeep.stop()
        for name in ("share_partitions", "share_states", "transactions", "groups"):
            if name in self.__dict__:  # made when somebody used it, or by a start that came so far
                getattr(self, name).stop()
        if hasattr(self, "controller"):
            await self.controller.stop()
        if self.broker_sessions is not None:
            self.broker_sessions.stop()
        if self.stopped_brokers is not None:
            self.stopped_brokers.stop()
        for name in ("forwarding", "replication", "peers"):
            if name in self.__dict__:
                getattr(self, name).close()
        if hasattr(self, "moves"):
            await self.moves.stop()
        if hasattr(self, "partitions"):
            self.partitions.close(self.controller.broker_epoch)
        for directory in self.directories:
            directory.close()
        self.receiving.stop()
        self.lines.stop()
        DESCRIPTORS.forget(self)
        log_stopped(self, asyncio.get_running_loop().time() - began_s)

    def _register_controller(self) -> None:
        from .cluster.controller_registration import ControllerRegistrar

        ControllerRegistrar(self).start()

    def _watch_brokers(self) -> None:
        if self.config.listeners.controllers:
            from .cluster.broker_sessions import BrokerSessionWatch

            self.broker_sessions = BrokerSessionWatch(self)
            self.broker_sessions.start()

    async def _join_quorum(self) -> None:
        """Other voters must reach this one before there is a leader; clients wait until this node has caught up and is
        registered.
        """
        for listener in self.listeners:
            if listener.dispatcher is not self.dispatcher:
                await listener.start()
        if self.config.is_broker:
            ends: list[asyncio.Future[Any]] = [self.controller.caught_up, self.failed]
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            if self.failed.done():
                raise self.failed.result()
            from .cluster.broker_lifecycle import BrokerLifecycle
            from .cluster.stopped_brokers import StoppedBrokers

            self.stopped_brokers = StoppedBrokers(self)
            self.stopped_brokers.start()
            self.lifecycle = BrokerLifecycle(self)
            await self.lifecycle.register()

    async def _leave_the_cluster(self) -> None:
        """What is led here moves to others, while it is still served here."""
        if self.lifecycle is None and self._others_came():
            from .cluster.broker_lifecycle import BrokerLifecycle

            self.lifecycle = BrokerLifecycle.of_lone_voter(self)
        if self.lifecycle is not None and self.config.get("controlled.shutdown.enable"):
            await self.lifecycle.leave()

    def _others_came(self) -> bool:
        """To a broker that was alone when its own controller registered it."""
        return hasattr(self, "controller") and not self.controller.is_alone and self.controller.broker_epoch >= 0

    async def _serve_metrics(self) -> None:
        if self.config.get("odradek.metrics.port") is not None:
            from .metrics.http import MetricsServer

            self.metrics_server = MetricsServer(self)
            await self.metrics_server.start()

    def _bind(self) -> None:
        for said in self.config.listeners.brokers:
            self.add_listener(Endpoint(said.name, said.host, said.port), self.dispatcher)
        for said in self.config.listeners.controllers:
            self.add_listener(Endpoint(said.name, said.host, said.port), Dispatcher("controller"))

    def add_listener(self, endpoint: Endpoint, dispatcher: Dispatcher) -> Listener:
        """A listener that has its address and accepts nobody yet. Raises OSError."""
        listener = Listener(self, endpoint, dispatcher, self._limits)
        listener.bind()
        self.listeners.append(listener)
        return listener

    # Parts of share groups, made with their first use.

    @cached_property
    def share_partitions(self) -> SharePartitions:
        from .share.share_partitions import SharePartitions

        return SharePartitions(self)

    @cached_property
    def share_sessions(self) -> ShareSessions:
        from .share.share_sessions import ShareSessions

        sessions = ShareSessions(self.config.get("group.share.max.share.sessions"), self._share_session_ended)
        self.on_connection_lost.append(sessions.connection_lost)
        return sessions

    @cached_property
    def persister(self) -> Persister:
        from .coordinators.persister import Persister

        return Persister(self)

    @cached_property
    def dead_letters(self) -> DeadLetters:
        from .share.dead_letters import DeadLetters

        return DeadLetters(self)

    @cached_property
    def share_states(self) -> ShareStateDriver:
        from .coordinators.share_state_driver import ShareStateDriver

        return ShareStateDriver(self)

    @cached_property
    def forwarding(self) -> Forwarding:
        """What this node asks of an active controller that is elsewhere."""
        from .cluster.controller_channel import Forwarding

        return Forwarding(self)

    @cached_property
    def peers(self) -> Peers:
        """Requests to other nodes; a broker that is alone never makes it."""
        from .peers.peers import Peers

        return Peers(self)

    @cached_property
    def replication(self) -> Replication:
        """What there is to do with the other replicas of partitions; a broker that is alone never makes it."""
        from .replica_fetch.replication import Replication

        return Replication(self)

    @property
    def addresses(self) -> list[str]:
        """host:port of each listener that clients may use, as it is advertised; of a mere controller, of its own."""
        endpoints = self.advertised_endpoints() if self.config.is_broker else own_endpoints(self)
        return [endpoint.address for endpoint in endpoints]

    def advertised_endpoints(self) -> list[Endpoint]:
        """What clients are told; a listener that `advertised.listeners` does not name is told as it is bound."""
        return advertised_endpoints(self)

    @property
    def log_dirs(self) -> list[str]:
        return self.config.log_dirs

    def now_ms(self) -> int:
        return int(self._clock() * 1000)

    def call_at(self, deadline_ms: int, function: Callable[[], object]) -> asyncio.TimerHandle:
        """Calls `function` on the loop at that time (ms since 1970); `.cancel()` of what is returned prevents it."""
        return asyncio.get_running_loop().call_later(max(0.0, deadline_ms / 1000 - self._clock()), function)

    def run_in_thread(self, function: Callable[[], Any], done: Callable[[Any], None]) -> None:
        """Has a thread do what may wait for a disk; `done` gets its result, or its exception, on the loop."""
        future = asyncio.get_running_loop().run_in_executor(None, function)
        future.add_done_callback(lambda ended: done(ended.exception() or ended.result()))

    def log_directory_failed(self, failure: LogDirectoryFailure) -> None:
        """One of the partitions' directories is offline; without any, the broker cannot go on."""
        if not any(directory.is_online for directory in self.directories):
            self.halt(failure)

    def halt(self, failure: Exception) -> bool:
        """The only way to end a node that runs; whether that failure is one to halt for, see halting.py."""
        if self.failed.done():
            return True
        cause = decide(failure)
        if cause is not None:
            self.failed.set_result(failure)
        return cause is not None

    def _share_session_ended(self, session: ShareSession, is_last_of_group: bool) -> None:
        """What the member had is for others; of a group that has nobody here, nothing is kept."""
        group_id, member_id = session.key
        self.share_partitions.release(group_id, member_id)
        if is_last_of_group:
            self.share_partitions.forget_group(group_id)

    def connection_lost(self, connection: Connection) -> None:
        for function in self.on_connection_lost:
            function(connection)
