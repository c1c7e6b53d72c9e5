"""Clusters whose brokers and controllers connect to each other over mutual TLS."""

from __future__ import annotations

from compat_tests.broker_process import free_port
from tests.server.harness.certificates import Authority, Identity, pem_properties
from tests.server.harness.cluster_process import ClusterNode


def secure(node: ClusterNode, identity: Identity, authority: Authority) -> None:
    """Gives an unformatted node its key, and TLS on the listeners between nodes. Clients use no TLS."""
    node.properties["listeners"] += f",INTERNAL://127.0.0.1:{free_port()}"
    node.properties |= {
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,INTERNAL:SSL,CONTROLLER:SSL",
        "inter.broker.listener.name": "INTERNAL",
        "ssl.client.auth": "required",
        **pem_properties(identity, authority, node.directory / "tls"),
    }
