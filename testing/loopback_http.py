"""A small HTTP server for tests: on the loopback address only, a thread for each connection, bodies of JSON."""

from __future__ import annotations

import json
import re
from types import TracebackType
from typing import TYPE_CHECKING, ClassVar, Self

from ..bounded_http import BoundedHandler, BoundedServer

if TYPE_CHECKING:
    from ..protocol.json_value import JsonObject


HOST = "127.0.0.1"
#: A client that has sent nothing for so long is cut off.
IDLE_S = 120
_LOOPBACK = re.compile(r"(localhost|127\.0\.0\.1|\[::1\])(:\d+)?")
#: A stop waits for so long.
_POLL_S = 0.02


class BadBody(Exception):
    """A body that is refused: the status of the response, and why."""

    def __init__(self, status: int, words: str) -> None:
        super().__init__(words)
        self.status = status
        self.words = words


class JsonHandler(BoundedHandler):
    """The requests of a connection, one at a time. A subclass has `handle_request`, which answers one.

    A page in a browser on the same machine must not reach the server: requests name a loopback host, and their bodies are
    declared as JSON, which no page sends to another origin without asking first.
    """

    protocol_version = "HTTP/1.1"
    timeout = IDLE_S
    #: Headers and body go out in one piece: a client's delayed acknowledgement does not hold up the second.
    wbufsize = -1
    content_type: ClassVar[str] = "application/json"
    most_body_bytes: ClassVar[int] = 1 << 20
    #: The types that a body may be declared as.
    body_types: ClassVar[tuple[str, ...]] = ("application/json",)

    def handle_request(self) -> None:
        raise NotImplementedError

    def do_GET(self) -> None:
        self.handle_request()

    def do_POST(self) -> None:
        self.handle_request()

    def do_PUT(self) -> None:
        self.handle_request()

    def do_DELETE(self) -> None:
        self.handle_request()

    def allowed_body(self) -> JsonObject:
        """Returns the JSON object of a request that this machine may have sent. Raises BadBody, after whose response the
        connection ends.
        """
        try:
            if not _LOOPBACK.fullmatch(self.headers.get("Host", "").lower()):
                raise BadBody(403, "only connections from this machine are accepted: Host must be a loopback name")
            data = self.body()
            if self.command == "GET" or (self.command == "DELETE" and not data):
                return {}
            if self.headers.get_content_type() not in self.body_types or "Content-Type" not in self.headers:
                raise BadBody(415, f"the body must be {self.body_types[0]}")
            return self.parsed(data)
        except BadBody:
            self.close_connection = True
            raise

    def body(self) -> bytes:
        """Reads the body. Raises BadBody, after whose answer the connection ends."""
        try:
            return self._body()
        finally:
            self.received()

    def _body(self) -> bytes:
        length = self.headers.get("Content-Length", "0")
        if "Transfer-Encoding" in self.headers:
            self.close_connection = True
            raise BadBody(411, "Content-Length is missing")
        if not (length.isascii() and length.isdecimal()) or int(length) > self.most_body_bytes:
            self.close_connection = True
            raise BadBody(413, f"Content-Length must be at most {self.most_body_bytes} bytes")
        return self.rfile.read(int(length))

    def parsed(self, body: bytes) -> JsonObject:
        """Returns the JSON object of a body; nothing stands for an empty one. Raises BadBody."""
        try:
            found = json.loads(body or b"{}")
        except (ValueError, RecursionError):
            raise BadBody(400, "the body is not JSON") from None
        if not isinstance(found, dict):
            raise BadBody(400, "the body must be a JSON object")
        return found

    def respond(self, status: int, content: object) -> None:
        """Sends JSON; text is sent as it is."""
        data = content.encode() if isinstance(content, str) else json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", self.content_type)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)
        self.wfile.flush()


class LoopbackServer:
    """Serves until `close`. `port`: 0 picks a free one. Raises OSError where the port is taken."""

    def __init__(self, handler: type[JsonHandler], port: int, name: str) -> None:
        self._server = BoundedServer((HOST, port), handler)
        self._server.begin(name, _POLL_S)

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self._server.port}"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._server.end()
