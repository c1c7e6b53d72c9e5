"""Measures what a request costs a broker: CPU time of its loop in all, and of its longest turn.

The broker runs on a thread of this process, so both are measured in CPU time of that thread: other processes on the
machine do not change them.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import Any

import odradek

from compat_tests.wire import ConnectionClosed, WireClient, request_frame

#: The largest answer that a test takes.
MOST_ANSWER_BYTES = 1 << 30
TIMEOUT_S = 30


@dataclass
class Cost:
    """CPU seconds of the loop for one request, of its longest turn, and bytes of the answer (-1: connection closed)."""

    total_s: float
    longest_turn_s: float
    answer_bytes: int


class TurnProbe:
    """A callback in every turn of the loop: the CPU time between two of them is what the turn took."""

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
    """A broker in this process, and one client of it."""

    def __init__(self, **config: str | int | bool) -> None:
        self.broker = odradek.Broker(config=config)

    def __enter__(self) -> MeasuredBroker:
        self.broker.__enter__()
        self.client = self.connected()
        return self

    def __exit__(self, *exception: Any) -> None:
        self.client.close()
        self.broker.__exit__(None, None, None)

    def connected(self) -> WireClient:
        return WireClient(self.broker.bootstrap_servers, timeout=TIMEOUT_S)

    def run(self, coroutine: Any) -> Any:
        loop = self.broker._running().loop
        return asyncio.run_coroutine_threadsafe(coroutine, loop).result(TIMEOUT_S)

    def loop_time_s(self) -> float:
        async def now() -> float:
            return time.thread_time()

        seconds: float = self.run(now())
        return seconds

    def cost(self, frame: bytes) -> Cost:
        """Sends the frame twice: once for its whole cost, and once with a probe in every turn."""
        before_s = self.loop_time_s()
        size = self._exchange(frame)
        total_s = self.loop_time_s() - before_s
        return Cost(total_s, self.longest_turn_s(frame), size)

    def longest_turn_s(self, frame: bytes) -> float:
        probe = TurnProbe()
        self.run(probe.start())
        self._exchange(frame)
        longest_s: float = self.run(probe.stop())
        return longest_s

    def _exchange(self, frame: bytes) -> int:
        try:
            self.client.send_bytes(frame)
            return len(self.client.receive_frame())
        except (ConnectionClosed, ConnectionError):
            self.client.close()
            self.client = self.connected()
            return -1


def frame_of(request: Any, version: int) -> bytes:
    return request_frame(request, version, 1, "cost")
