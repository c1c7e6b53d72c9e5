"""The registry's HTTP server: on the loopback address, a thread for each connection, one request at a time."""

from __future__ import annotations

import json
import logging
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from .errors import RegistryError
from .operations import Asked, route
from .store import Store

log = logging.getLogger("odradek.testing.registry")
HOST = "127.0.0.1"
MOST_BODY_BYTES = 4 << 20
#: A client that has sent nothing for so long is cut off.
IDLE_S = 120
_CONTENT_TYPE = "application/vnd.schemaregistry.v1+json"


class SchemaRegistry:
    """Serves until `close`. `port`: 0 picks a free one. Raises OSError where the port is taken."""

    def __init__(self, port: int = 0) -> None:
        self.store = Store()
        self.lock = threading.Lock()
        registry = self

        class Handler(_Handler):
            def __init__(self, *arguments: Any) -> None:
                self.registry = registry
                super().__init__(*arguments)

        self._server = ThreadingHTTPServer((HOST, port), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._serve, name="odradek-registry", daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        self._server.serve_forever(poll_interval=0.02)  # a stop waits for so long

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self._server.server_address[1]}"

    def clear(self) -> None:
        """Forgets all subjects, schemas, levels and modes."""
        with self.lock:
            self.store.clear()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = IDLE_S
    registry: SchemaRegistry
    #: Headers and body go out in one piece: a client's delayed acknowledgement does not hold up the second.
    wbufsize = -1

    def do_GET(self) -> None:
        self._handle()

    def do_POST(self) -> None:
        self._handle()

    def do_PUT(self) -> None:
        self._handle()

    def do_DELETE(self) -> None:
        self._handle()

    def log_message(self, format: str, *arguments: Any) -> None:
        """Writes nothing: a test's output is its own."""

    def _handle(self) -> None:
        try:
            body = self._body()
            parts = urlsplit(self.path)
            function, path = route(self.command, parts.path.rstrip("/") or "/")
            with self.registry.lock:
                content = function(self.registry.store, Asked(path, dict(parse_qsl(parts.query)), body))
            self._answer(200, content)
        except RegistryError as error:
            self._answer(error.status, {"error_code": error.code, "message": error.words})
        except Exception:  # a defect here is the answer to this request, and no end of the connection without a word
            log.exception("%s %s", self.command, self.path)
            self._answer(500, {"error_code": 50001, "message": "Error in the backend data store"})

    def _body(self) -> dict[str, Any]:
        length = self.headers.get("Content-Length", "0")
        if not (length.isascii() and length.isdecimal()) or int(length) > MOST_BODY_BYTES:
            self.close_connection = True
            raise RegistryError(413, f"a body has its length, of {MOST_BODY_BYTES} bytes at most")
        if "Transfer-Encoding" in self.headers:
            self.close_connection = True
            raise RegistryError(411, "a body has its length")
        data = self.rfile.read(int(length))
        try:
            found = json.loads(data or b"{}")
        except (ValueError, RecursionError):
            raise RegistryError(400, "the body is not JSON") from None
        if not isinstance(found, dict):
            raise RegistryError(400, "the body is a JSON object")
        return found

    def _answer(self, status: int, content: Any) -> None:
        # A schema's text alone is shown as it is.
        data = content.encode() if isinstance(content, str) else json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", _CONTENT_TYPE)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)
        self.wfile.flush()
