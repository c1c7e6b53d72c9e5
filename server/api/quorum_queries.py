"""Forwards requests about the quorum, which only its leader can answer, unchanged from a broker to the leader."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...protocol.apis import Api
from ...protocol.errors import ErrorCode
from ...protocol.internal.headers import RequestHeader
from ...protocol.schema import Message
from ..network.call import Call
from ..network.dispatch import Handler
from ..services import NodeServices

#: Apache Kafka's brokers hand them on in an Envelope, as what the controller decides; ours as they are.
QUESTIONS = frozenset({"DescribeQuorum", "AddRaftVoter", "RemoveRaftVoter"})
_TIMEOUT_MS = 30_000
_Answer = Callable[[Message], None]


class EnvelopedCall(Call):
    """A question that came in an Envelope: what would answer the client answers the broker that handed it on."""

    __slots__ = ("_answer", "_envelope")

    may_reply_in_slices = False

    def __init__(self, envelope: Call, api: Api, header: RequestHeader, request: Message, answer: _Answer) -> None:
        self.connection, self.api, self.request = envelope.connection, api, request
        self.version, self.client_id = header.request_api_version, header.client_id
        self.correlation_id = header.correlation_id
        self._answer, self._envelope = answer, envelope
        # The envelope waits on the connection, not what is in it.
        self.route, self.is_parked, self.has_failed, self.pieces, self.size = envelope.route, True, False, None, 0

    def hold_connection(self) -> None:
        self._envelope.hold_connection()

    def handle(self, handler: Handler) -> None:
        response = handler(self)
        if response is not None:
            self._answer(response)

    def reply(self, response: Message) -> None:
        self._answer(response)

    def fail(self) -> None:
        response: Any = self.api.response()
        if not hasattr(response, "error_code"):
            self._envelope.fail()
            return
        response.error_code = int(ErrorCode.UNKNOWN_SERVER_ERROR)
        self._answer(response)


def ask_leader(services: NodeServices, call: Call) -> None:
    """Answers with what the leader of the quorum answers; NOT_CONTROLLER when there is none that does."""
    endpoint = services.controller.leader_endpoint

    def answered(response: Message | None) -> None:
        call.reply(response if response is not None else _nobody(call))

    if endpoint is None:
        answered(None)
    else:
        services.peers().send(
            endpoint, call.request, answered, timeout_ms=_TIMEOUT_MS, version=call.version, purpose="questions"
        )


def _nobody(call: Call) -> Message:
    response: Any = call.api.response()
    response.error_code = int(ErrorCode.NOT_CONTROLLER)
    refused: Message = response
    return refused
