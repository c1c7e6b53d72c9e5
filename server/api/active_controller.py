"""What brokers and controllers ask of the active controller, at its own listener: others say that they are not it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..network.dispatch import Call


def decide(call: Call) -> None:
    call.broker.controller.decide(call.request, call.version, call.reply)
