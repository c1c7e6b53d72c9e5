"""The network between nodes.

Data takes a while, arrives in order on each connection, and waits while its link is cut, as with TCP. A connection
that breaks loses the data in flight. Different connections have no common order.
"""

from __future__ import annotations

import asyncio
import contextvars
import errno
from collections import deque
from collections.abc import Callable, Iterable
from random import Random
from typing import TYPE_CHECKING, Protocol

from .loop import OUTSIDE, OWNER, AnyProtocol, P, VirtualLoop, name_of

if TYPE_CHECKING:
    from ...protocol.checksum import Buffer


# One end of a connection in memory: an asyncio transport with a delay and without a socket.


Address = tuple[str, int]

#: The retry interval over a cut link.
RETRY_S = 0.05
#: The high-water mark at which a transport pauses its protocol's writing, unless the protocol sets another.
HIGH_WATER_BYTES = 64 * 1024


class Links(Protocol):
    """The state of the links between nodes."""

    def delay(self, source: str = ..., target: str = ...) -> float: ...

    def is_cut(self, source: str, target: str) -> bool: ...

    def breaks(self, source: str, target: str) -> bool: ...

    def forget(self, end: Transport) -> None: ...


class Transport(asyncio.Transport):
    """One end of a connection. Bytes written here wait in `_sent` until they reach the other end."""

    other: Transport

    def __init__(self, links: Links, protocol: AnyProtocol, context: contextvars.Context, *, peer: Address) -> None:
        super().__init__()
        self.protocol = protocol
        self.context = context
        self.node = name_of(context.get(OWNER))
        self._links = links
        self._peer = peer
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        self._loop = loop
        self._sent: deque[bytes] = deque()
        self._sent_bytes = 0
        self._is_flowing = False
        self._reads = True
        self._writes_paused = False
        self._high, self._low = HIGH_WATER_BYTES, HIGH_WATER_BYTES // 4
        self._is_closing = False
        self._is_over = False

    def get_extra_info(self, name: str, default: object = None) -> object:
        return self._peer if name == "peername" else default

    def get_protocol(self) -> AnyProtocol:
        return self.protocol

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        assert isinstance(protocol, asyncio.Protocol | asyncio.BufferedProtocol)
        self.protocol = protocol

    def is_closing(self) -> bool:
        return self._is_closing or self._is_over

    # ---- writing

    def write(self, data: Buffer) -> None:
        if self.is_closing() or not data:
            return
        self._sent.append(bytes(data))
        self._sent_bytes += len(self._sent[-1])
        if self._sent_bytes > self._high and not self._writes_paused:
            self._writes_paused = True
            self.protocol.pause_writing()
        self.flow()

    def writelines(self, list_of_data: Iterable[Buffer]) -> None:
        self.write(b"".join(bytes(one) for one in list_of_data))

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high = HIGH_WATER_BYTES if high is None else high
        self._low = self._high // 4 if low is None else low

    def get_write_buffer_size(self) -> int:
        return self._sent_bytes

    def can_write_eof(self) -> bool:
        return False

    def flow(self) -> None:
        """Starts the next delivery, unless one is in flight."""
        if not self._is_flowing and not self._is_over and (self._sent or self._is_closing):
            self._is_flowing = True
            self._later(self._links.delay(self.node, self.other.node), self._arrive)

    def _later(self, delay_s: float, function: Callable[[], None]) -> None:
        """Schedules work of the network, which runs outside of all contexts, whichever nodes are alive."""
        contextvars.Context().run(self._loop.call_later, delay_s, function)

    def _arrive(self) -> None:
        self._is_flowing = False
        if self._is_over or self._links.is_cut(self.node, self.other.node) or not self.other._reads:
            return  # mending the link or resuming reading continues the flow
        if self._sent:
            if self._links.breaks(self.node, self.other.node):
                self.abort()
                return
            data = b"".join(self._sent)
            self._sent.clear()
            self._sent_bytes = 0
            self.other.context.run(self.other.deliver, data)
            if self._loop.watch is not None:
                self._loop.watch(self.other.node)
            if self._writes_paused and not self._is_over:
                self._writes_paused = False
                self.context.run(self.protocol.resume_writing)
            self.flow()
        elif self._is_closing:
            self._end(None)

    # ---- reading

    def deliver(self, data: bytes) -> None:
        if self._is_over or self._is_closing:
            return
        if isinstance(self.protocol, asyncio.BufferedProtocol):
            self._deliver_buffered(self.protocol, data)
        else:
            self.protocol.data_received(data)

    def _deliver_buffered(self, protocol: asyncio.BufferedProtocol, data: bytes) -> None:
        pos = 0
        while pos < len(data) and not self._is_over:
            if not self._reads:  # the rest is delivered first when reading resumes
                self.other._sent.appendleft(data[pos:])
                self.other._sent_bytes += len(data) - pos
                return
            buffer = memoryview(protocol.get_buffer(-1))
            size = min(len(buffer), len(data) - pos)
            buffer[:size] = data[pos : pos + size]
            pos += size
            protocol.buffer_updated(size)

    def is_reading(self) -> bool:
        return self._reads

    def pause_reading(self) -> None:
        self._reads = False

    def resume_reading(self) -> None:
        self._reads = True
        self.other.flow()

    # ---- closing

    def close(self) -> None:
        """Closes the connection after delivering the written data."""
        if not self.is_closing():
            self._is_closing = True
            self.flow()

    def abort(self) -> None:
        self._end(ConnectionResetError("the connection was reset"))

    def die(self) -> None:
        """Ends the connection of a crashed node: only the other end is notified."""
        self._is_over = True
        self._links.forget(self)
        self._later(self._links.delay(self.node, self.other.node), self._break_other)

    def _end(self, error: Exception | None) -> None:
        if self._is_over:
            return
        self._is_over = True
        self._links.forget(self)
        self._loop.call_soon(self._tell_lost, error, context=self.context)
        self._later(self._links.delay(self.node, self.other.node), self._break_other)

    def _break_other(self) -> None:
        if self._links.is_cut(self.node, self.other.node) and not self.other._is_over:
            # The other end is not notified while the link is cut.
            self._later(RETRY_S, self._break_other)
            return
        other = self.other
        if not other._is_over:
            other._is_over = True
            self._links.forget(other)
            self._loop.call_soon(other._tell_lost, None, context=other.context)

    def _tell_lost(self, error: Exception | None) -> None:
        self.protocol.connection_lost(error)


#: The latency of one delivery: a network within a room.
LATENCY_S = (0.0001, 0.002)
#: Ports for listeners that do not choose one.
FIRST_FREE_PORT = 50_000

#: From a node to a node.
Link = tuple[str, str]


class ConnectionRefused(ConnectionRefusedError):
    """The address has no listener."""


class Network:
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
        far.context.run(far.protocol.connection_made, far)
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

    def __init__(self, network: Network, factory: Callable[[], AnyProtocol], bound: SimulatedSocket) -> None:
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

    def __init__(self, network: Network) -> None:
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
