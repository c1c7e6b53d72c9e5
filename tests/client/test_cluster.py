"""The client that waits for its responses, against real brokers."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from ssl import create_default_context
from unittest.mock import patch

import odradek
import pytest
from odradek.admin import connection
from odradek.admin.connection import Connection
from odradek.admin.nodes import describe_cluster
from odradek.client.cluster import TRANSACTION_COORDINATOR, Address, Cluster
from odradek.client.errors import LoginRejected, NoResponse, NotSupported, UnknownNode
from odradek.client.sasl import PasswordLogin
from odradek.protocol.messages.describe_cluster import DescribeClusterRequest
from odradek.protocol.messages.metadata import MetadataRequest
from odradek.protocol.messages.vote import VoteRequest

pytestmark = pytest.mark.usefixtures("sockets")
TIMEOUT_S = 20.0


@pytest.fixture(scope="module")
def broker() -> Iterator[odradek.Broker]:
    with odradek.Broker() as running:
        yield running


def address_of(broker: odradek.Broker) -> Address:
    host, _, port = broker.bootstrap_servers.rpartition(":")
    return Address(host, int(port))


@pytest.fixture
def cluster(broker: odradek.Broker) -> Iterator[Cluster]:
    made = Cluster([address_of(broker)], "test", TIMEOUT_S)
    yield made
    made.close()


def unused() -> Address:
    """An address that refuses connections: nothing listens at the port of a socket that was only bound."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        return Address("127.0.0.1", bound.getsockname()[1])


def test_any_broker_and_a_named_broker_respond(cluster: Cluster) -> None:
    assert cluster.ask(DescribeClusterRequest()).error_code == 0
    (node,) = cluster.ask(MetadataRequest(topics=[])).brokers
    assert cluster.ask(DescribeClusterRequest(), node.node_id).error_code == 0


def test_coordinators_of_both_kinds_are_found(cluster: Cluster) -> None:
    (node,) = cluster.ask(MetadataRequest(topics=[])).brokers
    assert cluster.coordinator("billing") == node.node_id
    assert cluster.coordinator("payments", TRANSACTION_COORDINATOR) == node.node_id


def test_unknown_node_and_unsupported_api_are_errors(cluster: Cluster) -> None:
    with pytest.raises(UnknownNode, match="broker 99"):
        cluster.ask(DescribeClusterRequest(), 99)
    with pytest.raises(NotSupported, match="Vote"):  # which only a controller's listener has
        cluster.ask(VoteRequest(topics=[]))


def test_next_address_is_tried_where_one_refuses(broker: odradek.Broker) -> None:
    cluster = Cluster([unused(), address_of(broker)], "test", TIMEOUT_S)
    try:
        assert cluster.ask(DescribeClusterRequest()).error_code == 0
        with patch.object(Cluster, "_response", autospec=True, side_effect=Cluster._response) as tries:
            assert cluster.ask(DescribeClusterRequest()).error_code == 0
        assert tries.call_count == 1  # the address that responded last comes first
    finally:
        cluster.close()


@contextlib.contextmanager
def hanging() -> Iterator[Address]:
    """An address that accepts connections, and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield Address("127.0.0.1", listening.getsockname()[1])


def test_next_address_is_tried_soon_where_one_hangs(broker: odradek.Broker) -> None:
    with hanging() as address:
        cluster = Cluster([address, address_of(broker)], "test", TIMEOUT_S)
        began = time.monotonic()
        assert cluster.ask(DescribeClusterRequest()).error_code == 0
        assert cluster.coordinator("billing") >= 0
        assert time.monotonic() - began < TIMEOUT_S / 2
        cluster.close()


def test_queries_leave_out_what_hangs(broker: odradek.Broker) -> None:
    """An address of the first connection."""
    with hanging() as address, patch.object(connection, "_CONNECT_TIMEOUT_S", 1.0):
        addresses = ",".join(f"{host}:{port}" for host, port, _ in (address, address_of(broker)))
        with Connection({"bootstrap.servers": addresses}, TIMEOUT_S).admin() as admin:
            began = time.monotonic()
            for _ in range(3):
                assert describe_cluster(admin.impatient).brokers
            assert time.monotonic() - began < TIMEOUT_S / 2


def test_no_response_names_the_addresses() -> None:
    address = unused()
    cluster = Cluster([address], "test", TIMEOUT_S)
    with pytest.raises(NoResponse, match=f"127.0.0.1:{address.port}"):
        cluster.ask(DescribeClusterRequest())
    cluster.close()
    cluster.close()  # a second time does nothing


def test_scram_login_and_its_rejection() -> None:
    with odradek.Broker(security="scram") as secured:
        settings = secured.client_settings("confluent-kafka")
        user, password = settings["sasl.username"], settings["sasl.password"]
        mechanism = settings.get("sasl.mechanism") or settings["sasl.mechanisms"]
        tls = (
            {"ssl": create_default_context(cafile=settings["ssl.ca.location"])} if "ssl.ca.location" in settings else {}
        )

        def cluster(given: str) -> Cluster:
            login = PasswordLogin(mechanism, user, given)
            return Cluster([address_of(secured)], "test", TIMEOUT_S, lambda _: login, lambda *_: tls)

        good, bad = cluster(password), cluster("wrong")
        assert good.ask(DescribeClusterRequest()).error_code == 0
        with pytest.raises(LoginRejected, match="rejected the login of"):
            bad.ask(DescribeClusterRequest())
        good.close()
        bad.close()


@pytest.mark.usefixtures("processes")
def test_command_imports_no_other_client(broker: odradek.Broker) -> None:
    """Counts modules rather than time: a client library is half of the start of a short command."""
    program = (
        "import sys; from odradek.cli.main import main\n"
        f"status = main(['topic', 'list', '-b', '{broker.bootstrap_servers}'])\n"
        "names = {'kafka', 'confluent_kafka', 'odradek.server'}\n"
        "print(status, *(sys.modules.keys() & names), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60)
    assert done.stderr.strip() == "0"
