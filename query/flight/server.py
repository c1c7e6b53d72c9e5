"""The server of `odradek query --serve`: its listener and its limits, until SIGTERM or SIGINT."""

from __future__ import annotations

import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import FrameType
from typing import NamedTuple

import grpc

from ...admin.connection import Connection
from ...client.loopback import is_loopback
from ...client.tls_files import check_server_files
from ...client.user_errors import Misused, UserError
from ..sources import QuerySources
from .jobs import JobLimits
from .service import MOST_REQUEST_BYTES, FlightService
from .sessions import Sessions

#: Calls at the same time beyond those of queries: logins, lists, and those that wait for a place.
_MORE_CALLS = 24
#: Seconds of calls to end, at the end of the server.
_STOP_S = 5.0
_OPTIONS = (
    ("grpc.so_reuseport", 0),
    ("grpc.max_receive_message_length", MOST_REQUEST_BYTES),
    ("grpc.max_send_message_length", -1),
    ("grpc.max_metadata_size", 16 << 10),
    ("grpc.max_concurrent_streams", 64),
    ("grpc.keepalive_time_ms", 60_000),
    ("grpc.keepalive_timeout_ms", 20_000),
    ("grpc.max_connection_idle_ms", 3_600_000),
)


class ServerOptions(NamedTuple):
    """`address`: HOST:PORT; port 0 is any free one."""

    address: str
    certificate: Path | None
    key: Path | None
    most_queries: int
    limits: JobLimits
    allows_anonymous: bool = False


class QueryServer:
    """A server that accepts calls from its making to its end."""

    def __init__(self, connection: Connection, sources: QuerySources, options: ServerOptions) -> None:
        """Raises Misused for options that would show data or passwords, and UserError for an address that is taken."""
        host, colon, port = options.address.rpartition(":")
        if not colon or not host or not (port.isascii() and port.isdecimal() and int(port) < 1 << 16):
            raise Misused(f"--serve {options.address} is not HOST:PORT")
        sessions = Sessions(connection)
        _check(host.strip("[]"), options, has_logins=sessions.has_logins)
        most_calls = options.most_queries + _MORE_CALLS
        self._service = FlightService(sessions, sources, options.limits, options.most_queries)
        self._server = grpc.server(
            ThreadPoolExecutor(most_calls, "call"),
            handlers=(self._service.handlers(),),
            options=_OPTIONS,
            maximum_concurrent_rpcs=most_calls,
        )
        try:
            if options.certificate is None:
                bound = self._server.add_insecure_port(options.address)
            else:
                bound = self._server.add_secure_port(options.address, _credentials(options))
        except RuntimeError as error:
            raise UserError(f"{options.address}: cannot listen there: {error}") from None
        scheme = "grpc" if options.certificate is None else "grpc+tls"
        #: The address for clients.
        self.uri = f"{scheme}://{host}:{bound}"
        self._server.start()

    def stop(self) -> None:
        """Ends the calls and their processes."""
        self._server.stop(_STOP_S).wait()
        self._service.close()


def _check(host: str, options: ServerOptions, *, has_logins: bool) -> None:
    if (options.certificate is None) != (options.key is None):
        raise Misused("give both --tls-certificate and --tls-key")
    if options.certificate is not None and options.key is not None:
        check_server_files(options.certificate, options.key)
    if is_loopback(host):
        return
    if not has_logins and not options.allows_anonymous:
        raise Misused(
            f"--serve {options.address} is not loopback, and the brokers have no logins by a password: all who reach it"
            " read as this server does; --anonymous allows it"
        )
    if has_logins and options.certificate is None:
        raise Misused(
            f"--serve {options.address} is not loopback, and would take passwords without TLS: give --tls-certificate"
            " and --tls-key"
        )


def _credentials(options: ServerOptions) -> grpc.ServerCredentials:
    assert options.certificate is not None and options.key is not None
    try:
        key, certificate = options.key.read_bytes(), options.certificate.read_bytes()
    except OSError as error:
        raise UserError(f"{error.filename}: {error.strerror}") from None
    return grpc.ssl_server_credentials([(key, certificate)])


def serve_queries(connection: Connection, sources: QuerySources, options: ServerOptions) -> None:
    """Serves until SIGTERM or SIGINT."""
    ended = threading.Event()

    def end(number: int, frame: FrameType | None) -> None:
        ended.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)
    server = QueryServer(connection, sources, options)
    print(f"odradek: queries of {connection.bootstrap} on {server.uri}", flush=True)
    ended.wait()
    server.stop()
