"""AllocateProducerIds (key 67): a block of producer ids for a broker (KIP-730)."""

from __future__ import annotations

from ..active_controller import decide
from ..dispatch import Call


def handle(call: Call) -> None:
    decide(call)
