"""Exchanges of HTTP with services beside the cluster, each within a size and a time as a whole.

The time-out of a socket is that of one read: a server that sends a byte now and then would hold a page for ever.
"""

from __future__ import annotations

import contextlib
import http.client
import io
import socket
import threading
import urllib.error
import urllib.request

#: Limit of a connection, and of one read.
_READ_S = 5.0
_MOST_ERROR_BYTES = 64 << 10
_BLOCK_BYTES = 8192


class _Deadline:
    """Ends the connections of one exchange when its time is over."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.has_passed = False
        self._sockets: list[socket.socket] = []
        self._timer = threading.Timer(seconds, self._end)
        self._timer.daemon = True

    def __enter__(self) -> _Deadline:
        self._timer.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._timer.cancel()

    def add(self, opened: socket.socket) -> None:
        self._sockets.append(opened)
        if self.has_passed:
            self._end()

    def _end(self) -> None:
        self.has_passed = True
        for one in self._sockets:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def plain(
        self,
        host: str,
        /,
        *,
        port: int | None = None,
        timeout: float = _READ_S,
        source_address: tuple[str, int] | None = None,
        blocksize: int = _BLOCK_BYTES,
    ) -> http.client.HTTPConnection:
        made = _Plain(host, port, timeout=timeout, source_address=source_address, blocksize=blocksize)
        made.deadline = self
        return made

    def tls(
        self,
        host: str,
        /,
        *,
        port: int | None = None,
        timeout: float = _READ_S,
        source_address: tuple[str, int] | None = None,
        blocksize: int = _BLOCK_BYTES,
    ) -> http.client.HTTPSConnection:
        made = _Tls(host, port, timeout=timeout, source_address=source_address, blocksize=blocksize)
        made.deadline = self
        return made


class _Plain(http.client.HTTPConnection):
    deadline: _Deadline

    def connect(self) -> None:
        super().connect()
        self.deadline.add(self.sock)


class _Tls(http.client.HTTPSConnection):
    deadline: _Deadline

    def connect(self) -> None:
        super().connect()
        self.deadline.add(self.sock)


class _PlainHandler(urllib.request.HTTPHandler):
    deadline: _Deadline

    def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(self.deadline.plain, req)


class _TlsHandler(urllib.request.HTTPSHandler):
    deadline: _Deadline

    def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(self.deadline.tls, req)


def exchanged(request: urllib.request.Request, seconds: float, most_bytes: int) -> bytes:
    """The body of the response. Raises OSError, an error of `http.client`, and ValueError for a body that is longer or cut.
    HTTPError, for a status that is an error, has the beginning of its body.
    """
    with _Deadline(seconds) as deadline:
        try:
            data = _body(request, deadline, most_bytes)
        except urllib.error.HTTPError:
            raise
        except (OSError, http.client.HTTPException):
            if deadline.has_passed:
                raise _late(seconds) from None
            raise
        if deadline.has_passed:  # a body without a length ends with its connection
            raise _late(seconds)
    if len(data) > most_bytes:
        raise ValueError(f"it is longer than {most_bytes >> 20} MB")
    return data


def _body(request: urllib.request.Request, deadline: _Deadline, most_bytes: int) -> bytes:
    plain, tls = _PlainHandler(), _TlsHandler()
    plain.deadline = tls.deadline = deadline
    opener = urllib.request.build_opener(plain, tls)
    try:
        with opener.open(request, timeout=min(deadline.seconds, _READ_S)) as response:
            data: bytes = response.read(most_bytes + 1)
            if response.length and len(data) <= most_bytes:  # a read of a size does not tell of a body that was cut
                raise ValueError(f"its last {response.length} bytes are missing")
            return data
    except urllib.error.HTTPError as error:
        words = b""
        with contextlib.suppress(OSError, http.client.HTTPException):
            words = error.read(_MOST_ERROR_BYTES)
        raise urllib.error.HTTPError(error.url, error.code, error.msg, error.headers, io.BytesIO(words)) from None


def _late(seconds: float) -> TimeoutError:
    return TimeoutError(f"it did not come whole within {seconds:g} s")
