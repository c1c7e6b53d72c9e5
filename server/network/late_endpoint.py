"""An endpoint that is imported on a thread with its first request, and the requests that wait for it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from ...protocol.schema import Message
from .call import Call
from .protocol_violation import ProtocolViolation

if TYPE_CHECKING:
    from ...protocol.apis import Api
    from .call import BoundHandle
    from .route import Route


class LateEndpoint:
    """The handler of a route until its endpoint has been imported.

    `serve`: has the route serve by its imported endpoint. Raises ProtocolViolation. `when_loaded`: as of `Endpoints`.
    """

    route: Route

    def __init__(
        self, serve: Callable[[LateEndpoint], Route], when_loaded: Callable[[Api, Callable[[], None]], None]
    ) -> None:
        self._serve = serve
        self._when_loaded = when_loaded
        self.handle: BoundHandle | None = None

    def prepare(self, then: Callable[[], None]) -> None:
        """Calls `then` when the endpoint is imported."""

        def loaded() -> None:
            if self.handle is None:
                with suppress(ProtocolViolation):  # again for each request, which it ends
                    self._serve(self)
            then()

        self._when_loaded(self.route.api, loaded)

    def __call__(self, call: Call) -> Message | None:
        if self.handle is not None:
            return self.handle(call)
        call.hold_connection()
        self._when_loaded(self.route.api, partial(self._handle_loaded, call))
        return None

    def _handle_loaded(self, call: Call) -> None:
        if call.connection.closed:
            return
        route = self.route
        try:
            if self.handle is None:
                self._serve(self)
            assert self.handle is not None
            if route.is_exempt:
                call.exempt()
            response = self.handle(call)
            if response is not None:
                call.reply(response)
        except Exception as failure:
            call.connection.dispatcher.failed_later(call, route, failure)
