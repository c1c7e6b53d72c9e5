"""Whole nodes on simulated machines that lose their process or their power.

Three are brokers and voters, and maybe one is only a broker.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from random import Random
from typing import TYPE_CHECKING

from ....server.config.broker_config import BrokerConfig
from ....server.controller.broker_lifecycle import RegistrationFailed
from ....server.controller.formatting import InitialVoter, format_directories
from ....storage.files.failures import LogDirectoryFailure
from ..incarnations import OUTSIDE
from .invariants import NO_BUG, Broken

if TYPE_CHECKING:
    from ..world import Node, Simulation
    from .trace import Trace

CLUSTER_ID = "4L6g3nShT-eMCtK--X86sw"
#: Brokers that vote, and in some seeds one that does not.
VOTER_IDS = (1, 2, 3)
OBSERVER_ID = 4
_PROPERTIES = {
    "controller.listener.names": "CONTROLLER",
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.num.partitions": "1",
    "auto.create.topics.enable": "false",
}
#: The settings that a seed chooses from: replica lag, fetch sizes, frequency of the quorum's snapshots.
_CHOICES = {
    "replica.lag.time.max.ms": ("1500", "4000", "10000", "30000"),
    "metadata.log.max.record.bytes.between.snapshots": ("2000", "6000", "20971520"),
    "replica.fetch.wait.max.ms": ("500", "1500"),
    "broker.session.timeout.ms": ("3000", "9000"),
    "replica.high.watermark.checkpoint.interval.ms": ("700", "5000"),
    "auto.leader.rebalance.enable": ("true", "false"),
    "leader.imbalance.check.interval.seconds": ("5",),
    "controller.quorum.election.timeout.ms": ("50", "300", "1000"),
    "controller.quorum.fetch.timeout.ms": ("300", "2000"),
    "controller.quorum.election.backoff.max.ms": ("30", "1000"),
    "replica.fetch.max.bytes": ("100", "1048576"),
    "unclean.leader.election.enable": ("false",),
}


def voter_port(voter: int) -> int:
    """Returns the port of a voter's controller listener."""
    return 19090 + voter


class SimulatedCluster:
    """The cluster. `nodes` by id. The code that ends a process also restarts it.

    `properties` replace those that `rng` draws.
    """

    def __init__(
        self, simulation: Simulation, trace: Trace, rng: Random, properties: Mapping[str, str] | None = None
    ) -> None:
        self.simulation = simulation
        self.trace = trace
        #: The voters are named by the log (KIP-853) or by the configuration.
        self.has_voters_in_log = rng.random() < 0.5
        self.directory_ids = {node_id: rng.randbytes(16) for node_id in VOTER_IDS}
        chosen = {**{key: rng.choice(values) for key, values in _CHOICES.items()}, **(properties or {})}
        self.node_ids = VOTER_IDS if rng.random() < 0.6 else (*VOTER_IDS, OBSERVER_ID)
        self.nodes = {node_id: self._node(node_id, chosen) for node_id in self.node_ids}
        self.bootstrap = [("127.0.0.1", 9090 + node_id) for node_id in self.node_ids]
        self._serving: set[int] = set()
        #: Nodes whose start was asked for and has not begun.
        self._scheduled: set[int] = set()
        self._starting: dict[int, asyncio.Task[None]] = {}
        #: Machines without power.
        self._dark: set[int] = set()
        #: Called with a node before it loses its unsynced data.
        self.on_power_failure: Callable[[int], None] = lambda node_id: None
        #: Called with the failure that ended a node unexpectedly.
        self.failed: Callable[[BaseException], None] = lambda failure: None

    def _node(self, node_id: int, chosen: Mapping[str, str]) -> Node:
        listeners, votes = [f"PLAINTEXT://127.0.0.1:{9090 + node_id}"], node_id in VOTER_IDS
        if votes:
            listeners.append(f"CONTROLLER://127.0.0.1:{voter_port(node_id)}")
        properties = {
            **_PROPERTIES,
            **chosen,
            "node.id": str(node_id),
            "process.roles": "broker,controller" if votes else "broker",
            "listeners": ",".join(listeners),
            **self._quorum(),
        }
        node = self.simulation.node(f"n{node_id}", properties)
        config = BrokerConfig({**properties, "log.dirs": str(node.directory)})
        format_directories(config, CLUSTER_ID, initial_voters=self._initial_voters() if votes else ())
        self.simulation.disk.sync_all(node.name)
        return node

    def _quorum(self) -> dict[str, str]:
        places = {voter: f"127.0.0.1:{voter_port(voter)}" for voter in VOTER_IDS}
        if self.has_voters_in_log:
            return {"controller.quorum.bootstrap.servers": ",".join(places.values())}
        return {"controller.quorum.voters": ",".join(f"{voter}@{place}" for voter, place in places.items())}

    def _initial_voters(self) -> list[InitialVoter] | None:
        if not self.has_voters_in_log:
            return None
        return [InitialVoter(voter, "127.0.0.1", voter_port(voter), self.directory_ids[voter]) for voter in VOTER_IDS]

    def running(self) -> list[int]:
        return [node_id for node_id, node in self.nodes.items() if node.is_running]

    def start(self, node_id: int) -> None:
        """Begins the start of a node. It serves some time later, when there is a majority."""
        node = self.nodes[node_id]
        assert not node.is_running
        if node_id in self._scheduled:
            return
        self._scheduled.add(node_id)
        self.trace.say(node.name, "starts")
        if node_id in self._dark:
            self._dark.discard(node_id)
            self.simulation.network.mend(node.name)
            self.mended()
        self._starting[node_id] = asyncio.get_running_loop().create_task(self._start(node_id))

    async def _start(self, node_id: int) -> None:
        node = self.nodes[node_id]
        self._scheduled.discard(node_id)
        self.simulation.disk.struck.discard(node.name)
        try:
            await node.start()
            self.trace.say(node.name, "serves")
            self._serving.add(node_id)
            failed, life = node.server.failed, node.life
            failed.add_done_callback(lambda _: self._failed(node_id, life, failed.result()))
        except RegistrationFailed:
            self.trace.say(node.name, "gives up")  # as a process would that is started again
            node.crash()
        except Exception as failure:
            self._failed(node_id, node.life, failure)

    def _failed(self, node_id: int, life: object, failure: Exception) -> None:
        node = self.nodes[node_id]
        if node.life is not life:
            return
        if isinstance(failure, LogDirectoryFailure | OSError) and node.name in self.simulation.disk.struck:
            self.trace.say(node.name, "halts: its disk is full or fails")
            self.crash(node_id)
        else:
            self.failed(_bug(node, failure))

    def crash(self, node_id: int, *, power: bool = False) -> None:
        node = self.nodes[node_id]
        self.trace.say(node.name, "loses power" if power else "is killed")
        if power:
            # The machine sends nothing any more, not even connection refusals.
            self._dark.add(node_id)
            self.mended()
            self.on_power_failure(node_id)
        self._serving.discard(node_id)
        node.crash(power=power)

    def serves(self, node_id: int) -> bool:
        """Returns whether the node's start is complete and it has not ended since."""
        return node_id in self._serving

    def is_dark(self, node_id: int) -> bool:
        return node_id in self._dark

    def mended(self) -> None:
        """To be called when links are mended: machines without power stay disconnected."""
        for node_id in sorted(self._dark):
            name = self.nodes[node_id].name
            others = [other.name for other in self.nodes.values() if other.name != name]
            self.simulation.network.isolate(name, [*others, OUTSIDE])

    async def stop(self, node_id: int, deadline_s: float) -> None:
        """Stops a node. A stop that takes too long becomes a kill."""
        node = self.nodes[node_id]
        self.trace.say(node.name, "is stopped")
        life = node.life
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(asyncio.shield(node.stop()), deadline_s)
        self._serving.discard(node_id)
        if node.life is life and life is not None:
            self.crash(node_id)


def _bug(node: Node, failure: BaseException) -> Broken:
    broken = Broken(NO_BUG, f"{node.name} failed: {failure!r}")
    broken.__cause__ = failure
    return broken
