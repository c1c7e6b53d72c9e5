"""ControllerRegistration (key 70): what a controller of the quorum supports (KIP-919)."""

from __future__ import annotations

from ..api.active_controller import decide
from ..network.dispatch import Call


def handle(call: Call) -> None:
    decide(call)
