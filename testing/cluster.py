"""`odradek.Cluster`: several brokers inside the process that uses them, as one cluster.

They replicate to each other over real sockets, and share one loop: a thread's, or the user's::

    with odradek.Cluster(brokers=3) as cluster:
        producer = KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, acks="all")
        cluster.kill(2)
        cluster.restart(2)

    async with odradek.Cluster(brokers=3) as cluster:
        await cluster.kill(2)
"""

from __future__ import annotations

import socket
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, ClassVar, Self

from ..metadata.configs import InvalidConfig
from ..server.access.provisioning import INTERNAL, NODE_NAME
from .broker_run import EmbeddedRun, temporary_path
from .embedded import EMBEDDED_DEFAULTS, Embedded, as_text
from .leadership import leader_of, move_leader
from .polling import reached
from .secured_run import hosts_of

if TYPE_CHECKING:
    from ..server.access.provisioning import Security
    from ..server.broker import BrokerServer
    from .completion import Completion
    from .embedded import ConfigValue
    from .faults.fault import Fault
    from .secured_run import SecuredRun

_HOST = "127.0.0.1"
#: Every node of a small cluster votes; of a larger one three do, as a quorum of three survives the death of one.
MOST_CONTROLLERS = 3
MOST_BROKERS = 50
#: With another protocol of the listener, the nodes have names that only its users know.
_PROTOCOLS = "listener.security.protocol.map"
#: Sessions of brokers in one process may be short: a test need not wait as long as machines may be silent.
CLUSTER_DEFAULTS = {
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.election.timeout.ms": "100",
    "controller.quorum.election.backoff.max.ms": "20",
    "controller.quorum.fetch.timeout.ms": "1000",
    "broker.heartbeat.interval.ms": "200",
    "broker.session.timeout.ms": "1500",
    "replica.lag.time.max.ms": "3000",
}


class Cluster(Embedded):
    """Brokers with ids from 1, of which the first three are controllers too.

    `data_dir`: the data directory; by default a temporary folder that is removed when the cluster stops. `config`:
    Kafka's broker properties for every broker, over the defaults: topics have three replicas and accept writes while two of
    them run. `security`: how clients connect, as for `Broker`; the brokers then connect to each other with mutual TLS.
    `schema_registry`: also serve a schema registry, at `schema_registry_url`.

    A start raises `odradek.InvalidConfig` for an invalid property, and RuntimeError while the cluster runs.
    """

    noun: ClassVar[str] = "cluster"

    def __init__(
        self,
        brokers: int = 3,
        *,
        data_dir: str | Path | None = None,
        config: Mapping[str, ConfigValue] | None = None,
        security: str | Security | None = None,
        schema_registry: bool = False,
    ) -> None:
        super().__init__(security, schema_registry=schema_registry)
        if not 1 <= brokers <= MOST_BROKERS:
            raise ValueError(f"a cluster has 1 to {MOST_BROKERS} brokers, not {brokers}")
        self._count = brokers
        self._data_dir = Path(data_dir) if data_dir is not None else None
        self._config = {key: as_text(value) for key, value in (config or {}).items()}
        self._held: list[socket.socket] = []

    # Properties.

    @property
    def servers(self) -> dict[int, BrokerServer]:
        """The running brokers by id, for tests that look inside."""
        return dict(self._here().servers)

    @property
    def broker_ids(self) -> list[int]:
        """The ids of the brokers that run."""
        return sorted(self._here().servers)

    def leader(self, topic: str, partition: int = 0) -> int:
        """Returns the id of the broker that leads a partition, -1 without one, by the broker whose metadata is the newest.
        Raises KeyError for an unknown partition.
        """
        newest = max(self._here().servers.values(), key=lambda server: server.node.metadata.image.offset)
        return leader_of(newest, topic, partition)

    @property
    def controller(self) -> int:
        """The id of the active controller; -1 while there is none."""
        servers = self._here().servers
        return next((node_id for node_id, server in servers.items() if server.controller.driver.is_active), -1)

    # Faults.

    def kill(self, node_id: int) -> Completion[None]:
        """Kills a broker, as SIGKILL does. Returns when other brokers lead its partitions."""
        run = self._here()
        self._check(node_id)

        async def kill() -> None:
            await run.kill(node_id)
            if run.servers:
                await self._taken_over(run, node_id)

        return self._do("kill()", kill)

    def restart(self, node_id: int) -> Completion[None]:
        """Stops a broker, unless it was killed, and starts it again on its port and its data."""
        run = self._here()
        if node_id not in run.configs:
            raise KeyError(f"this cluster has brokers {sorted(run.configs)}, not {node_id}")
        return self._do("restart()", lambda: run.restart(node_id))

    def move_leader(self, topic: str, partition: int = 0, *, to: int) -> Completion[None]:
        """Makes a replica the leader. Raises ValueError for a broker that has no replica in sync."""
        run = self._here()

        async def move() -> None:
            await move_leader(await run.active_controller(), topic, partition, to)
            await reached(
                lambda: all(leader_of(server, topic, partition) == to for server in run.servers.values()),
                f"the leadership of broker {to} over {topic}-{partition}",
            )

        return self._do("move_leader()", move)

    def pause(self, node_id: int) -> Fault:
        """Pauses a broker for clients until the fault is cancelled; other brokers still reach it."""
        self._check(node_id)
        return self.faults.pause(node_id=node_id)

    def isolate(self, node_id: int) -> Isolation:
        """Cuts a broker off from clients and from all other brokers, until `heal()` or the end of the context."""
        self._check(node_id)
        return Isolation(self, node_id)

    def _check(self, node_id: int) -> None:
        running = self.broker_ids
        if node_id not in running:
            raise KeyError(f"broker {node_id} does not run; running brokers: {running}")

    async def _taken_over(self, run: EmbeddedRun, node_id: int) -> None:
        """Returns when no partition with another replica in sync is led by the broker."""

        def is_over() -> bool:
            images = [server.node.metadata.image for server in run.servers.values()]
            return all(
                partition.leader != node_id or set(partition.isr) == {node_id}
                for image in images
                for topic in image.topics.by_id.values()
                for partition in topic.partitions.values()
            )

        await reached(is_over, f"a new leader for each partition that broker {node_id} led")

    # Starting.

    def _planned(self) -> EmbeddedRun:
        own = {"listeners", "node.id", "broker.id", "process.roles", "log.dirs", "log.dir", "metadata.log.dir"}
        if given := sorted(own & self._config.keys()):
            raise InvalidConfig(f"{', '.join(given)}: each broker of a cluster has its own; leave it out")
        temporary = temporary_path() if self._data_dir is None else None
        directory = temporary or self._data_dir
        assert directory is not None
        controllers = min(self._count, MOST_CONTROLLERS) if self._count != 2 else 1
        secured = self._secured_run()
        if secured is None:
            ports = self._free_ports(self._count + controllers)
            properties = _properties(self._count, controllers, ports, directory, self._config)
        else:
            ports = self._free_ports(2 * self._count + controllers)
            properties = _properties(self._count, controllers, ports, directory, self._config)
            for each, port in zip(properties, ports[self._count + controllers :], strict=True):
                _secure(each, port, secured)
        if not Path(properties[0]["log.dirs"]).exists() and _PROTOCOLS not in self._config:
            _check_nodes_may_act(properties[0], f"User:{NODE_NAME}" if secured is not None else "User:ANONYMOUS")
        return EmbeddedRun(properties, temporary, self.faults, lambda: self._format(properties), secured)

    def _free_ports(self, count: int) -> list[int]:
        """Ports that are free, held until the brokers have bound them."""
        for _ in range(count):
            held = socket.socket()
            held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            held.bind((_HOST, 0))
            self._held.append(held)
        return [int(held.getsockname()[1]) for held in self._held]

    def _format(self, properties: list[dict[str, str]]) -> None:
        from ..server.config.broker_config import BrokerConfig
        from ..server.controller.formatting import format_directories

        cluster_id: str | None = None
        for each in properties:
            config = BrokerConfig(each)
            cluster_id = format_directories(config, cluster_id, ignore_formatted=True)

    def _started(self) -> None:
        while self._held:
            self._held.pop().close()


class Isolation:
    """A broker without connections to other brokers, in both directions."""

    def __init__(self, cluster: Cluster, node_id: int) -> None:
        faults = cluster.faults
        peer = f"odradek-{node_id}"
        self.faults = (
            faults.pause(node_id=node_id),
            faults.pause_brokers(node_id=node_id),
            faults.pause_brokers(client_id=peer),
        )

    @property
    def count(self) -> int:
        """How many requests it kept."""
        return sum(fault.count for fault in self.faults)

    def heal(self) -> None:
        """Mends the links. Data that was sent meanwhile, and that a peer still waits for, arrives now."""
        for fault in self.faults:
            fault.cancel()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.heal()


def _check_nodes_may_act(properties: Mapping[str, str], principal: str) -> None:
    """Raises InvalidConfig where the authorizer denies the requests of the nodes to each other: no node would ever serve.
    A cluster that starts for the first time has no ACLs yet.
    """
    from ..server.access.authorization.authorization import CLASS_KEY, STANDARD_CLASS
    from ..server.access.authorization.standard_authorizer import SUPER_USERS, StandardAuthorizer

    if properties.get(CLASS_KEY) != STANDARD_CLASS:
        return
    authorizer = StandardAuthorizer(properties)
    if principal not in authorizer.super_users and not authorizer.allows_without_rules:
        raise InvalidConfig(
            f"the brokers of this cluster connect to each other as {principal}, which the authorizer denies: add "
            f"{principal} to {SUPER_USERS}"
        )


def _secure(properties: dict[str, str], port: int, secured: SecuredRun) -> None:
    """Clients keep their port, with another protocol; brokers meet on a listener of their own."""
    between = f",{INTERNAL}://{_HOST}:{port}"
    for key in ("listeners", "advertised.listeners"):
        properties[key] = properties[key].replace("PLAINTEXT://", f"{secured.listener}://") + between
    for key, value in secured.properties(hosts_of(_HOST), several_nodes=True).items():
        properties.setdefault(key, value)


def _properties(
    count: int, controllers: int, ports: list[int], directory: Path, given: Mapping[str, str]
) -> list[dict[str, str]]:
    replicas = min(3, count)
    voters = ",".join(f"{number + 1}@{_HOST}:{ports[count + number]}" for number in range(controllers))
    internal = {f"{topic}.replication.factor": str(replicas)
                for topic in ("offsets.topic", "transaction.state.log", "share.coordinator.state.topic")}  # fmt: skip
    min_isr = str(max(1, replicas - 1))
    made = []
    for number in range(count):
        listeners = f"PLAINTEXT://{_HOST}:{ports[number]}"
        if number < controllers:
            listeners += f",CONTROLLER://{_HOST}:{ports[count + number]}"
        made.append(
            {
                **EMBEDDED_DEFAULTS,
                **CLUSTER_DEFAULTS,
                **internal,
                "transaction.state.log.min.isr": min_isr,
                "share.coordinator.state.topic.min.isr": min_isr,
                "default.replication.factor": str(replicas),
                "min.insync.replicas": min_isr,
                **given,
                "process.roles": "broker,controller" if number < controllers else "broker",
                "node.id": str(number + 1),
                "listeners": listeners,
                "advertised.listeners": f"PLAINTEXT://{_HOST}:{ports[number]}",
                "controller.quorum.voters": voters,
                "log.dirs": str(directory / f"node-{number + 1}"),
            }
        )
    return made
