"""Connections of the console to the cluster: a few admin clients that requests of viewers share."""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ...admin.connection import Connection
from ...admin.errors import ResponseError
from ...client.error_kinds import ErrorKind
from ...client.user_errors import UserError

if TYPE_CHECKING:
    from ...admin.session import Admin


#: Admin clients for pages, which wait for each other; the poller has its own. Each holds a connection to each broker that
#: it asks.
_MOST_CLIENTS = 3
_WAIT_S = 20.0


class AdminLink:
    """One admin client that stays open between uses. It is closed after an error of the connection."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._stack: contextlib.ExitStack | None = None
        self._admin: Admin | None = None

    def open(self) -> Admin:
        if self._admin is None:
            with contextlib.ExitStack() as stack:
                self._admin = stack.enter_context(self._connection.admin())
                self._stack = stack.pop_all()
        return self._admin

    def close(self) -> None:
        stack, self._stack, self._admin = self._stack, None, None
        if stack is not None:
            with contextlib.suppress(Exception):
                stack.close()


class Links:
    """`admin()` lends an admin client to one thread at a time."""

    def __init__(self, connection: Connection, most: int = _MOST_CLIENTS) -> None:
        self.connection = connection
        self._most = most
        self._free: queue.LifoQueue[AdminLink] = queue.LifoQueue()
        self._lock = threading.Lock()
        self._all: list[AdminLink] = []

    def warm(self) -> None:
        """Opens the first client, so that the first page does not wait for it."""
        with contextlib.suppress(Exception), self.admin():
            pass

    @contextlib.contextmanager
    def admin(self) -> Iterator[Admin]:
        """Raises UserError when all clients stay busy."""
        link = self._take()
        try:
            yield link.open()
        except UserError as error:
            if error.kind == ErrorKind.UNREACHABLE:
                link.close()
            raise
        except ResponseError:
            raise  # the connection is not to blame
        except Exception:
            link.close()
            raise
        finally:
            self._free.put(link)

    def _take(self) -> AdminLink:
        with contextlib.suppress(queue.Empty):
            return self._free.get_nowait()
        with self._lock:
            if len(self._all) < self._most:
                self._all.append(AdminLink(self.connection))
                return self._all[-1]
        try:
            return self._free.get(timeout=_WAIT_S)
        except queue.Empty:
            raise UserError(
                "the cluster responds slowly: all connections are busy; try again", ErrorKind.UNREACHABLE
            ) from None

    def close(self) -> None:
        for link in self._all:
            link.close()
