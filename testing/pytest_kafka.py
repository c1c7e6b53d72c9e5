"""In place of `pytest_kafka`: change the import, and neither Kafka nor ZooKeeper nor Java is needed.

    from odradek.testing.pytest_kafka import make_kafka_consumer, make_kafka_server, make_zookeeper_process

Paths, templates and functions for the end of processes are taken and ignored. A server's fixture is (process, port) as
there; the process is a stand-in whose `terminate` stops the broker, and whose `broker` is the `odradek.Broker`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Literal

import pytest

from .broker import Broker

if TYPE_CHECKING:
    from kafka import KafkaConsumer


Scope = Literal["session", "package", "module", "class", "function"]

KAFKA_SERVER_CONFIG_TEMPLATE = ZOOKEEPER_CONFIG_TEMPLATE = ""
DEFAULT_CONSUMER_TIMEOUT_MS = 500


class BrokerProcess:
    """A broker where the original has a process."""

    def __init__(self, broker: Broker | None) -> None:
        self.broker = broker

    def poll(self) -> int | None:
        """Returns None while the broker runs."""
        return None if self.broker is None or self.broker.is_running else 0

    def terminate(self) -> None:
        if self.broker is not None:
            self.broker.stop()

    kill = terminate

    def wait(self, timeout: float | None = None) -> int:
        return 0


def terminate(process: BrokerProcess, *arguments: object, **kwargs: object) -> None:
    process.terminate()


def make_zookeeper_process(*arguments: object, scope: Scope = "function", **kwargs: object) -> Callable[..., object]:
    """Makes a fixture that stands for ZooKeeper, which there is none of: (process, port 0)."""

    @pytest.fixture(scope=scope)
    def zookeeper_process() -> tuple[BrokerProcess, int]:
        """No ZooKeeper: the broker has its own controller."""
        return BrokerProcess(None), 0

    return zookeeper_process


def make_kafka_server(
    *arguments: object, kafka_port: int | None = None, scope: Scope = "function", **kwargs: object
) -> Callable[..., object]:
    """Makes a fixture that starts a broker: (process, port)."""

    @pytest.fixture(scope=scope)
    def kafka_server() -> Iterator[tuple[BrokerProcess, int]]:
        """An odradek.Broker, as (process, port)."""
        with Broker(port=kafka_port or 0) as broker:
            yield BrokerProcess(broker), int(broker.bootstrap_servers.rpartition(":")[2])

    return kafka_server


def make_kafka_consumer(
    kafka_fixture_name: str,
    kafka_topics: list[str] | None = None,
    seek_to_beginning: bool = False,
    scope: Scope = "function",
    **consumer_kwargs: object,
) -> Callable[..., object]:
    """Makes a fixture with a kafka-python consumer of the server of another fixture."""

    @pytest.fixture(scope=scope)
    def kafka_consumer(request: pytest.FixtureRequest) -> Iterator[KafkaConsumer]:
        """A kafka.KafkaConsumer."""
        from kafka import KafkaConsumer

        _, port = request.getfixturevalue(kafka_fixture_name)
        settings = {
            "bootstrap_servers": f"127.0.0.1:{port}",
            "consumer_timeout_ms": DEFAULT_CONSUMER_TIMEOUT_MS,
            **({"auto_offset_reset": "earliest"} if seek_to_beginning else {}),
            **consumer_kwargs,
        }
        consumer = KafkaConsumer(*(kafka_topics or []), **settings)
        yield consumer
        consumer.close()

    return kafka_consumer
