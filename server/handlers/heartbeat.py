"""Heartbeat, versions 0-4: a member of the current generation is alive. See coordinator/groups/classic/sync.py."""

from __future__ import annotations

from ..network.dispatch import Call


def handle(call: Call) -> None:
    call.broker.groups.submit(call.request.group_id, call.request, call.version, call, call.reply)
