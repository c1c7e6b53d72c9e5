"""ReadShareGroupState (key 84), version 0: see coordinator/share/persister/operations.py. Between brokers."""

from __future__ import annotations

from ..dispatch import Call
from ..persister import submit_here


def handle(call: Call) -> None:
    submit_here(call.broker, call.request, call.version, call, call.reply)
