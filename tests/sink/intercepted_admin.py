"""An administrator of a broker in this process: a test sees each request before it is sent, and may hold or fail it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from odradek.admin.session import Admin
from odradek.client.cluster import Address, Cluster

_TIMEOUT_S = 30.0


class InterceptedAdmin(Admin):
    """`before` is called with each request, and raises the error of one; `after` with each that has a response."""

    def __init__(self, bootstrap: str) -> None:
        host, _, port = bootstrap.rpartition(":")
        super().__init__(Cluster([Address(host, int(port))], "tests", _TIMEOUT_S), _TIMEOUT_S, _TIMEOUT_S)
        self.before: Callable[[Any], None] = lambda request: None
        self.after: Callable[[Any], None] = lambda request: None

    def ask(self, request: Any, node_id: int | None = None, version: Any = None) -> Any:
        self.before(request)
        response = super().ask(request, node_id, version)
        self.after(request)
        return response
