"""Many clients in one thread, each with one request in flight, as clients of a slow application have.

They cost little themselves, so a hundred of them leave the machine to the broker.
"""

from __future__ import annotations

import selectors
from collections.abc import Sequence
from types import TracebackType
from typing import Any

from compat_tests.wire import WireClient

#: Long enough for a client that waits for its next record.
WAIT_MS = 30_000


class Requesting:
    """A client with one request in flight."""

    def __init__(self, bootstrap: str) -> None:
        self.client = WireClient(bootstrap)
        self._sent: Any = None

    def send(self, request: Any, version: int) -> None:
        self._sent = (request, version, self.client.send(request, version))

    def receive(self) -> Any:
        return self.client.receive(*self._sent)


class Clients:
    """Clients that one thread serves as their responses arrive."""

    def __init__(self, members: Sequence[Requesting]) -> None:
        self.members = members
        self._selector = selectors.DefaultSelector()
        for one in members:
            self._selector.register(one.client, selectors.EVENT_READ, one)

    def ready(self) -> list[Any]:
        found = [key.data for key, _ in self._selector.select(WAIT_MS / 1000)]
        assert found, "no response came"
        return found

    def __enter__(self) -> Clients:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._selector.close()
        for one in self.members:
            one.client.close()
