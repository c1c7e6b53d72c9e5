"""Connections of the console to the cluster: a few admin clients that requests of viewers share."""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ...cli.client.connection import Connection
from ...cli.client.errors import UNREACHABLE, CommandError

if TYPE_CHECKING:
    from ...cli.client.admin import AdminClient


#: Admin clients for pages, which wait for each other; the poller has its own. Each holds a connection to each broker that
#: it asks.
_MOST_CLIENTS = 3
_WAIT_S = 20.0
#: After this time a client asks anew where coordinators and the controller are, see `Admin.forget_places`.
_FRESH_S = 30.0


class AdminLink:
    """One admin client that stays open between uses. It is closed after an error of the connection."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._stack: contextlib.ExitStack | None = None
        self._admin: AdminClient | None = None
        self._since = 0.0

    def open(self) -> AdminClient:
        if self._admin is None:
            with contextlib.ExitStack() as stack:
                self._admin = stack.enter_context(self._connection.admin())
                self._stack, self._since = stack.pop_all(), time.monotonic()
        elif time.monotonic() - self._since > _FRESH_S:
            self._admin.forget_places()
            self._since = time.monotonic()
        return self._admin

    def close(self) -> None:
        stack, self._stack, self._admin = self._stack, None, None
        if stack is not None:
            with contextlib.suppress(Exception):
                stack.close()


class Links:
    """`admin()` lends an admin client to one thread at a time."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._free: queue.LifoQueue[AdminLink] = queue.LifoQueue()
        self._lock = threading.Lock()
        self._all: list[AdminLink] = []

    def warm(self) -> None:
        """Opens the first client, so that the first page does not wait for it."""
        with contextlib.suppress(Exception), self.admin():
            pass

    @contextlib.contextmanager
    def admin(self) -> Iterator[AdminClient]:
        """Raises CommandError when all clients stay busy."""
        link = self._take()
        try:
            yield link.open()
        except CommandError as error:
            if error.status == UNREACHABLE:
                link.close()
            raise
        except Exception:
            link.close()
            raise
        finally:
            self._free.put(link)

    def _take(self) -> AdminLink:
        with contextlib.suppress(queue.Empty):
            return self._free.get_nowait()
        with self._lock:
            if len(self._all) < _MOST_CLIENTS:
                self._all.append(AdminLink(self.connection))
                return self._all[-1]
        try:
            return self._free.get(timeout=_WAIT_S)
        except queue.Empty:
            raise CommandError(
                "the cluster responds slowly: all connections are busy; try again", UNREACHABLE
            ) from None

    def close(self) -> None:
        for link in self._all:
            link.close()
