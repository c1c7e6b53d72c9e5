"""The other brokers, which are the test."""

from __future__ import annotations

from typing import Any, NamedTuple

from odradek.client.peers import Endpoint, Peers
from odradek.protocol.schema import Request, ResponseCallback


class SentToPeer(NamedTuple):
    endpoint: Endpoint
    request: Request
    reply: ResponseCallback


class NotedPeers(Peers):
    """`sent`: the requests to other brokers that are not answered, in their order."""

    def __init__(self) -> None:
        super().__init__("test")
        self.sent: list[SentToPeer] = []

    def send(self, endpoint: Endpoint, request: Request, reply: ResponseCallback, **options: Any) -> None:
        self.sent.append(SentToPeer(endpoint, request, reply))
