"""Stock clients over SSL and SASL_SSL, with Java's formats of stores, on Odradek and on Apache Kafka."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from aiokafka.helpers import create_ssl_context
from confluent_kafka import Consumer, Producer

from compat_tests.broker_process import BrokerProcess, free_port
from compat_tests.java.tool import ToolHost
from compat_tests.odradek_process import OdradekProcess
from compat_tests.oracle import SINGLE_NODE, ApacheKafka
from compat_tests.security.keytool import keytool
from compat_tests.security.round_trips import DEADLINE_S, through_aiokafka, through_kafka_python
from compat_tests.security.secured import PLAIN_USERS, jaas
from tests.server.harness.certificates import PASSWORD, Authority, Identity

#: Listener to the format of its stores, made by Java's keytool.
FORMS = {"PEMS": "PEM", "PKCS": "PKCS12", "JAVA": "JKS"}


class Stores:
    """An authority and an identity, in stores of every format."""

    def __init__(self, directory: Path, authority: Authority, identity: Identity) -> None:
        self._directory = directory
        directory.mkdir()
        self.key_pem = str(identity.pem(directory / "key.pem"))
        self.trusted_pem = str(authority.pem(directory / "trusted.pem"))
        identity.pkcs12(directory / "source.p12")
        for form in ("PKCS12", "JKS"):
            key, trusted = (str(directory / f"{name}.{form}") for name in ("key", "trusted"))
            source = (
                "-srckeystore",
                str(directory / "source.p12"),
                "-srcstoretype",
                "PKCS12",
                "-srcstorepass",
                PASSWORD,
            )
            keytool(
                "-importkeystore", *source, "-destkeystore", key, "-deststoretype", form, "-deststorepass", PASSWORD
            )
            store = ("-keystore", trusted, "-storetype", form, "-storepass", PASSWORD)
            keytool("-importcert", "-noprompt", "-alias", "authority", "-file", self.trusted_pem, *store)

    def properties(self, form: str) -> dict[str, str]:
        key, trusted = (
            (self.key_pem, self.trusted_pem)
            if form == "PEM"
            else (str(self._directory / f"key.{form}"), str(self._directory / f"trusted.{form}"))
        )
        found = {
            "ssl.keystore.type": form,
            "ssl.keystore.location": key,
            "ssl.truststore.type": form,
            "ssl.truststore.location": trusted,
        }
        passwords = {"ssl.keystore.password": PASSWORD, "ssl.truststore.password": PASSWORD}
        return found if form == "PEM" else found | passwords


class TlsBroker:
    """A broker with a listener for each format of stores, which requests certificates, and one with SASL_SSL."""

    def __init__(self, kind: type[BrokerProcess], directory: Path) -> None:
        self.authority = Authority()
        node = self.authority.issue("localhost", "127.0.0.1", name="node")
        stores = Stores(directory / "stores", self.authority, node)
        self.client = Stores(directory / "client", self.authority, self.authority.issue("alice.example", name="alice"))
        self.ports = {name: free_port() for name in ("PLAINTEXT", *FORMS, "LOGIN")}
        protocols = dict.fromkeys(FORMS, "SSL") | {"LOGIN": "SASL_SSL", "PLAINTEXT": "PLAINTEXT"}
        protocols["CONTROLLER"] = "PLAINTEXT"
        listeners = ",".join(f"{name}://127.0.0.1:{port}" for name, port in self.ports.items())
        properties = {
            **SINGLE_NODE,
            "auto.create.topics.enable": "true",
            "listeners": listeners,
            "listener.security.protocol.map": ",".join(f"{name}:{protocol}" for name, protocol in protocols.items()),
            "ssl.client.auth": "required",
            "ssl.principal.mapping.rules": "RULE:^CN=([^,]*),.*$/$1/,DEFAULT",
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.login.plain.sasl.jaas.config": jaas("login")["listener.name.login.plain.sasl.jaas.config"],
        }
        for name, form in {**FORMS, "LOGIN": "JKS"}.items():
            prefix = f"listener.name.{name.lower()}."
            properties |= {prefix + key: value for key, value in stores.properties(form).items()}
        if kind is ApacheKafka:
            controller = free_port()
            properties["listeners"] = f"{listeners},CONTROLLER://127.0.0.1:{controller}"
            properties["advertised.listeners"] = listeners
            properties["controller.quorum.bootstrap.servers"] = f"127.0.0.1:{controller}"
        self.broker = kind(directory, properties)

    def __enter__(self) -> TlsBroker:
        self.broker.port = self.ports["PLAINTEXT"]
        self.broker.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.broker.kill()

    def at(self, listener: str) -> str:
        return f"127.0.0.1:{self.ports[listener]}"


@pytest.fixture(scope="module")
def tls(
    request: pytest.FixtureRequest, java_tools: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[TlsBroker]:
    kind = ApacheKafka if request.config.getoption("--target") == "apache" else OdradekProcess
    with TlsBroker(kind, tmp_path_factory.mktemp("tls")) as running:
        yield running


@pytest.mark.parametrize("listener", FORMS)
def test_java_with_stores_of_each_form(listener: str, tls: TlsBroker, tools: ToolHost, tmp_path: Path) -> None:
    config = tmp_path / "client.properties"
    lines = {"security.protocol": "SSL", **tls.client.properties(FORMS[listener])}
    config.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
    topic, server = f"java-{listener.lower()}", tls.at(listener)
    producer = ("--bootstrap-server", server, "--topic", topic, "--command-config", str(config))
    tools.run("org.apache.kafka.tools.ConsoleProducer", *producer, stdin="one\ntwo\n").checked()
    consumer = (*producer, "--from-beginning", "--max-messages", "2", "--timeout-ms", "30000")
    assert tools.run("org.apache.kafka.tools.consumer.ConsoleConsumer", *consumer).checked().out == "one\ntwo\n"


def test_librdkafka(tls: TlsBroker) -> None:
    options = {
        "bootstrap.servers": tls.at("PKCS"),
        "security.protocol": "SSL",
        "ssl.ca.location": tls.client.trusted_pem,
        "ssl.certificate.location": tls.client.key_pem,
        "ssl.key.location": tls.client.key_pem,
    }
    producer = Producer(options)
    values = [b"%d" % number * 1000 for number in range(3000)]
    for value in values:
        producer.produce("librdkafka", value)
    assert producer.flush(DEADLINE_S) == 0
    consumer = Consumer({**options, "group.id": "g", "auto.offset.reset": "earliest"})
    consumer.subscribe(["librdkafka"])
    found: list[bytes | None] = []
    while len(found) < len(values):
        messages = consumer.consume(500, DEADLINE_S)
        assert messages
        found += [message.value() for message in messages]
    assert found == values
    consumer.close()


def test_kafka_python(tls: TlsBroker) -> None:
    options = {
        "bootstrap_servers": tls.at("JAVA"),
        "security_protocol": "SSL",
        "ssl_cafile": tls.client.trusted_pem,
        "ssl_certfile": tls.client.key_pem,
    }
    through_kafka_python("kafka-python", **options)


async def test_aiokafka(tls: TlsBroker) -> None:
    context = create_ssl_context(cafile=tls.client.trusted_pem, certfile=tls.client.key_pem)
    options = {"bootstrap_servers": tls.at("PEMS"), "security_protocol": "SSL", "ssl_context": context}
    await through_aiokafka("aiokafka", **options)


def test_librdkafka_logs_in_over_sasl_ssl_without_a_certificate(tls: TlsBroker) -> None:
    """`ssl.client.auth` without the listener's prefix has no effect on SASL_SSL (KIP-684)."""
    options = {
        "bootstrap.servers": tls.at("LOGIN"),
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": tls.client.trusted_pem,
        "sasl.mechanism": "PLAIN",
        "sasl.username": "alice",
        "sasl.password": PLAIN_USERS["alice"],
    }
    producer = Producer(options)
    producer.produce("sasl-ssl", b"value")
    assert producer.flush(DEADLINE_S) == 0


def test_java_logs_in_over_sasl_ssl(tls: TlsBroker, tools: ToolHost, tmp_path: Path) -> None:
    config = tmp_path / "client.properties"
    lines = {
        "security.protocol": "SASL_SSL",
        **tls.client.properties("JKS"),
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": "org.apache.kafka.common.security.plain.PlainLoginModule required "
        f'username="alice" password="{PLAIN_USERS["alice"]}";',
    }
    config.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
    listing = ("--bootstrap-server", tls.at("LOGIN"), "--command-config", str(config), "--list")
    tools.run("org.apache.kafka.tools.TopicCommand", *listing).checked()
