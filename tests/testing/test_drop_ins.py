"""Drop-ins for testcontainers' KafkaContainer and for pytest-kafka: existing suites run after a changed import."""

from __future__ import annotations

from pathlib import Path

import odradek
import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from odradek.testing.testcontainers import KafkaContainer, Network, RedpandaContainer, kafka_config

from tests.testing.harness.pytest_runs import pytest_of

pytestmark = pytest.mark.usefixtures("sockets")

#: The example of pytest-kafka's README with a changed import.
PYTEST_KAFKA = """
from pathlib import Path

from kafka import KafkaProducer
from odradek.testing.pytest_kafka import make_kafka_consumer, make_kafka_server, make_zookeeper_process, terminate

ROOT = Path(__file__).parent
KAFKA_SCRIPTS = ROOT / "kafka/bin/"
KAFKA_BIN = str(KAFKA_SCRIPTS / "kafka-server-start.sh")
ZOOKEEPER_BIN = str(KAFKA_SCRIPTS / "zookeeper-server-start.sh")

zookeeper_proc = make_zookeeper_process(ZOOKEEPER_BIN, teardown_fn=terminate)
kafka_server = make_kafka_server(KAFKA_BIN, "zookeeper_proc", teardown_fn=terminate)
kafka_consumer = make_kafka_consumer("kafka_server", seek_to_beginning=True, kafka_topics=["topic"])


def test_message(kafka_server, kafka_consumer):
    process, port = kafka_server
    producer = KafkaProducer(bootstrap_servers=f"localhost:{port}")
    producer.send("topic", b"hello").get(timeout=60)
    producer.close()
    assert process.poll() is None
    kafka_consumer.config["consumer_timeout_ms"] = 10_000
    assert next(kafka_consumer).value == b"hello"
"""


def test_a_container_serves_as_testcontainers_does() -> None:
    with KafkaContainer(image="confluentinc/cp-kafka:7.6.0").with_kraft().with_env("KAFKA_NUM_PARTITIONS", 3) as kafka:
        address = kafka.get_bootstrap_server()
        assert address == f"{kafka.get_container_host_ip()}:{kafka.get_exposed_port(9093)}"
        producer = KafkaProducer(bootstrap_servers=address)
        producer.send("orders", b"order 1").get(timeout=60)
        producer.close()
        assert set(kafka.broker.topic("orders").end_offsets) == {0, 1, 2}
    with pytest.raises(RuntimeError, match="is not running"):
        kafka.get_bootstrap_server()


def test_a_container_ignores_the_addresses_of_images_and_starts_and_stops_by_hand() -> None:
    kafka = KafkaContainer().with_env("KAFKA_LISTENERS", "PLAINTEXT://0.0.0.0:9093").with_env("CLUSTER_ID", "x")
    kafka.with_exposed_ports(9093).with_name("kafka").with_network("any")
    kafka.start()
    first = kafka.get_bootstrap_server()
    kafka.stop()
    assert kafka.start().get_bootstrap_server() and first
    kafka.stop()
    kafka.stop()
    with pytest.raises(odradek.InvalidConfig):
        KafkaContainer().with_env("KAFKA_NUM_PARTITIONS", "many").start()


def test_a_network_and_the_settings_of_the_module_have_no_effect(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_config, "limit_broker_to_first_host", True)
    kafka = KafkaContainer(port=9888)
    assert (kafka.port, kafka.kraft_enabled, kafka.with_kraft().kraft_enabled) == (9888, False, True)
    with Network() as network, kafka.with_network(network).with_network_aliases("kafka"):
        admin = KafkaAdminClient(bootstrap_servers=kafka.get_bootstrap_server())
        assert [broker["broker_id"] for broker in admin.describe_cluster()["brokers"]] == [1]
        admin.close()


def test_a_container_of_redpanda_has_a_schema_registry() -> None:
    with RedpandaContainer(image="docker.redpanda.com/redpandadata/redpanda:v23.3.10") as redpanda:
        address = redpanda.get_schema_registry_address()
        assert address == f"http://{redpanda.get_container_host_ip()}:{redpanda.get_exposed_port(8081)}"
        registry = SchemaRegistryClient({"url": address})
        registry.register_schema("orders-value", Schema('{"type": "string"}', "AVRO"))
        assert registry.get_subjects() == ["orders-value"]
        with KafkaConsumer(bootstrap_servers=redpanda.get_bootstrap_server()) as consumer:
            assert consumer.topics() == set()


@pytest.mark.usefixtures("processes")
def test_a_suite_of_pytest_kafka_runs(tmp_path: Path) -> None:
    text = pytest_of(tmp_path, PYTEST_KAFKA, "-q")
    assert "1 passed" in text, text
