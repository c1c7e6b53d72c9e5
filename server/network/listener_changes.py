"""Listeners added or removed while the broker runs: a dynamic `listeners` (KIP-226).

Added listeners are opened; removed ones are closed with their connections. Unchanged listeners keep everything,
even their port. Metadata names a new listener after the next start, when the broker registers itself again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from .dispatch import Dispatcher
from .listener import Endpoint

if TYPE_CHECKING:
    from ..broker import BrokerServer
    from ..config.listeners import ListenerEndpoint

log = logging.getLogger("odradek.listener")

_KEYS = frozenset(("listeners", "listener.security.protocol.map"))


class ListenerChanges:
    def __init__(self, broker: BrokerServer) -> None:
        self._broker = broker
        self._tasks: set[asyncio.Task[None]] = set()

    def config_changed(self, names: frozenset[str]) -> None:
        if not names & _KEYS:
            return
        said = self._broker.config.listeners
        wanted = {endpoint.name: endpoint for endpoint in (*said.brokers, *said.controllers)}
        there = {listener.name for listener in self._broker.listeners}
        for listener in list(self._broker.listeners):
            if listener.name not in wanted:
                log.info("closing listener %s", listener.name)
                self._broker.listeners.remove(listener)
                self._do(listener.stop())
        for endpoint in wanted.values():
            if endpoint.name not in there:
                self._open(endpoint, is_controller=endpoint in said.controllers)

    def _open(self, said: ListenerEndpoint, *, is_controller: bool) -> None:
        dispatcher = Dispatcher("controller") if is_controller else self._broker.dispatcher
        try:
            listener = self._broker.add_listener(Endpoint(said.name, said.host, said.port), dispatcher)
        except OSError as error:
            log.error("%s is not opened: %s", said.name, error)
            return
        log.info("opening listener %s on %s", listener.name, listener.endpoint.address)
        self._do(listener.start())

    def _do(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def stop(self) -> None:
        await asyncio.gather(*self._tasks, return_exceptions=True)
