"""`odradek query --serve` by clients of Arrow Flight SQL: ADBC's driver, and Arrow's own client of Flight."""

from __future__ import annotations

import base64
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import adbc_driver_manager as adbc
import odradek
import pyarrow as pa
import pyarrow.flight as flight
import pytest
from confluent_kafka import Producer
from odradek.admin.connection import Connection
from odradek.archive import ArchiveOptions, Archiver
from odradek.client.user_errors import Misused
from odradek.query.flight.server import QueryServer, ServerOptions
from odradek.query.sources import QuerySources, TablePlace

from tests.archive.harness.tables import open_table
from tests.query.flight.serving import LIMITS, cursor_of, rows_of, served, ticket
from tests.server.harness.certificates import Authority

pytestmark = pytest.mark.usefixtures("processes")


@pytest.fixture(scope="module")
def broker(processes: None) -> Iterator[odradek.Broker]:
    with odradek.Broker() as made:
        yield made


def produce(broker: odradek.Broker, topic: str, values: list[bytes]) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for number, value in enumerate(values):
        producer.produce(topic, value, b"k%d" % (number % 3))
        producer.poll(0)
    assert producer.flush(30) == 0


def archiver_of(broker: odradek.Broker, topic: str, folder: Path, freshness_s: float = 1.0) -> Archiver:
    client = {"bootstrap.servers": broker.bootstrap_servers}
    options = ArchiveOptions(freshness_s=freshness_s)
    return Archiver(client, [topic], lambda owner: open_table("iceberg", folder, owner), options)


@pytest.fixture(scope="module")
def warehouse(broker: odradek.Broker, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tables")
    produce(broker, "orders", [b"%d" % number for number in range(100)])
    archiver_of(broker, "orders", folder).run(once=True)
    produce(broker, "orders", [b"%d" % number for number in range(100, 150)])
    return folder


@pytest.fixture(scope="module")
def server(broker: odradek.Broker, warehouse: Path) -> Iterator[QueryServer]:
    sources = QuerySources(place=TablePlace(warehouse))
    with served({"bootstrap.servers": broker.bootstrap_servers}, sources) as made:
        yield made


def test_rows_of_table_and_log_are_there_once(server: QueryServer) -> None:
    sql = 'select count(*), count(distinct "offset"), sum(value::int)::int from orders'
    assert rows_of(server, sql) == [(150, 150, sum(range(150)))]
    assert rows_of(server, 'select value from kafka.main.orders where "offset" in (3, 120) order by 1') == [
        ("120",),
        ("3",),
    ]


def test_columns_of_one_name_are_there(server: QueryServer) -> None:
    sql = 'select count(*), count(*), 1 a, 2 a, 3 "a:1" from orders'
    assert rows_of(server, sql) == [(150, 150, 1, 2, 3)]
    with cursor_of(server) as cursor:
        for form in (
            "select key, key, KEY, ?::int, ? from orders",
            "with o as (from orders) select key, key, ?, ? from o",
        ):
            cursor.execute(f'{form} where "offset" = 4', (1, 2))
            assert set(cursor.fetchall()[0]) >= {1, 2}
            assert [one[0] for one in cursor.description[:2]] == ["key", "key"]


def test_parameters_of_a_statement_are_bound(server: QueryServer) -> None:
    with cursor_of(server) as cursor:
        for low, count in ((0, 150), (100, 50), (149, 1)):
            cursor.execute('select count(*) from orders where "offset" >= ? and key like ?', (low, "k%"))
            assert cursor.fetchall() == [(count,)]
        for end in (";", "; --", ";; /* ; */", "\n;-- ü;\n"):
            cursor.execute(f'select count(*) from orders where "offset" >= ?{end}', (100,))
            assert cursor.fetchall() == [(50,)]


def test_statement_sees_what_was_written_before_its_rows_are_read(broker: odradek.Broker, server: QueryServer) -> None:
    with cursor_of(server) as cursor:
        for count in (1, 2, 3):
            produce(broker, "growing", [b"x"])
            cursor.execute("select count(*) from growing")
            assert cursor.fetchall() == [(count,)]


def test_lists_have_topics_and_their_columns(server: QueryServer) -> None:
    with cursor_of(server) as cursor:
        connection = cursor.connection
        assert connection.adbc_get_info()["vendor_name"] == "Odradek"
        assert connection.adbc_get_table_types() == ["TABLE"]
        assert connection.adbc_get_table_schema("orders").field("offset").type == pa.int64()
        (catalog,) = connection.adbc_get_objects(depth="tables", table_name_filter="or%").read_all().to_pylist()
        (schema,) = catalog["catalog_db_schemas"]
        assert (catalog["catalog_name"], schema["db_schema_name"]) == ("kafka", "main")
        assert [one["table_name"] for one in schema["db_schema_tables"]] == ["orders"]


def test_error_names_its_reason_and_no_file_of_the_server_is_read(server: QueryServer) -> None:
    with cursor_of(server) as cursor:
        for sql, words in (
            ("select * from read_text('/etc/passwd')", "read_text is not allowed"),
            ("select * from '/etc/passwd'", "INVALID_TOPIC_EXCEPTION"),
            ('select * from "../orders"', "INVALID_TOPIC_EXCEPTION"),
            ("select nope from orders", "nope"),
            ("select * from missing", "UNKNOWN_TOPIC_OR_PARTITION"),
            ("select 1; select 2", "one SELECT"),
            ("copy orders to '/tmp/odradek-orders.csv'", "one SELECT"),
            ("select 'a'::int", "Conversion Error"),
        ):
            with pytest.raises(adbc.Error, match=words) as caught:
                cursor.execute(sql)
                cursor.fetchall()
            assert "root:" not in str(caught.value)


def test_large_result_comes_in_messages_of_a_megabyte(server: QueryServer) -> None:
    """Drivers refuse messages of 16 MiB or 4 MiB; that of a single row may be larger."""
    with flight.connect(server.uri) as client:
        reader = client.do_get(ticket("select i, repeat('x', 100) as text from range(300000) t(i)"))
        sizes, count = [], 0
        for chunk in reader:
            sizes.append(chunk.data.nbytes)
            count += chunk.data.num_rows
        assert count == 300_000
        assert max(sizes) < 3 << 20 and len(sizes) < 100
        (row,) = client.do_get(ticket("select repeat('x', 20000000) as text")).read_all().to_pylist()
        assert len(row["text"]) == 20_000_000
        with pytest.raises(pa.ArrowInvalid, match="a row of more than 64 MiB"):
            client.do_get(ticket("select repeat('x', 80000000) as text")).read_all()


def test_types_of_arrow_come_as_the_query_has_them(server: QueryServer) -> None:
    sql = """select 1::utinyint a, 2.5::decimal(9, 2) b, date '2026-01-02' c, [1, 2] d, {'x': 1} e,
             'u'::enum('u', 'v') g, '\\xff'::blob h, map {'k': 1} i, timestamptz '2026-01-02 00:00:00+00' j"""
    with flight.connect(server.uri) as client:
        table = client.do_get(ticket(sql)).read_all()
    table.validate(full=True)
    assert [str(kind) for kind in table.schema.types] == [
        "uint8", "decimal128(9, 2)", "date32[day]", "list<l: int32>", "struct<x: int32>", "string", "binary",
        "map<string, int32>", "timestamp[us, tz=UTC]",
    ]  # fmt: skip
    assert table.column("g").to_pylist() == ["u"] and table.column("h").to_pylist() == [b"\xff"]


def test_query_beside_a_running_archiver_has_each_record_once(broker: odradek.Broker, tmp_path: Path) -> None:
    produce(broker, "running", [b"0"] * 50)
    archiver_of(broker, "running", tmp_path).run(once=True)
    archiver = archiver_of(broker, "running", tmp_path, freshness_s=0.1)
    thread = threading.Thread(target=archiver.run)
    thread.start()
    sql = 'select count(*), count(distinct ("partition", "offset")) from running'
    count = 50
    try:
        sources = QuerySources(place=TablePlace(tmp_path))
        with (
            served({"bootstrap.servers": broker.bootstrap_servers}, sources) as made,
            flight.connect(made.uri) as client,
        ):
            for number in range(12):
                produce(broker, "running", [b"1"] * (20 + number))
                count += 20 + number
                (row,) = client.do_get(ticket(sql)).read_all().to_pylist()
                assert tuple(row.values()) == (count, count)
    finally:
        archiver.stop()
        thread.join(60)
    assert not thread.is_alive()
    assert len(open_table_snapshots(tmp_path)) > 2, "the archiver committed meanwhile"


def open_table_snapshots(folder: Path) -> list[object]:
    return list(odradek.archive.open_catalog(folder, {}).load_table(("kafka", "running")).snapshots())


def test_command_serves_until_sigterm(broker: odradek.Broker) -> None:
    words = ("query", "--serve", "127.0.0.1:0", "-b", broker.bootstrap_servers)
    process = subprocess.Popen([sys.executable, "-m", "odradek", *words], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        assert line.startswith(f"odradek: queries of {broker.bootstrap_servers} on grpc://127.0.0.1:")
        with flight.connect(line.split()[-1]) as client:
            assert client.do_get(ticket("select 42 as n")).read_all().to_pylist() == [{"n": 42}]
    finally:
        process.terminate()
    assert process.wait(60) == 0


def test_tls_is_that_of_the_certificate(broker: odradek.Broker, tmp_path: Path) -> None:
    authority = Authority()
    identity = authority.trustme.issue_cert("127.0.0.1")
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    identity.private_key_pem.write_to_path(key)
    for part in identity.cert_chain_pems:
        part.write_to_path(certificate, append=True)
    options = ServerOptions("127.0.0.1:0", certificate, key, 2, LIMITS)
    server = QueryServer(Connection({"bootstrap.servers": broker.bootstrap_servers}), QuerySources(), options)
    try:
        with flight.connect(server.uri, tls_root_certs=authority.pem_text) as client:
            assert client.do_get(ticket("select 1 as n")).read_all().num_rows == 1
        with flight.connect(server.uri) as stranger, pytest.raises(flight.FlightUnavailableError):
            stranger.do_get(ticket("select 1 as n"))
    finally:
        server.stop()


@pytest.mark.parametrize(
    ("properties", "address", "words"),
    [
        ({}, "0.0.0.0:0", "--anonymous allows it"),
        ({"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}, "0.0.0.0:0", "passwords without TLS"),
        ({"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "GSSAPI"}, "127.0.0.1:0", "takes logins by PLAIN"),
        ({}, "here", "is not HOST:PORT"),
        ({}, "127.0.0.1:70000", "is not HOST:PORT"),
    ],
)
def test_options_that_would_show_data_or_passwords_are_refused(
    properties: dict[str, str], address: str, words: str
) -> None:
    with pytest.raises(Misused, match=words):
        QueryServer(Connection(properties), QuerySources(), ServerOptions(address, None, None, 1, LIMITS))


def test_credentials_are_refused_where_brokers_have_no_logins(server: QueryServer) -> None:
    word = base64.b64encode(b"ann:secret").decode()
    options = flight.FlightCallOptions(headers=[(b"authorization", f"Basic {word}".encode())])
    with flight.connect(server.uri) as client, pytest.raises(flight.FlightUnauthenticatedError, match="have no logins"):
        client.do_get(ticket("select 1 as n"), options)
