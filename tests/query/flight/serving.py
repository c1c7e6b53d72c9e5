"""A server of queries in this process, and clients of it; the jobs run in processes of their own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import grpc
import psutil
import pyarrow.flight as flight
from adbc_driver_flightsql import dbapi
from odradek.admin.connection import Connection
from odradek.query.flight.jobs import JobLimits
from odradek.query.flight.messages import SERVICE, new, packed
from odradek.query.flight.server import QueryServer, ServerOptions
from odradek.query.sources import QuerySources

MIB = 1 << 20
LIMITS = JobLimits(1024 * MIB, 120.0)


@contextmanager
def served(
    properties: dict[str, str], sources: QuerySources | None = None, limits: JobLimits = LIMITS, most_queries: int = 4
) -> Iterator[QueryServer]:
    options = ServerOptions("127.0.0.1:0", None, None, most_queries, limits)
    server = QueryServer(Connection(properties), sources or QuerySources(), options)
    try:
        yield server
    finally:
        server.stop()


@contextmanager
def cursor_of(server: QueryServer, user: str = "", password: str = "") -> Iterator[dbapi.Cursor]:
    options = {"username": user, "password": password} if user else {}
    with dbapi.connect(server.uri, options, autocommit=True) as connection, connection.cursor() as cursor:
        yield cursor


def rows_of(server: QueryServer, sql: str, user: str = "", password: str = "") -> list[tuple[object, ...]]:
    with cursor_of(server, user, password) as cursor:
        cursor.execute(sql)
        return [tuple(row) for row in cursor.fetchall()]


def ticket(sql: str) -> flight.Ticket:
    handle = new("StatementHandle", query=sql).SerializeToString()
    return flight.Ticket(packed(new("TicketStatementQuery", statement_handle=handle)))


def call(server: QueryServer, method: str, body: bytes) -> tuple[grpc.StatusCode, str]:
    """The status of a call with these bytes as its request."""
    with grpc.insecure_channel(server.uri.removeprefix("grpc://")) as channel:
        path = f"/{SERVICE}/{method}"
        try:
            if method in ("GetFlightInfo", "GetSchema"):
                channel.unary_unary(path)(body, timeout=60)
            elif method in ("Handshake", "DoPut"):
                list(channel.stream_stream(path)(iter([body]), timeout=60))
            else:
                list(channel.unary_stream(path)(body, timeout=60))
        except grpc.RpcError as error:
            return error.code(), error.details()
        return grpc.StatusCode.OK, ""


@contextmanager
def begun(server: QueryServer, sql: str) -> Iterator[grpc.Call]:
    """A call for the rows of a statement, which is cancelled at the end. Arrow's own client waits for the first of them."""
    with grpc.insecure_channel(server.uri.removeprefix("grpc://")) as channel:
        body = new("Ticket", ticket=ticket(sql).ticket).SerializeToString()
        made = channel.unary_stream(f"/{SERVICE}/DoGet")(body)
        try:
            yield made
        finally:
            made.cancel()


def jobs() -> list[psutil.Process]:
    """The processes of jobs of this process's servers."""
    found = []
    for child in psutil.Process().children():
        if any("job_host" in word for word in child.cmdline()):
            found += child.children()
    return found
