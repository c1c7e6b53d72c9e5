"""Token endpoints that lie: each sends bytes of its own in place of a token."""

from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tests.security.issuer import Issuer

Reply = Callable[[BaseHTTPRequestHandler], None]
CLIENT, SECRET = "node", "s3cret-of-the-client-77"


class Endpoint(ThreadingHTTPServer):
    """`seen`: the Authorization of each request."""

    def __init__(self, reply: Reply) -> None:
        self.reply = reply
        self.seen: list[str | None] = []
        self.released = threading.Event()
        super().__init__(("127.0.0.1", 0), _Handler)
        self.url = f"http://127.0.0.1:{self.server_port}/token"

    def handle_error(self, *_: object) -> None:
        """A client that left."""


class _Handler(BaseHTTPRequestHandler):
    server: Endpoint

    def do_GET(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.server.seen.append(self.headers.get("Authorization"))
        self.server.reply(self)

    do_POST = do_GET

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def endpoint(reply: Reply) -> Iterator[Endpoint]:
    made = Endpoint(reply)
    thread = threading.Thread(target=made.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield made
    finally:
        made.released.set()
        made.shutdown()
        made.server_close()
        thread.join()


def sends(status: int, body: bytes, **headers: str) -> Reply:
    def reply(request: BaseHTTPRequestHandler) -> None:
        request.send_response(status)
        for name, value in headers.items():
            request.send_header(name, value)
        request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        request.wfile.write(body)

    return reply


def writes(data: bytes) -> Reply:
    def reply(request: BaseHTTPRequestHandler) -> None:
        request.wfile.write(data)
        request.close_connection = True

    return reply


def silent(request: BaseHTTPRequestHandler) -> None:
    assert isinstance(request.server, Endpoint)
    request.server.released.wait(60)


def token(text: object) -> Reply:
    return sends(200, json.dumps({"access_token": text, "token_type": "Bearer"}).encode())


def _unsigned(issuer: Issuer) -> str:
    parts = ({"alg": "none"}, issuer.claims(time.time()))
    return ".".join(base64.urlsafe_b64encode(json.dumps(one).encode()).rstrip(b"=").decode() for one in parts) + "."


def liars(issuer: Issuer) -> dict[str, tuple[Reply, str]]:
    """By name the response, and words of the error that a client gets."""
    page = b"<html>" + SECRET.encode()
    return {
        "wrong credentials": (
            sends(401, b'{"error":"invalid_client"}'),
            "401, invalid_client; check the client id",
        ),
        "wrong scope": (sends(400, b'{"error":"invalid_scope"}'), "invalid_scope; check the scope"),
        "words with a secret": (sends(400, json.dumps({"error": SECRET}).encode()), "HTTP status 400"),
        "its own failure": (sends(500, page), "HTTP status 500"),
        "a page": (sends(200, page), "returned no JSON"),
        "a list": (sends(200, b"[]"), "JSON without an access_token"),
        "a null": (token(None), "JSON without an access_token"),
        "a number": (token(5), "JSON without an access_token"),
        "an extension": (token("a\x01auth=Bearer b\x01"), "characters that no token has"),
        "a half of a pair": (token("a\ud800"), "characters that no token has"),
        "no characters": (token(""), "characters that no token has"),
        "deep nesting": (sends(200, b"[" * 200_000), "returned no JSON"),
        "a large body": (sends(200, b'{"access_token":"' + b"a" * (3 << 20) + b'"}'), "returned more than 256 KiB"),
        "a redirect to files": (sends(302, b"", Location="file:///etc/passwd"), "HTTP status 302"),
        "a redirect to FTP": (sends(302, b"", Location="ftp://127.0.0.1:9/x"), "HTTP status 302"),
        "redirects without an end": (sends(302, b"", Location="/token"), "HTTP status 302"),
        "no HTTP": (writes(b"nonsense\r\n\r\n"), "it is no response of HTTP"),
        "a long header": (writes(b"HTTP/1.1 200 OK\r\nX: " + b"a" * 70_000 + b"\r\n\r\n"), "it is no response of HTTP"),
        "many headers": (writes(b"HTTP/1.1 200 OK\r\n" + b"X: a\r\n" * 300 + b"\r\n"), "it is no response of HTTP"),
        "a cut body": (writes(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"), "its body is cut"),
        "nothing": (writes(b""), "closed connection without response"),
        "silence": (silent, "it did not come whole within"),
        "an old token": (token(issuer.token(time.time() - 9999)), "invalid_token"),
        "a token of another key": (token(issuer.token(time.time(), {"kid": "other"})), "invalid_token"),
        "a token without a signature": (token(_unsigned(issuer)), "invalid_token"),
        "a token of another issuer": (token(Issuer().token(time.time())), "invalid_token"),
    }
