"""The console over sockets in this process, as `odradek console` serves it."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

import uvicorn
from odradek.admin.connection import Connection
from odradek.console.application import application
from odradek.console.backend import Backend
from odradek.console.command import server_config
from odradek.console.settings import Settings

from compat_tests.recipes import eventually


@contextlib.contextmanager
def served_console(bootstrap: str, settings: Settings | None = None) -> Iterator[int]:
    """Yields the console's port."""
    connection = Connection({"bootstrap.servers": bootstrap})
    connection.timeout_s = 5.0
    config = server_config(application(Backend(connection, settings or Settings())))
    config.port = 0
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, name="console-loop")
    thread.start()
    try:
        yield eventually(
            lambda: server.started and server.servers[0].sockets[0].getsockname()[1], what="the console listens"
        )
    finally:
        server.should_exit = True
        thread.join(30)
