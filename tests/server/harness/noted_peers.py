"""The other brokers, which are the test."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from odradek.client.peers import Endpoint, Peers
from odradek.protocol.schema import Request, ResponseCallback


class SentToPeer(NamedTuple):
    endpoint: Endpoint
    request: Request
    reply: ResponseCallback
    timeout_ms: int
    purpose: str


class WatchedPeer(NamedTuple):
    endpoint: Endpoint
    lost: Callable[[], None]
    purpose: str


class NotedPeers(Peers):
    """`sent`: the requests to other brokers that are not answered, in their order. `watched`: the connections whose end is
    to be reported. `some_ended`: whether the other side of a connection has ended it.
    """

    def __init__(self) -> None:
        super().__init__("test")
        self.sent: list[SentToPeer] = []
        self.watched: list[WatchedPeer] = []
        self.some_ended = False

    def send(
        self,
        endpoint: Endpoint,
        request: Request,
        reply: ResponseCallback,
        *,
        timeout_ms: int,
        purpose: str = "",
        **options: Any,
    ) -> None:
        self.sent.append(SentToPeer(endpoint, request, reply, timeout_ms, purpose))

    def on_lost(self, endpoint: Endpoint, callback: Callable[[], None], purpose: str = "") -> None:
        self.watched.append(WatchedPeer(endpoint, callback, purpose))

    def have_some_ended(self) -> bool:
        return self.some_ended
