"""Calls of a client whose responses a test takes, as messages."""

from __future__ import annotations

from functools import cache
from typing import Any

from odradek.protocol.apis import APIS
from odradek.protocol.schema import Message
from odradek.server.network.call import Call, ClientConnection, Observer
from odradek.server.network.route import Route

_CORRELATION_ID = 7
#: Bytes of each request.
_REQUEST_BYTES = 100


class NotedCalls(Observer):
    """Makes calls and notes their `responses`, how many were `unanswered`, `held` their connection, or are `exempted` from
    quotas, and the calls that `failed` by a bug.
    """

    def __init__(self, connection: ClientConnection) -> None:
        self.connection = connection
        self.responses: list[Any] = []
        self.unanswered = self.held = self.exempted = 0
        self.failed: list[Call] = []

    def call(self, request: Message, version: int, client_id: str | None = "client") -> Call[Any]:
        key = type(request).SCHEMA.key
        assert key is not None
        call: Call[Any] = Call(self.connection, _route(key, version), _CORRELATION_ID, client_id, request)
        call.observer, call.size = self, _REQUEST_BYTES
        return call

    def replying(self, call: Call, response: Message | None) -> bool:
        call.pieces = []
        if response is None:
            self.unanswered += 1
        else:
            self.responses.append(response)
        return False

    def holding(self, call: Call) -> bool:
        self.held += 1
        return False

    def failing(self, call: Call) -> bool:
        call.has_failed = True
        self.failed.append(call)
        return False

    def exempt(self) -> None:
        self.exempted += 1


@cache
def _route(key: int, version: int) -> Route:
    return Route(APIS[key], version)
