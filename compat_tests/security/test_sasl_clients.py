"""Stock clients log in with all mechanisms that they support, write and read; wrong passwords fail as such."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer

from compat_tests.java.tool import ToolHost
from compat_tests.recipes import eventually
from compat_tests.security.round_trips import through_aiokafka, through_kafka_python, through_librdkafka
from compat_tests.security.secured import PLAIN_USERS, SCRAM_USERS, SESSION_MS, Secured

USERS = {
    "PLAIN": ("alice", PLAIN_USERS["alice"]),
    "SCRAM-SHA-256": ("sam", SCRAM_USERS["sam"]),
    "SCRAM-SHA-512": ("comma,equals=", SCRAM_USERS["comma,equals="]),
}
MODULES = {"PLAIN": "plain.PlainLoginModule"}
ConfigFile = Callable[[str, str, str], str]


@pytest.fixture
def config_file(tmp_path: Path) -> ConfigFile:
    """Writes the properties of a Java client that logs in; returns the path."""

    def write(mechanism: str, user: str, password: str) -> str:
        module = MODULES.get(mechanism, "scram.ScramLoginModule")
        path = tmp_path / "client.properties"
        path.write_text(
            f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism={mechanism}\n"
            f"sasl.jaas.config=org.apache.kafka.common.security.{module} required "
            f'username="{user}" password="{password}";\n'
        )
        return str(path)

    return write


@pytest.mark.parametrize("mechanism", USERS)
def test_librdkafka(mechanism: str, secured: Secured, topic: str) -> None:
    user, password = USERS[mechanism]
    login = {
        "bootstrap.servers": secured.at("SASL"),
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.username": user,
        "sasl.password": password,
    }
    through_librdkafka(topic, login)


@pytest.mark.parametrize("mechanism", USERS)
def test_librdkafka_learns_that_its_password_is_wrong(mechanism: str, secured: Secured) -> None:
    errors: list[KafkaError] = []
    producer = Producer(
        {
            "bootstrap.servers": secured.at("SASL"),
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": mechanism,
            "sasl.username": USERS[mechanism][0],
            "sasl.password": "wrong",
            "error_cb": errors.append,
            "log_level": 0,
        }
    )
    with pytest.raises(KafkaException):
        producer.list_topics(timeout=1.5)

    def has_learned() -> bool:
        producer.poll(0.1)
        return KafkaError._AUTHENTICATION in {error.code() for error in errors}

    eventually(has_learned, what="the client learns why")


@pytest.mark.parametrize("mechanism", USERS)
def test_kafka_python(mechanism: str, secured: Secured, topic: str) -> None:
    # kafka-python does not escape names (RFC 5802, section 5.1).
    user, password = USERS[mechanism] if mechanism == "PLAIN" else ("sam", SCRAM_USERS["sam"])
    login = {
        "bootstrap_servers": secured.at("SASL"),
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
        "sasl_plain_username": user,
        "sasl_plain_password": password,
    }
    through_kafka_python(topic, **login)


@pytest.mark.parametrize("mechanism", USERS)
async def test_aiokafka(mechanism: str, secured: Secured, topic: str) -> None:
    user, password = USERS[mechanism]
    login = {
        "bootstrap_servers": secured.at("SASL"),
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
        "sasl_plain_username": user,
        "sasl_plain_password": password,
    }
    await through_aiokafka(topic, **login)


@pytest.mark.oracle
@pytest.mark.parametrize("mechanism", USERS)
def test_java_console_clients(
    mechanism: str, secured: Secured, tools: ToolHost, topic: str, config_file: ConfigFile
) -> None:
    config, at = config_file(mechanism, *USERS[mechanism]), secured.at("SASL")
    tools.run(
        "org.apache.kafka.tools.ConsoleProducer",
        *("--bootstrap-server", at, "--topic", topic, "--command-config", config),
        stdin="java\n",
    ).checked()
    read = tools.run(
        "org.apache.kafka.tools.consumer.ConsoleConsumer",
        *("--bootstrap-server", at, "--topic", topic, "--command-config", config),
        *("--from-beginning", "--max-messages", "1", "--timeout-ms", "30000"),
    ).checked()
    assert read.out.strip() == "java"


@pytest.mark.oracle
@pytest.mark.parametrize("mechanism", USERS)
def test_java_client_learns_that_its_password_is_wrong(
    mechanism: str, secured: Secured, tools: ToolHost, config_file: ConfigFile
) -> None:
    config = config_file(mechanism, USERS[mechanism][0], "wrong")
    reported = tools.run(
        "org.apache.kafka.tools.TopicCommand",
        *("--bootstrap-server", secured.at("SASL"), "--list", "--command-config", config),
    )
    assert reported.status != 0
    assert "Authentication failed" in reported.out + reported.err


@pytest.mark.oracle
def test_java_client_renews_its_session(secured: Secured, tools: ToolHost, topic: str, config_file: ConfigFile) -> None:
    per_second = 10
    count = per_second * SESSION_MS * 3 // 2 // 1000  # for one and a half sessions
    reported = tools.run(
        "org.apache.kafka.tools.VerifiableProducer",
        *("--bootstrap-server", secured.at("SESSIONS"), "--topic", topic),
        *("--max-messages", str(count), "--throughput", str(per_second)),
        *("--command-config", config_file("SCRAM-SHA-512", *USERS["SCRAM-SHA-512"])),
    ).checked()
    assert reported.out.count("producer_send_success") == count
    assert "session has expired" not in secured.broker.log_file.read_text()


@pytest.mark.oracle
def test_kafka_configs_manages_scram_users(secured: Secured, tools: ToolHost, config_file: ConfigFile) -> None:
    config = config_file("PLAIN", *USERS["PLAIN"])

    def configs(*words: str) -> str:
        command = ("--bootstrap-server", secured.at("SASL"), "--command-config", config)
        return tools.run("kafka.admin.ConfigCommand", *command, *words).checked().out

    user = ("--entity-type", "users", "--entity-name", "carol")
    configs("--alter", *user, "--add-config", "SCRAM-SHA-256=[iterations=8192,password=carol-secret-1]")
    assert re.search(r"user-principal 'carol'.*SCRAM-SHA-256=iterations=8192", configs("--describe", *user))
    config = config_file("SCRAM-SHA-256", "carol", "carol-secret-1")
    assert "carol" in configs("--describe", "--entity-type", "users")
    config = config_file("PLAIN", *USERS["PLAIN"])
    configs("--alter", *user, "--delete-config", "SCRAM-SHA-256")
    assert "SCRAM" not in configs("--describe", *user)
