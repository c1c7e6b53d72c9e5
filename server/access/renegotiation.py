"""Renegotiation.

Finds peers that renegotiate TLS 1.2, which no listener allows.

OpenSSL answers such a hello with a warning and reads on, without an error (`OP_NO_RENEGOTIATION`). Bytes to send
that a read leaves are that warning: in TLS 1.2 a read writes nothing else after the handshake, except the alert of
an error. A peer that sends hellos and reads nothing would have the warnings pile up in memory, so its connection is
closed, as Kafka closes it. A read costs 0.2 us more than one of `ssl.SSLObject`.
"""

from __future__ import annotations

import ssl
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .alerts import HANDSHAKING, AlertingTls

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

_read = ssl.SSLObject.read


class WatchedTls(AlertingTls):
    """The TLS of one connection. `on_renegotiation` is called once, from within a read."""

    on_renegotiation: Callable[[], None] | None = None

    def read(self, len: int = 1024, buffer: ReadableBuffer | None = None) -> bytes:
        outgoing = self.outgoing
        waiting = outgoing.pending
        try:
            return _read(self, len, buffer)
        finally:
            if outgoing.pending > waiting:
                self._wrote(sys.exc_info()[1])

    def _wrote(self, error: BaseException | None) -> None:
        is_warning = error is None or isinstance(error, ssl.SSLWantReadError)
        if is_warning and self.on_renegotiation is not None and self.version() == "TLSv1.2":
            called, self.on_renegotiation = self.on_renegotiation, None
            called()


class WatchingContext(ssl.SSLContext):
    """A context of connections that are `WatchedTls`."""

    sslobject_class = WatchedTls

    def wrap_bio(self, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO, *args: Any, **named: Any) -> ssl.SSLObject:
        made = super().wrap_bio(incoming, outgoing, *args, **named)
        assert isinstance(made, WatchedTls)
        made.outgoing, made.accepted = outgoing, HANDSHAKING.get()
        return made
