"""Imports of modules on a thread when they are first needed.

Many brokers never need them, and the event loop would be held for a tenth of a second.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor
from importlib import import_module

log = logging.getLogger("odradek.late_imports")

#: The coordinators of groups, with the kinds that nearly all groups are of.
GROUP_MODULES = ("server.coordinators.group_configs", "server.coordinators.group_shard_driver")
TRANSACTION_MODULES = (
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
            log.error("a part of the broker cannot be imported: %s", failure)
        _, then = self._waiting.popleft()
        if self._waiting:
            self._begin()
        then()
