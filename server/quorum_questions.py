"""Questions about the quorum that a broker is asked and only the leader can answer: passed on as they are."""

from __future__ import annotations

from typing import Any

from ..protocol.errors import ErrorCode
from ..protocol.schema import Message
from .dispatch import Call

_TIMEOUT_MS = 30_000


def ask_leader(call: Call) -> None:
    """Answers with what the leader of the quorum answers; NOT_CONTROLLER when there is none that does."""
    endpoint = call.broker.controller.leader_endpoint

    def answered(response: Message | None) -> None:
        call.reply(response if response is not None else _nobody(call))

    if endpoint is None:
        answered(None)
    else:
        call.broker.peers.send(
            endpoint, call.request, answered, timeout_ms=_TIMEOUT_MS, version=call.version, purpose="questions"
        )


def _nobody(call: Call) -> Message:
    response: Any = call.api.response()
    response.error_code = int(ErrorCode.NOT_CONTROLLER)
    refused: Message = response
    return refused
