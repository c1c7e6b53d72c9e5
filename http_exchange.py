"""An exchange of HTTP within a time: from the connect to the last byte, with redirects.

The timeout of `urllib.request` is that of one read: a server that sends a byte now and then holds a client forever. Its
redirects take the login along to any host: here it stays where it was meant for. Its errors are of two families: here every
response that is none of HTTP is an OSError.
"""

from __future__ import annotations

import contextlib
import http.client
import io
import socket
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from functools import partial
from typing import IO, TYPE_CHECKING, cast

if TYPE_CHECKING:
    from http.client import HTTPMessage

    from _typeshed import WriteableBuffer

#: Headers that are for one origin.
_OF_ORIGIN = ("authorization", "cookie", "proxy-authorization")


def opened(
    request: urllib.request.Request | str,
    timeout_s: float,
    whole_s: float,
    *handlers: urllib.request.BaseHandler,
    context: ssl.SSLContext | None = None,
) -> http.client.HTTPResponse:
    """Sends a request as `urlopen` does. Returns the response, whose body ends by the time, too. `timeout_s`: of one read;
    `whole_s`: of everything. `handlers`: of proxies or redirections, in place of urllib's. `context`: of HTTPS; None for
    that of the system. Raises OSError, such as TimeoutError and NoHttp, and ValueError.
    """
    deadline = _Deadline(whole_s)
    if not any(isinstance(one, urllib.request.HTTPRedirectHandler) for one in handlers):
        handlers = (*handlers, _Redirects())
    opener = urllib.request.build_opener(_Http(deadline), _Https(deadline, context), *handlers)
    try:
        return cast("http.client.HTTPResponse", opener.open(request, timeout=timeout_s))
    except http.client.InvalidURL:
        # Its own words have a part of the URL, which may have a password.
        raise NoHttp("the URL has no HOST or HOST:PORT") from None


class NoHttp(OSError):
    """A response that is none of HTTP, or a URL that is none."""


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows to HTTP alone, and with the login to the same origin alone."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> urllib.request.Request | None:
        made = super().redirect_request(req, fp, code, msg, headers, newurl)
        if made is None or _origin_of(made) == _origin_of(req):
            return made
        if made.type not in ("http", "https"):
            raise urllib.error.HTTPError(req.full_url, code, f"a redirect to {made.type}", headers, fp)
        for name in [one for one in made.headers if one.lower() in _OF_ORIGIN]:
            made.remove_header(name)
        return made


def _origin_of(request: urllib.request.Request) -> tuple[str, str]:
    return request.type, request.host.lower()


class _Deadline:
    def __init__(self, whole_s: float) -> None:
        self._whole_s = whole_s
        self._at_s = time.monotonic() + whole_s

    def left_s(self) -> float:
        """Raises TimeoutError after the deadline."""
        left_s = self._at_s - time.monotonic()
        if left_s <= 0:
            raise TimeoutError(f"it did not come whole within {self._whole_s:g} s")
        return left_s


class _Http(urllib.request.HTTPHandler):
    def __init__(self, deadline: _Deadline) -> None:
        super().__init__()
        self._deadline = deadline

    def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(_Connect(http.client.HTTPConnection, self._deadline), req)


class _Https(urllib.request.HTTPSHandler):
    def __init__(self, deadline: _Deadline, context: ssl.SSLContext | None) -> None:
        super().__init__()
        self._deadline = deadline
        self._connection = partial(http.client.HTTPSConnection, context=context)

    def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(_Connect(self._connection, self._deadline), req)


class _Connect:
    """Makes connections of a kind, whose responses end by the deadline."""

    def __init__(self, kind: Callable[..., http.client.HTTPConnection], deadline: _Deadline) -> None:
        self._kind = kind
        self._deadline = deadline

    def __call__(
        self,
        host: str,
        /,
        *,
        port: int | None = None,
        timeout: float = 0.0,
        source_address: tuple[str, int] | None = None,
        blocksize: int = 8192,
    ) -> http.client.HTTPConnection:
        timeout = min(timeout, self._deadline.left_s())
        made = self._kind(host, port=port, timeout=timeout, source_address=source_address, blocksize=blocksize)
        made.response_class = _response_within(self._deadline)
        return made


def _response_within(deadline: _Deadline) -> type[http.client.HTTPResponse]:
    class Response(http.client.HTTPResponse):
        def __init__(
            self, sock: socket.socket, debuglevel: int = 0, method: str | None = None, url: str | None = None
        ) -> None:
            super().__init__(cast("socket.socket", _LimitedSocket(sock, deadline)), debuglevel, method, url)

        def begin(self) -> None:
            with _readable():
                super().begin()

        def read(self, amt: int | None = None) -> bytes:
            with _readable():
                return super().read(amt)

    return Response


@contextlib.contextmanager
def _readable() -> Iterator[None]:
    """Makes what is no response an OSError."""
    try:
        yield
    except http.client.HTTPException as error:
        if isinstance(error, OSError):
            raise
        words = "its body is cut" if isinstance(error, http.client.IncompleteRead) else "it is no response of HTTP"
        raise NoHttp(words) from None


class _LimitedSocket:
    """The part of a socket that a response takes: a file, whose reads end by the deadline."""

    def __init__(self, connected: socket.socket, deadline: _Deadline) -> None:
        self._connected = connected
        self._deadline = deadline

    def makefile(self, mode: str) -> io.BufferedReader:
        return io.BufferedReader(_LimitedFile(self._connected, self._deadline))


class _LimitedFile(io.RawIOBase):
    def __init__(self, connected: socket.socket, deadline: _Deadline) -> None:
        self._connected = connected
        self._timeout_s = connected.gettimeout()
        self._file = connected.makefile("rb", buffering=0)  # keeps the socket open, which its connection closes
        self._deadline = deadline

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int | None:
        left_s = self._deadline.left_s()
        self._connected.settimeout(left_s if self._timeout_s is None else min(self._timeout_s, left_s))
        try:
            return self._file.readinto(buffer)
        except TimeoutError:
            self._deadline.left_s()
            raise

    def close(self) -> None:
        self._file.close()
        super().close()
