"""Three nodes that log in to each other: SCRAM between brokers, PLAIN between controllers."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from odradek.metadata.configs import InvalidConfig
from odradek.server.access.authentication.sasl_listeners import SaslListeners
from odradek.server.config.broker_config import BrokerConfig
from odradek.server.runtime.metadata_cache import MetadataCache

from tests.security.harness.sasl_cluster import (
    CONTROLLERS_SECRET,
    PLAIN,
    SECRET,
    SECURED,
    SESSION_MS,
    SecuredCluster,
    logs,
)
from tests.server.harness.cluster_process import COMBINED


@pytest.mark.usefixtures("processes")
def test_nodes_log_in_at_each_other_and_renew_their_sessions(tmp_path: Path) -> None:
    with SecuredCluster(tmp_path, [COMBINED] * 3) as cluster:
        cluster.create_topic("replicated", replication_factor=3, num_partitions=3)
        producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "linger.ms": 50})
        deadline, count = time.monotonic() + 1.2 * SESSION_MS / 1000, 0
        while time.monotonic() < deadline:
            producer.produce("replicated", str(count), partition=count % 3)
            producer.poll(0.01)
            count += 1
        assert producer.flush(30) == 0

        def in_sync() -> bool:
            return all(len(one.isr_nodes) == 3 for one in cluster.partitions("replicated").values())

        cluster.until(in_sync, "all replicas are in sync")
        reported = logs(cluster)
    assert "session has expired" not in reported
    assert "failed authentication" not in reported
    assert SECRET not in reported
    assert CONTROLLERS_SECRET not in reported


def properties(**more: str) -> dict[str, Any]:
    listeners = "PLAINTEXT://127.0.0.1:0,BROKERS://127.0.0.1:0,CONTROLLER://127.0.0.1:0"
    voters = "1@127.0.0.1:1,2@127.0.0.1:2"
    node = {"node.id": "1", "process.roles": COMBINED, "controller.listener.names": "CONTROLLER"}
    return {**node, "listeners": listeners, "controller.quorum.voters": voters, **SECURED, **more}


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"sasl.mechanism.inter.broker.protocol": "DIGEST-MD5"}, "sasl.mechanism.inter.broker.protocol: DIGEST-MD5"),
        ({"sasl.mechanism.inter.broker.protocol": "GSSAPI"}, "brokers.gssapi.sasl.jaas.config is not set"),
        (
            {"sasl.mechanism.controller.protocol": "SCRAM-SHA-256"},
            "controller.scram-sha-256.sasl.jaas.config is not set",
        ),
        (
            {"listener.name.controller.plain.sasl.jaas.config": f"{PLAIN} username=a;"},
            "password of this node's login is missing",
        ),
    ],
)
def test_a_node_that_could_not_log_in_does_not_start(more: dict[str, str], words: str) -> None:
    with pytest.raises(InvalidConfig, match=words):
        SaslListeners(BrokerConfig(properties(**more)), MetadataCache()).check()
