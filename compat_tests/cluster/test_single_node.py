"""A single node becomes Odradek, and Apache Kafka again, on the same directory."""

from __future__ import annotations

from pathlib import Path

import pytest

from compat_tests.cluster.mixed import MixedCluster
from compat_tests.oracle import SINGLE_NODE
from compat_tests.tiers.tiered import consume, numbered, produce, values_of
from tests.server.harness.cluster_process import COMBINED

pytestmark = pytest.mark.oracle

TOPIC, COUNT = "orders", 100
#: The session of a broker that did not stop in order would outlast the start of Apache Kafka.
LONG_SESSION = {"broker_session_timeout_ms": "600000"}


@pytest.mark.timeout(300)
def test_apache_kafka_registers_at_once_after_a_clean_stop(java_tools: None, tmp_path: Path) -> None:
    """Apache Kafka's controller rejects the registration of a broker with a session that is not in controlled shutdown."""
    cluster = MixedCluster(tmp_path, [COMBINED], **SINGLE_NODE, **LONG_SESSION)
    node, values = cluster.node(1), values_of(COUNT)
    with cluster:
        cluster.create_topic(TOPIC, num_partitions=1, replication_factor=1)
        produce(node.bootstrap, values, topic=TOPIC)
        node.becomes(apache=True)
        assert consume(node.bootstrap, COUNT, topic=TOPIC) == numbered(values)
