"""Connections whose TLS handshake has not ended: they have no transport yet, and so no limit of connections.py counts them.

Under a flood a new one ends the oldest, as there.
"""

from __future__ import annotations

import contextlib
import socket

#: A handshake takes some round trips. asyncio ends one after 60 s.
MOST_HANDSHAKES = 200


class HandshakeListener(socket.socket):
    """A listener that has at most MOST_HANDSHAKES connections in a handshake."""

    def __init__(self, family: int) -> None:
        super().__init__(family, socket.SOCK_STREAM)
        #: By their descriptors, the oldest first.
        self._pending: dict[int, socket.socket] = {}

    def accept(self) -> tuple[socket.socket, object]:
        accepted, address = super().accept()
        self._pending.pop(accepted.fileno(), None)  # one of an ended connection
        if len(self._pending) >= MOST_HANDSHAKES:
            oldest = self._pending.pop(next(iter(self._pending)))
            with contextlib.suppress(OSError):  # it has ended
                oldest.shutdown(socket.SHUT_RDWR)
        self._pending[accepted.fileno()] = accepted
        return accepted, address

    def ended(self, descriptor: int) -> None:
        """A connection has its transport: others count it from now on."""
        self._pending.pop(descriptor, None)
