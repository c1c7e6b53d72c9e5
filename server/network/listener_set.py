"""All listeners of a node, what their connections share, and the addresses that other nodes and clients get."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from ...client import SOFTWARE
from ...metadata.configs import InvalidConfig
from ..config.endpoint import Endpoint
from .descriptors import DESCRIPTORS
from .listener import Listener
from .listener_kind import BROKER, CONTROLLER
from .receive_budget import ReceiveBudget
from .shared_parts import SharedParts

if TYPE_CHECKING:
    from ..access.subsystem import AccessSubsystem
    from ..config.listeners import ListenerEndpoint
    from ..runtime.node import Node
    from .dispatch import Dispatcher
    from .listener_kind import ListenerKind

log = logging.getLogger("odradek.listener")

_KEYS = frozenset(("listeners", "listener.security.protocol.map"))
_ANY_HOST = ("", "0.0.0.0", "::")


class ListenerSet(SharedParts):
    """Opens and closes the listeners of a node.

    `dispatchers`: by the kind of listener. `other_nodes` returns how many nodes this node may have connections to.

    A dynamic `listeners` (KIP-226) adds and removes listeners while the broker runs. Added listeners are opened;
    removed ones are closed with their connections. Unchanged listeners keep everything, even their port. Metadata
    names a new listener after the next start, when the broker registers itself again.
    """

    def __init__(
        self,
        node: Node,
        access: AccessSubsystem,
        dispatchers: Mapping[ListenerKind, Dispatcher],
        other_nodes: Callable[[], int],
    ) -> None:
        super().__init__(node.config, node.clock, node.lines, access.audit, node.turns, access.quotas)
        self._sasl = access.sasl.of
        self.other_nodes = other_nodes
        self.receiving = ReceiveBudget(node.config.get("queued.max.request.bytes"), self)
        self._dispatchers = dispatchers
        self._listeners: list[Listener] = []
        self._tasks: set[asyncio.Task[None]] = set()

    def __iter__(self) -> Iterator[Listener]:
        return iter(self._listeners)

    def __getitem__(self, index: int) -> Listener:
        return self._listeners[index]

    def bind(self) -> None:
        """Takes the addresses of the configuration; they accept no connection yet. Raises CannotListen, and InvalidConfig
        for keys and certificates that cannot be read.
        """
        self.tls.open()
        said = self.config.listeners
        for endpoint in said.brokers:
            self._bind(endpoint, BROKER)
        for endpoint in said.controllers:
            self._bind(endpoint, CONTROLLER)

    def watch_slow_requests(self) -> None:
        """Logs slow requests from now on, if `odradek.slow.request.ms` is set."""
        limit_ms = self.config.get("odradek.slow.request.ms")
        if limit_ms is not None:
            self._dispatchers[BROKER].watch(limit_ms)

    def _bind(self, said: ListenerEndpoint, kind: ListenerKind) -> Listener:
        endpoint = Endpoint(said.name, said.host, said.port)
        listener = Listener(self, endpoint, kind, self._dispatchers[kind], self._sasl(said.name, said.protocol))
        listener.bind()
        self._listeners.append(listener)
        return listener

    async def start_early(self) -> None:
        """Accepts connections on the listeners that do not wait for the metadata: those of controllers, and others by
        `early.start.listeners`.
        """
        early = self.config.listeners.early
        for listener in self._listeners:
            if listener.name in early:
                await listener.start()

    async def start(self) -> None:
        """Accepts connections on all listeners, and follows changes of `listeners` from now on."""
        for listener in self._listeners:
            if not listener.is_started:
                await listener.start()
        self.config.subscribe(self._config_changed)

    async def stop(self) -> None:
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for listener in self._listeners:
            await listener.stop()

    def has_clients(self) -> bool:
        """Returns whether clients are connected that have sent a request; other nodes are none."""
        return any(
            connection.has_asked and (connection.software is None or connection.software[0] != SOFTWARE)
            for listener in self._listeners
            if listener.kind == BROKER
            for connection in listener.connections
        )

    @property
    def takes_descriptors(self) -> bool:
        """Returns whether connections are sockets of this process; those of a simulated network are not."""
        return any(listener.takes_descriptors for listener in self._listeners)

    def plan_descriptors(self) -> None:
        """Keeps descriptors for the connections to the nodes that there are now."""
        DESCRIPTORS.peers_are(self, self.other_nodes())

    # Changes.

    def _config_changed(self, names: frozenset[str]) -> None:
        if not names & _KEYS:
            return
        said = self.config.listeners
        wanted = {endpoint.name: endpoint for endpoint in (*said.brokers, *said.controllers)}
        there = {listener.name for listener in self._listeners}
        for listener in list(self._listeners):
            if listener.name not in wanted:
                log.info("closing listener %s", listener.name)
                self._listeners.remove(listener)
                self._do(listener.stop())
        for endpoint in wanted.values():
            if endpoint.name not in there:
                self._open(endpoint, CONTROLLER if endpoint in said.controllers else BROKER)

    def _open(self, said: ListenerEndpoint, kind: ListenerKind) -> None:
        try:
            listener = self._bind(said, kind)
        except (OSError, InvalidConfig) as error:
            log.error("%s is not opened: %s", said.name, error)
            return
        log.info("opening listener %s on %s", listener.name, listener.endpoint.address)
        self._do(listener.start())

    def _do(self, work: Coroutine[object, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # Addresses.

    def controller_endpoints(self) -> list[Endpoint]:
        """Returns the endpoints of this node's controller listeners: as advertised, otherwise as bound. A wildcard host
        becomes localhost.
        """
        reported = {listener.name: listener for listener in self.config.listeners.advertised_controllers}
        found = []
        for listener in self._listeners:
            if listener.kind != CONTROLLER:
                continue
            endpoint, said = listener.endpoint, reported.get(listener.name)
            if said is not None and said.host not in _ANY_HOST:
                endpoint = Endpoint(endpoint.name, said.host, said.port or endpoint.port)
            found.append(replace(endpoint, host="localhost") if endpoint.host in _ANY_HOST else endpoint)
        return found

    def advertised_endpoints(self) -> list[Endpoint]:
        """Returns the endpoints that clients get; a listener that `advertised.listeners` does not name is given as it is
        bound.
        """
        bound = {listener.name: listener.endpoint for listener in self._listeners}
        return [
            _advertised(bound[said.name], Endpoint(said.name, said.host, said.port))
            for said in self.config.listeners.advertised
        ]

    def address_with(self, protocol: str) -> str:
        """Returns the advertised host:port of the first listener with a security protocol. Raises LookupError."""
        named = {one.name for one in self.config.listeners.brokers if one.protocol == protocol}
        found = next((one.address for one in self.advertised_endpoints() if one.name in named), None)
        if found is None:
            raise LookupError(f"no listener in advertised.listeners is {protocol}")
        return found


def _advertised(bound: Endpoint, said: Endpoint) -> Endpoint:
    """Port 0 stands for the port that was found; a wildcard host for this machine."""
    host, port = said.host or bound.host, said.port or bound.port
    return Endpoint(bound.name, "localhost" if host in _ANY_HOST else host, port)
