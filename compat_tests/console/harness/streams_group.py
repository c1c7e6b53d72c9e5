"""Responses that the console shows for a streams group."""

from __future__ import annotations

from typing import Any

from odradek.admin.connection import Connection
from odradek.admin.nodes import describe_cluster
from odradek.protocol.schema import Message

from compat_tests.recipes import eventually
from compat_tests.streams.application import GROUP, LATER
from compat_tests.wire import WireClient


def answered(bootstrap: str, request: Message, version: int) -> Any:
    """Returns the response of the group's coordinator, once it is available."""

    def ask() -> Any:
        with Connection({"bootstrap.servers": bootstrap}).admin() as admin:
            node = admin.coordinator(GROUP)
            (broker,) = [one for one in describe_cluster(admin).brokers if one.broker_id == node]
        with WireClient(f"{broker.host}:{broker.port}") as client:
            response = client.call(request, version)
        return None if response.error_code in LATER else response

    return eventually(ask, what=f"{type(request).__name__} is answered", deadline_s=60)
