"""A cluster of Odradek and Apache Kafka nodes that authenticate each other: SCRAM for brokers, PLAIN for controllers."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer

from compat_tests.cluster.mixed import EitherNode, MixedCluster
from tests.security.harness.sasl_cluster import SecuredCluster, logs
from tests.server.harness.cluster_process import COMBINED

DEADLINE_S = 60
RECORDS = 300


class SecuredMixedCluster(SecuredCluster, MixedCluster):
    node_class = EitherNode


@pytest.mark.oracle
def test_nodes_of_both_kinds_log_in_at_each_other(java_tools: None, tmp_path: Path) -> None:
    cluster = SecuredMixedCluster(tmp_path, [COMBINED] * 3)
    cluster.node(3).is_apache = True
    with cluster:
        cluster.create_topic("mixed", replication_factor=3, num_partitions=3)
        producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all"})
        for number in range(RECORDS):
            producer.produce("mixed", str(number), partition=number % 3)
        assert producer.flush(DEADLINE_S) == 0

        def in_sync() -> bool:
            found = cluster.partitions("mixed").values()
            return len(found) == 3 and all(len(one.isr_nodes) == 3 for one in found)

        cluster.until(in_sync, "all replicas are in sync")
        assert {one.leader_id for one in cluster.partitions("mixed").values()} == {1, 2, 3}
        consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "g", "auto.offset.reset": "earliest"})
        consumer.subscribe(["mixed"])
        read = {message.value() for message in consumer.consume(RECORDS, DEADLINE_S)}
        assert len(read) == RECORDS
        consumer.close()
        assert "failed authentication" not in logs(cluster)
