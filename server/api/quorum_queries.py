"""Forwards requests about the quorum, which only its leader can answer, unchanged from a broker to the leader."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...protocol.apis import Api
from ...protocol.errors import ErrorCode
from ...protocol.internal.headers import RequestHeader
from ...protocol.schema import Message
from ..network.call import Call, set_throttle_time
from ..network.dispatch import Handler
from ..services import NodeServices

#: Apache Kafka's brokers hand them on in an Envelope, as what the controller decides; ours as they are.
QUESTIONS = frozenset({"DescribeQuorum", "AddRaftVoter", "RemoveRaftVoter"})
_TIMEOUT_MS = 30_000
_Answer = Callable[[Message], None]


class EnvelopedCall(Call):
    """A client's request that came in an Envelope. Its response goes to the broker that forwarded it.

    `principal` and `client_host` are the client's, as the envelope has them.
    """

    __slots__ = ("_answer", "_client_host", "_envelope", "_is_token_authenticated", "_principal")

    may_reply_in_slices = False

    def __init__(
        self,
        envelope: Call,
        api: Api,
        header: RequestHeader,
        request: Message,
        answer: _Answer,
        *,
        principal: str,
        client_host: str,
        is_token_authenticated: bool,
    ) -> None:
        # The route of the envelope: its own would compile codecs that no request uses.
        super().__init__(envelope.connection, envelope.route, header.correlation_id, header.client_id, request)
        self.api, self.version = api, header.request_api_version
        #: The envelope waits on the connection, not what is in it.
        self.is_parked = True
        self._answer, self._envelope = answer, envelope
        self._principal, self._client_host = principal, client_host
        self._is_token_authenticated = is_token_authenticated

    @property
    def principal(self) -> str:
        return self._principal

    @property
    def client_host(self) -> str:
        return self._client_host

    @property
    def is_token_authenticated(self) -> bool:
        return self._is_token_authenticated

    def hold_connection(self) -> None:
        self._envelope.hold_connection()

    def handle(self, handler: Handler) -> None:
        response = handler(self)
        if response is not None:
            self.reply(response)

    def reply(self, response: Message) -> None:
        if self.throttle_time_ms:  # for the client; the broker that forwarded the request mutes its connection
            set_throttle_time(response, self.throttle_time_ms)
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
    rejected: Message = response
    return rejected
