"""Users of `odradek query --serve`: the brokers' logins, READ on topics with tables, and sessions."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import adbc_driver_manager as adbc
import grpc
import odradek
import pyarrow.flight as flight
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from odradek.admin.connection import Connection
from odradek.archive import ArchiveOptions, Archiver
from odradek.query.flight import sessions
from odradek.query.flight.messages import new, packed
from odradek.query.flight.server import QueryServer
from odradek.query.sources import QuerySources, TablePlace

from tests.archive.harness.tables import KINDS, open_table
from tests.query.flight.serving import call, cursor_of, rows_of, served, ticket

pytestmark = pytest.mark.usefixtures("processes")

USERS = {
    "admin": "admin-secret",
    "ann": "ann-secret",
    "bob": "bob-secret",
    "carl": "carl-secret",
    "dora": "dora-secret",
}
ADDRESS = "ipv4:127.0.0.1"


@pytest.fixture(scope="module")
def broker(processes: None) -> Iterator[odradek.Broker]:
    security = odradek.Security("SASL_PLAINTEXT", "SCRAM-SHA-256", users=USERS, authorizer=True)
    with odradek.Broker(security=security) as made:
        yield made


@pytest.fixture(scope="module")
def folders(broker: odradek.Broker, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Folders with tables of the topics `secret` and `open`, which have 10 rows, and 5 more in their logs."""
    settings = dict(broker.client_settings("confluent-kafka"))
    made = {kind: tmp_path_factory.mktemp(kind) for kind in KINDS}
    for topic in ("secret", "open"):
        _produce(settings, topic, 10)
        for kind, folder in made.items():
            client = dict(broker.client_settings("java", "admin"))
            options = ArchiveOptions()
            Archiver(client, [topic], lambda owner, k=kind, f=folder: open_table(k, f, owner), options).run(once=True)
        _produce(settings, topic, 5)
    admin = AdminClient(settings)
    for user, topic, operation in (
        ("ann", "open", AclOperation.READ),
        ("ann", "secret", AclOperation.DESCRIBE),
        ("bob", "open", AclOperation.READ),
        ("bob", "secret", AclOperation.READ),
    ):
        rule = AclBinding(
            ResourceType.TOPIC, topic, ResourcePatternType.LITERAL, f"User:{user}", "*", operation,
            AclPermissionType.ALLOW,
        )  # fmt: skip
        for future in admin.create_acls([rule]).values():
            future.result(30)
    return made


def _produce(settings: dict[str, object], topic: str, count: int) -> None:
    producer = Producer(settings)
    for number in range(count):
        producer.produce(topic, b"%s %d" % (topic.encode(), number))
    assert producer.flush(30) == 0


def served_of(broker: odradek.Broker, place: TablePlace) -> AbstractContextManager[QueryServer]:
    """A server with the login of an administrator, which no query is to use."""
    return served(dict(broker.client_settings("java", "admin")), QuerySources(place=place))


@pytest.fixture(scope="module", params=[*KINDS, "log"])
def server(request: pytest.FixtureRequest, broker: odradek.Broker, folders: dict[str, Path]) -> Iterator[QueryServer]:
    folder = folders.get(request.param)
    place = TablePlace(parquet=folder) if request.param == "parquet" else TablePlace(warehouse=folder)
    with served_of(broker, place) as made:
        yield made


def test_user_reads_topics_with_the_right_to_read(server: QueryServer) -> None:
    assert rows_of(server, "select count(*), max(value) from open", "ann", "ann-secret") == [(15, "open 9")]
    assert rows_of(server, 'select count(*) from secret join open using ("offset")', "bob", "bob-secret") == [(15,)]


@pytest.mark.parametrize(
    "sql",
    [
        "select * from secret",
        "select count(*) from secret",
        'select value from secret where "offset" < 5',
        'select value from kafka.main."secret" where "offset" = 3',
        "select * from open where value in (select value from secret)",
        "with x as (select * from secret) select count(*) from x",
        "select value from secret limit 1",
    ],
)
def test_describing_a_topic_is_no_right_to_read_its_table(server: QueryServer, sql: str) -> None:
    with cursor_of(server, "ann", "ann-secret") as cursor, pytest.raises(adbc.Error, match="not authorized") as caught:
        cursor.execute(sql)
        cursor.fetchall()
    assert "secret 0" not in str(caught.value)


def test_ticket_that_another_user_was_given_has_the_rights_of_its_caller(server: QueryServer) -> None:
    with flight.connect(server.uri) as client:
        options = flight.FlightCallOptions(headers=[client.authenticate_basic_token("bob", "bob-secret")])
        handle = packed(new("CommandStatementQuery", query="select value from secret"))
        info = client.get_flight_info(flight.FlightDescriptor.for_command(handle), options)
        (endpoint,) = info.endpoints
        assert client.do_get(endpoint.ticket, options).read_all().num_rows == 15
        of_ann = flight.FlightCallOptions(headers=[client.authenticate_basic_token("ann", "ann-secret")])
        with pytest.raises(flight.FlightUnauthorizedError):
            client.do_get(endpoint.ticket, of_ann).read_all()


def test_lists_have_the_topics_that_the_user_may_describe(server: QueryServer) -> None:
    command = packed(new("CommandGetTables", include_schema=True))
    with flight.connect(server.uri) as client:
        for user, topics in (("ann", ["open", "secret"]), ("bob", ["open", "secret"]), ("dora", [])):
            token = client.authenticate_basic_token(user, USERS[user])
            options = flight.FlightCallOptions(headers=[token])
            info = client.get_flight_info(flight.FlightDescriptor.for_command(command), options)
            rows = client.do_get(info.endpoints[0].ticket, options).read_all().to_pylist()
            assert [row["table_name"] for row in rows] == topics


@pytest.fixture(scope="module")
def of_logs(broker: odradek.Broker, folders: dict[str, Path]) -> Iterator[QueryServer]:
    with served_of(broker, TablePlace()) as made:
        yield made


def test_call_without_a_login_reaches_nothing(of_logs: QueryServer) -> None:
    command = new("FlightDescriptor", type=2, cmd=packed(new("CommandGetTables"))).SerializeToString()
    statement = new("Ticket", ticket=ticket("select 1").ticket).SerializeToString()
    action = new("Action", type="CreatePreparedStatement").SerializeToString()
    for method, body in (
        ("Handshake", b""), ("GetFlightInfo", command), ("GetSchema", command), ("DoGet", statement),
        ("DoAction", action), ("ListActions", b""), ("ListFlights", b""), ("DoPut", b""),
    ):  # fmt: skip
        status, words = call(of_logs, method, body)
        assert (status, "log in" in words) == (grpc.StatusCode.UNAUTHENTICATED, True), method


def test_session_ends_with_its_action(of_logs: QueryServer) -> None:
    with flight.connect(of_logs.uri) as client:
        options = flight.FlightCallOptions(headers=[client.authenticate_basic_token("ann", "ann-secret")])
        assert client.do_get(ticket("select 1 as n"), options).read_all().num_rows == 1
        assert len(list(client.do_action(flight.Action("CloseSession", b""), options))) == 1
        with pytest.raises(flight.FlightUnauthenticatedError, match="log in again"):
            client.do_get(ticket("select 1 as n"), options)


@pytest.mark.parametrize(
    "header",
    [
        "Bearer ", "Bearer x", "Bearer " + "x" * 5000, "Basic", "Basic !", "Basic " + base64.b64encode(b"ann").decode(),
        "Basic " + base64.b64encode(b":x").decode(), "Basic " + base64.b64encode(b"\xff:x").decode(),
        "Basic " + base64.b64encode(b"a" * 4000 + b":x").decode(), "Digest x", "",
    ],
)  # fmt: skip
def test_header_that_is_no_login_is_refused(of_logs: QueryServer, header: str) -> None:
    options = flight.FlightCallOptions(headers=[(b"authorization", header.encode())])
    with flight.connect(of_logs.uri) as client, pytest.raises(flight.FlightUnauthenticatedError):
        client.do_get(ticket("select 1 as n"), options)


def test_wrong_passwords_of_an_address_have_to_wait(broker: odradek.Broker) -> None:
    with served_of(broker, TablePlace()) as server, flight.connect(server.uri) as client:
        client.authenticate_basic_token("ann", "ann-secret")
        for _ in range(5):
            with pytest.raises(flight.FlightUnauthenticatedError, match="check name and password") as caught:
                client.authenticate_basic_token("ann", "wrong-password")
            assert "wrong-password" not in str(caught.value)
        with pytest.raises(flight.FlightUnauthenticatedError, match="wait a minute"):
            client.authenticate_basic_token("ann", "ann-secret")


def test_right_that_is_taken_away_ends_the_reading_of_a_session(
    broker: odradek.Broker, folders: dict[str, Path]
) -> None:
    admin = AdminClient(dict(broker.client_settings("confluent-kafka")))
    rule = AclBinding(
        ResourceType.TOPIC, "secret", ResourcePatternType.LITERAL, "User:carl", "*", AclOperation.READ,
        AclPermissionType.ALLOW,
    )  # fmt: skip
    for future in admin.create_acls([rule]).values():
        future.result(30)
    place = TablePlace(warehouse=folders["iceberg"])
    with served_of(broker, place) as server, flight.connect(server.uri) as client:
        options = flight.FlightCallOptions(headers=[client.authenticate_basic_token("carl", "carl-secret")])
        wanted = ticket('select value from secret where "offset" < 5')
        assert client.do_get(wanted, options).read_all().num_rows == 5
        every = AclBindingFilter(
            ResourceType.TOPIC, "secret", ResourcePatternType.LITERAL, "User:carl", "*", AclOperation.READ,
            AclPermissionType.ALLOW,
        )  # fmt: skip
        for future in admin.delete_acls([every]).values():
            future.result(30)
        with pytest.raises(flight.FlightUnauthorizedError):
            client.do_get(wanted, options).read_all()


def test_session_has_the_login_of_its_user_and_not_that_of_the_server(broker: odradek.Broker) -> None:
    made = sessions.Sessions(Connection(dict(broker.client_settings("java", "admin"))))
    word = base64.b64encode(b"ann:ann-secret").decode()
    session = made.begin(f"Basic {word}", ADDRESS)
    assert session.properties["sasl.username"] == "ann" and "sasl.jaas.config" not in session.properties
    assert made.find(f"Basic {word}", ADDRESS) is session
    assert "ann-secret" not in repr(session)


def test_sessions_are_bounded_and_end(broker: odradek.Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "_MOST_OF_USER", 2)
    made = sessions.Sessions(Connection(dict(broker.client_settings("java", "admin"))))
    word = base64.b64encode(b"ann:ann-secret").decode()
    tokens = [made.begin(f"Basic {word}", ADDRESS).token for _ in range(3)]
    with pytest.raises(sessions.NotLoggedIn):
        made.find(f"Bearer {tokens[0]}", ADDRESS)
    assert made.find(f"bearer {tokens[2]}", ADDRESS).token == tokens[2]
    monkeypatch.setattr(sessions, "_IDLE_S", -1.0)
    with pytest.raises(sessions.NotLoggedIn, match="log in again"):
        made.find(f"Bearer {tokens[2]}", ADDRESS)
