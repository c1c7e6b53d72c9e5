"""In place of `testcontainers.kafka`, its KafkaContainer and RedpandaContainer: change the import, and no Docker is needed.

    from odradek.testing.testcontainers import KafkaContainer

    with KafkaContainer() as kafka:
        producer = KafkaProducer(bootstrap_servers=kafka.get_bootstrap_server())

A container runs an `odradek.Broker` in the test's process, which is `kafka.broker`. That of RedpandaContainer has a schema
registry. Features of containers (images, networks, volumes) are accepted and ignored; `exec` and `get_wrapped_container`
are not there. `kafka_config` and `Network` stand for those of testcontainers, and have no effect.
"""

from __future__ import annotations

import secrets
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

from ..metadata.configs import broker_key
from .broker import Broker

_PREFIX = "KAFKA_"
#: Properties that the test kit's broker sets itself: its addresses, and its part in a quorum.
_OWN = (
    "listener",
    "advertised.",
    "inter.broker",
    "process.roles",
    "node.id",
    "broker.id",
    "controller.",
    "zookeeper.",
    "log.dir",
)


class _Config:
    """The settings of testcontainers' Kafka module."""

    limit_broker_to_first_host = False


kafka_config = _Config()


class Network:
    """A network of containers. Brokers of one process need none."""

    def __init__(self, *arguments: object, **kwargs: object) -> None:
        self.id = secrets.token_hex(16)
        self.name = f"odradek-{self.id[:8]}"

    def create(self) -> Self:
        return self

    def remove(self) -> None:
        pass

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass


class _BrokerContainer:
    """The methods that both classes have. `image` and other options that describe a container have no effect."""

    _has_registry = False

    def __init__(self, image: str, *arguments: object, **kwargs: object) -> None:
        self.image = image
        self.env: dict[str, str] = {}
        self._host_port = 0
        self._broker: Broker | None = None

    @property
    def broker(self) -> Broker:
        """The running broker, with its faults, clock and records. Raises RuntimeError before the start."""
        if self._broker is None:
            raise RuntimeError("this container is not running: call start(), or enter it with `with`")
        return self._broker

    def start(self, timeout: float = 30) -> Self:
        """Starts the broker. Raises odradek.InvalidConfig for a property that is refused."""
        self._broker = Broker(port=self._host_port, config=self._properties(), schema_registry=self._has_registry)
        self._broker.start()
        return self

    def stop(self, force: bool = True, delete_volume: bool = True) -> None:
        """Stops the broker and removes its data."""
        if self._broker is not None:
            broker, self._broker = self._broker, None
            broker.stop()

    def get_bootstrap_server(self) -> str:
        return self.broker.bootstrap_servers

    def get_container_host_ip(self) -> str:
        return self.broker.bootstrap_servers.rpartition(":")[0]

    def get_exposed_port(self, port: int) -> int:
        """Returns the port of the broker, whatever port of a container is meant."""
        return int(self.broker.bootstrap_servers.rpartition(":")[2])

    def with_env(self, key: str, value: object) -> Self:
        """Sets a property by the name that the images use: KAFKA_AUTO_CREATE_TOPICS_ENABLE."""
        self.env[key] = str(value)
        return self

    def with_envs(self, **variables: str) -> Self:
        for key, value in variables.items():
            self.with_env(key, value)
        return self

    def with_bind_ports(self, container: object, host: int | str | None = None) -> Self:
        """Has the broker listen on a port of the host."""
        self._host_port = int(host) if host is not None else 0
        return self

    def _ignored(self, *arguments: object, **kwargs: object) -> Self:
        return self

    with_exposed_ports = with_name = with_network = with_network_aliases = with_kwargs = with_command = _ignored
    with_volume_mapping = with_tmpfs_mount = waiting_for = maybe_emulate_amd64 = _ignored

    def _properties(self) -> dict[str, str]:
        found = {}
        for key, value in self.env.items():
            name = key.removeprefix(_PREFIX).lower().replace("_", ".")
            if key.startswith(_PREFIX) and broker_key(name) is not None and not name.startswith(_OWN):
                found[name] = value
        return found

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


class KafkaContainer(_BrokerContainer):
    """A broker with the methods of testcontainers' class. `port` has no effect: the broker takes a free one."""

    def __init__(
        self, image: str = "confluentinc/cp-kafka:7.6.0", port: int = 9093, *arguments: object, **kwargs: object
    ) -> None:
        super().__init__(image, *arguments, **kwargs)
        self.port = port
        self.kraft_enabled = False

    def with_kraft(self) -> Self:
        """Notes the wish for KRaft, which the broker has in any case."""
        self.kraft_enabled = True
        return self

    def with_cluster_id(self, cluster_id: str) -> Self:
        return self


class RedpandaContainer(_BrokerContainer):
    """A broker with a schema registry, and the methods of testcontainers' class. Needs the extra `odradek[registry]`."""

    _has_registry = True

    def __init__(
        self, image: str = "docker.redpanda.com/redpandadata/redpanda:v23.1.13", *arguments: object, **kwargs: object
    ) -> None:
        super().__init__(image, *arguments, **kwargs)
        self.redpanda_port = 9092
        self.schema_registry_port = 8081

    def get_exposed_port(self, port: int) -> int:
        """Returns the port of the schema registry for `schema_registry_port`, and that of the broker for any other."""
        if port == self.schema_registry_port:
            return urlsplit(self.broker.schema_registry_url).port or 0
        return super().get_exposed_port(port)

    def get_schema_registry_address(self) -> str:
        return self.broker.schema_registry_url
