"""The client that waits for its responses, against real brokers."""

from __future__ import annotations

import contextlib
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from ssl import create_default_context
from unittest.mock import patch

import odradek
import pytest
from odradek.admin import connection
from odradek.admin.connection import Connection
from odradek.admin.nodes import describe_cluster
from odradek.client.cluster import Address, Cluster
from odradek.client.errors import LoginRejected, NoResponse, NotSupported, UnknownNode
from odradek.client.sasl import PasswordLogin
from odradek.protocol.apis import api_named
from odradek.protocol.coordinator_types import TRANSACTION
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from odradek.protocol.messages.describe_cluster import DescribeClusterRequest
from odradek.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
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
    assert cluster.coordinator("payments", TRANSACTION) == node.node_id


def test_unknown_node_and_unsupported_api_are_errors(cluster: Cluster) -> None:
    with pytest.raises(UnknownNode, match="broker 99"):
        cluster.ask(DescribeClusterRequest(), 99)
    with pytest.raises(NotSupported, match="Vote"):  # which only a controller's listener has
        cluster.ask(VoteRequest(topics=[]))


def test_next_address_is_tried_where_one_refuses(broker: odradek.Broker) -> None:
    cluster = Cluster([unused(), address_of(broker)], "test", TIMEOUT_S)
    try:
        assert cluster.ask(DescribeClusterRequest()).error_code == 0
        with patch.object(Cluster, "_outcome", autospec=True, side_effect=Cluster._outcome) as tries:
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


@contextlib.contextmanager
def swallowing(broker: odradek.Broker, api: str) -> Iterator[tuple[Address, list[int]]]:
    """An address of the broker at which requests of an API get no response, and the API keys of all that came."""
    taken: list[int] = []
    ended = threading.Event()
    threads = []

    def forward(client: socket.socket) -> None:
        with client, socket.create_connection(address_of(broker)[:2]) as server, contextlib.suppress(OSError):
            requests, responses = client.makefile("rb"), server.makefile("rb")
            while head := requests.read(4):
                body = requests.read(struct.unpack(">i", head)[0])
                taken.append(struct.unpack_from(">h", body)[0])
                if taken[-1] == api_named(api).key:
                    ended.wait(TIMEOUT_S)
                    return
                server.sendall(head + body)
                head = responses.read(4)
                client.sendall(head + responses.read(struct.unpack(">i", head)[0]))

    def serve(listening: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while not ended.is_set():
                threads.append(threading.Thread(target=forward, args=(listening.accept()[0],)))
                threads[-1].start()

    with socket.create_server(("127.0.0.1", 0)) as listening:
        threads.append(threading.Thread(target=serve, args=(listening,)))
        threads[0].start()
        try:
            yield Address("127.0.0.1", listening.getsockname()[1]), taken
        finally:
            ended.set()
            listening.shutdown(socket.SHUT_RDWR)
            for thread in threads:
                thread.join()


def creation(name: str) -> CreateTopicsRequest:
    topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1, assignments=[], configs=[])
    return CreateTopicsRequest(topics=[topic], timeout_ms=1000, validate_only=False)


def test_change_without_a_response_is_not_sent_to_another_broker(broker: odradek.Broker) -> None:
    with swallowing(broker, "CreateTopics") as (address, taken):
        cluster = Cluster([address, address_of(broker)], "test", 1.5)
        with pytest.raises(NoResponse, match=str(address.port)):
            cluster.ask(creation("once"))
        assert taken.count(api_named("CreateTopics").key) == 1
        cluster.close()
    cluster = Cluster([address_of(broker)], "test", TIMEOUT_S)
    (topic,) = cluster.ask(MetadataRequest(topics=[MetadataRequestTopic(name="once")])).topics
    assert topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    cluster.close()


def test_change_goes_past_brokers_that_hang_or_refuse(broker: odradek.Broker) -> None:
    with hanging() as address:
        for index, first in enumerate((address, unused())):
            cluster = Cluster([first, address_of(broker)], "test", TIMEOUT_S)
            began = time.monotonic()
            (topic,) = cluster.ask(creation(f"past-{index}")).topics
            assert topic.error_code == 0 and time.monotonic() - began < TIMEOUT_S / 2
            cluster.close()


def test_change_is_tried_everywhere_while_nothing_takes_it() -> None:
    addresses = [unused(), unused()]
    cluster = Cluster(addresses, "test", TIMEOUT_S)
    with pytest.raises(NoResponse, match=rf"{addresses[0].port} .*{addresses[1].port}"):
        cluster.ask(creation("nowhere"))
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
