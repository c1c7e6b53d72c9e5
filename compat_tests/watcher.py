"""A proxy between clients and a broker. It forwards every byte, and notes the requests.

So the compatibility table has the requests that clients sent, not those that a test was meant to cause. The broker
advertises the watcher's address; clients learn no other.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections import Counter
from collections.abc import Callable
from types import TracebackType

from .wire import OWN_CLIENT_ID

_PIECE_BYTES = 1 << 18
#: Length, API key, version, correlation id, length of the client id.
_FRAME_HEAD = struct.Struct(">ihhih")

#: (API key, version).
Request = tuple[int, int]


class FrameReader:
    """Finds the head of each request in a stream of pieces of any size. Requests of our own client are not noted."""

    def __init__(self, note: Callable[[Request], None]) -> None:
        self._note = note
        self._head = bytearray()
        #: Bytes of the head: at first without the client id, then with it.
        self._wanted = _FRAME_HEAD.size
        self._skip = 0

    def feed(self, data: bytes) -> None:
        pos = 0
        while pos < len(data):
            if self._skip:
                step = min(self._skip, len(data) - pos)
                self._skip -= step
                pos += step
                continue
            step = min(self._wanted - len(self._head), len(data) - pos)
            self._head += data[pos : pos + step]
            pos += step
            if len(self._head) == self._wanted:
                self._head_is_whole()

    def _head_is_whole(self) -> None:
        length, key, version, _, name_length = _FRAME_HEAD.unpack_from(self._head)
        if self._wanted == _FRAME_HEAD.size and name_length > 0:
            self._wanted += name_length
            return
        if self._head[_FRAME_HEAD.size :] != OWN_CLIENT_ID.encode():
            self._note((key, version))
        self._skip = length + 4 - self._wanted
        self._head.clear()
        self._wanted = _FRAME_HEAD.size


class Watcher:
    """Listens on a free port of 127.0.0.1. `target`, "host:port", is the broker's listener: set before a client connects."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.target = ""
        self.seen: Counter[Request] = Counter()
        self._lock = threading.Lock()
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def snapshot(self) -> Counter[Request]:
        with self._lock:
            return self.seen.copy()

    def close(self) -> None:
        self._listener.close()

    def _note(self, request: Request) -> None:
        with self._lock:
            self.seen[request] += 1

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        host, _, port = self.target.rpartition(":")
        try:
            broker = socket.create_connection((host, int(port)))
        except OSError:
            client.close()
            return
        for end in (client, broker):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        threading.Thread(target=_pass_on, args=(broker, client, None), daemon=True).start()
        _pass_on(client, broker, FrameReader(self._note))

    def __enter__(self) -> Watcher:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _pass_on(source: socket.socket, sink: socket.socket, reader: FrameReader | None) -> None:
    """Forwards all bytes until either end closes; then closes both."""
    with contextlib.suppress(OSError):
        while data := source.recv(_PIECE_BYTES):
            if reader is not None:
                reader.feed(data)
            sink.sendall(data)
    for end in (source, sink):
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
        end.close()
