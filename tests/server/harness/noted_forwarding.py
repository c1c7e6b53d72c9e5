"""Requests of a broker to the active controller, which is the test."""

from __future__ import annotations

from typing import NamedTuple

from odradek.protocol.schema import Request, ResponseCallback
from odradek.server.controller.forwarding import Forwarding


class SentToController(NamedTuple):
    request: Request
    reply: ResponseCallback
    timeout_ms: int


class NotedForwarding(Forwarding):
    """`sent`: the requests of the broker itself, in their order."""

    def __init__(self) -> None:
        self.sent: list[SentToController] = []

    def send_to_controller(
        self,
        request: Request,
        reply: ResponseCallback,
        *,
        timeout_ms: int,
        version: int | None = None,
        purpose: str = "controller",
    ) -> None:
        self.sent.append(SentToController(request, reply, timeout_ms))
