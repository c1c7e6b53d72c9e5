"""Limits of `odradek query --serve`: memory, time and number of queries, clients that leave, and requests that are none."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

import grpc
import odradek
import pyarrow as pa
import pyarrow.flight as flight
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from odradek.client.user_errors import Misused
from odradek.query.flight import service
from odradek.query.flight.jobs import JobLimits
from odradek.query.flight.messages import _SQL_MESSAGES, FLIGHT_SQL, decoded, new, packed, unpacked
from odradek.query.flight.server import QueryServer
from odradek.query.flight.slots import Busy, Slots

from tests.harness.examples import examples
from tests.query.flight.serving import MIB, begun, call, jobs, served, ticket

pytestmark = pytest.mark.usefixtures("processes")

#: Takes time without end, and stays within one call of DuckDB.
ENDLESS = "select count(*) from range(10000000) a, range(10000000) b where (a.range * b.range) % 7 = 3"
#: A result without end.
ENDLESS_ROWS = "select i, repeat('x', 1000) as text from range(1000000000) t(i)"


@pytest.fixture(scope="module")
def broker(processes: None) -> Iterator[odradek.Broker]:
    with odradek.Broker() as made:
        yield made


@pytest.fixture(scope="module")
def server(broker: odradek.Broker) -> Iterator[QueryServer]:
    with served(
        {"bootstrap.servers": broker.bootstrap_servers}, limits=JobLimits(512 * MIB, 600), most_queries=2
    ) as made:
        yield made


def wait_until(is_so: Callable[[], bool], timeout_s: float = 60) -> None:
    deadline = time.monotonic() + timeout_s
    while not is_so():
        assert time.monotonic() < deadline
        threading.Event().wait(0.05)


@pytest.mark.parametrize(
    "sql",
    [
        "select length(repeat('x', 2000000000)) as n",
        "select count(*) as n from (select distinct i from range(1000000000) t(i))",
        "select len(range(1000000000)) as n",
    ],
)
def test_memory_of_a_query_is_bounded_and_the_server_stays(server: QueryServer, sql: str) -> None:
    with flight.connect(server.uri) as client:
        with pytest.raises(pa.ArrowException, match="more than 512 MiB of memory"):
            client.do_get(ticket(sql)).read_all()
        assert client.do_get(ticket("select 1 as n")).read_all().num_rows == 1


def test_time_of_a_query_is_bounded(broker: odradek.Broker) -> None:
    limits = JobLimits(512 * MIB, 2.0)
    with served({"bootstrap.servers": broker.bootstrap_servers}, limits=limits) as server:
        with flight.connect(server.uri) as client, pytest.raises(pa.ArrowException, match="more than 2 s"):
            client.do_get(ticket(ENDLESS)).read_all()
        wait_until(lambda: not jobs())


def test_client_that_takes_no_rows_is_left(broker: odradek.Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "_GRACE_S", 0.5)
    limits = JobLimits(512 * MIB, 2.0)
    with (
        served({"bootstrap.servers": broker.bootstrap_servers}, limits=limits, most_queries=1) as server,
        flight.connect(server.uri) as client,
        flight.connect(server.uri) as other,
    ):
        reader = client.do_get(ticket(ENDLESS_ROWS))
        reader.read_chunk()
        # The only place is free again, without the first client's doing.
        assert other.do_get(ticket("select 1 as n")).read_all().num_rows == 1
        with pytest.raises(pa.ArrowException):
            for _ in reader:
                pass


@pytest.mark.parametrize("sql", [ENDLESS, ENDLESS_ROWS])
def test_query_ends_when_its_client_leaves(server: QueryServer, sql: str) -> None:
    wait_until(lambda: not jobs())
    with begun(server, sql) as begun_call:
        wait_until(lambda: len(jobs()) == 1)
        begun_call.cancel()
        wait_until(lambda: not jobs())


def test_queries_beyond_the_limit_wait_and_are_refused(server: QueryServer, monkeypatch: pytest.MonkeyPatch) -> None:
    wait_until(lambda: not jobs())
    monkeypatch.setattr(service, "_WAIT_S", 1.0)
    with begun(server, ENDLESS), begun(server, ENDLESS):
        wait_until(lambda: len(jobs()) == 2)
        body = new("Ticket", ticket=ticket("select 1 as n").ticket).SerializeToString()
        status, words = call(server, "DoGet", body)
        assert (status, "the server runs 2 queries" in words) == (grpc.StatusCode.RESOURCE_EXHAUSTED, True), words
    wait_until(lambda: not jobs())


def test_host_of_jobs_that_was_killed_is_begun_again(broker: odradek.Broker) -> None:
    with served({"bootstrap.servers": broker.bootstrap_servers}) as server, flight.connect(server.uri) as client:
        host = server._service._jobs._host
        assert host is not None
        host.kill()
        host.wait()
        assert client.do_get(ticket("select 1 as n")).read_all().num_rows == 1


def test_a_user_leaves_a_place_to_the_others() -> None:
    slots = Slots(2, of_users=True)
    with slots.taken("ann", 1.0):
        with pytest.raises(Busy), slots.taken("ann", 0.01):
            pass
        with slots.taken("bob", 1.0), pytest.raises(Busy), slots.taken("carl", 0.01):
            pass
        with slots.taken("carl", 1.0):
            pass


_METHODS = ("Handshake", "GetFlightInfo", "GetSchema", "DoGet", "DoPut", "DoAction", "ListActions", "ListFlights")
#: Endings of calls that a caller is to blame for, or that need no query.
_EXPECTED = (
    grpc.StatusCode.OK, grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.UNIMPLEMENTED, grpc.StatusCode.NOT_FOUND,
    grpc.StatusCode.FAILED_PRECONDITION,
)  # fmt: skip


def _wrapped(name: str, value: bytes) -> list[bytes]:
    """A command with these bytes, as each of the requests that have one."""
    command = b"\n" + _text(f"type.googleapis.com/{FLIGHT_SQL}.{name}".encode()) + b"\x12" + _text(value)
    descriptor = new("FlightDescriptor", type=2, cmd=command)
    return [
        descriptor.SerializeToString(),
        new("Ticket", ticket=command).SerializeToString(),
        new("Action", type="CreatePreparedStatement", body=command).SerializeToString(),
        new("FlightData", flight_descriptor=descriptor, data_header=value, data_body=value).SerializeToString(),
    ]


def _text(body: bytes) -> bytes:
    length, made = len(body), bytearray()
    while length > 127:
        made.append(length & 127 | 128)
        length >>= 7
    return bytes([*made, length]) + body


_REQUESTS = st.one_of(
    st.binary(max_size=60),
    st.builds(
        lambda name, value, number: _wrapped(name, value)[number],
        st.sampled_from(sorted(_SQL_MESSAGES)), st.binary(max_size=40), st.integers(0, 3),
    ),
)  # fmt: skip


@settings(max_examples=examples(120), deadline=None)
@given(method=st.sampled_from(_METHODS), body=_REQUESTS)
def test_request_that_is_none_is_an_error_of_the_caller(server: QueryServer, method: str, body: bytes) -> None:
    status, words = call(server, method, body)
    assert status in _EXPECTED, words
    assert "Traceback" not in words


def test_requests_of_a_larger_size_and_statements_of_more_characters_are_refused(server: QueryServer) -> None:
    body = new("Ticket", ticket=ticket("select 1" + " " * 2_000_000).ticket).SerializeToString()
    assert call(server, "DoGet", body)[0] is grpc.StatusCode.RESOURCE_EXHAUSTED
    body = new("Ticket", ticket=ticket("select 1" + " " * 70_000).ticket).SerializeToString()
    assert call(server, "DoGet", body) == (grpc.StatusCode.INVALID_ARGUMENT, "a statement has 1 to 65,536 characters")


def test_parameters_that_are_no_stream_of_arrow_are_refused(server: QueryServer) -> None:
    for stream in (b"x", b"\xff" * 100, b"\xff\xff\xff\xff\x10\x00\x00\x00" + b"\x00" * 64):
        handle = new("StatementHandle", query="select ?", parameters=stream).SerializeToString()
        body = packed(new("TicketStatementQuery", statement_handle=handle))
        status, words = call(server, "DoGet", new("Ticket", ticket=body).SerializeToString())
        assert status is grpc.StatusCode.INVALID_ARGUMENT, words


def test_messages_are_read_as_they_were_written() -> None:
    command = new("CommandGetTables", catalog="", table_types=["TABLE"], include_schema=True)
    name, found = unpacked(packed(command))
    assert (name, found) == ("CommandGetTables", command)
    assert found.HasField("catalog") and not found.HasField("table_name_filter_pattern")
    data = new("FlightData", data_header=b"h", data_body=b"b" * 300)
    assert decoded("FlightData", data.SerializeToString()) == data
    for body in (b"", b"\xff", packed(new("Ticket", ticket=b"x"))):
        with pytest.raises(Misused):
            unpacked(body)
