"""WriteShareGroupState (key 85), versions 0-1: see coordinator/share_state/operations.py. Between brokers."""

from __future__ import annotations

from ..coordinators.persister import submit_here
from ..network.dispatch import Call


def handle(call: Call) -> None:
    submit_here(call.broker, call.request, call.version, call, call.reply)
