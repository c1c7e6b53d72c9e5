"""Requests of brokers and controllers to the active controller, on its own listener: other nodes reply NOT_CONTROLLER."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..network.dispatch import Call


def decide(call: Call) -> None:
    call.broker.controller.decide(call.request, call.version, call.reply)
