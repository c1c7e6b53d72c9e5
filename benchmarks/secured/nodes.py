"""The two brokers of the comparison, each with a listener for every measured kind of security.

Both have the same certificates: keys on P-256, and mutual TLS. The clients of the loads are Python's own ssl.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path

from odradek.metadata.credentials import SCRAM_SHA_256, salted_password
from odradek.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    ScramCredentialUpsertion,
)

from compat_tests.broker_process import BrokerFailed, BrokerProcess, free_port
from compat_tests.wire import WireClient
from tests.server.harness.certificates import Authority, pem_properties

from ..brokers import MeasuredKafka, MeasuredOdradek

USER, PASSWORD = "alice", "alice-s3cret"
_SALT, _ITERATIONS = b"salt-of-the-benchmark", 4096
#: Listener name -> protocol.
LISTENERS = {"PLAINTEXT": "PLAINTEXT", "SSL": "SSL", "SASL": "SASL_PLAINTEXT", "SASL_SSL": "SASL_SSL"}
_SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required"
#: Attempts to start a broker on free ports.
STARTS = 4
STANDARD_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


@dataclass(frozen=True)
class Node:
    """A running broker, and the ports of its listeners."""

    broker: BrokerProcess
    ports: dict[str, int]

    @property
    def pid(self) -> int:
        return self.broker.pid

    def address(self, listener: str) -> tuple[str, int]:
        return "127.0.0.1", self.ports[listener]


class Certificates:
    """An authority, the stores of a node and the context of its clients, in a directory."""

    def __init__(self, directory: Path) -> None:
        self._authority = Authority()
        self.directory = directory
        directory.mkdir(parents=True, exist_ok=True)
        self.client = self._authority.issue(name="client").pem(directory / "client.pem")
        self.authority = self._authority.pem(directory / "authority.pem")

    def properties(self) -> dict[str, str]:
        return pem_properties(self._authority.issue(name="node"), self._authority, self.directory)

    def client_context(self) -> ssl.SSLContext:
        context = ssl.create_default_context(cadata=self._authority.pem_text)
        context.load_cert_chain(self.client)
        return context


def properties_of(ports: dict[str, int], certificates: Certificates, more: dict[str, str]) -> dict[str, str]:
    listeners = ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items())
    scram = f"{_SCRAM};"
    return {
        "listeners": listeners,
        "listener.security.protocol.map": ",".join(
            f"{name}:{kind}" for name, kind in (*LISTENERS.items(), ("CONTROLLER", "PLAINTEXT"))
        ),
        **certificates.properties(),
        "ssl.client.auth": "required",
        "sasl.enabled.mechanisms": "SCRAM-SHA-256",
        "listener.name.sasl.scram-sha-256.sasl.jaas.config": scram,
        "listener.name.sasl_ssl.scram-sha-256.sasl.jaas.config": scram,
        **more,
    }


def client_properties(certificates: Certificates, listener: str, *, of_java: bool) -> dict[str, str]:
    """Returns what a client needs for the listener SSL or SASL_SSL."""
    has_login = listener == "SASL_SSL"
    if of_java:
        login = f'{_SCRAM} username="{USER}" password="{PASSWORD}";'
        return {
            "security.protocol": listener,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(certificates.authority),
            **({} if has_login else {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(certificates.client)}),
            **({"sasl.mechanism": "SCRAM-SHA-256", "sasl.jaas.config": login} if has_login else {}),
        }
    pem = str(certificates.client)
    return {
        "security.protocol": listener,
        "ssl.ca.location": str(certificates.authority),
        **({} if has_login else {"ssl.certificate.location": pem, "ssl.key.location": pem}),
        **({"sasl.mechanisms": "SCRAM-SHA-256", "sasl.username": USER, "sasl.password": PASSWORD} if has_login else {}),
    }


def secured(directory: Path, certificates: Certificates, *, is_apache: bool, **more: str) -> Node:
    """Starts a broker. `more` are further properties, with "_" for "."."""
    for attempt in range(STARTS):
        try:
            return _started(directory / str(attempt), certificates, is_apache=is_apache, **more)
        except BrokerFailed as failed:
            # Other programs on the machine may have taken a free port meanwhile.
            if "Address already in use" not in str(failed) or attempt == STARTS - 1:
                raise
    raise AssertionError("the last attempt returns or raises")


def _started(directory: Path, certificates: Certificates, *, is_apache: bool, **more: str) -> Node:
    ports = {name: free_port() for name in LISTENERS}
    properties = properties_of(ports, certificates, {key.replace("_", "."): value for key, value in more.items()})
    broker: BrokerProcess = MeasuredKafka(directory) if is_apache else MeasuredOdradek(directory)
    if is_apache:
        controller = free_port()
        properties["advertised.listeners"] = properties["listeners"]
        properties["listeners"] += f",CONTROLLER://127.0.0.1:{controller}"
        properties["controller.quorum.bootstrap.servers"] = f"127.0.0.1:{controller}"
    broker.properties.update(properties)
    broker.port = ports["PLAINTEXT"]
    broker.start()
    return Node(broker, ports)


def add_user(node: Node) -> None:
    """Adds the user for logins to the node."""
    salted = salted_password(SCRAM_SHA_256, PASSWORD, _SALT, _ITERATIONS)
    request = AlterUserScramCredentialsRequest(
        upsertions=[ScramCredentialUpsertion(USER, SCRAM_SHA_256.code, _ITERATIONS, _SALT, salted)]
    )
    with WireClient(node.broker.bootstrap) as client:
        response: AlterUserScramCredentialsResponse = client.call(request, 0)
    assert [one.error_code for one in response.results] == [0], response
