"""An event loop in virtual time: when nothing is ready, the clock advances to the next due event.

Each callback belongs to a node, by the context in which it was scheduled. Callbacks of a node that has crashed since
are skipped, and those of a paused one wait. Work for threads runs on the loop itself, a little later, so that the seed
decides the order.
"""

from __future__ import annotations

import asyncio
import heapq
import socket
import time
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from contextvars import Context
from functools import partial
from random import Random
from typing import Any, Protocol, TypeVar, TypeVarTuple, Union, Unpack
from weakref import WeakKeyDictionary

from .incarnations import OWNER, Incarnation, name_of

#: The duration of work on a thread, such as a flush.
THREAD_S = (0.0002, 0.004)

#: The minimum duration of a turn of the loop.
TURN_S = 2e-6

AnyProtocol = Union[asyncio.Protocol, asyncio.BufferedProtocol]
P = TypeVar("P", bound=AnyProtocol)
T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class Deadlock(RuntimeError):
    """All tasks wait, and no event is due."""


class LoopNetwork(Protocol):
    """The network that a loop connects and listens through."""

    def listen(self, factory: Callable[[], AnyProtocol], bound: Any) -> object: ...

    async def connect(self, factory: Callable[[], P], address: tuple[str, int]) -> tuple[asyncio.Transport, P]: ...

    async def reach(self, address: tuple[str, int]) -> object: ...


class _Clock:
    """Replaces the selector: waiting advances the virtual time."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop

    def select(self, timeout: float | None) -> list[object]:
        if timeout is None:
            raise Deadlock("nothing is ready and nothing is due")
        self._loop.advance(timeout)
        return []


class _OwnedHandle(asyncio.Handle):
    """A callback of a node."""

    __slots__ = ("owner",)
    owner: Incarnation
    _loop: VirtualLoop

    def _run(self) -> None:
        _run_owned(self)


class _OwnedTimer(asyncio.TimerHandle):
    """A callback of a node that is due at a time."""

    __slots__ = ("owner",)
    owner: Incarnation
    _loop: VirtualLoop

    def _run(self) -> None:
        _run_owned(self)


def _run_owned(handle: _OwnedHandle | _OwnedTimer) -> None:
    owner = handle.owner
    if owner.held is not None:
        owner.held.append(handle)
    elif owner.is_alive:
        asyncio.Handle._run(handle)
        watch = handle._loop.watch
        if watch is not None and owner.name:
            watch(owner.name)


class VirtualLoop(asyncio.BaseEventLoop):
    """The event loop. `network` implements `create_server` and `create_connection`."""

    # Attributes of the base class.
    _ready: deque[asyncio.Handle]
    _scheduled: list[asyncio.TimerHandle]

    def __init__(self, rng: Random, network: LoopNetwork, started: float | None = None) -> None:
        super().__init__()
        self.rng = rng
        self.network = network
        #: Called after each event of a node, with the node's name.
        self.watch: Callable[[str], None] | None = None
        #: The first time of the clock, by default the day's own in whole seconds: clients with C inside stamp records
        #: without asking Python.
        self.started = float(int(time.time())) if started is None else started
        #: By node: the duration of work on its threads, if its disk is slow.
        self.thread_s: dict[str, tuple[float, float]] = {}
        self._owners: WeakKeyDictionary[asyncio.Task[object], Incarnation] = WeakKeyDictionary()
        self._now = self.started
        self._selector = _Clock(self)
        self._clock_resolution = TURN_S / 2

    def time(self) -> float:
        return self._now

    def advance(self, seconds: float) -> None:
        """Advances the time. Each turn takes a minimum time, so that shorter waits also end."""
        self._now += max(0.0, seconds) + TURN_S

    # ---- platform functions of the base class

    def _process_events(self, event_list: list[object]) -> None:
        assert not event_list

    def _write_to_self(self) -> None:
        """Does nothing: there is no other thread to wake the loop from."""

    # ---- ownership

    def create_task(  # type: ignore[override]
        self, coro: Coroutine[object, None, T], *, context: Context | None = None, **options: object
    ) -> asyncio.Task[T]:
        owner = OWNER.get() if context is None else context.get(OWNER)
        task: asyncio.Task[T] = super().create_task(coro, context=context, **options)
        if owner is not None:
            self._owners[task] = owner
        return task

    def tasks_of(self, owner: Incarnation) -> list[asyncio.Task[object]]:
        """Returns the tasks of an incarnation that have not ended."""
        return [task for task, its in list(self._owners.items()) if its is owner and not task.done()]

    def _call_soon(
        self, callback: Callable[..., object], args: Sequence[object], context: Context | None
    ) -> asyncio.Handle:
        owner = OWNER.get() if context is None else context.get(OWNER)
        if owner is None:
            handle = asyncio.Handle(callback, args, self, context)
        else:
            handle = _OwnedHandle(callback, args, self, context)
            handle.owner = owner
        self._ready.append(handle)
        return handle

    def call_at(
        self, when: float, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        owner = OWNER.get() if context is None else context.get(OWNER)
        if owner is None:
            timer = asyncio.TimerHandle(when, callback, args, self, context)
        else:
            timer = _OwnedTimer(when, callback, args, self, context)
            timer.owner = owner
        heapq.heappush(self._scheduled, timer)
        timer._scheduled = True  # type: ignore[attr-defined]
        return timer

    # ---- threads and connections

    def run_in_executor(self, executor: object, func: Callable[[Unpack[Ts]], T], *args: *Ts) -> asyncio.Future[T]:
        done: asyncio.Future[T] = self.create_future()
        duration_s = self.thread_s.get(name_of(OWNER.get()), THREAD_S)
        self.call_later(self.rng.uniform(*duration_s), _work, done, partial(func, *args))
        return done

    async def create_server(  # type: ignore[override]
        self,
        protocol_factory: Callable[[], AnyProtocol],
        host: None = None,
        port: None = None,
        *,
        sock: Any,
        **options: object,
    ) -> object:
        return self.network.listen(protocol_factory, sock)

    async def create_connection(  # type: ignore[override]
        self, protocol_factory: Callable[[], P], host: str, port: int, **options: object
    ) -> tuple[asyncio.Transport, P]:
        return await self.network.connect(protocol_factory, (host, port))

    async def getaddrinfo(  # type: ignore[override]
        self, host: str, port: int, **options: object
    ) -> list[tuple[socket.AddressFamily, socket.SocketKind, int, str, tuple[str, int]]]:
        """Resolves a name to itself: no name server is involved."""
        return [(socket.AF_INET, socket.SOCK_STREAM, 0, "", (host, port))]

    async def sock_connect(self, sock: object, address: tuple[str, int]) -> None:  # type: ignore[override]
        """Only checks whether an address has a listener. Raises ConnectionRefused."""
        await self.network.reach(address)


def _work(done: asyncio.Future[T], func: Callable[[], T]) -> None:
    if done.cancelled():
        return
    try:
        done.set_result(func())
    except BaseException as failure:
        done.set_exception(failure)
