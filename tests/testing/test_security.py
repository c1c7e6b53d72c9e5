"""`odradek.Broker(security=...)` and `odradek.Cluster(..., security=...)`: only stock clients with credentials connect."""

from __future__ import annotations

import json
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import aiokafka
import odradek
import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from kafka import KafkaConsumer, KafkaProducer
from odradek.protocol.messages.metadata import MetadataRequest

from compat_tests.wire import WireClient

DEADLINE_S = 60
USERS = {"ann": "ann's secret", "bob": "bob-secret"}
EVERY = {
    "tls": "tls",
    "mtls": "mtls",
    "scram": "scram",
    "plain": "plain",
    "scram-plaintext": odradek.Security("SASL_PLAINTEXT", "SCRAM-SHA-256", users=USERS),
    "scram-mtls": odradek.Security(users=USERS, client_certificates=True),
}


@pytest.fixture(scope="module", params=EVERY)
def secured(sockets: None, request: pytest.FixtureRequest) -> Iterator[odradek.Broker]:
    with odradek.Broker(security=EVERY[request.param]) as broker:
        yield broker


def produce(settings: dict[str, str], topic: str = "orders") -> str:
    """Returns the error of a delivery, or "" on success."""
    reported: list[KafkaError | None] = []
    producer = Producer({**settings, "message.timeout.ms": 50_000, "log_level": 0})
    producer.produce(topic, b"order", on_delivery=lambda error, _: reported.append(error))
    producer.flush(DEADLINE_S)
    return "".join(error.name() for error in reported if error is not None)


async def test_kafka_python_aiokafka_and_confluent_kafka_work_with_their_settings(secured: odradek.Broker) -> None:
    secured.reset()
    for user in secured.users:
        producer = KafkaProducer(**secured.client_settings("kafka-python", user))
        producer.send("orders", b"kafka-python").get(DEADLINE_S)
        producer.close()
        async with aiokafka.AIOKafkaProducer(**secured.client_settings("aiokafka", user)) as sender:
            await sender.send_and_wait("orders", b"aiokafka")
        assert produce(secured.client_settings("confluent-kafka", user)) == ""
        read = {"group.id": user, "auto.offset.reset": "earliest"}
        consumer = Consumer({**secured.client_settings("confluent-kafka", user), **read})
        consumer.subscribe(["orders"])
        assert [one.value() for one in consumer.consume(3, DEADLINE_S)] == [b"kafka-python", b"aiokafka", b"order"]
        consumer.close()
        secured.reset()


def test_records_are_sent_and_seen_without_a_client(secured: odradek.Broker) -> None:
    secured.reset()
    assert secured.topic("sent").send(b"one", b"two").result == 0
    assert [one.value for one in secured.topic("sent").wait_for(records=2)] == [b"one", b"two"]


def test_client_without_the_security_of_the_broker_is_refused(secured: odradek.Broker) -> None:
    with (
        WireClient(secured.bootstrap_servers, timeout=DEADLINE_S) as client,
        pytest.raises((ConnectionError, EOFError)),
    ):
        client.call(MetadataRequest(topics=None), 9)


@pytest.mark.usefixtures("sockets")
@pytest.mark.parametrize("name", ["scram", "plain"])
def test_wrong_password_is_refused(name: str) -> None:
    with odradek.Broker(security=name) as broker:
        errors: list[KafkaError] = []
        wrong = {"sasl.password": "wrong", "error_cb": errors.append, "log_level": 0}
        client = Producer({**broker.client_settings("confluent-kafka"), **wrong})
        deadline = time.monotonic() + DEADLINE_S
        while KafkaError._AUTHENTICATION not in {error.code() for error in errors}:
            assert time.monotonic() < deadline, errors
            client.poll(0.1)


@pytest.mark.usefixtures("sockets")
def test_client_without_a_certificate_is_refused() -> None:
    with odradek.Broker(security="mtls") as broker:
        settings = broker.client_settings("confluent-kafka")
        without = {key: value for key, value in settings.items() if key not in _CERTIFICATE}
        with pytest.raises(KafkaException):
            AdminClient({**without, "log_level": 0}).list_topics(timeout=2)
        assert AdminClient(settings).list_topics(timeout=DEADLINE_S).brokers


_CERTIFICATE = ("ssl.certificate.location", "ssl.key.location")


@pytest.mark.usefixtures("sockets")
@pytest.mark.parametrize("protocol", ["SSL", "SASL_SSL"])
def test_access_rules_act_on_users_and_end_with_a_reset(protocol: str) -> None:
    security = odradek.Security(protocol, users=USERS, client_certificates=True, authorizer=True)
    with odradek.Broker(security=security) as broker:
        ann, bob = (broker.client_settings("confluent-kafka", user) for user in USERS)
        assert produce(ann) == ""
        assert produce(bob) == "TOPIC_AUTHORIZATION_FAILED"
        admin = AdminClient(ann)
        rule = ("orders", ResourcePatternType.LITERAL, "User:bob", "*", AclOperation.WRITE, AclPermissionType.ALLOW)
        for done in admin.create_acls([AclBinding(ResourceType.TOPIC, *rule)]).values():
            done.result(DEADLINE_S)
        assert produce(bob) == ""
        broker.reset()
        every = (None, ResourcePatternType.ANY, None, None, AclOperation.ANY, AclPermissionType.ANY)
        assert admin.describe_acls(AclBindingFilter(ResourceType.ANY, *every)).result(DEADLINE_S) == []
        assert produce(ann) == ""
        assert produce(bob) == "TOPIC_AUTHORIZATION_FAILED"


@pytest.mark.usefixtures("sockets")
def test_reset_forgets_users_of_a_test_and_keeps_those_of_the_broker() -> None:
    with odradek.Broker(security="scram") as broker:
        settings = broker.client_settings("confluent-kafka")
        _add_scram_user(settings, "carol")
        assert ("carol", 2) in broker.server.node.metadata.image.scram
        broker.reset()
        assert set(broker.server.node.metadata.image.scram) == {("admin", 2)}
        assert produce(settings) == ""


def _add_scram_user(settings: dict[str, str], name: str) -> None:
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
    admin = AdminClient(settings)
    changes = admin.alter_user_scram_credentials([UserScramCredentialUpsertion(name, info, b"secret")])
    for done in changes.values():
        done.result(DEADLINE_S)


@pytest.mark.usefixtures("sockets")
def test_kept_data_gets_the_users_of_each_start(tmp_path: Path) -> None:
    for password in ("first", "second"):
        security = odradek.Security(users={"ann": password})
        with odradek.Broker(data_dir=tmp_path, security=security) as broker:
            assert produce(broker.client_settings("confluent-kafka")) == ""
            broker.restart()
            assert produce(broker.client_settings("confluent-kafka")) == ""
    with odradek.Broker(data_dir=tmp_path) as broker:
        assert len(broker.topic("orders").values()) == 4


@pytest.mark.usefixtures("sockets")
def test_snapshot_of_an_open_broker_is_restored_with_users(tmp_path: Path) -> None:
    with odradek.Broker() as broker:
        broker.topic("orders").send(b"saved")
        broker.save(tmp_path / "saved")
    with odradek.Broker(security="scram") as broker:
        broker.restore(tmp_path / "saved")
        assert produce(broker.client_settings("confluent-kafka")) == ""
        assert broker.topic("orders").values() == [b"saved", b"order"]


@pytest.mark.usefixtures("sockets")
async def test_broker_in_the_loop_of_its_user_is_secured() -> None:
    async with odradek.Broker(security="scram") as broker:
        sender = aiokafka.AIOKafkaProducer(**broker.client_settings("aiokafka"))
        await sender.start()
        await sender.send_and_wait("orders", b"order 1")
        await sender.stop()


@pytest.mark.usefixtures("sockets")
@pytest.mark.parametrize("name", ["scram", "mtls"])
def test_cluster_is_secured_between_its_brokers_and_goes_on_when_one_dies(name: str) -> None:
    with odradek.Cluster(brokers=3, security=name) as cluster:
        settings = cluster.client_settings("confluent-kafka")
        cluster.topic("orders").create(partitions=3)
        assert produce({**settings, "acks": "all"}) == ""
        for server in cluster.servers.values():
            protocols = server.config.listeners.protocols
            assert {protocols["INTERNAL"], protocols["CONTROLLER"]} == {"SSL"}
            assert {one.name for one in server.network.listeners} == {
                "INTERNAL",
                "CONTROLLER",
                settings["security.protocol"],
            }
        killed = cluster.controller
        cluster.kill(killed)
        assert produce({**settings, "acks": "all"}) == ""
        cluster.restart(killed)
        consumer = KafkaConsumer("orders", **cluster.client_settings("kafka-python"), auto_offset_reset="earliest")
        assert [next(consumer).value for _ in range(2)] == [b"order"] * 2
        consumer.close()
        cluster.reset()
        assert produce(settings) == ""


@pytest.mark.usefixtures("sockets")
def test_files_of_clients_are_private_and_end_with_the_broker() -> None:
    with odradek.Broker(security=odradek.Security(users=USERS, client_certificates=True)) as broker:
        folder = broker.ca_file.parent
        open_to_others = stat.S_IRWXG | stat.S_IRWXO
        assert folder.stat().st_mode & open_to_others == 0
        secret = [*folder.glob("*.key"), *folder.glob("*.pem"), *folder.glob("*.properties")]
        assert len(secret) == 7
        assert all(file.stat().st_mode & open_to_others == 0 for file in secret if file != broker.ca_file)
        assert broker.client_properties_file("bob").read_text().count("bob") >= 2
        assert "ann's secret" not in repr(broker.server.config.values)
    assert not folder.exists()


def test_unsecured_broker_gives_its_address_under_the_name_of_each_library(broker: odradek.Broker) -> None:
    assert broker.client_settings("aiokafka") == {"bootstrap_servers": broker.bootstrap_servers}
    assert broker.client_properties == {"bootstrap.servers": broker.bootstrap_servers}
    assert broker.users == {}
    with pytest.raises(RuntimeError, match="has no security"):
        broker.ca_file  # noqa: B018
    with pytest.raises(ValueError, match="'sarama' is not one of java, kafka-python"):
        broker.client_settings("sarama")


@pytest.mark.parametrize(
    ("security", "words"),
    [
        ("ssl", "security 'ssl' is not one of tls, mtls, scram, plain"),
        (7, "an odradek.Security, not int"),
        (odradek.Security("PLAINTEXT"), "'PLAINTEXT' is not SSL, SASL_SSL or SASL_PLAINTEXT"),  # type: ignore[arg-type]
        (odradek.Security(mechanism="GSSAPI"), "'GSSAPI' is not one of PLAIN"),  # type: ignore[arg-type]
        (odradek.Security("SASL_PLAINTEXT", client_certificates=True), "certificates only with TLS"),
        (odradek.Security(users={}), "no users"),
        (odradek.Security(users={"a,b": "c"}), "user 'a,b'"),
        (odradek.Security(users={"a": 'x"y'}), "password of user 'a'"),
    ],
)
def test_security_that_cannot_be_is_refused_before_anything_starts(security: object, words: str) -> None:
    with pytest.raises(odradek.InvalidConfig, match=words):
        odradek.Broker(security=security).start()  # type: ignore[arg-type]


def test_listeners_and_security_are_not_given_together() -> None:
    with pytest.raises(odradek.InvalidConfig, match="listeners in config"):
        odradek.Broker(security="tls", config={"listeners": "PLAINTEXT://127.0.0.1:0"}).start()


@pytest.mark.usefixtures("processes")
def test_program_for_other_languages_prints_settings_of_clients() -> None:
    command = [sys.executable, "-m", "odradek.testing", "--security", "scram"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdin is not None
        reported = json.loads(process.stdout.readline())
        properties = reported["client_properties"]
        producer = KafkaProducer(
            bootstrap_servers=reported["bootstrap_servers"],
            security_protocol=properties["security.protocol"],
            sasl_mechanism=properties["sasl.mechanism"],
            sasl_plain_username="admin",
            sasl_plain_password=reported["users"]["admin"],
            ssl_cafile=properties["ssl.truststore.location"],
        )
        producer.send("orders", b"order").get(DEADLINE_S)
        producer.close()
        process.stdin.close()
        assert process.wait(DEADLINE_S) == 0
