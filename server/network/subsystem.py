"""The network of a node, as one subsystem: its listeners with what they serve, and its connections to other nodes."""

from __future__ import annotations

from collections.abc import Iterable, Set
from functools import partial
from typing import TYPE_CHECKING

from ..runtime.lazy import Lazy
from ..runtime.subsystem import Stop, Subsystem, stop_each
from .descriptors import DESCRIPTORS
from .dispatch import Dispatcher
from .listener_kind import BROKER, CONTROLLER, ListenerKind
from .listener_set import ListenerSet

if TYPE_CHECKING:
    from ...client.peers import Peers
    from ...metadata.delta import MetadataDelta, Part
    from ...metadata.image import MetadataImage
    from ..access.subsystem import AccessSubsystem
    from ..runtime.node import Node
    from .dispatch import Endpoints


class NetworkSubsystem(Subsystem):
    """Listeners, dispatchers and peers.

    The start takes the addresses: their ports go into the registration. The listeners accept connections from `accept`, when
    all else has started, to `refuse`, before all else stops.
    """

    name = "network"
    interest: Set[Part] = frozenset()

    def __init__(self, node: Node, access: AccessSubsystem, endpoints: Endpoints) -> None:
        self._node = node
        self._access = access
        self.endpoints = endpoints
        self.dispatchers: dict[ListenerKind, Dispatcher] = {
            kind: Dispatcher(kind, endpoints) for kind in (BROKER, CONTROLLER)
        }
        access.quotas.on_metering = self.dispatchers[BROKER].meter
        self.listeners = ListenerSet(
            node, access, self.dispatchers, lambda: self._count_other_nodes(node.metadata.image)
        )
        #: Requests to other nodes.
        self.peers = Lazy(self._make_peers)

    async def start(self) -> None:
        """Raises CannotListen and InvalidConfig."""
        self.listeners.tls.in_thread = self._node.pools.cpu.run_then
        self.listeners.bind()
        self.listeners.watch_slow_requests()

    async def accept(self) -> None:
        """Accepts connections on all listeners."""
        await self.listeners.start()
        if self.listeners.takes_descriptors:
            self.interest = frozenset({"cluster"})

    def publish(self, delta: MetadataDelta, image: MetadataImage) -> Iterable[None]:
        """Keeps descriptors for the nodes of a new image."""
        DESCRIPTORS.peers_are(self.listeners, self._count_other_nodes(image))
        return ()

    async def refuse(self) -> None:
        """Closes the listeners and their connections, and drops the requests that are being handled in turns."""
        await stop_each((self.listeners.stop, self._node.turns.stop))

    async def stop(self) -> None:
        stops: list[Stop] = [self.listeners.receiving.stop, partial(DESCRIPTORS.forget, self.listeners)]
        if self.peers.made is not None:
            stops.insert(0, self.peers.made.close)
        await stop_each(stops)

    def _make_peers(self) -> Peers:
        from ...client.peers import Peers

        client_id = f"odradek-{self._node.identity.node_id}"
        return Peers(client_id, self._access.sasl.login, self.listeners.tls.connection_arguments)

    def _count_other_nodes(self, image: MetadataImage) -> int:
        """Returns how many nodes this node may have connections to: the registered ones and the quorum's voters."""
        cluster = image.cluster
        nodes = {*cluster.brokers, *cluster.controllers}
        nodes.update(int(voter.partition("@")[0]) for voter in self._node.config.get("controller.quorum.voters"))
        return len(nodes - {self._node.identity.node_id})
