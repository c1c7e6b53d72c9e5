"""Three nodes, of Odradek or of Apache Kafka, with a gate before each; clients get the addresses of the gates."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path
from types import TracebackType
from typing import Any

from odradek.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from odradek.protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersTopic
from odradek.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from odradek.protocol.records.record import Record, encode_batch

from compat_tests.broker_process import free_port
from compat_tests.cluster.mixed import MixedCluster
from tests.server.harness.cluster_process import COMBINED

from .gate import Gate

APACHE, ODRADEK = "apache", "odradek"
_NODES = 3
_PREFERRED = 0
_TIMEOUT_MS = 30_000
#: The value of the batches that test whether a leader accepts any.
PROBE = b"probe"
_PRODUCE_VERSION, _PROBE_TIMEOUT_MS = 9, 1000
_PROPERTIES = {
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "broker.heartbeat.interval.ms": "500",
    "auto.leader.rebalance.enable": "false",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,CLIENT:PLAINTEXT",
    "inter.broker.listener.name": "PLAINTEXT",
}


class GatedCluster(MixedCluster):
    """Nodes and tests connect to nodes without a gate."""

    def __init__(self, kind: str, directory: Path, properties: dict[str, str]) -> None:
        super().__init__(directory, [COMBINED] * _NODES)
        self._ending = contextlib.ExitStack()
        #: The node of the active controller: it has no faults, and answers the requests of the tests.
        self.calm = 0
        self.gates: dict[int, Gate] = {}
        for node_id in self.nodes:
            node = self.node(node_id)
            node.is_apache = kind == APACHE
            client_port = free_port()
            self.gates[node_id] = Gate(client_port)
            known = f"PLAINTEXT://127.0.0.1:{node.port},CLIENT://127.0.0.1:"
            listeners = f"{known}{client_port},CONTROLLER://127.0.0.1:{self.controller_ports[node_id]}"
            advertised = f"{known}{self.gates[node_id].port}"
            node.properties |= {
                **_PROPERTIES,
                **properties,
                "listeners": listeners,
                "advertised.listeners": advertised,
            }

    def __enter__(self) -> GatedCluster:
        for gate in self.gates.values():
            self._ending.enter_context(gate)
        super().__enter__()
        self.calm = self.until(lambda: max(self.controller(), 0), "there is an active controller")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ending.close()
        super().__exit__(kind, error, trace)

    @property
    def client_bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{gate.port}" for gate in self.gates.values())

    def await_in_sync(self, topic: str, node_ids: set[int]) -> None:
        """Waits until all nodes of the ISR have it in their metadata: a replica without a leader answers otherwise."""
        known = [self.node(node_id) for node_id in node_ids]

        def are() -> bool:
            reported = [self.partitions(topic, node).get(0) for node in known]
            return all(one and set(one.isr_nodes) == node_ids for one in reported)

        self.until(are, f"{topic} is in sync on {node_ids}")

    def await_acceptance(self, topic: str, error_code: int) -> None:
        """Waits until the leader, the calm node, answers a batch without a producer id with the error.

        A leader goes by its own ISR, which is older or newer than its metadata's for a moment.
        """
        batch = encode_batch([Record(0, int(time.time() * 1000), None, PROBE)])
        data = TopicProduceData(topic, partition_data=[PartitionProduceData(0, batch)])
        request = ProduceRequest(acks=-1, timeout_ms=_PROBE_TIMEOUT_MS, topic_data=[data])

        def is_answered_so() -> bool:
            response = self.node(self.calm).ask(request, _PRODUCE_VERSION)
            return int(response.responses[0].partition_responses[0].error_code) == error_code

        self.until(is_answered_so, f"{topic} answers with {error_code}")

    def await_leader(self, topic: str, node_id: int) -> None:
        def leads() -> bool:
            reported = self._reported(topic)
            return reported is not None and reported.leader_id == node_id

        self.until(leads, f"{node_id} leads {topic}")

    def _reported(self, topic: str) -> Any:
        """Returns the calm node's view of partition 0 of the topic; None if it has none yet."""
        return self.partitions(topic, self.node(self.calm)).get(0)

    def prefer(self, topic: str, replicas: list[int]) -> None:
        """Changes the order of the replicas; the leader stays."""
        calm = self.node(self.calm)
        wanted = ReassignableTopic(topic, [ReassignablePartition(0, replicas)])
        response = calm.ask(AlterPartitionReassignmentsRequest(_TIMEOUT_MS, topics=[wanted]), 0)
        assert response.error_code == 0 and response.responses[0].partitions[0].error_code == 0, response

        def are_so() -> bool:
            reported = self._reported(topic)
            return reported is not None and list(reported.replica_nodes) == replicas

        self.until(are_so, f"{topic} prefers {replicas[0]}")

    def elect_preferred(self, topic: str) -> None:
        request = ElectLeadersRequest(_PREFERRED, [ElectLeadersTopic(topic, [0])], _TIMEOUT_MS)
        response = self.node(self.calm).ask(request, 2)
        (elected,) = response.replica_election_results[0].partition_result
        assert response.error_code == elected.error_code == 0, response
