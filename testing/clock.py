"""The clock of embedded brokers, which a test moves: real time plus an offset.

After a move ahead, everything is due whose wall-clock time has come: group sessions and rebalances, transactional expiry,
share locks, delayed deliveries, the intervals of a controller's tasks, retention, expiry of producers. `catch_up` does the
last two, whose usual intervals are in the loop's time. After a move back, timers keep the delays that they have left: they
end before the clock shows their times; clocks of coordinators do not run back.

A move changes neither network time-outs nor the waits of Produce and Fetch requests: they use the loop's time. Brokers of a
cluster measure each other in wall-clock time, so `move` corrects that: it shifts the times of followers' last fetches, and
begins the sessions of brokers anew.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from time import time
from typing import TYPE_CHECKING, Any

from ..server.runtime.clock import Clock
from ..server.services import Services

if TYPE_CHECKING:
    from ..server.broker import BrokerServer
    from ..server.coordinators.coordinator_driver import CoordinatorDriver


class MovedClock(Clock):
    """A broker's clock with an offset to real time. Its timers belong to the loop of the broker."""

    __slots__ = ("_pending", "offset_s")

    def __init__(self) -> None:
        super().__init__(lambda: time() + self.offset_s)
        self.offset_s = 0.0
        #: In the order in which they were set.
        self._pending: dict[_Timer, None] = {}

    def call_at(self, deadline_ms: int, function: Callable[[], object]) -> asyncio.TimerHandle:
        """Calls `function` when this clock shows that time; after a step back, when the delay set before is over."""
        return _Timer(self._pending, deadline_ms, function, self.seconds_until)

    def seconds_until(self, deadline_ms: int) -> float:
        return max(0.0, deadline_ms / 1000 - self._seconds())

    def move(self, seconds: float) -> None:
        """Moves the clock. After a step ahead, the next turns of the loop call what is due, in the order of the deadlines.

        A step back leaves the timers as they are, like a step of the system's clock.
        """
        self.offset_s += seconds
        if seconds > 0:
            for timer in sorted(self._pending, key=lambda timer: timer.deadline_ms):
                timer.arm_again()


class _Timer(asyncio.TimerHandle):
    def __init__(
        self,
        pending: dict[_Timer, None],
        deadline_ms: int,
        function: Callable[[], object],
        seconds_until: Callable[[int], float],
    ) -> None:
        loop = asyncio.get_running_loop()
        super().__init__(loop.time(), function, (), loop)
        self.deadline_ms = deadline_ms
        self._function = function
        self._pending = pending
        self._seconds_until = seconds_until
        self._here = loop
        self._inner = loop.call_later(seconds_until(deadline_ms), self._due)
        pending[self] = None

    def arm_again(self) -> None:
        self._inner.cancel()
        self._inner = self._here.call_later(self._seconds_until(self.deadline_ms), self._due)

    def _due(self) -> None:
        self._pending.pop(self, None)
        self._function()

    def cancel(self) -> None:
        self._inner.cancel()
        self._pending.pop(self, None)
        asyncio.Handle.cancel(self)  # the loop does not know this one

    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        return self is other


def move(clock: MovedClock, servers: Iterable[BrokerServer], seconds: float) -> None:
    """Moves the clock of brokers. Coordinators do what is due; what brokers measure of each other stays the same."""
    clock.move(seconds)
    for server in servers:
        if not isinstance(server.services, Services):
            continue  # a mere controller
        for hosted in server.partitions.hosted:
            for follower in hosted.role.followers.values():
                follower.last_caught_up_ms += int(seconds * 1000)
                follower.last_fetch_ms += int(seconds * 1000)
        if server.controller.sessions is not None:
            server.controller.sessions.clock_moved()
        for driver in _coordinators(server):
            driver.clock_moved()


async def catch_up(servers: Iterable[BrokerServer]) -> None:
    """Does the periodic tasks of the brokers' logs that a move ahead may have made due."""
    for server in servers:
        if not isinstance(server.services, Services):
            continue
        await server.replicas.maintenance.delete_old_segments()
        await server.replicas.maintenance.remove_files()
        await server.replicas.maintenance.expire_producers()
    await asyncio.sleep(0)


def return_to_real_time(clock: MovedClock, servers: Iterable[BrokerServer]) -> None:
    """Moves the clock back to real time. Requires brokers without topics and groups: clocks of coordinators begin anew."""
    if clock.offset_s:
        move(clock, servers, -clock.offset_s)
        clock.offset_s = 0.0
        for server in servers:
            for driver in _coordinators(server):
                driver.restart_clock()


def _coordinators(server: BrokerServer) -> list[CoordinatorDriver[Any]]:
    if not isinstance(server.services, Services):
        return []
    coordinators, share = server.services.coordinators, server.services.share
    found = [coordinators.groups, coordinators.transactions.made, share.states.made]
    return [driver for driver in found if driver is not None]
