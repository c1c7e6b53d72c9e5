"""A console over TLS, for a cluster with SASL_SSL, an authorizer and client telemetry."""

from __future__ import annotations

import ssl
import urllib.error
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from odradek.admin.config_changes import alter_configs
from odradek.admin.connection import Connection
from odradek.client.properties import read_client_properties

from compat_tests.authorization.harness import STANDARD_AUTHORIZER
from compat_tests.broker_process import free_port
from compat_tests.console.process import DEADLINE_S, ConsoleProcess, Visitor
from compat_tests.odradek_process import OdradekProcess
from compat_tests.oracle import SINGLE_NODE
from compat_tests.recipes import eventually
from compat_tests.security.secured import PLAIN_USERS, jaas
from tests.server.harness.certificates import Authority, pem_properties


class Secured(NamedTuple):
    bootstrap: str
    directory: Path
    console: ConsoleProcess

    def visitor(self) -> Visitor:
        return Visitor(self.console.address, ssl.create_default_context(cafile=str(self.directory / "trusted.pem")))

    def client(self, user: str, **more: str) -> dict[str, Any]:
        return {
            "bootstrap.servers": self.bootstrap,
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(self.directory / "trusted.pem"),
            "sasl.mechanism": "PLAIN",
            "sasl.username": user,
            "sasl.password": PLAIN_USERS[user],
            **{name.replace("_", "."): value for name, value in more.items()},
        }


def properties_of(user: str, directory: Path) -> str:
    """Returns the client properties of a user, in the format of Kafka's tools."""
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    return (
        "security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\n"
        f"ssl.truststore.type=PEM\nssl.truststore.location={directory / 'trusted.pem'}\n"
        f'sasl.jaas.config={module} required username="{user}" password="{PLAIN_USERS[user]}";\n'
    )


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    directory, authority = tmp_path_factory.mktemp("secured-console"), Authority()
    secure, metrics = free_port(), free_port()
    properties = {
        **SINGLE_NODE,
        **STANDARD_AUTHORIZER,
        "allow.everyone.if.no.acl.found": "false",
        "super.users": "User:admin;User:ANONYMOUS",
        "listeners": f"SASL_SSL://127.0.0.1:{secure},PLAINTEXT://127.0.0.1:{free_port()}",
        "sasl.enabled.mechanisms": "PLAIN",
        "odradek.metrics.port": str(metrics),
        **jaas("sasl_ssl"),
        **pem_properties(authority.issue(name="node"), authority, directory),
    }
    file = directory / "client.properties"
    file.write_text(properties_of("admin", directory))
    certificate = str(authority.issue(name="console").pem(directory / "console.pem"))
    options = ("--command-config", str(file), "--tls-certificate", certificate, "--tls-key", certificate)
    with OdradekProcess(directory, properties):
        bootstrap = f"127.0.0.1:{secure}"
        console = ConsoleProcess(bootstrap, directory, *options, "--metrics", f"http://127.0.0.1:{metrics}/metrics")
        yield Secured(bootstrap, directory, console)
        console.stop()


def test_console_over_tls_serves_a_cluster_of_sasl_ssl(secured: Secured) -> None:
    assert secured.console.address.startswith("https://")
    visitor = secured.visitor()
    visitor.await_text("/", "1 running")
    visitor.get("/access")
    visitor.post("/topics", name="vault", partitions="1", replicas="1")
    assert "offset 0" in visitor.post("/topics/vault/messages", value="gold")
    visitor.await_text("/topics/vault/messages", "gold")
    fresh = secured.visitor()
    fresh.get("/topics")
    assert "secure" in fresh.headers["Set-Cookie"].lower()
    for address, context in (
        (secured.console.address, ssl.create_default_context()),
        (secured.console.address.replace("https://", "http://"), None),
    ):
        with pytest.raises((urllib.error.URLError, ConnectionError)):
            Visitor(address, context).get("/")


def test_rule_is_created_acts_and_is_deleted(secured: Secured) -> None:
    visitor = secured.visitor()
    visitor.get("/access")
    visitor.post("/topics", name="ledgers", partitions="1", replicas="1")
    alice = AdminClient(secured.client("alice"))

    def sees_the_topic() -> bool:
        return alice.list_topics("ledgers", timeout=DEADLINE_S).topics["ledgers"].error is None

    assert not sees_the_topic()
    rule = {"operation": "read", "permission": "allow", "resource": "topic", "name": "ledgers", "pattern": "literal"}
    assert "was created" in visitor.post("/access/acls", principal="alice", **rule)
    assert "ledgers" in visitor.await_text("/access", "Delete this ACL of User:alice?")
    eventually(sees_the_topic, what="alice sees the topic")
    assert "was deleted" in visitor.post("/access/acls/delete", principal="User:alice", **rule)
    visitor.await_text("/access", "No ACLs.")
    eventually(lambda: not sees_the_topic(), what="alice does not see the topic")
    noted = secured.console.audit_file.read_text()
    assert '"acl.create"' in noted and '"acl.delete"' in noted and "User:alice" in noted


def test_pushed_metrics_and_connections_are_shown(secured: Secured) -> None:
    visitor = secured.visitor()
    visitor.get("/access")
    visitor.post("/topics", name="measured", partitions="1", replicas="1")
    connection = Connection(
        read_client_properties(secured.directory / "client.properties") | {"bootstrap.servers": secured.bootstrap}
    )
    wanted = {"metrics": ("SET", "org.apache.kafka.producer.connection"), "interval.ms": ("SET", "300")}
    with connection.admin() as admin:
        alter_configs(admin, "client_metrics", "of-producers", wanted, dry_run=False)
    producer = Producer(secured.client("admin", client_id="seen-by-the-console"))

    def is_shown() -> bool:
        producer.produce("measured", b"x")
        producer.flush(1)
        return 'client_id="seen-by-the-console"' in visitor.get("/clients")

    eventually(is_shown, what="metrics of the producer are shown")
    page = visitor.get("/clients")
    assert "of-producers" in page and "org.apache.kafka.producer.connection" in page
    assert "kafka_client_producer_connection_creation" in page
    assert "kafka_server_socket_server_metrics_connection_count" in page
