"""The blocks of docs/migration.md, pasted one after the other on a cluster that runs Apache Kafka."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from odradek.storage.files.directory_lock import lock_holder

from compat_tests.cluster.mixed import MixedCluster
from tests.docs.pages import DOCS, blocks
from tests.docs.shells import write_kafka_tools
from tests.server.harness.cluster_process import COMBINED

pytestmark = [pytest.mark.timeout(900), pytest.mark.oracle]

_BLOCK_S = 240


@pytest.fixture
def cluster(java_tools: None, tmp_path: Path) -> Iterator[MixedCluster]:
    made = MixedCluster(tmp_path / "cluster", [COMBINED] * 3, broker_heartbeat_interval_ms="500")
    for node_id in made.nodes:
        made.node(node_id).is_apache = True
    with made:
        made.create_topic("orders", [[1, 2, 3], [2, 3, 1], [3, 1, 2]])
        yield made
        for node in made.nodes.values():
            pid = lock_holder(node.data_dir / ".lock")
            if pid is not None and not node.is_running:
                os.kill(pid, signal.SIGKILL)


def test_blocks_of_the_page_move_a_cluster_and_a_node_back(cluster: MixedCluster, tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    write_kafka_tools(tools)
    path = os.pathsep.join((str(tools), str(Path(sys.executable).parent), os.environ["PATH"]))
    pasted = [
        block.text for block in blocks(DOCS / "migration.md") if block.language == "sh" and block.title != "install"
    ]
    assert len(pasted) == 4
    printed = []
    for text in pasted:
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", text.replace("127.0.0.1:9092", cluster.bootstrap)],
            cwd=cluster.directory,
            env={**os.environ, "PATH": path},
            capture_output=True,
            text=True,
            timeout=_BLOCK_S,
            check=False,
        )
        assert done.returncode == 0, f"{text}\n{done.stdout}{done.stderr}"
        printed.append(done.stdout)
    assert "Apache Kafka" in printed[0] and "next node" in printed[1]
    assert [f"node {id} runs Odradek" in printed[2] for id in (1, 2, 3)] == [True] * 3
    assert "node 1 runs Apache Kafka" in printed[3]
