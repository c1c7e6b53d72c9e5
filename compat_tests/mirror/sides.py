"""A cluster on one side of a link: nodes in namespaces of a network that both sides share, each with a small disk."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from random import Random
from types import TracebackType

from odradek.admin.topics import Partition, described_topics
from odradek.protocol.uuids import uuid_to_text

from compat_tests.broker_process import start_all
from compat_tests.faults.network import Network
from compat_tests.faults.nodes import ClusterNode
from compat_tests.mirror.mirrored_logs import admin_of

_CONTROLLER_PORT = 9093
#: The number of the bridge's own address, where clients and commands live.
_OUTSIDE = 254
#: A JVM that starts on a busy machine misses the default of one second again and again.
_PATIENT_QUORUM = {
    "controller.quorum.election.timeout.ms": "4000",
    "controller.quorum.fetch.timeout.ms": "6000",
    "controller.quorum.request.timeout.ms": "8000",
}


class Side:
    """`kind`: "odradek" or "apache". `numbers`: its nodes on the network. `nodes`: running ones, by these numbers."""

    def __init__(self, kind: str, network: Network, numbers: Sequence[int], folder: Path, rng: Random) -> None:
        self.kind = kind
        self.nodes: dict[int, ClusterNode] = {}
        self._network, self._numbers, self._folder, self._rng = network, numbers, folder, rng
        self._cluster_id = uuid_to_text(rng.randbytes(16))

    def __enter__(self) -> Side:
        try:
            for number in self._numbers:
                place = self._folder / f"node-{number}"
                node = ClusterNode(self.kind, self._network, number, place, properties=self._properties())
                node.cluster_id = self._cluster_id
                self.nodes[number] = node
            self.heal()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for node in self.nodes.values():
            node.discard()

    def _properties(self) -> dict[str, str]:
        voters = ",".join(f"{number}@{self._network.address(number)}:{_CONTROLLER_PORT}" for number in self._numbers)
        copies = str(len(self._numbers))
        quorum = dict(_PATIENT_QUORUM) if self.kind == "apache" else {}
        return quorum | {
            "controller.quorum.voters": voters,
            "default.replication.factor": copies,
            "min.insync.replicas": "1",
            "offsets.topic.replication.factor": copies,
            "transaction.state.log.replication.factor": copies,
            "transaction.state.log.min.isr": "1",
            # A busy machine is no fault.
            "broker.session.timeout.ms": "6000",
            "initial.broker.registration.timeout.ms": "240000",
        }

    @property
    def bootstrap(self) -> str:
        return ",".join(node.bootstrap for node in self.nodes.values())

    @property
    def is_replicated(self) -> bool:
        return len(self._numbers) > 1

    def partitions(self, topic: str) -> list[Partition]:
        """Raises RequestFailed."""
        admin = admin_of(self.bootstrap)
        try:
            (found,) = described_topics(admin, [topic])
            return found.partitions
        finally:
            admin.close()

    # ---- faults

    def some(self) -> list[ClusterNode]:
        """A node, or all of them."""
        nodes = list(self.nodes.values())
        return nodes if self._rng.random() < 0.3 else [self._rng.choice(nodes)]

    def kill(self) -> None:
        for node in self.nodes.values():
            node.kill()

    def cut(self, other: Side) -> None:
        """Cuts the network between two clusters, in both directions or, at times, in one."""
        pairs = list(itertools.product(self._numbers, other._numbers))
        directions = self._rng.choice(
            (pairs, [pair[::-1] for pair in pairs], [*pairs, *(pair[::-1] for pair in pairs)])
        )
        for source, target in directions:
            self._network.cut(source, target)

    def cut_clients(self) -> None:
        """Drops the responses to commands and clients, while requests arrive."""
        for number in self._numbers:
            self._network.cut(number, _OUTSIDE)

    def heal(self) -> None:
        """Frees disks, and has each node run."""
        for node in self.nodes.values():
            node.free_disk()
            node.go_on()
        start_all(self.nodes.values())
