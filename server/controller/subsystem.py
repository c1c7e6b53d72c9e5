"""The node in its cluster, as one subsystem: the quorum's driver, the registration, and what follows other nodes.

A single node makes only the driver. The parts of a node among others come with its start, or with the first request that
needs them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Unpack

from ..runtime.lazy import Lazy
from ..runtime.subsystem import Stop, Subsystem, stop_each
from .driver import OtherNodes, QuorumDriver
from .registration import Registration

if TYPE_CHECKING:
    from ...metadata.image import BrokerImage
    from ...protocol.schema import Request, ResponseT
    from ..access.subsystem import AccessSubsystem
    from ..network.subsystem import NetworkSubsystem
    from ..partitions.partitions import Partitions
    from ..runtime.node import Node
    from .active_controller import EndpointOf
    from .broker_lifecycle import BrokerLifecycle
    from .broker_sessions import BrokerSessionWatch
    from .controller_request import ClientFields
    from .forwarding import Forwarding
    from .image_publishing import ImagePublisher
    from .producer_ids import ProducerIds
    from .stopped_brokers import StoppedBrokers
    from .token_expiry import TokenExpiry


class ControllerSubsystem(Subsystem):
    """The quorum as this node takes part in it, and this node as its controllers see it.

    The log directories of `node` are open, and it has its cluster. `partitions`: None on a node that is no broker.
    """

    name = "controller"

    def __init__(
        self,
        node: Node,
        access: AccessSubsystem,
        network: NetworkSubsystem,
        partitions: Partitions | None,
        publisher: ImagePublisher,
        endpoint_of: EndpointOf,
    ) -> None:
        self._node = node
        self._config = node.config
        self._listeners = network.listeners
        self._peers = network.peers
        self._partitions = partitions
        #: Makes the requests in which this node registers.
        self.registration = Registration(
            node.identity.node_id, node.identity.cluster_id, node.config, network.listeners, node.directories
        )
        others = OtherNodes(network.peers, self._forward, self._register_controller)
        self.driver = QuorumDriver(node, self.registration, others, access, publisher, endpoint_of)
        #: Requests of this node to an active controller on another node.
        self.forwarding = Lazy(self._make_forwarding)
        self.producer_ids = Lazy(self._make_producer_ids)
        #: Sessions of brokers; None on a node that is no controller for others.
        self.sessions: BrokerSessionWatch | None = None
        #: This broker's registration in a cluster; None on a node that is alone, or no broker.
        self.lifecycle: BrokerLifecycle | None = None
        #: Brokers that have just gone; None where there are no others.
        self.stopped_brokers: StoppedBrokers | None = None
        #: Removes delegation tokens that have expired; None where there are none.
        self._token_expiry: TokenExpiry | None = None

    @property
    def broker_epoch(self) -> int:
        """The epoch of this broker's registration."""
        return self.driver.broker_epoch

    async def start(self) -> None:
        """Returns when an image is published, on a broker among others when it is registered."""
        await self.driver.start(self._node.directories)
        self._watch_brokers()
        if not self.driver.is_alone:
            await self._join_quorum()

    async def run(self) -> None:
        """Returns when this broker is unfenced. Its listeners accept connections."""
        if self.lifecycle is not None:
            await self.lifecycle.run()

    def hands_over(self) -> bool:
        """Returns whether leadership can move to other brokers before the stop."""
        if self.lifecycle is None and not self.driver.is_alone and self.driver.broker_epoch >= 0:
            # Others came to a broker that was alone when its own controller registered it.
            self.lifecycle = self._make_lifecycle()
            self.lifecycle.continue_lone_voter()
        return self.lifecycle is not None and bool(self._config.get("controlled.shutdown.enable"))

    async def leave(self) -> None:
        """Moves leadership to other brokers, while this one still serves."""
        assert self.lifecycle is not None
        await self.lifecycle.leave()

    async def stop(self) -> None:
        made = (self.sessions, self._token_expiry, self.stopped_brokers)
        stops: list[Stop] = [self.driver.stop, *(part.stop for part in made if part is not None)]
        if self.forwarding.made is not None:
            stops.append(self.forwarding.made.close)
        await stop_each(stops)

    # The start.

    def _watch_brokers(self) -> None:
        config = self._config
        if config.listeners.controllers:
            self.sessions = self._make_sessions()
            self.sessions.start()
        if config.is_controller and config.get("delegation.token.secret.key") is not None:
            from .token_expiry import TokenExpiry

            self._token_expiry = TokenExpiry(config, self._node.clock, self.driver)
            self._token_expiry.start()

    async def _join_quorum(self) -> None:
        """Other voters must reach this one before there is a leader; clients wait until this node has caught up and is
        registered.
        """
        await self._listeners.start_early()
        if self._config.is_broker:
            await asyncio.shield(self.driver.caught_up)
            self.stopped_brokers = self._make_stopped_brokers()
            self.stopped_brokers.start()
            self.lifecycle = self._make_lifecycle()
            await self.lifecycle.register()

    # Parts.

    def _forward(
        self,
        request: Request[ResponseT],
        version: int,
        reply: Callable[[ResponseT], None],
        **client: Unpack[ClientFields],
    ) -> None:
        self.forwarding().submit(request, version, reply, **client)

    def _register_controller(self) -> None:
        from .controller_registrar import ControllerRegistrar

        node = self._node
        ControllerRegistrar(node.clock, node.metadata, self.driver, self.forwarding, self.registration).start()

    def _suspect(self, broker: BrokerImage) -> None:
        if self.stopped_brokers is not None:
            self.stopped_brokers.look_for(broker)

    def _leads(self) -> bool:
        return self._partitions is not None and any(one.role.is_leader for one in self._partitions.values())

    def _make_sessions(self) -> BrokerSessionWatch:
        from .broker_sessions import BrokerSessionWatch
        from .periodic_tasks import PeriodicTasks

        config, clock, metadata = self._config, self._node.clock, self._node.metadata
        tasks = PeriodicTasks(config, clock, self.driver)
        made = BrokerSessionWatch(config.node_id, clock, metadata, self.driver, tasks, self._suspect)
        self._listeners.on_connection_lost.append(made.connection_lost)
        return made

    def _make_stopped_brokers(self) -> StoppedBrokers:
        from .stopped_brokers import StoppedBrokers

        return StoppedBrokers(self._node.metadata, self._peers)

    def _make_lifecycle(self) -> BrokerLifecycle:
        from .broker_lifecycle import BrokerLifecycle

        return BrokerLifecycle(
            self._node,
            self.driver,
            self.registration,
            self.forwarding,
            self.sessions,
            self._leads,
            self._listeners,
        )

    def _make_forwarding(self) -> Forwarding:
        from .forwarding import Forwarding

        return Forwarding(self.driver, self._peers, self._node.clock)

    def _make_producer_ids(self) -> ProducerIds:
        from ...metadata.producer_id_floor import producer_id_floor
        from .producer_ids import ProducerIds

        return ProducerIds(
            self._config.node_id,
            lambda: self.driver.broker_epoch,
            self.driver.submit,
            lambda: producer_id_floor(self._node.metadata.image),
        )
