"""The broker's configuration: defaults, properties files, and changes at runtime."""

from __future__ import annotations

import logging

import pytest
from odradek.metadata.delta import MetadataDelta
from odradek.metadata.image import EMPTY_IMAGE, MetadataImage
from odradek.protocol.internal.cluster_metadata import ConfigRecord
from odradek.server.config.broker_config import BrokerConfig, InvalidConfig

BROKER, TOPIC = 4, 2

#: The server.properties that ships with Apache Kafka, without its comments.
SHIPPED = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.quorum.bootstrap.servers": "localhost:9093",
    "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
    "inter.broker.listener.name": "PLAINTEXT",
    "advertised.listeners": "PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
    "num.network.threads": "3",
    "num.io.threads": "8",
    "log.dirs": "/tmp/kraft-combined-logs",
    "num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "log.retention.hours": "168",
}


def published(config: BrokerConfig, image: MetadataImage, *changes: tuple[int, str, str, str | None]) -> MetadataImage:
    """Publishes ConfigRecords (type, resource, key, value) to `config`. Returns the new image."""
    delta = MetadataDelta(image)
    for resource_type, resource, name, value in changes:
        delta.replay(ConfigRecord(resource_type=resource_type, resource_name=resource, name=name, value=value))
    after = delta.apply(image.offset + len(changes), 1, 0)
    config.apply(delta, after)
    return after


# Defaults.


def test_with_nothing_said_it_is_a_single_node_on_the_local_host() -> None:
    config = BrokerConfig()
    assert config.node_id == config.get("broker.id") == 1
    assert config.get("process.roles") == ("broker", "controller")
    (listener,) = config.listeners.brokers
    assert (listener.name, listener.host, listener.port) == ("PLAINTEXT", "127.0.0.1", 9092)
    assert config.listeners.advertised == config.listeners.brokers
    assert config.listeners.controllers == ()
    assert config.get("offsets.topic.replication.factor") == 1
    assert config.get("transaction.state.log.min.isr") == 1


def test_the_server_properties_that_kafka_ships_are_taken_as_they_are(caplog: pytest.LogCaptureFixture) -> None:
    config = BrokerConfig(SHIPPED)
    assert [e.name for e in config.listeners.brokers] == ["PLAINTEXT"]
    assert [(e.name, e.port) for e in config.listeners.controllers] == [("CONTROLLER", 9093)]
    assert [(e.host, e.port) for e in config.listeners.advertised] == [("localhost", 9092)]
    assert config.log_dirs == ["/tmp/kraft-combined-logs"]
    assert config.metadata_log_dir == "/tmp/kraft-combined-logs"
    assert config.topic_defaults["retention.ms"] == 168 * 3_600_000
    assert "not known" not in caplog.text


def test_a_node_of_a_cluster_keeps_kafkas_replication_factors() -> None:
    quorum = {"node.id": "1", "controller.quorum.voters": "1@a:9093,2@b:9093,3@c:9093"}
    assert BrokerConfig(quorum).get("offsets.topic.replication.factor") == 3
    alone = {"node.id": "1", "controller.quorum.voters": "1@a:9093"}
    assert BrokerConfig(alone).get("offsets.topic.replication.factor") == 1
    said = {**alone, "offsets.topic.replication.factor": "2"}
    assert BrokerConfig(said).get("offsets.topic.replication.factor") == 2


def test_the_old_name_of_the_node_id_is_understood() -> None:
    assert BrokerConfig({"broker.id": "7"}).node_id == 7


# Errors and their advice.


@pytest.mark.parametrize(
    ("words", "properties"),
    [
        ("log.segment.bytes: Value must be at least", {"log.segment.bytes": "1"}),
        ("'9092' is not NAME://host:port", {"listeners": "9092"}),
        ("must be from 0", {"listeners": "PLAINTEXT://h:65536"}),
        ("a unique name", {"listeners": "PLAINTEXT://h:1,PLAINTEXT://h:2"}),
        ("add INTERNAL:PLAINTEXT to listener.security.protocol.map", {"listeners": "INTERNAL://h:1"}),
        ("Invalid security protocol `TLS`", {"listener.security.protocol.map": "PLAINTEXT:TLS"}),
        ("is not NAME:PROTOCOL", {"listener.security.protocol.map": "PLAINTEXT"}),
        ("Set advertised.listeners to", {"listeners": "PLAINTEXT://0.0.0.0:9092"}),
        ("Set advertised.listeners to", {"advertised.listeners": "PLAINTEXT://0.0.0.0:9092"}),
        ("equal to or a subset of", {"advertised.listeners": "PLAINTEXT://h:1,SASL_SSL://h:2"}),
        ("must be a listener name defined in advertised", {"inter.broker.listener.name": "SSL"}),
        ("not found in listener.security.protocol.map", {"inter.broker.listener.name": "X"}),
        ("Perhaps all listeners appear in controller", {"controller.listener.names": "PLAINTEXT"}),
        ("must only contain KRaft controller listeners", {"process.roles": "controller"}),
        ("String must be one of: broker, controller", {"process.roles": "broker,zookeeper"}),
    ],
)
def test_properties_that_no_broker_can_have_are_refused_with_advice(words: str, properties: dict[str, str]) -> None:
    with pytest.raises(InvalidConfig, match=words):
        if words == "equal to or a subset of":
            properties = {**properties, "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL_SSL:PLAINTEXT"}
        BrokerConfig(properties)


def test_only_one_way_to_name_the_listener_among_brokers() -> None:
    properties = {"inter.broker.listener.name": "PLAINTEXT", "security.inter.broker.protocol": "PLAINTEXT"}
    with pytest.raises(InvalidConfig, match="Only one of"):
        BrokerConfig(properties)


# Listeners.


def listeners(text: str, **others: str) -> BrokerConfig:
    names = {entry.partition("://")[0] for entry in text.split(",")}
    protocols = ",".join(f"{name}:PLAINTEXT" for name in names | {"PLAINTEXT"})
    return BrokerConfig({"listeners": text, "listener.security.protocol.map": protocols, **others})


def test_several_listeners_and_ipv6_addresses_are_read() -> None:
    config = listeners("PLAINTEXT://127.0.0.1:0,six://[::1]:0,ANY://:9094", **{"inter.broker.listener.name": "ANY"})
    found = [(e.name, e.host, e.port) for e in config.listeners.brokers]
    assert found == [("PLAINTEXT", "127.0.0.1", 0), ("SIX", "::1", 0), ("ANY", "", 9094)]
    assert config.listeners.inter_broker_name == "ANY"


def test_only_ipv4_and_ipv6_listeners_share_a_port() -> None:
    assert len(listeners("PLAINTEXT://127.0.0.1:9092,B://[::1]:9092").listeners.brokers) == 2
    for same in ("PLAINTEXT://127.0.0.1:9092,B://127.0.0.2:9092", "PLAINTEXT://:9092,B://[::1]:9092"):
        with pytest.raises(InvalidConfig, match="port 9092 is named by"):
            listeners(same)


# Keys without effect.


def test_a_key_without_effect_says_so_when_it_is_set(caplog: pytest.LogCaptureFixture) -> None:
    BrokerConfig({"num.io.threads": "4", "num.network.threads": "2", "metric.reporters": "x", "log.retention.ms": "5"})
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == 2
    assert any(
        "configuration keys without effect: num.io.threads, num.network.threads, because" in line for line in lines
    )
    assert any("metric.reporters" in line for line in lines)
    assert "log.retention.ms" not in caplog.text


def test_unknown_property_is_named_and_kept(caplog: pytest.LogCaptureFixture) -> None:
    config = BrokerConfig({"num.partition": "4"})
    assert "num.partition" in caplog.text
    assert config.get("num.partition") == "4"


def test_a_key_that_does_not_exist_is_a_bug() -> None:
    with pytest.raises(KeyError):
        BrokerConfig().get("no.such.key")


# Changes at runtime.


def test_dynamic_change_is_visible_and_notifies_subscribers() -> None:
    config = BrokerConfig()
    reported: list[frozenset[str]] = []
    config.subscribe(reported.append)
    image = published(config, EMPTY_IMAGE, (BROKER, "", "message.max.bytes", "5"))
    assert config.get("message.max.bytes") == 5
    assert config.topic_defaults["max.message.bytes"] == 5
    image = published(config, image, (BROKER, "1", "message.max.bytes", "6"))
    assert config.get("message.max.bytes") == 6
    image = published(config, image, (BROKER, "1", "message.max.bytes", None))
    assert config.get("message.max.bytes") == 5
    published(config, image, (BROKER, "", "message.max.bytes", None))
    assert config.get("message.max.bytes") == 1048588
    assert reported == [frozenset({"message.max.bytes"})] * 4


def test_configs_of_other_brokers_and_topics_are_ignored() -> None:
    config = BrokerConfig()
    config.subscribe(lambda names: pytest.fail(f"told of {names}"))
    published(config, EMPTY_IMAGE, (BROKER, "2", "message.max.bytes", "5"), (TOPIC, "t", "max.message.bytes", "4"))
    assert config.get("message.max.bytes") == 1048588


def test_a_stored_value_that_cannot_be_used_is_ignored_with_a_line(caplog: pytest.LogCaptureFixture) -> None:
    config = BrokerConfig({"message.max.bytes": "7"})
    published(config, EMPTY_IMAGE, (BROKER, "1", "message.max.bytes", "x"), (BROKER, "1", "log.dirs", "/x"))
    assert config.get("message.max.bytes") == 7
    assert config.log_dirs == ["/tmp/kafka-logs"]
    errors = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert sorted(error.split()[4] for error in errors) == ["log.dirs", "message.max.bytes"]


def test_a_dynamic_key_without_effect_says_so(caplog: pytest.LogCaptureFixture) -> None:
    published(BrokerConfig(), EMPTY_IMAGE, (BROKER, "", "num.io.threads", "9"))
    assert "configuration keys without effect: num.io.threads" in caplog.text


# Topics.


def test_the_log_of_a_topic_obeys_the_topic_and_under_it_the_broker() -> None:
    plain = BrokerConfig(
        {"log.retention.minutes": "2", "log.cleanup.policy": "compact", "log.segment.bytes": "2000000"}
    )
    config = plain.topic_log_config({"segment.bytes": "3000000", "cleanup.policy": "compact,delete"})
    assert config.segment_bytes == 3_000_000
    assert config.retention_ms == 120_000
    assert (config.compact, config.delete) == (True, True)
    assert plain.topic_log_config({}).compact
    assert not plain.topic_log_config({}).delete


def test_the_defaults_of_logs_are_those_of_storage_itself() -> None:
    from odradek.storage.log.config import LogConfig

    assert BrokerConfig().topic_log_config({}) == LogConfig()


def test_topics_that_set_nothing_share_one_log_configuration() -> None:
    config = BrokerConfig()
    assert config.topic_log_config({}) is config.topic_log_config({})


def test_the_test_only_segment_size_has_no_lower_bound() -> None:
    assert BrokerConfig().topic_log_config({"internal.segment.bytes": "100"}).segment_bytes == 100


def test_a_changed_default_of_the_broker_reaches_its_topics() -> None:
    config = BrokerConfig()
    published(config, EMPTY_IMAGE, (BROKER, "", "log.retention.ms", "9"))
    assert config.topic_log_config({}).retention_ms == 9
    assert config.topic_log_config({"retention.ms": "8"}).retention_ms == 8
