"""Blocking code on a loop in simulated time: a greenlet that waits gives the loop to others.

`as_coroutine` runs a function, and `wait_for` suspends it until an awaitable is done. `Pause` and `connect` take the places
of `threading.Event` and `socket.create_connection`, so that workloads and clients with threads and sockets run unchanged.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from greenlet import getcurrent, greenlet

T = TypeVar("T")


async def as_coroutine(function: Callable[[], T]) -> T:
    """Runs the function in a greenlet within the task that awaits this."""
    running = greenlet(function)
    running.gr_context = getcurrent().gr_context
    waits_for = running.switch()
    while not running.dead:
        try:
            value = await waits_for
        except BaseException:
            waits_for = running.throw(*sys.exc_info())
        else:
            waits_for = running.switch(value)
    return waits_for


def wait_for(awaitable: Awaitable[T]) -> T:
    """Waits, within a function that `as_coroutine` runs. Raises what the awaitable raises."""
    parent = getcurrent().parent
    assert parent is not None, "only as_coroutine runs code that waits"
    return parent.switch(awaitable)


def sleep(seconds: float) -> None:
    wait_for(asyncio.sleep(seconds))


class Pause(threading.Event):
    """An event whose waits take `stretch` times as long, but not longer than `longest_s` for it: few operations an hour, or
    many.
    """

    def __init__(self, longest_s: float) -> None:
        super().__init__()
        self.stretch = 1.0
        self._longest_s = longest_s
        self._waiting: dict[asyncio.Future[None], None] = {}

    def set(self) -> None:
        super().set()
        self.wake()

    def wake(self) -> None:
        """Ends all waits early."""
        for waiting in [one for one in self._waiting if not one.done()]:
            waiting.set_result(None)

    def wait(self, timeout: float | None = None) -> bool:
        assert timeout is not None
        if not self.is_set():
            wait_for(self._wait(min(timeout * self.stretch, max(timeout, self._longest_s))))
        return self.is_set()

    async def _wait(self, seconds: float) -> None:
        waiting = asyncio.get_running_loop().create_future()
        self._waiting[waiting] = None
        timer = asyncio.get_running_loop().call_later(seconds, lambda: waiting.done() or waiting.set_result(None))
        try:
            await waiting
        finally:
            timer.cancel()
            del self._waiting[waiting]


def connect(address: tuple[str, int], timeout: float, source_address: object = None) -> BlockingSocket:
    """Connects through the simulated network. Raises OSError."""

    async def connected() -> _Received:
        async with asyncio.timeout(timeout):
            return (await asyncio.get_running_loop().create_connection(_Received, *address))[1]

    return BlockingSocket(wait_for(connected()), timeout)


class _Received(asyncio.Protocol):
    """Bytes that have arrived on a connection, and its one waiting reader."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport
        self.data = bytearray()
        self.is_over = False
        self.waiting: asyncio.Future[None] | None = None

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.data += data
        self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_over = True
        self._wake()

    def _wake(self) -> None:
        if self.waiting is not None and not self.waiting.done():
            self.waiting.set_result(None)

    async def arrival(self, timeout_s: float) -> None:
        """Waits for data or the end. Raises TimeoutError."""
        if not self.data and not self.is_over:
            self.waiting = asyncio.get_running_loop().create_future()
            async with asyncio.timeout(timeout_s):
                await self.waiting


class BlockingSocket:
    """The part of a socket that a client with blocking calls uses."""

    def __init__(self, received: _Received, timeout: float) -> None:
        self._received, self._timeout = received, timeout

    def sendall(self, data: bytes) -> None:
        if self._received.is_over:
            raise ConnectionResetError("the connection is over")
        self._received.transport.write(data)

    def recv(self, most: int) -> bytes:
        """Returns nothing at the end of the connection. Raises TimeoutError."""
        wait_for(self._received.arrival(self._timeout))
        data = self._received.data
        piece = bytes(data[:most])
        del data[:most]
        return piece

    def getsockname(self) -> str:
        return "here"

    def getpeername(self) -> str:
        return "there"

    def setsockopt(self, *_: object) -> None:
        """Does nothing: there are no options."""

    def close(self) -> None:
        self._received.transport.abort()
