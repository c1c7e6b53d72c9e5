"""SASL over TLS: stock clients and nodes log in with it."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from aiokafka import AIOKafkaProducer
from confluent_kafka import Consumer, Producer
from kafka import KafkaProducer

from compat_tests.broker_process import free_port
from compat_tests.java.tool import ToolHost
from compat_tests.odradek_process import OdradekProcess
from compat_tests.oracle import SINGLE_NODE
from compat_tests.security.secured import PLAIN_USERS, SCRAM_USERS, jaas, upsertions
from compat_tests.wire import WireClient
from tests.server.harness.certificates import Authority, pem_properties

DEADLINE_S = 60


class Encrypted(NamedTuple):
    bootstrap: str
    authority: Path


@pytest.fixture(scope="module")
def encrypted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Encrypted]:
    directory, authority = tmp_path_factory.mktemp("sasl-ssl"), Authority()
    secure, plain = free_port(), free_port()
    properties = {
        **SINGLE_NODE,
        "listeners": f"SASL_SSL://127.0.0.1:{secure},PLAINTEXT://127.0.0.1:{plain}",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
        **jaas("sasl_ssl"),
        **pem_properties(authority.issue(name="node"), authority, directory),
    }
    with OdradekProcess(directory, properties):
        with WireClient(f"127.0.0.1:{plain}") as client:
            client.call(upsertions(2, SCRAM_USERS), 0)
        yield Encrypted(f"127.0.0.1:{secure}", directory / "trusted.pem")


def test_librdkafka(encrypted: Encrypted, topic: str) -> None:
    login = {
        "bootstrap.servers": encrypted.bootstrap,
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": str(encrypted.authority),
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "sam",
        "sasl.password": SCRAM_USERS["sam"],
    }
    producer = Producer(login)
    producer.produce(topic, b"librdkafka" * 20_000)
    assert producer.flush(DEADLINE_S) == 0
    consumer = Consumer({**login, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    message = consumer.poll(DEADLINE_S)
    assert message is not None
    assert message.value() == b"librdkafka" * 20_000
    consumer.close()


def test_kafka_python(encrypted: Encrypted, topic: str) -> None:
    producer = KafkaProducer(
        bootstrap_servers=encrypted.bootstrap,
        security_protocol="SASL_SSL",
        ssl_cafile=str(encrypted.authority),
        sasl_mechanism="PLAIN",
        sasl_plain_username="alice",
        sasl_plain_password=PLAIN_USERS["alice"],
    )
    producer.send(topic, b"kafka-python").get(DEADLINE_S)
    producer.close()


async def test_aiokafka(encrypted: Encrypted, topic: str) -> None:
    producer = AIOKafkaProducer(
        bootstrap_servers=encrypted.bootstrap,
        security_protocol="SASL_SSL",
        ssl_context=ssl.create_default_context(cafile=str(encrypted.authority)),
        sasl_mechanism="SCRAM-SHA-512",
        sasl_plain_username="sam",
        sasl_plain_password=SCRAM_USERS["sam"],
    )
    async with producer:
        await producer.send_and_wait(topic, b"aiokafka")


@pytest.mark.oracle
def test_java(encrypted: Encrypted, tools: ToolHost, topic: str, tmp_path: Path) -> None:
    config = tmp_path / "client.properties"
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    config.write_text(
        "security.protocol=SASL_SSL\nsasl.mechanism=SCRAM-SHA-512\n"
        f"ssl.truststore.type=PEM\nssl.truststore.location={encrypted.authority}\n"
        f'sasl.jaas.config={module} required username="sam" password="{SCRAM_USERS["sam"]}";\n'
    )
    tools.run(
        "org.apache.kafka.tools.ConsoleProducer",
        *("--bootstrap-server", encrypted.bootstrap, "--topic", topic, "--command-config", str(config)),
        stdin="java\n",
    ).checked()
