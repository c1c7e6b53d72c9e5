"""kafka-python over TLS, when its connection is reset before it makes its TLS object. See its FINDINGS."""

from __future__ import annotations

import socket
import ssl
from types import SimpleNamespace
from typing import Any

import pytest
from kafka.cluster import ClusterMetadata
from kafka.errors import KafkaConnectionError
from kafka.future import Future
from kafka.net import manager

from compat_tests.cluster.kafka_python_refresh import outliving_resets, refresh_state


@pytest.fixture
def connection_that_was_reset() -> socket.socket:
    """Returns the connection of a client: the system accepted it, and its listening socket is closed since."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        client = socket.create_connection(listening.getsockname())
    client.setblocking(False)
    return client


def transport(connection: socket.socket) -> Any:
    return manager.KafkaSSLTransport(None, connection, host="localhost", ssl_context=ssl.create_default_context())


def test_a_reset_before_tls_is_no_error_of_kafka_python(connection_that_was_reset: socket.socket) -> None:
    """When this fails, kafka-python has changed, and `outliving_resets` can go."""
    with pytest.raises(ConnectionResetError):
        transport(connection_that_was_reset)


def test_a_reset_before_tls_becomes_an_error_that_the_refresh_expects(connection_that_was_reset: socket.socket) -> None:
    with outliving_resets() as resets, pytest.raises(KafkaConnectionError):
        transport(connection_that_was_reset)
    assert [type(reset) for reset in resets] == [ConnectionResetError]


def test_a_refresh_that_has_ended_is_named_with_its_cause() -> None:
    cluster = ClusterMetadata(bootstrap_servers="localhost:9092")
    consumer: Any = SimpleNamespace(_client=SimpleNamespace(cluster=cluster))
    assert refresh_state(consumer) == "its leaders with epochs are {}"
    cluster._refresh_loop_future = Future().failure(ConnectionResetError(104, "reset"))
    assert "has ended for good (ConnectionResetError(104, 'reset'))" in refresh_state(consumer)
