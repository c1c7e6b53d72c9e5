"""Requests for the controller while the broker that stands for it has died, and its session has not ended."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from odradek.admin.connection import Connection
from odradek.admin.features import describe_features
from odradek.admin.nodes import describe_cluster
from odradek.admin.reassignments import list_reassignments
from odradek.admin.topic_changes import NewTopic, create_topics
from odradek.protocol.errors import ErrorCode

from ..broker_process import free_port
from ..odradek_process import OdradekProcess
from ..recipes import eventually
from ..registered_brokers import register_brokers

_DEAD, _RUNNING = 1, 5


@contextlib.contextmanager
def port_that(behaviour: str) -> Iterator[int]:
    """A port of a dead broker: it refuses connections, or a proxy ends them, or accepts them in silence."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = int(listening.getsockname()[1])
        if behaviour == "refuses":
            listening.close()
        elif behaviour == "ends":
            threading.Thread(target=_end_connections, args=(listening,), daemon=True).start()
        yield port
        with contextlib.suppress(OSError):
            listening.shutdown(socket.SHUT_RDWR)


def _end_connections(listening: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while True:
            listening.accept()[0].close()


@pytest.fixture
def controller(tmp_path: Path) -> Iterator[tuple[OdradekProcess, str]]:
    port, controller = free_port(), free_port()
    properties = {
        "process.roles": "broker,controller",
        "node.id": str(_RUNNING),
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}",
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "controller.quorum.voters": f"{_RUNNING}@127.0.0.1:{controller}",
        "broker.session.timeout.ms": "3600000",
    }
    node = OdradekProcess(tmp_path, properties)
    node.start()
    yield node, f"127.0.0.1:{controller}"
    node.kill()


@pytest.mark.parametrize("behaviour", ["refuses", "ends", "hangs"])
def test_another_broker_forwards_while_the_named_one_does_not_respond(
    controller: tuple[OdradekProcess, str], behaviour: str
) -> None:
    """The client's own limit of a repeated query is shorter than the dead broker's session."""
    node, address = controller
    connection = Connection({"bootstrap.servers": node.bootstrap}, 5)
    connection.patience_s = 1
    with port_that(behaviour) as port, connection.admin() as admin:
        cluster_id = describe_cluster(admin).cluster_id
        features = {
            name: (one.supported.lowest, one.supported.highest)
            for name, one in describe_features(admin).items()
            if one.supported
        }
        register_brokers(address, cluster_id, [_DEAD], port, features)
        eventually(lambda: admin.cluster.controller() == _DEAD, what="the dead broker stands for the controller")
        assert list_reassignments(admin) == {}
        (created,) = create_topics(admin, {"orders": NewTopic(1, 1)})
        assert created.error_code == ErrorCode.NONE, created
