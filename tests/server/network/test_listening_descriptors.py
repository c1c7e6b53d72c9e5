"""Listening sockets close before connections when the system kills a broker."""

from __future__ import annotations

import errno
import resource
import select
import socket
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from odradek.server.network.bound_sockets import bound_sockets

from compat_tests.odradek_process import OdradekProcess

_CONNECTIONS = 300
_DEADLINE_S = 60


@pytest.mark.usefixtures("sockets")
def test_a_listening_socket_has_a_higher_descriptor_than_connections() -> None:
    (listening,) = bound_sockets("127.0.0.1", 0)
    with listening, socket.socket() as connection:
        assert listening.fileno() > connection.fileno() + _CONNECTIONS
        assert not listening.get_inheritable()


#: Prints the descriptor of a listening socket in a process that may have 1,024 descriptors.
_LOW_LIMIT_PROGRAM = """
import resource
from odradek.server.network.bound_sockets import bound_sockets
resource.setrlimit(resource.RLIMIT_NOFILE, (1024, 1024))
print(bound_sockets("127.0.0.1", 0)[0].fileno())
"""


@pytest.mark.usefixtures("processes")
def test_a_listening_socket_stays_below_a_low_limit() -> None:
    program = [sys.executable, "-c", _LOW_LIMIT_PROGRAM]
    printed = subprocess.run(program, capture_output=True, text=True, check=True, timeout=_DEADLINE_S).stdout
    assert 1000 < int(printed) < 1024


@pytest.mark.usefixtures("sockets")
@pytest.mark.parametrize("limit", [resource.RLIM_INFINITY, 8])
def test_a_socket_is_bound_whatever_the_limit(monkeypatch: pytest.MonkeyPatch, limit: int) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (limit, limit))
    (listening,) = bound_sockets("127.0.0.1", 0)
    with listening:
        assert listening.getsockname()[1]


@pytest.mark.usefixtures("processes")
def test_a_killed_broker_refuses_clients_that_connect_again_at_once(tmp_path: Path) -> None:
    """A client sees the end of its connection, and connects again while the system still closes the broker's others."""
    with OdradekProcess(tmp_path) as broker, select.epoll() as ended:
        address = (broker.host, broker.port)
        clients = {one.fileno(): one for one in (socket.create_connection(address) for _ in range(_CONNECTIONS))}
        for descriptor in clients:
            ended.register(descriptor, select.EPOLLIN)
        assert broker.process is not None
        broker.process.kill()
        outcomes: Counter[int] = Counter()
        deadline = time.monotonic() + _DEADLINE_S
        while clients and time.monotonic() < deadline:
            for descriptor, _ in ended.poll(1, maxevents=1):
                clients.pop(descriptor).close()
                with socket.socket() as again:
                    outcomes[again.connect_ex(address)] += 1
        assert outcomes == {errno.ECONNREFUSED: _CONNECTIONS}
