"""The HTTP server of the control port: on the loopback address only, a thread for each connection.

A page in a browser on the same machine must not reach it: requests name a loopback host, and their bodies are declared as
JSON, which no page sends to another origin without asking first.
"""

from __future__ import annotations

import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from .openapi import description
from .operations import OPERATIONS, Control, Controlled, Operation

HOST = "127.0.0.1"
MOST_BODY_BYTES = 1 << 20
#: A client that has sent nothing for so long is cut off.
IDLE_S = 120
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


class ControlPort:
    """Serves the control of brokers until `close`. `port`: 0 picks a free one."""

    def __init__(self, embedded: Controlled, port: int = 0) -> None:
        control = Control(embedded)
        embedded.requests  # noqa: B018  (from now on they are noted)

        class Handler(_Handler):
            def __init__(self, *arguments: Any) -> None:
                self.control = control
                super().__init__(*arguments)

        self._server = ThreadingHTTPServer((HOST, port), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, name="odradek-control", daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self._server.server_address[1]}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = IDLE_S
    control: Control

    def do_GET(self) -> None:
        self._handle()

    def do_POST(self) -> None:
        self._handle()

    def do_DELETE(self) -> None:
        self._handle()

    def log_message(self, format: str, *arguments: Any) -> None:
        """Writes nothing: a test's output is its own."""

    def _handle(self) -> None:
        body = self._body()
        if body is None:
            return
        parts = urlsplit(self.path)
        if parts.path == "/openapi.json" and self.command == "GET":
            self._answer(200, description())
            return
        found, values = _route(self.command, parts.path)
        if found is None:
            self._answer(
                404, {"error": f"there is no {self.command} {parts.path}; GET /openapi.json lists what there is"}
            )
            return
        try:
            self._answer(200, found.function(self.control, {**dict(parse_qsl(parts.query)), **values}, body))
        except tuple(kind for kind, _ in _STATUS) as error:
            words = error.args[0] if isinstance(error, KeyError) and error.args else error
            self._answer(next(status for kind, status in _STATUS if isinstance(error, kind)), {"error": str(words)})

    def _body(self) -> dict[str, Any] | None:
        """Returns the body; None after a refusal."""
        if not _LOOPBACK.fullmatch(self.headers.get("Host", "")):
            return self._reject(403, "the control port is for this machine only")
        length = self.headers.get("Content-Length", "0")
        if (
            not (length.isascii() and length.isdecimal())
            or int(length) > MOST_BODY_BYTES
            or "Transfer-Encoding" in self.headers
        ):
            return self._reject(413, f"a body has its length, of {MOST_BODY_BYTES} bytes at most")
        data = self.rfile.read(int(length))
        if self.command == "GET":
            return {}
        if self.headers.get_content_type() != "application/json":
            return self._reject(415, "the body is application/json")
        try:
            found = json.loads(data or b"{}")
        except (ValueError, RecursionError):
            return self._reject(400, "the body is not JSON")
        return found if isinstance(found, dict) else self._reject(400, "the body is a JSON object")

    def _reject(self, status: int, words: str) -> dict[str, Any] | None:
        self.close_connection = True
        self._answer(status, {"error": words})
        return None

    def _answer(self, status: int, content: dict[str, Any]) -> None:
        data = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def _route(method: str, path: str) -> tuple[Operation | None, dict[str, str]]:
    for operation, pattern in _ROUTES:
        match = pattern.match(path) if operation.method == method else None
        if match is not None:
            return operation, {name: unquote(value) for name, value in match.groupdict().items()}
    return None, {}
