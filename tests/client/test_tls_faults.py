"""Certificates that one side does not take: each reason comes at once, from both kinds of connections."""

from __future__ import annotations

import contextlib
import datetime
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator

import pytest
import trustme
from odradek.client.blocking import BlockingConnection
from odradek.client.cluster import Address, Cluster
from odradek.client.errors import LoginRejected
from odradek.client.sasl import PasswordLogin
from odradek.protocol.messages.describe_cluster import DescribeClusterRequest

pytestmark = pytest.mark.usefixtures("sockets")
LIMIT_S = 1.0
LOGIN = PasswordLogin("PLAIN", "ann", "secret")
YESTERDAY = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=1)


@contextlib.contextmanager
def port(certificate: trustme.LeafCert, clients: trustme.CA | None = None) -> Iterator[Address]:
    """A port with this certificate. It takes only clients with a certificate of `clients`, if it is given."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificate.configure_cert(context)
    if clients is not None:
        clients.configure_trust(context)
        context.verify_mode = ssl.CERT_REQUIRED
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    accepted, _ = server.accept()
                    with (
                        accepted,
                        contextlib.suppress(OSError),
                        context.wrap_socket(accepted, server_side=True) as secured,
                    ):
                        secured.recv(1024)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield Address("127.0.0.1", server.getsockname()[1])
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join()


def by_cluster(address: Address, context: ssl.SSLContext) -> None:
    cluster = Cluster([address], "test", 20.0, tls=lambda _, host: {"ssl": context, "server_hostname": host})
    try:
        cluster.ask(DescribeClusterRequest())
    finally:
        cluster.close()


def by_blocking_connection(address: Address, context: ssl.SSLContext) -> None:
    BlockingConnection(address[:2], "test", 20.0, context, LOGIN)


@pytest.mark.parametrize("connect", [by_cluster, by_blocking_connection])
@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("other host", "its certificate is not trusted: .*mismatch"),
        ("expired", "its certificate is not trusted: certificate has expired"),
        ("other authority", "its certificate is not trusted: "),
        ("no certificate of the client", "TLS failed: it requires a certificate, .*CERTIFICATE_REQUIRED"),
    ],
)
def test_reason_comes_at_once(kind: str, words: str, connect: Callable[[Address, ssl.SSLContext], None]) -> None:
    authority, other = trustme.CA(), trustme.CA()
    certificate = (
        authority.issue_cert("127.0.0.1", not_after=YESTERDAY)
        if kind == "expired"
        else authority.issue_cert("other.example" if kind == "other host" else "127.0.0.1")
    )
    context = ssl.create_default_context()
    (other if kind == "other authority" else authority).configure_trust(context)
    with port(certificate, other if kind.startswith("no certificate") else None) as address:
        began = time.monotonic()
        with pytest.raises(LoginRejected, match=f"127.0.0.1:{address.port}: {words}"):
            connect(address, context)
        assert time.monotonic() - began < LIMIT_S
