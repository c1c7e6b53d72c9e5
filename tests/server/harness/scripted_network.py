"""The network of a coordinator's requests to other brokers: it keeps them, and the test answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from odradek.protocol.errors import ErrorCode
from odradek.protocol.schema import Message
from odradek.server.config.endpoint import Endpoint
from odradek.server.runtime.lazy import Lazy

ELSEWHERE = Endpoint("PLAINTEXT", "other", 9092)


class Sent(NamedTuple):
    endpoint: Endpoint
    request: Any
    reply: Callable[[Any], None]
    timeout_ms: int
    purpose: str


class Network:
    """The leaders and peers of a broker: `leads` names the partitions that it leads itself."""

    def __init__(self, *leads: int) -> None:
        self.leads = set(leads)
        self.sent: list[Sent] = []
        self.absent = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def other_leader(self, topic: str, index: int) -> Endpoint | None:
        return None if index in self.leads else ELSEWHERE

    def absent_error(self, topic: str, index: int) -> int:
        return self.absent

    def send(
        self, endpoint: Endpoint, request: Message, reply: Callable[[Any], None], *, timeout_ms: int, purpose: str
    ) -> None:
        self.sent.append(Sent(endpoint, request, reply, timeout_ms, purpose))

    @property
    def peers(self) -> Any:
        return Lazy(lambda: self)
