"""The subsystems of a broker up to the coordinators, with the test in the place of the controller and of single parts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from odradek.server.config.broker_config import BrokerConfig
from odradek.server.coordinators.subsystem import CoordinatorsSubsystem
from odradek.server.partitions.subsystem import PartitionsSubsystem
from odradek.server.replicas.subsystem import ReplicasSubsystem
from odradek.server.runtime.clock import Clock
from odradek.server.runtime.lazy import Lazy
from odradek.server.runtime.metadata_cache import MetadataCache
from odradek.storage.directory import LogDirectory

from tests.server.harness.nodes import NotedHalt, node_of
from tests.server.harness.noted_forwarding import NotedForwarding
from tests.server.harness.noted_peers import NotedPeers

OWN = 0


class Part:
    """A part that notes the calls of its methods. Those in `fails` raise."""

    def __init__(self, name: str, calls: list[tuple[Any, ...]], *fails: str) -> None:
        self._name, self._calls, self._fails = name, calls, fails

    def __getattr__(self, method: str) -> Any:
        def call(*arguments: Any, **options: Any) -> None:
            self._calls.append((self._name, method, *arguments, *options.values()))
            if method in self._fails:
                raise ZeroDivisionError(self._name)

        return call


class Driver:
    """The driver of the controller. It notes the requests."""

    broker_epoch = 77
    is_alone = True

    def __init__(self) -> None:
        self.asked: list[tuple[Any, ...]] = []

    def submit(self, request: Any, version: int, reply: Any, **client: Any) -> None:
        self.asked.append((request, version, reply, client))


class Controller:
    """The part of `ControllerSubsystem` that other subsystems use."""

    def __init__(self, driver: Driver) -> None:
        self.driver = driver
        self.broker_epoch = driver.broker_epoch
        self.forwarding = Lazy(NotedForwarding)


class Network:
    """The part of `NetworkSubsystem` that other subsystems use."""

    def __init__(self) -> None:
        self.peers = Lazy(NotedPeers)


class Subsystems:
    """The subsystems of a broker up to the coordinators, on the directory of a formatted node."""

    def __init__(self, *paths: Path) -> None:
        self.config = BrokerConfig({"node.id": str(OWN), "log.dirs": ",".join(map(str, paths))})
        for path in paths:
            path.mkdir(exist_ok=True)
        self.directories = [LogDirectory.open(str(path)) for path in paths]
        self.calls: list[tuple[Any, ...]] = []
        self.halt = NotedHalt()
        self.driver = Driver()
        self.metadata = MetadataCache()
        self.node = node_of(
            self.config,
            clock=Clock(lambda: 1_700_000_000),
            metadata=self.metadata,
            directories=self.directories,
            halt=self.halt,
        )
        controller: Any = Controller(self.driver)
        network: Any = Network()
        self.partitions = PartitionsSubsystem(self.node)
        self.replicas = ReplicasSubsystem(self.node, network, self.partitions, controller)
        self.coordinators = CoordinatorsSubsystem(self.node, network, self.partitions, self.replicas, controller)

    def script(self, owner: Any, *names: str, fails: tuple[str, ...] = ()) -> None:
        """Puts scripted parts into the places of those with the names."""
        for name in names:
            setattr(owner, name, Part(name.lstrip("_"), self.calls, *(("stop",) if name in fails else ())))

    def called(self) -> list[tuple[Any, ...]]:
        calls, self.calls[:] = list(self.calls), []
        return calls

    def close(self) -> None:
        for directory in self.directories:
            directory.close()
