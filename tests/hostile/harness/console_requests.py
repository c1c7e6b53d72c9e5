"""Requests to the console's application in this process, without sockets."""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple
from urllib.parse import urlsplit


class Reply(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def location(self) -> str:
        return self.headers.get("location", "")


async def ask(app: Any, method: str, address: str, **headers: str) -> Reply:
    """Sends a request without a body, and takes the response. The connection stays open until then."""
    sent: list[Any] = []
    received = [{"type": "http.request", "body": b"", "more_body": False}]

    async def receive() -> Any:
        if not received:
            await asyncio.Event().wait()
        return received.pop()

    async def send(message: Any) -> None:
        sent.append(message)

    path, query = urlsplit(address).path, urlsplit(address).query
    named = {"host": "localhost", "content-length": "0"} | {k.replace("_", "-"): v for k, v in headers.items()}
    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "root_path": "",
        "query_string": query.encode(),
        "headers": [(name.encode(), value.encode("latin-1")) for name, value in named.items()],
        "client": ("10.0.0.1", 1),
        "server": ("127.0.0.1", 80),
    }
    await app(scope, receive, send)
    body = b"".join(one.get("body", b"") for one in sent[1:])
    return Reply(sent[0]["status"], {name.decode(): value.decode() for name, value in sent[0]["headers"]}, body)
