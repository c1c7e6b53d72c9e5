"""CreateTopics (key 19): answered when the topics are there; see replication/controller/topics.py."""

from __future__ import annotations

from ..network.dispatch import Call


def handle(call: Call) -> None:
    call.broker.controller.submit(call.request, call.version, call.reply, principal=call.principal)
