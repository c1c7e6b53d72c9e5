"""The connection of a client, without a socket and without a broker around it."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from odradek.protocol.apis import Api
from odradek.protocol.buffer import Buffer
from odradek.protocol.schema import Message
from odradek.server.access.audit import AuditLog
from odradek.server.access.authorization.sessions import AuthorizationSession
from odradek.server.access.quotas.client_quotas import ClientQuotas
from odradek.server.access.quotas.sensors import Meters
from odradek.server.network.call import BoundHandle, Call, CallRoute
from odradek.server.network.listener_kind import BROKER, ListenerKind
from odradek.server.network.protocol_violation import ProtocolViolation
from odradek.server.network.receive_budget import ReceiveBudget
from odradek.server.network.shared_parts import SharedParts
from odradek.server.runtime.node import Node
from odradek.server.runtime.turns import Turns

from tests.server.harness.nodes import node_of


class NotedReceiving(ReceiveBudget):
    """`noted`: the bytes that were taken, and below zero those that were given back."""

    def __init__(self) -> None:
        super().__init__(-1, ())
        self.noted: list[int] = []

    def take(self, count: int) -> None:
        super().take(count)
        self.noted.append(count)

    def give_back(self, connection: object, count: int) -> None:
        super().give_back(connection, count)
        self.noted.append(-count)


class ListenerParts(SharedParts):
    """The parts of a node that its listeners share."""

    receiving: NotedReceiving

    def __init__(self, node: Node, turns: Turns) -> None:
        super().__init__(node.config, node.clock, node.lines, AuditLog(node.clock), turns, ClientQuotas(node.config))
        self.receiving = NotedReceiving()


class NotedListener:
    """A listener of brokers and clients."""

    kind: ListenerKind = BROKER

    def __init__(self, node: Node, turns: Turns) -> None:
        self.shared = ListenerParts(node, turns)


class NotedDispatcher:
    """Notes the failures of requests that take several turns. It dispatches none."""

    served: dict[int, Api] = {}
    frame_bytes = 0

    def __init__(self) -> None:
        self.failures: list[Exception] = []

    def call(self, connection: Any, frame: Buffer) -> None:
        raise AssertionError("no frame comes")

    def handle(self, call: Call, route: CallRoute, handle: BoundHandle) -> None:
        raise AssertionError("no request comes")

    def failed_later(self, call: Call, route: CallRoute, failure: Exception) -> None:
        self.failures.append(failure)

    def violation_of(self, frame: Buffer, error: Exception) -> ProtocolViolation:
        raise AssertionError("no frame comes")


class NotedConnection:
    """A `ClientConnection`. `closings`: the reasons for which it was closed. `held`: the reasons to take no request."""

    listener_name = "L"
    principal = "User:ANONYMOUS"
    client_host = "/127.0.0.1"
    client_id: str | None = "client"
    client_id_bytes: bytes | None = b"client"
    remote_address = "127.0.0.1:50000"
    software: tuple[str, str] | None = None
    is_token_authenticated = False
    unsent_bytes = stuck_bytes = taken_bytes = 0

    def __init__(self, node: Node | None = None, *, turns: Turns | None = None) -> None:
        node = node or node_of()
        self.listener = NotedListener(node, turns or node.turns)
        self.dispatcher = NotedDispatcher()
        self.closed = False
        self.authorization: AuthorizationSession | None = None
        self.meters: Meters | None = None
        self.rejected_batches: Any = None
        self.sasl_gate = None
        self.closings: list[str] = []
        self.held: list[Hashable] = []
        self.responses: list[Call] = []

    def learn(self, raw: Buffer) -> str:
        return bytes(raw).decode()

    def park(self, call: Call) -> None:
        call.parked()

    def answered(self, call: Call) -> None:
        self.responses.append(call)

    def reply_in_slices(self, call: Call, response: Message) -> None:
        raise AssertionError("no response is large")

    def hold(self, reason: Hashable) -> None:
        self.held.append(reason)

    def mute(self, time_ms: int) -> None:
        pass

    def close_for(self, reason: str) -> None:
        self.closings.append(reason)

    def drop_for(self, reason: str) -> None:
        self.closings.append(reason)
