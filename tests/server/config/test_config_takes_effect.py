"""A dynamic change takes effect at once on a running broker, seen by a client."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import odradek
import pytest
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.api_versions import ApiVersionsRequest
from odradek.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from odradek.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from odradek.server.config.broker_config import BrokerConfig
from odradek.server.network.connection_limits import ConnectionLimits

from compat_tests.wire import ConnectionClosed, WireClient

pytestmark = pytest.mark.usefixtures("sockets")

TOPIC, BROKER = 2, 4
_DEADLINE_S = 60


@pytest.fixture
def broker() -> Iterator[odradek.Broker]:
    with odradek.Broker() as running:
        yield running


def wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _DEADLINE_S
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def alter(client: WireClient, resource_type: int, name: str, **values: str | None) -> None:
    changes = [
        AlterableConfig(key.replace("_", "."), 0 if value is not None else 1, value) for key, value in values.items()
    ]
    resource = AlterConfigsResource(resource_type, name, changes)
    (result,) = client.call(IncrementalAlterConfigsRequest(resources=[resource]), 1).responses
    assert result.error_code == 0, result.error_message


def is_served(broker: odradek.Broker, address: str | None = None) -> bool:
    try:
        with WireClient(address or broker.bootstrap_servers) as client:
            return client.call(ApiVersionsRequest(), 0).error_code == 0
    except (ConnectionClosed, ConnectionRefusedError):
        return False


def test_fewer_connections_are_let_in_from_the_next_one_on(broker: odradek.Broker) -> None:
    with WireClient(broker.bootstrap_servers) as client:
        assert is_served(broker)
        for key in ("max_connections", "max_connections_per_ip"):
            alter(client, BROKER, "", **{key: "1"})
            assert not is_served(broker)
            alter(client, BROKER, "", **{key: None})
            assert is_served(broker)
        alter(client, BROKER, "", max_connections_per_ip="1", max_connections_per_ip_overrides="127.0.0.1:2")
        wait_until(lambda: is_served(broker))
        alter(client, BROKER, "", max_connections_per_ip_overrides=None)
        assert not is_served(broker)


def test_a_listener_may_have_a_limit_of_its_own(broker: odradek.Broker) -> None:
    with WireClient(broker.bootstrap_servers) as client:
        alter(client, BROKER, "", **{"listener.name.plaintext.max.connections": "1"})
        assert not is_served(broker)
        alter(client, BROKER, "", **{"listener.name.plaintext.max.connections": "2"})
        wait_until(lambda: is_served(broker))


def test_connections_beyond_the_rate_wait_their_turn_and_are_served(broker: odradek.Broker) -> None:
    with WireClient(broker.bootstrap_servers) as client:
        alter(client, BROKER, "", max_connection_creation_rate="10")
        began = time.monotonic()
        assert all(is_served(broker) for _ in range(6))
        assert time.monotonic() - began >= 0.4


def test_the_rate_of_connections_is_reckoned_from_when_the_last_was_due() -> None:
    limits = ConnectionLimits(BrokerConfig({"max.connection.creation.rate": "4"}))
    assert [limits.pause_s("PLAINTEXT", now) for now in (10.0, 10.0, 10.1, 20.0)] == [
        0.0,
        0.25,
        pytest.approx(0.4),
        0.0,
    ]
    assert ConnectionLimits(BrokerConfig()).pause_s("PLAINTEXT", 1.0) == 0.0


def test_logs_of_a_topic_follow_its_and_the_brokers_configs(broker: odradek.Broker) -> None:
    with WireClient(broker.bootstrap_servers) as client:
        topics = [CreatableTopic(name="t", num_partitions=2, replication_factor=1)]
        assert client.call(CreateTopicsRequest(topics=topics, timeout_ms=5000), 7).topics[0].error_code == 0

        def configs() -> set[tuple[int, int, int]]:
            partitions = (broker.server.partitions.hosted.get(("t", index)) for index in range(2))
            found = [partition.log.config for partition in partitions if partition is not None]
            assert len(found) == 2
            return {(config.retention_ms, config.segment_bytes, config.max_message_bytes) for config in found}

        alter(client, TOPIC, "t", retention_ms="5000")
        assert configs() == {(5000, 1 << 30, 1048588)}
        alter(client, BROKER, "", log_retention_ms="7000", message_max_bytes="2000")
        assert configs() == {(5000, 1 << 30, 2000)}
        alter(client, BROKER, "1", log_segment_bytes="2000000")
        assert configs() == {(5000, 2_000_000, 2000)}
        alter(client, TOPIC, "t", retention_ms=None)
        assert configs() == {(7000, 2_000_000, 2000)}


def test_dynamic_values_outlive_the_broker(tmp_path: Path) -> None:
    with odradek.Broker(data_dir=tmp_path) as broker, WireClient(broker.bootstrap_servers) as client:
        alter(client, BROKER, "", message_max_bytes="2000")
    with odradek.Broker(data_dir=tmp_path) as broker:
        assert broker.server.config.get("message.max.bytes") == 2000


def test_a_cordoned_log_directory_takes_no_new_partitions(tmp_path: Path) -> None:
    first, second = str(tmp_path / "first"), str(tmp_path / "second")
    with (
        odradek.Broker(config={"log.dirs": f"{first},{second}"}) as broker,
        WireClient(broker.bootstrap_servers) as client,
    ):

        def create(name: str) -> int:
            topics = [CreatableTopic(name=name, num_partitions=4, replication_factor=1)]
            error: int = client.call(CreateTopicsRequest(topics=topics, timeout_ms=5000), 7).topics[0].error_code
            return error

        def directories(name: str) -> set[str]:
            return {
                partition.log.log_directory for partition in broker.server.partitions.hosted if partition.topic == name
            }

        assert create("everywhere") == 0
        assert directories("everywhere") == {first, second}
        alter(client, BROKER, "1", cordoned_log_dirs=first)
        assert create("second.only") == 0
        assert directories("second.only") == {second}
        alter(client, BROKER, "1", cordoned_log_dirs="*")
        numbers = itertools.count()
        wait_until(lambda: create(f"nowhere-{next(numbers)}") == ErrorCode.INVALID_REPLICATION_FACTOR)
        alter(client, BROKER, "1", cordoned_log_dirs=None)
        wait_until(lambda: create("again") == 0)
        assert first in directories("again")


def test_listeners_open_and_close_while_the_broker_runs(tmp_path: Path) -> None:
    protocols = {"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SIDE:PLAINTEXT"}
    advertised = {"advertised.listeners": "PLAINTEXT://127.0.0.1:0"}
    with odradek.Broker(config={**protocols, **advertised}) as broker, WireClient(broker.bootstrap_servers) as client:
        main = f"PLAINTEXT://{broker.bootstrap_servers}"
        alter(client, BROKER, "1", listeners=f"{main},SIDE://127.0.0.1:0")
        side = next(listener for listener in broker.server.network.listeners if listener.name == "SIDE")
        wait_until(lambda: is_served(broker, side.endpoint.address))
        with WireClient(side.endpoint.address) as other:
            alter(client, BROKER, "1", listeners=None)
            with pytest.raises(ConnectionClosed):
                other.receive_frame()
        assert not is_served(broker, side.endpoint.address)
        assert is_served(broker)
        for bad in ("SIDE://127.0.0.1:0", f"{main},SSL://:1", "nonsense"):
            resource = AlterConfigsResource(BROKER, "1", [AlterableConfig("listeners", 0, bad)])
            (result,) = client.call(IncrementalAlterConfigsRequest(resources=[resource]), 1).responses
            assert result.error_code == ErrorCode.INVALID_REQUEST
