"""The network between nodes.

Data takes a while, arrives in order on each connection, and waits while its link is cut, as with TCP. A connection
that breaks loses the data in flight. Different connections have no common order.
"""

from __future__ import annotations

import asyncio
import contextvars
import errno
from collections.abc import Callable, Iterable
from random import Random
from typing import TYPE_CHECKING

from .incarnations import OUTSIDE, OWNER, Incarnation, name_of
from .transport import RETRY_S, Transport

if TYPE_CHECKING:
    from .loop import AnyProtocol, P
    from .transport import Address

#: The latency of one delivery: a network within a room.
LATENCY_S = (0.0001, 0.002)
#: Ports for listeners that do not choose one.
FIRST_FREE_PORT = 50_000

#: From a node to a node.
Link = tuple[str, str]


class ConnectionRefused(ConnectionRefusedError):
    """The address has no listener."""


class SimulatedNetwork:
    """Tracks listeners, connections, and the faults between nodes. Clients outside of nodes are node ""."""

    def __init__(self, rng: Random, latency_s: tuple[float, float] = LATENCY_S) -> None:
        self.latency_s = latency_s
        self._rng = rng
        self._bound: dict[Address, SimulatedSocket] = {}
        self._listeners: dict[Address, Listener] = {}
        #: The current or last owner of each address.
        self._homes: dict[Address, str] = {}
        # A dict, for its order: the same seed must give the same order.
        self._ends: dict[Transport, None] = {}
        self._connections = 0
        #: The number of deliveries, each of which has one or more requests or responses.
        self.deliveries = 0
        self._cut: set[Link] = set()
        self._slow: dict[Link, tuple[float, float]] = {}
        self._flaky: dict[Link, float] = {}

    def delay(self, source: str = OUTSIDE, target: str = OUTSIDE) -> float:
        return self._rng.uniform(*self._slow.get((source, target), self.latency_s))

    def breaks(self, source: str, target: str) -> bool:
        """Returns whether this delivery breaks its connection and is lost."""
        likelihood = self._flaky.get((source, target), 0.0)
        return likelihood > 0 and self._rng.random() < likelihood

    # ---- for the loop

    def bind(self, bound: SimulatedSocket, address: Address) -> Address:
        port = address[1] or next(
            port for port in range(FIRST_FREE_PORT, 65536) if (address[0], port) not in self._bound
        )
        place = (address[0], port)
        if place in self._bound:
            raise OSError(errno.EADDRINUSE, "Address already in use")
        self._bound[place] = bound
        self._homes[place] = name_of(OWNER.get())
        return place

    def unbind(self, bound: SimulatedSocket, address: Address) -> None:
        if self._bound.get(address) is bound:
            del self._bound[address]

    def listen(self, factory: Callable[[], AnyProtocol], bound: SimulatedSocket) -> Listener:
        listener = Listener(self, factory, bound)
        self._listeners[listener.address] = listener
        return listener

    def unlisten(self, listener: Listener) -> None:
        if self._listeners.get(listener.address) is listener:
            del self._listeners[listener.address]

    async def reach(self, address: Address) -> Listener:
        """Returns the listener at the address. Raises ConnectionRefused.

        Through a cut link it waits until the link is mended."""
        here, place = (
            name_of(OWNER.get()),
            ("127.0.0.1" if address[0] in ("localhost", "::1") else address[0], address[1]),
        )
        there = self._homes.get(place, here)
        await asyncio.sleep(self.delay(here, there))
        while self.is_cut(here, there) or self.is_cut(there, here):  # noqa: ASYNC110
            await asyncio.sleep(RETRY_S)  # retries, as TCP does
        if place not in self._listeners:
            raise ConnectionRefused(f"no listener on {address[0]}:{address[1]}")
        return self._listeners[place]

    async def connect(self, factory: Callable[[], P], address: Address) -> tuple[Transport, P]:
        """Connects to the address. Waits and raises as `reach`."""
        listener = await self.reach(address)
        protocol = factory()
        self._connections += 1
        near = Transport(self, protocol, contextvars.copy_context(), peer=listener.address)
        port = 40_000 + self._connections % 10_000
        far = Transport(self, listener.factory(), listener.context.copy(), peer=("127.0.0.1", port))
        near.other, far.other = far, near
        self._ends[near] = self._ends[far] = None
        far.run(far.protocol.connection_made, far)
        near.protocol.connection_made(near)
        return near, protocol

    def forget(self, end: Transport) -> None:
        self._ends.pop(end, None)

    # ---- for tests

    def is_cut(self, source: str, target: str) -> bool:
        return (source, target) in self._cut

    def cut(self, source: str, target: str) -> None:
        """Makes data from `source` to `target` wait from now on."""
        self._cut.add((source, target))

    def isolate(self, node: str, others: Iterable[str]) -> None:
        """Cuts the links to and from each of the others."""
        for other in others:
            self.cut(node, other)
            self.cut(other, node)

    def slow_down(self, source: str, target: str, latency_s: tuple[float, float]) -> None:
        """Sets the latency of later deliveries."""
        self._slow[source, target] = latency_s

    def loosen(self, source: str, target: str, likelihood: float) -> None:
        """Makes each delivery break its connection with this likelihood, and get lost with it."""
        self._flaky[source, target] = likelihood

    def mend(self, node: str | None = None) -> None:
        """Ends all faults, or those between the node and others."""
        for faults in (self._slow, self._flaky):
            for link in [link for link in faults if node is None or node in link]:
                del faults[link]
        self._cut = {link for link in self._cut if node is not None and node not in link}
        for end in list(self._ends):
            end.flow()

    def reset(self, node: str, other: str | None = None) -> None:
        """Breaks every connection of the node (with the other) for both ends."""
        for end in list(self._ends):
            if end.node == node and other in (None, end.other.node):
                end.abort()

    def ended(self, life: Incarnation) -> None:
        """Breaks the connections of a program outside of all nodes that has ended, as `crashed` does."""
        for end in [end for end in self._ends if end.context.get(OWNER) is life]:
            end.die()

    def crashed(self, node: str) -> None:
        """Breaks a crashed node's connections for the peers, which notice as far as links permit, and removes its
        listeners.
        """
        for end in [end for end in self._ends if end.node == node]:
            end.die()
        for address in [address for address, one in self._listeners.items() if one.node == node]:
            del self._listeners[address]
        for address in [address for address in self._bound if self._homes[address] == node]:
            del self._bound[address]


class Listener:
    """Implements the part of asyncio's servers that the broker uses."""

    def __init__(self, network: SimulatedNetwork, factory: Callable[[], AnyProtocol], bound: SimulatedSocket) -> None:
        self.factory = factory
        self.address: Address = bound.getsockname()[:2]
        self.context = contextvars.copy_context()
        self.node = name_of(OWNER.get())
        self._network = network
        self._bound = bound

    @property
    def sockets(self) -> list[SimulatedSocket]:
        return [self._bound]

    def close(self) -> None:
        self._network.unlisten(self)
        self._bound.close()

    async def wait_closed(self) -> None:
        return


class SimulatedSocket:
    """Implements the part of a socket that the broker uses: binding an address, and checking for a listener."""

    def __init__(self, network: SimulatedNetwork) -> None:
        self._network = network
        self._address: Address = ("", 0)

    def __enter__(self) -> SimulatedSocket:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def setsockopt(self, *_: object) -> None:
        """Does nothing: there are no options."""

    def setblocking(self, flag: bool) -> None:
        """Does nothing: no operation blocks."""

    def bind(self, address: Address) -> None:
        self._address = self._network.bind(self, (address[0], address[1]))

    def getsockname(self) -> Address:
        return self._address

    def fileno(self) -> int:
        """Raises OSError: it has no descriptor."""
        raise OSError(errno.EBADF, "a simulated socket has no descriptor")

    def close(self) -> None:
        self._network.unbind(self, self._address)
