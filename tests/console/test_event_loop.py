"""No request holds the console's event loop: views and templates run in threads, whatever they read and draw."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import odradek
import pytest
import uvicorn
from odradek.admin.connection import Connection
from odradek.console.application import application
from odradek.console.backend import Backend
from odradek.console.settings import Settings

from compat_tests.console.process import Visitor
from compat_tests.recipes import eventually

pytestmark = pytest.mark.usefixtures("sockets")
#: A callback of the loop takes at most so long of CPU.
MOST_S = 0.02
_RECORDS, _BATCH = 3000, 100


@pytest.fixture
def callbacks(monkeypatch: pytest.MonkeyPatch) -> list[tuple[float, str]]:
    """CPU seconds of the callbacks of the console's loop, which runs in the thread with the name `console-loop`."""
    found: list[tuple[float, str]] = []
    run = asyncio.Handle._run

    def measured(self: asyncio.Handle) -> None:
        began = time.thread_time()
        run(self)
        if threading.current_thread().name == "console-loop":
            found.append((time.thread_time() - began, repr(self)))

    monkeypatch.setattr(asyncio.Handle, "_run", measured)
    return found


@pytest.fixture
def visitor(callbacks: list[tuple[float, str]]) -> Iterator[Visitor]:
    with odradek.Broker() as broker:
        value = json.dumps({"items": [{"n": n, "text": "x" * 30} for n in range(40)]}).encode()
        for _ in range(_RECORDS // _BATCH):
            broker.topic("orders").send(*[value] * _BATCH)
        app = application(Backend(Connection({"bootstrap.servers": broker.bootstrap_servers}), Settings()))
        server = uvicorn.Server(uvicorn.Config(app, port=0, loop="asyncio", log_level="error", ws="none"))
        thread = threading.Thread(target=server.run, name="console-loop")
        thread.start()
        port = eventually(
            lambda: server.started and server.servers[0].sockets[0].getsockname()[1], what="the console listens"
        )
        yield Visitor(f"http://127.0.0.1:{port}")
        server.should_exit = True
        thread.join(30)


def test_no_request_holds_the_loop_for_20_ms(visitor: Visitor, callbacks: list[tuple[float, str]]) -> None:
    eventually(lambda: "orders" in visitor.get("/topics"), what="the cluster is read")
    callbacks.clear()
    paths = [
        "limit=500",
        "limit=500&value=nothing",
        "where=%40.items%5B39%5D.n%20%3D%3D%2039",
        "download=json",
        "limit=500&order=oldest",
    ]
    with ThreadPoolExecutor(len(paths)) as viewers:
        pages = list(viewers.map(lambda query: Visitor(visitor.address).get(f"/topics/orders/messages?{query}"), paths))
    assert all("shown of" in page for page in pages if not page.startswith("["))
    assert len(json.loads(pages[3])) == _RECORDS
    assert len(callbacks) > len(paths) and max(callbacks)[0] < MOST_S, sorted(callbacks)[-3:]
