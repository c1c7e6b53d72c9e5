"""The driver of a node's controller, as handlers use it. It notes the requests."""

from __future__ import annotations

from typing import Any, NamedTuple

from odradek.protocol.schema import Request, ResponseCallback
from odradek.server.config.endpoint import Endpoint


class AskedOfController(NamedTuple):
    """`way`: the method that took the request."""

    way: str
    request: Any
    version: int
    reply: ResponseCallback
    client: dict[str, Any]


class NotedDriver:
    """`asked`: the requests, in their order."""

    def __init__(
        self, *, is_alone: bool = False, is_active: bool = False, leader_endpoint: Endpoint | None = None
    ) -> None:
        self.is_alone, self.is_active, self.leader_endpoint = is_alone, is_active, leader_endpoint
        self.asked: list[AskedOfController] = []

    def submit(self, request: Request, version: int, reply: ResponseCallback, **client: Any) -> None:
        self.asked.append(AskedOfController("submit", request, version, reply, client))

    def decide(self, request: Request, version: int, reply: ResponseCallback, **client: Any) -> None:
        self.asked.append(AskedOfController("decide", request, version, reply, client))

    def quorum_request(self, token: Any, request: Request) -> None:
        self.asked.append(AskedOfController("quorum_request", request, token.version, token.reply, {}))
