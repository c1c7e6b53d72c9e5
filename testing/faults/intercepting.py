"""The place of faults in a broker: before the handlers of its routes."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

from .striking import Flow

if TYPE_CHECKING:
    from ...protocol.schema import Message
    from ...server.broker import BrokerServer
    from ...server.network.call import Call
    from ...server.network.route import Route
    from .faults import Faults
    from .named_items import TopicNames
    from .striking import Handle


class Interceptor:
    """Puts faults before the handlers of one broker. `observe`: called with each request, if it is set."""

    def __init__(self, server: BrokerServer, faults: Faults) -> None:
        self._server = server
        self._faults = faults
        for directory in server.config.log_dirs:
            faults.disks.node_ids[os.path.abspath(directory)] = server.node_id  # noqa: PTH100  (as LogDirectory has it)
        self.observe: Callable[[Call, int, TopicNames], object] | None = None
        for dispatcher in server.network.dispatchers.values():
            dispatcher.on_route = self._on_route

    def _on_route(self, route: Route) -> None:
        is_one = route.handle_large is route.handle
        route.handle = partial(self._take, route.handle)
        route.handle_large = route.handle if is_one else partial(self._take, route.handle_large)

    def _take(self, handle: Handle, call: Call) -> Message | None:
        if self.observe is not None:
            self.observe(call, self._server.node_id, self._topic_name)
        if not self._faults.active:
            return handle(call)
        node_id = self._server.node_id
        fits = (fault for fault in self._faults.active if fault.match.fits(call, node_id, self._topic_name))
        first = next(fits, None)
        if first is None:
            return handle(call)
        Flow(call, handle, chain((first,), fits), self._topic_name, asyncio.get_running_loop()).begin()
        return None

    def _topic_name(self, topic_id: bytes) -> str | None:
        topic = self._server.node.metadata.image.topics.by_id.get(topic_id)
        return topic.name if topic is not None else None
