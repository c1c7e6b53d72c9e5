"""Subsystems of a node, the failures of their background work, and the modules that they import late.

- `Subsystem`: one class with parts of its own, which takes its dependencies as arguments. `stop_each` stops several.
- `Lazy`: a part that few brokers need. A broker without share groups has none of their state, and imports none of it.
- `BackgroundTasks`: the failures of background work. Each is logged, counted and shown in health, and the work is
  tried again.
- `LateImports`: modules that are imported on a thread when they are first needed. Many brokers never need them, and
  the event loop would be held for a tenth of a second.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import Executor
from importlib import import_module
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from ...metadata.delta import MetadataDelta
    from ...metadata.image import MetadataImage


T = TypeVar("T")

Stop = Callable[[], Awaitable[None] | None]


class Subsystem:
    """The composition root (broker.py) lists the subsystems of a node, starts them in order, and stops them in reverse."""

    name: str
    #: Whether it takes up new images.
    follows_images = False
    #: Without it, `stop` leaves directories as a process leaves them that is killed.
    stops_cleanly = True

    async def start(self) -> None:
        """Starts it; the subsystems before it have started."""

    def publish(self, delta: MetadataDelta, image: MetadataImage) -> Iterable[None]:
        """Follows a new image, in steps. The subsystems before it have followed it."""
        return ()

    async def stop(self) -> None:
        """Stops what the start has made, however far it came. The subsystems after it have stopped."""


async def stop_each(stops: Iterable[Stop]) -> None:
    """Calls each, one after the other: one that fails keeps no other from its own. Raises the failure in the end, or
    several as one `ExceptionGroup`; the node logs it.
    """
    failures: list[Exception] = []
    for stop in stops:
        try:
            waiting = stop()
            if waiting is not None:
                await waiting
        except Exception as failure:
            failures.append(failure)
    if len(failures) == 1:
        raise failures[0]
    if failures:
        raise ExceptionGroup(f"{len(failures)} parts of the node did not stop", failures)


class Lazy(Generic[T]):
    """A part that is made by its first call. `made` is None until then."""

    __slots__ = ("_make", "made")

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self.made: T | None = None

    def __call__(self) -> T:
        if self.made is None:
            self.made = self._make()
        return self.made


# ---- failures of background work

background_log = logging.getLogger("odradek.background")

#: Work without an interval of its own is tried again after this time: a full disk or a bug seldom ends sooner, and a
#: snapshot takes a second of CPU with 100,000 partitions.
RETRY_MS = 60_000
#: Characters of a failure that health shows.
_MOST_SHOWN = 300


class BackgroundTasks:
    """The failures of one node's background work, by the name of the task.

    A part calls `failed` when its work ends with an exception that it does not expect, whatever its type, and
    `succeeded` when it works again. The part itself tries again: its next interval does it, or a timer after
    RETRY_MS.
    """

    def __init__(self) -> None:
        #: Failures since the start.
        self.failures: Counter[str] = Counter()
        #: Tasks whose last attempt failed, with the reason.
        self.failing: dict[str, str] = {}

    def failed(self, task: str, failure: BaseException) -> None:
        """Notes a failed attempt. Logs the first, the second, the fourth, and so on, with a traceback."""
        self.failures[task] += 1
        count = self.failures[task]
        is_new = task not in self.failing
        self.failing[task] = f"{type(failure).__name__}: {failure}"[:_MOST_SHOWN]
        if is_new or count & (count - 1) == 0:
            background_log.error("%s failed and is tried again (failure %d)", task, count, exc_info=failure)

    def forget(self, task: str) -> None:
        """Notes that the work is no longer this node's."""
        self.failing.pop(task, None)

    def succeeded(self, task: str) -> None:
        """Notes an attempt that succeeded."""
        if self.failing and self.failing.pop(task, None) is not None:
            background_log.warning("%s works again, after %d failures", task, self.failures[task])


# ---- late imports

imports_log = logging.getLogger("odradek.late_imports")

#: The coordinators of groups, with the kinds that nearly all groups are of.
GROUP_MODULES = ("server.coordinators.group_shard_driver",)
TRANSACTION_MODULES = (
    "server.coordinators.transaction_driver",
    "server.coordinators.transaction_driver",
    "server.produce.transactional_produce",
)
_PACKAGE = __package__.removesuffix(".server.runtime")
#: Modules that this process has loaded.
_loaded: set[str] = set()


def load(modules: tuple[str, ...]) -> None:
    for name in modules:
        if name not in _loaded:
            import_module(f".{name}", _PACKAGE)
            _loaded.add(name)


def is_loaded(modules: tuple[str, ...]) -> bool:
    return _loaded.issuperset(modules)


class LateImports:
    """The imports that one broker waits for. `pool` has the threads.

    One thread imports at a time, and callbacks run in the order of their requests. So a request that comes after a
    partition's election finds the shard that the election makes.
    """

    def __init__(self, pool: Executor) -> None:
        self._pool = pool
        self._waiting: deque[tuple[tuple[str, ...], Callable[[], None]]] = deque()

    def when_loaded(self, modules: tuple[str, ...], then: Callable[[], None]) -> None:
        """Calls `then` when the modules are imported: at once if they are, otherwise later on the loop."""
        if not self._waiting and is_loaded(modules):
            then()
            return
        self._waiting.append((modules, then))
        if len(self._waiting) == 1:
            self._begin()

    def _begin(self) -> None:
        loading = asyncio.get_running_loop().run_in_executor(self._pool, load, self._waiting[0][0])
        loading.add_done_callback(self._ended)

    def _ended(self, loading: asyncio.Future[None]) -> None:
        failure = loading.exception()
        if failure is not None:  # for want of memory or descriptors; the code that needs the modules tries again
            imports_log.error("a part of the broker cannot be imported: %s", failure)
        _, then = self._waiting.popleft()
        if self._waiting:
            self._begin()
        then()
