"""One end of a connection in memory: an asyncio transport with a delay and without a socket."""

from __future__ import annotations

import asyncio
import contextvars
from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Protocol, TypeVarTuple, Unpack

from .incarnations import OWNER, name_of
from .loop import VirtualLoop

if TYPE_CHECKING:
    from ...protocol.buffer import Buffer
    from .loop import AnyProtocol

Address = tuple[str, int]
Ts = TypeVarTuple("Ts")

#: The retry interval over a cut link.
RETRY_S = 0.05
#: The high-water mark at which a transport pauses its protocol's writing, unless the protocol sets another.
HIGH_WATER_BYTES = 64 * 1024


class Links(Protocol):
    """The state of the links between nodes."""

    deliveries: int

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
        self.owner = context.get(OWNER)
        self.node = name_of(self.owner)
        #: Work of the network runs in it, outside of all nodes, whichever of them are alive.
        self._outside = contextvars.Context()
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
        self._loop.call_at(self._loop.time() + delay_s, function, context=self._outside)

    def run(self, function: Callable[[Unpack[Ts]], object], *args: *Ts) -> None:
        """Runs a function of the protocol; after its pause if the process is paused."""
        if self.owner is not None and self.owner.held is not None:
            self._loop.call_soon(function, *args, context=self.context)
        else:
            self.context.run(function, *args)

    def _arrive(self) -> None:
        self._is_flowing = False
        if self._is_over or self._links.is_cut(self.node, self.other.node) or not self.other._reads:
            return  # mending the link or resuming reading continues the flow
        if self._sent:
            if self._links.breaks(self.node, self.other.node):
                self.abort()
                return
            self._links.deliveries += 1
            data = b"".join(self._sent)
            self._sent.clear()
            self._sent_bytes = 0
            self.other.run(self.other.deliver, data)
            if self._loop.watch is not None:
                self._loop.watch(self.other.node)
            if self._writes_paused and not self._is_over:
                self._writes_paused = False
                self.run(self.protocol.resume_writing)
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
