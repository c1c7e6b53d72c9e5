"""The HTTP server of the control port.

A page in a browser on the same machine must not reach it: requests name a loopback host, and their bodies are declared as
JSON, which no page sends to another origin without asking first.
"""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from ..loopback_http import BadBody, JsonHandler, LoopbackServer
from .openapi import description
from .operations import OPERATIONS, Control, Controlled, Operation

_LOOPBACK = re.compile(r"(localhost|127\.0\.0\.1|\[::1\])(:\d+)?")
_STATUS = (
    (KeyError, 404),
    (TimeoutError, 408),
    (ValueError, 400),
    (TypeError, 400),
    (RuntimeError, 409),
    (OSError, 409),
)
_ROUTES = [
    (one, re.compile(re.sub(r"{(\w+)}", r"(?P<\1>[^/]+)", one.path) + r"\Z")) for one in OPERATIONS
]  # fmt: skip


class ControlPort(LoopbackServer):
    """Serves the control of brokers until `close`. `port`: 0 picks a free one."""

    def __init__(self, embedded: Controlled, port: int = 0) -> None:
        control = Control(embedded)
        embedded.requests  # noqa: B018  (from now on they are noted)

        class Handler(_Handler):
            def __init__(self, *arguments: Any) -> None:
                self.control = control
                super().__init__(*arguments)

        super().__init__(Handler, port, "odradek-control")


class _Handler(JsonHandler):
    control: Control

    def handle_request(self) -> None:
        try:
            body = self._body()
        except BadBody as bad:
            self.close_connection = True
            self.answer(bad.status, {"error": bad.words})
            return
        parts = urlsplit(self.path)
        if parts.path == "/openapi.json" and self.command == "GET":
            self.answer(200, description())
            return
        found, values = _route(self.command, parts.path)
        if found is None:
            self.answer(
                404, {"error": f"there is no {self.command} {parts.path}; GET /openapi.json lists the operations"}
            )
            return
        try:
            self.answer(200, found.function(self.control, {**dict(parse_qsl(parts.query)), **values}, body))
        except tuple(kind for kind, _ in _STATUS) as error:
            words = error.args[0] if isinstance(error, KeyError) and error.args else error
            self.answer(next(status for kind, status in _STATUS if isinstance(error, kind)), {"error": str(words)})

    def _body(self) -> dict[str, Any]:
        if not _LOOPBACK.fullmatch(self.headers.get("Host", "")):
            raise BadBody(403, "the control port accepts connections from this machine only")
        data = self.body()
        if self.command == "GET":
            return {}
        if self.headers.get_content_type() != "application/json":
            raise BadBody(415, "the body must be application/json")
        return self.parsed(data)


def _route(method: str, path: str) -> tuple[Operation | None, dict[str, str]]:
    for operation, pattern in _ROUTES:
        match = pattern.match(path) if operation.method == method else None
        if match is not None:
            return operation, {name: unquote(value) for name, value in match.groupdict().items()}
    return None, {}
