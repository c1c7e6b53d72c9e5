"""Configs of topics with tables in metadata that Apache Kafka reads and changes: kept, without a meaning there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from compat_tests.cli.commands import Done, odradek_command
from compat_tests.cluster.mixed import MixedCluster
from compat_tests.oracle import SINGLE_NODE
from tests.archive.harness.followed import FRESH, await_rows
from tests.server.harness.cluster_process import COMBINED

pytestmark = [pytest.mark.timeout(900), pytest.mark.oracle]

ENABLE = "odradek.table.enable"


@pytest.fixture
def cluster(java_tools: None, tmp_path: Path) -> Iterator[MixedCluster]:
    place = {"odradek.table.warehouse": str(tmp_path / "w"), **FRESH, **SINGLE_NODE}
    made = MixedCluster(tmp_path / "cluster", [COMBINED], **place)
    with made:
        yield made


def config(cluster: MixedCluster, *words: str) -> Done:
    return odradek_command("config", "set", "topic", "orders", *words, "-b", cluster.node(1).bootstrap)


def shown(cluster: MixedCluster) -> dict[str, str]:
    done = odradek_command("config", "get", "topic", "orders", "--output", "json", "-b", cluster.node(1).bootstrap)
    assert done.status == 0, done
    return {one["key"]: one["value"] for one in done.json}


def produce(cluster: MixedCluster, text: str) -> None:
    done = odradek_command("produce", "orders", "-b", cluster.node(1).bootstrap, stdin=text)
    assert done.status == 0, done


def test_apache_kafka_keeps_the_configs_and_a_table_continues(cluster: MixedCluster, tmp_path: Path) -> None:
    node = cluster.node(1)
    cluster.create_topic("orders", num_partitions=1, replication_factor=1)
    assert config(cluster, f"{ENABLE}=true", "retention.ms=86400000").status == 0
    produce(cluster, "1\n2\n")
    await_rows(tmp_path / "w", "orders", 2)
    node.becomes(apache=True)
    produce(cluster, "3\n")
    assert config(cluster, "retention.ms=90000000").status == 0
    refused = config(cluster, "odradek.table.name=sales")
    assert refused.status == 1 and "Unknown topic config name: odradek.table.name" in refused.err
    node.becomes(apache=False)
    assert shown(cluster)[ENABLE] == "true"
    await_rows(tmp_path / "w", "orders", 3)
    node.becomes(apache=True)
    assert config(cluster, "--delete", ENABLE).status == 0
    assert ENABLE not in shown(cluster) and shown(cluster)["retention.ms"] == "90000000"
