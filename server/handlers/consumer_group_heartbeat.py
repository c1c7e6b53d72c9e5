"""ConsumerGroupHeartbeat (KIP-848), versions 0-1. See coordinator/consumer/heartbeat.py."""

from __future__ import annotations

from ..dispatch import Call


def handle(call: Call) -> None:
    call.broker.groups.submit(call.request.group_id, call.request, call.version, call, call.reply)
