"""What brokers and controllers ask of the active controller, at its own listener: others say that they are not it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..protocol.errors import ErrorCode
from ..replication.controller.controller import refuse
from ..replication.controller.result import RefusedRequest

if TYPE_CHECKING:
    from .dispatch import Call


def decide(call: Call) -> None:
    controller = call.broker.controller
    if controller.is_active:
        controller.submit(call.request, call.version, call.reply, principal=call.principal)
    else:
        call.reply(refuse(call.request, RefusedRequest(ErrorCode.NOT_CONTROLLER)))
