"""Java clients and librdkafka push their metrics as set with `kafka-client-metrics.sh`, and Prometheus scrapes them."""

from __future__ import annotations

import re
import urllib.request
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer

from compat_tests.broker_process import free_port
from compat_tests.java.tool import ToolHost, run_tool
from compat_tests.odradek_process import OdradekProcess
from compat_tests.oracle import SINGLE_NODE
from compat_tests.recipes import eventually, make_topic

_TOOL = "org.apache.kafka.tools.ClientMetricsCommand"
_LINE = re.compile(r"^(?P<name>kafka_client_\w+)\{(?P<labels>.*)\} (?P<value>\S+)$", re.MULTILINE)


class Telemetry:
    """A broker with telemetry, and the metrics that it exposes."""

    def __init__(self, broker: OdradekProcess, metrics_port: int) -> None:
        self.bootstrap = broker.bootstrap
        self._url = f"http://127.0.0.1:{metrics_port}/metrics"

    def names(self, *labels: str) -> set[str]:
        """Returns the names of the series whose labels contain all these."""
        with urllib.request.urlopen(self._url, timeout=60) as response:
            text = response.read().decode()
        return {line["name"] for line in _LINE.finditer(text) if all(one in line["labels"] for one in labels)}


@pytest.fixture(scope="module")
def telemetry(java_tools: None, tools: ToolHost, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Telemetry]:
    port = free_port()
    properties = {**SINGLE_NODE, "odradek.metrics.port": str(port)}
    with OdradekProcess(tmp_path_factory.mktemp("telemetry"), properties) as broker:
        subscribe = ("--alter", "--name", "all", "--metrics", "*", "--interval", "300", "--match", "client_id=shown-.*")
        tools.run(_TOOL, "--bootstrap-server", broker.bootstrap, *subscribe).checked()
        make_topic(broker.bootstrap, "measured")
        yield Telemetry(broker, port)


def test_a_java_producer_is_measured_without_touching_it(telemetry: Telemetry) -> None:
    arguments = ("--topic", "measured", "--num-records", "2000", "--record-size", "100", "--throughput", "1000")
    reported = (f"bootstrap.servers={telemetry.bootstrap}", "client.id=shown-java-producer")
    run_tool("org.apache.kafka.tools.ProducerPerformance", *arguments, "--command-property", *reported).checked()
    shown = telemetry.names('client_id="shown-java-producer"', 'client_software_name="apache-kafka-java"')
    assert {
        "kafka_client_producer_node_request_latency_avg",
        "kafka_client_producer_connection_creation_total",
    } <= shown


def test_a_java_consumer_shows_its_lag(telemetry: Telemetry) -> None:
    reported = (
        f"bootstrap.servers={telemetry.bootstrap}",
        "client.id=shown-java-consumer",
        "auto.offset.reset=earliest",
    )
    arguments = ("--bootstrap-server", telemetry.bootstrap, "--topic", "measured")
    timeouts_s = iter((2, 4, 8, 16, 32))
    properties = [word for one in reported for word in ("--command-property", one)]

    def is_shown() -> bool:
        # The client ends so long after the last record, or after its start if it has not joined its group by then.
        timeout = ("--timeout-ms", str(1000 * next(timeouts_s)))
        run_tool("org.apache.kafka.tools.consumer.ConsoleConsumer", *arguments, *timeout, *properties)
        shown = telemetry.names('client_id="shown-java-consumer"')
        return "kafka_client_consumer_fetch_manager_records_lag_max" in shown

    eventually(is_shown, what="the consumer's lag is shown", deadline_s=120)


def test_librdkafka_is_measured(telemetry: Telemetry) -> None:
    producer = Producer({"bootstrap.servers": telemetry.bootstrap, "client.id": "shown-rdkafka-producer"})

    def is_shown() -> bool:
        producer.produce("measured", b"x")
        producer.flush(1)
        return "kafka_client_producer_node_request_latency_avg" in telemetry.names('client_id="shown-rdkafka-producer"')

    eventually(is_shown, what="the producer's latency is shown")


def test_a_consumer_of_librdkafka_is_measured(telemetry: Telemetry) -> None:
    consumer = Consumer(
        {"bootstrap.servers": telemetry.bootstrap, "client.id": "shown-rdkafka-consumer", "group.id": "measured",
         "auto.offset.reset": "earliest"}
    )  # fmt: skip
    consumer.subscribe(["measured"])

    def is_shown() -> bool:
        consumer.poll(0.1)
        return bool(telemetry.names('client_id="shown-rdkafka-consumer"', 'client_software_name="'))

    eventually(is_shown, what="metrics of the consumer are shown")
    consumer.close()


def test_clients_without_a_subscription_are_not_shown(telemetry: Telemetry) -> None:
    assert not telemetry.names('client_id="perf') and not telemetry.names('client_id=""')
    assert all(telemetry.names(f'client_id="{one}') == set() for one in ("console", "rdkafka", "producer-"))
