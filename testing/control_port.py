"""The HTTP server of the control port.

A page in a browser on the same machine must not reach it: requests name a loopback host, and their bodies are
declared as JSON, which no page sends to another origin without asking first.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, unquote, urlsplit

from .control import OPERATIONS, Control
from .loopback_http import BadBody, JsonHandler, LoopbackServer
from .openapi import description_text

if TYPE_CHECKING:
    from .control import Controlled, Operation

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
    """Serves the control of brokers until `close`. `port`: 0 picks a free one. `snapshots`: the folder below which
    snapshots are saved and restored; None where there are none.
    """

    def __init__(self, embedded: Controlled, port: int = 0, snapshots: str | Path | None = None) -> None:
        made = Control(embedded, None if snapshots is None else Path(snapshots))
        embedded.requests  # noqa: B018  (from now on they are noted)

        class BoundControlHandler(_ControlHandler):
            control = made

        super().__init__(BoundControlHandler, port, "odradek-control")


class _ControlHandler(JsonHandler):
    control: Control

    def handle_request(self) -> None:
        try:
            body = self.allowed_body()
        except BadBody as bad:
            self.respond(bad.status, {"error": bad.words})
            return
        parts = urlsplit(self.path)
        if parts.path == "/openapi.json" and self.command == "GET":
            self.respond(200, description_text())
            return
        found, values = _route(self.command, parts.path)
        if found is None:
            self.respond(
                404, {"error": f"there is no {self.command} {parts.path}; GET /openapi.json lists the operations"}
            )
            return
        try:
            self.respond(200, found.function(self.control, {**dict(parse_qsl(parts.query)), **values}, body))
        except tuple(kind for kind, _ in _STATUS) as error:
            words = error.args[0] if isinstance(error, KeyError) and error.args else error
            self.respond(next(status for kind, status in _STATUS if isinstance(error, kind)), {"error": str(words)})


def _route(method: str, path: str) -> tuple[Operation | None, dict[str, str]]:
    for operation, pattern in _ROUTES:
        match = pattern.match(path) if operation.method == method else None
        if match is not None:
            return operation, {name: unquote(value) for name, value in match.groupdict().items()}
    return None, {}
