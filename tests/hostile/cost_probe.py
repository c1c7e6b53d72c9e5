"""Measures the cost of a request to a broker: CPU time of its loop, in total and in the longest turn.

The broker runs on a thread of this process. Both times are CPU time of that thread, so other processes on the machine do
not change them.
"""

from __future__ import annotations

import asyncio
import gc
import socket
import time
from collections.abc import Callable
from typing import Any

import odradek

from compat_tests.wire import ConnectionClosed, WireClient, request_frame

TIMEOUT_S = 60


class TurnProbe:
    """A callback in every turn of the loop, which measures the turn by the CPU time between two calls."""

    def __init__(self) -> None:
        self.longest_s = 0.0
        self._last_s = 0.0
        self._runs = False

    async def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._runs, self.longest_s, self._last_s = True, 0.0, time.thread_time()
        self._loop.call_soon(self._turn)

    async def stop(self) -> float:
        self._runs = False
        return self.longest_s

    def _turn(self) -> None:
        now_s = time.thread_time()
        self.longest_s = max(self.longest_s, now_s - self._last_s)
        self._last_s = now_s
        if self._runs:
            self._loop.call_soon(self._turn)


class MeasuredBroker:
    """A broker in this process and its client."""

    def __init__(self, **config: str | int | bool) -> None:
        self.broker = odradek.Broker(config=config)

    def __enter__(self) -> MeasuredBroker:
        self.broker.__enter__()
        self.address = self.broker.bootstrap_servers
        self.client = self.connected()
        return self

    def __exit__(self, *exception: Any) -> None:
        self.client.close()
        self.broker.__exit__(None, None, None)

    def connected(self) -> WireClient:
        return WireClient(self.address, timeout=TIMEOUT_S)

    def reconnect(self) -> None:
        self.client.close()
        self.client = self.connected()

    def wait_for(self, holds: Callable[[], bool]) -> None:
        """Waits for a condition that the loop's thread evaluates."""

        async def wait() -> None:
            deadline_s = time.monotonic() + TIMEOUT_S
            while not holds():
                assert time.monotonic() < deadline_s
                await asyncio.sleep(0)

        self.run(wait())

    def is_idle(self) -> bool:
        """Returns True if no large request is in progress."""
        return not self.broker.server.node.turns._ready

    def run(self, coroutine: Any) -> Any:
        loop = self.broker._running().loop
        return asyncio.run_coroutine_threadsafe(coroutine, loop).result(TIMEOUT_S)

    def settle(self) -> None:
        """Excludes existing objects from garbage collection, as a serving broker does."""

        async def freeze() -> None:
            gc.collect()
            gc.freeze()

        self.run(freeze())

    def loop_time_s(self) -> float:
        async def now() -> float:
            return time.thread_time()

        seconds: float = self.run(now())
        return seconds

    def total_s(self, frame: bytes) -> float:
        """Returns the loop's CPU seconds for one request, including the work that it leaves for the next turns."""
        before_s = self.loop_time_s()
        self.exchange(frame)
        return self.loop_time_s() - before_s

    def longest_turn_s(self, frame: bytes) -> float:
        probe = TurnProbe()
        self.run(probe.start())
        self.exchange(frame)
        longest_s: float = self.run(probe.stop())
        return longest_s

    def exchange(self, frame: bytes) -> int:
        """Returns the size of the response in bytes, or -1 if the broker closes the connection instead."""
        try:
            self.client.send_bytes(frame)
            return self._received()
        except (ConnectionClosed, ConnectionError):
            self.reconnect()
            return -1

    def _received(self) -> int:
        """Reads a response of any size and keeps none of it."""
        made: socket.socket = self.client._socket
        length = left = int.from_bytes(self.client._exactly(4), "big")
        buffer = memoryview(bytearray(1 << 16))
        while left:
            size = made.recv_into(buffer[: min(left, len(buffer))])
            if not size:
                raise ConnectionClosed("the broker closed the connection")
            left -= size
        return length


def frame_of(request: Any, version: int) -> bytes:
    return request_frame(request, version, 1, "cost")
