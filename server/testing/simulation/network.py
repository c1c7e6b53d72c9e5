"""Connections in memory. What is sent takes a while, comes in order, and waits while its link is cut, as TCP has it."""

from __future__ import annotations

import asyncio
import contextvars
import socket
from collections import deque
from collections.abc import Callable, Iterable
from random import Random
from typing import Any

from .loop import OWNER, Incarnation

#: What one delivery takes: a network of one room.
LATENCY_S = (0.0001, 0.002)
#: How often something is tried again over a link that is cut.
RETRY_S = 0.05
#: Where a transport asks its protocol to stop writing, unless the protocol says otherwise.
HIGH_WATER_BYTES = 64 * 1024

Address = tuple[str, int]
OUTSIDE = ""


class Refused(ConnectionRefusedError):
    """Nobody listens there."""


class Network:
    """Knows who listens, who is connected, and between which nodes nothing goes. Clients outside of nodes are node ""."""

    def __init__(self, chance: Random, latency_s: tuple[float, float] = LATENCY_S) -> None:
        self.latency_s = latency_s
        self._chance = chance
        self._listeners: dict[Address, Listener] = {}
        self._ends: set[Transport] = set()
        self._cut: set[tuple[str, str]] = set()

    def delay(self) -> float:
        return self._chance.uniform(*self.latency_s)

    # ---- for the loop

    def listen(self, factory: Callable[[], Any], address: Address, bound: socket.socket | None) -> Listener:
        listener = Listener(self, factory, address, bound)
        self._listeners[address] = listener
        return listener

    def unlisten(self, listener: Listener) -> None:
        if self._listeners.get(listener.address) is listener:
            del self._listeners[listener.address]

    async def connect(self, factory: Callable[[], Any], address: Address) -> tuple[Transport, Any]:
        """Raises Refused. Through a cut link it takes as long as the cut."""
        here = name_of(OWNER.get())
        host = "127.0.0.1" if address[0] in ("localhost", "::1") else address[0]
        await asyncio.sleep(self.delay())
        listener = self._listeners.get((host, address[1]))
        if listener is None:
            raise Refused(f"nobody listens on {address[0]}:{address[1]}")
        while self.is_cut(here, listener.node) or self.is_cut(listener.node, here):  # noqa: ASYNC110
            await asyncio.sleep(RETRY_S)  # as TCP does: it tries again
        if self._listeners.get((host, address[1])) is not listener:
            raise Refused(f"nobody listens on {address[0]}:{address[1]} any more")
        protocol = factory()
        near = Transport(self, protocol, contextvars.copy_context(), peer=listener.address)
        far = Transport(self, listener.factory(), listener.context.copy(), peer=("127.0.0.1", 40_000 + len(self._ends)))
        near.other, far.other = far, near
        self._ends |= {near, far}
        far.context.run(far.protocol.connection_made, far)
        near.protocol.connection_made(near)
        return near, protocol

    def forget(self, end: Transport) -> None:
        self._ends.discard(end)

    def close(self) -> None:
        """Gives back the addresses that were taken."""
        for listener in self._listeners.values():
            listener.release()

    # ---- for tests

    def is_cut(self, source: str, target: str) -> bool:
        return (source, target) in self._cut

    def cut(self, source: str, target: str) -> None:
        """What `source` sends to `target` waits from now on."""
        self._cut.add((source, target))

    def isolate(self, node: str, others: Iterable[str]) -> None:
        """Cut both ways from each of the others."""
        for other in others:
            self.cut(node, other)
            self.cut(other, node)

    def mend(self) -> None:
        self._cut.clear()
        for end in list(self._ends):
            end.flow()

    def reset(self, node: str, other: str | None = None) -> None:
        """Every connection of the node (with the other) breaks, for both ends."""
        for end in list(self._ends):
            if end.node == node and other in (None, end.other.node):
                end.abort()

    def crashed(self, node: str) -> None:
        """Its connections break for the peers, who learn it as far as links let them; nobody listens any more."""
        for end in [end for end in self._ends if end.node == node]:
            end.die()
        for address in [address for address, one in self._listeners.items() if one.node == node]:
            self._listeners.pop(address).release()


def name_of(owner: Incarnation | None) -> str:
    return OUTSIDE if owner is None else owner.name


class Listener:
    """As asyncio's servers are, as far as ours is used."""

    def __init__(self, network: Network, factory: Callable[[], Any], address: Address, bound: Any) -> None:
        self.factory = factory
        self.address = address
        self.context = contextvars.copy_context()
        self.node = name_of(OWNER.get())
        self._network = network
        self._bound = bound

    @property
    def sockets(self) -> list[Any]:
        return [self._bound]

    def release(self) -> None:
        if self._bound is not None:
            self._bound.close()

    def close(self) -> None:
        self._network.unlisten(self)
        self.release()

    async def wait_closed(self) -> None:
        return


class Transport(asyncio.Transport):
    """One end of a connection. Bytes written here wait in `_sent` until they reach the other end."""

    other: Transport

    def __init__(self, network: Network, protocol: Any, context: contextvars.Context, *, peer: Address) -> None:
        super().__init__()
        self.protocol = protocol
        self.context = context
        self.node = name_of(context.get(OWNER))
        self._network = network
        self._peer = peer
        self._loop = asyncio.get_running_loop()
        self._sent: deque[bytes] = deque()
        self._sent_bytes = 0
        self._is_flowing = False
        self._reads = True
        self._writes_paused = False
        self._high, self._low = HIGH_WATER_BYTES, HIGH_WATER_BYTES // 4
        self._is_closing = False
        self._is_over = False

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._peer if name == "peername" else default

    def get_protocol(self) -> Any:
        return self.protocol

    def set_protocol(self, protocol: Any) -> None:
        self.protocol = protocol

    def is_closing(self) -> bool:
        return self._is_closing or self._is_over

    # ---- writing

    def write(self, data: Any) -> None:
        if self.is_closing() or not data:
            return
        self._sent.append(bytes(data))
        self._sent_bytes += len(self._sent[-1])
        if self._sent_bytes > self._high and not self._writes_paused:
            self._writes_paused = True
            self.protocol.pause_writing()
        self.flow()

    def writelines(self, list_of_data: Iterable[Any]) -> None:
        self.write(b"".join(bytes(one) for one in list_of_data))

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high = HIGH_WATER_BYTES if high is None else high
        self._low = self._high // 4 if low is None else low

    def get_write_buffer_size(self) -> int:
        return self._sent_bytes

    def can_write_eof(self) -> bool:
        return False

    def flow(self) -> None:
        """The next delivery sets out, unless one is on its way."""
        if not self._is_flowing and not self._is_over and (self._sent or self._is_closing):
            self._is_flowing = True
            # It is the network's doing, whoever is alive: outside of all contexts.
            contextvars.Context().run(self._loop.call_later, self._network.delay(), self._arrive)

    def _arrive(self) -> None:
        self._is_flowing = False
        if self._is_over or self._network.is_cut(self.node, self.other.node) or not self.other._reads:
            return  # mending the link, or reading on, has it flow again
        if self._sent:
            data = b"".join(self._sent)
            self._sent.clear()
            self._sent_bytes = 0
            self.other.context.run(self.other.deliver, data)
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
            self._deliver_buffered(data)
        else:
            self.protocol.data_received(data)

    def _deliver_buffered(self, data: bytes) -> None:
        pos = 0
        while pos < len(data) and not self._is_over:
            if not self._reads:  # what is left comes first when it reads again
                self.other._sent.appendleft(data[pos:])
                self.other._sent_bytes += len(data) - pos
                return
            buffer = self.protocol.get_buffer(-1)
            size = min(len(buffer), len(data) - pos)
            buffer[:size] = data[pos : pos + size]
            pos += size
            self.protocol.buffer_updated(size)

    def is_reading(self) -> bool:
        return self._reads

    def pause_reading(self) -> None:
        self._reads = False

    def resume_reading(self) -> None:
        self._reads = True
        self.other.flow()

    # ---- endings

    def close(self) -> None:
        """What was written still goes."""
        if not self.is_closing():
            self._is_closing = True
            self.flow()

    def abort(self) -> None:
        self._end(ConnectionResetError("the connection was reset"))

    def die(self) -> None:
        """This end's node is no more: only the other end hears of it."""
        self._is_over = True
        self._network.forget(self)
        contextvars.Context().run(self._loop.call_later, self._network.delay(), self._break_other)

    def _end(self, error: Exception | None) -> None:
        if self._is_over:
            return
        self._is_over = True
        self._network.forget(self)
        self._loop.call_soon(self._tell_lost, error, context=self.context)
        contextvars.Context().run(self._loop.call_later, self._network.delay(), self._break_other)

    def _break_other(self) -> None:
        if self._network.is_cut(self.node, self.other.node) and not self.other._is_over:
            # The other end hears nothing while the link is cut.
            contextvars.Context().run(self._loop.call_later, RETRY_S, self._break_other)
            return
        other = self.other
        if not other._is_over:
            other._is_over = True
            self._network.forget(other)
            self._loop.call_soon(other._tell_lost, None, context=other.context)

    def _tell_lost(self, error: Exception | None) -> None:
        self.protocol.connection_lost(error)
