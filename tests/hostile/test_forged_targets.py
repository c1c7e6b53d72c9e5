"""Requests without a login over sockets: forged targets, hosts, proxies' headers and protocols. No page is served."""

from __future__ import annotations

import itertools
import socket
from collections.abc import Iterator

import odradek
import pytest
from odradek.console.access.users import VIEWER, add_user
from odradek.console.settings import Settings

from tests.hostile.harness.served_console import served_console

pytestmark = pytest.mark.usefixtures("sockets")

TOPIC = "secret-topic"
#: Paths that other parsers may take for an open one, or for a page.
_BEFORE = (
    "",
    "/.",
    "/static/..",
    "/static/%2e%2e",
    "/static/..%2f",
    "/login/..",
    "/login%2f..",
    "/health/..;",
    "/static/%00",
)
_BETWEEN = ("/", "//", "/%2f", "\\")
_PAGES = (
    "topics",
    "%74opics",
    "TOPICS",
    f"topics/{TOPIC}/messages",
    "topics;/login",
    "topics%00",
    "brokers?/login",
    "topics#/login",
)
_WHOLE = (
    "*", "topics", "?", "/", "http://localhost/topics", "http://x/static/../topics", "http://x/login/?/topics",
    "http://x/static/#/topics", "/static/../application.py", "/static/%2e%2e/%2e%2e/application.py",
    "/static/..%5capplication.py", "/static/", "/clusters/x/topics", "/topics/../login",
)  # fmt: skip
TARGETS = [*_WHOLE, *("".join(parts) for parts in itertools.product(_BEFORE, _BETWEEN, _PAGES))]
HEADERS = {
    "host": "Host: localhost",
    "no host": "",
    "path in the host": "Host: x/login/?",
    "two hosts": "Host: localhost\r\nHost: x",
    "proxy": "Host: localhost\r\nX-Forwarded-For: 127.0.0.1\r\nX-Forwarded-Host: x/login/?\r\n"
    "X-Forwarded-Proto: x/login?\r\nX-Forwarded-Prefix: /login\r\nForwarded: for=127.0.0.1;host=x",
    "rewritten": "Host: localhost\r\nX-Original-URL: /login\r\nX-Rewrite-URL: /static/\r\nX-HTTP-Method-Override: POST",
    "websocket": "Host: localhost\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZQ==",
    "http2": "Host: localhost\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__",
    "credentials": "Host: localhost\r\nAuthorization: Basic Ym9iOng=\r\nCookie: session=admin; odradek=; user=admin",
}
#: A redirect to the login, or an error.
REFUSALS = {303, 400, 401, 403, 404, 405, 413, 421, 426, 501}


@pytest.fixture(scope="module")
def console(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    users = tmp_path_factory.mktemp("targets") / "users"
    add_user(users, "bob", VIEWER, "staple battery")
    with odradek.Broker() as broker:
        broker.topic(TOPIC).send(b"x")
        with served_console(broker.bootstrap_servers, Settings(users=users)) as port:
            yield port


def response(port: int, request: str) -> tuple[int, bytes]:
    """The status, and the whole response."""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as one:
        one.sendall(request.encode("latin-1"))
        data = b"".join(iter(lambda: one.recv(1 << 16), b""))
    return int(data.split()[1]), data


@pytest.mark.parametrize("headers", sorted(HEADERS))
def test_no_target_is_served_without_a_login(console: int, headers: str) -> None:
    lines = f"{HEADERS[headers]}\r\n" if HEADERS[headers] else ""
    for target in TARGETS:
        for start in (f"GET {target} HTTP/1.1", f"GET {target} HTTP/1.0", f"POST {target} HTTP/1.1"):
            status, data = response(console, f"{start}\r\n{lines}Connection: close\r\n\r\n")
            assert status in REFUSALS, (start, data[:200])
            assert TOPIC.encode() not in data.replace(target.encode(), b""), start
            assert b"Traceback" not in data and b"def application" not in data, start
