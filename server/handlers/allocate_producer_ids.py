"""AllocateProducerIds (key 67): a block of producer ids for a broker (KIP-730)."""

from __future__ import annotations

from ..api.active_controller import decide
from ..network.dispatch import Call


def handle(call: Call) -> None:
    decide(call)
