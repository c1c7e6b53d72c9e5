"""The blocks of docs/migration.md, pasted one after the other which begin with a cluster of Apache Kafka."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from odradek.storage.files.lock_holder import lock_holder

from compat_tests.broker_process import free_ports
from tests.docs.pages import DOCS, blocks
from tests.docs.shells import write_kafka_tools

pytestmark = [pytest.mark.timeout(900), pytest.mark.oracle]

_BLOCK_S = 240


@pytest.fixture
def folder(java_tools: None, tmp_path: Path) -> Iterator[Path]:
    """The reader's folder, in which the blocks of the page make the nodes."""
    made = tmp_path / "reader"
    made.mkdir()
    yield made
    for directory in made.glob("node-*/data"):
        pid = lock_holder(directory / ".lock")
        if pid is not None:
            os.kill(pid, signal.SIGKILL)


def ports_of_page() -> dict[str, str]:
    """Ports in a row for the nodes, in place of those of the page."""
    brokers, controllers = free_ports(4), free_ports(4)
    return {f"{9091 + n}": str(brokers + n) for n in range(4)} | {f"{9190 + n}": str(controllers + n) for n in range(4)}


def test_blocks_of_the_page_move_a_cluster_and_a_node_back(folder: Path, tmp_path: Path) -> None:
    tools, ports = tmp_path / "tools", ports_of_page()
    write_kafka_tools(tools)
    path = os.pathsep.join((str(tools), str(Path(sys.executable).parent), os.environ["PATH"]))
    found = [block for block in blocks(DOCS / "migration.md") if block.language == "sh" and block.title != "install"]
    pasted = [re.sub(r"\b9[01]9\d\b", lambda port: ports[port[0]], block.text) for block in found]
    assert len(pasted) == 5
    printed = []
    for text in pasted:
        log = tmp_path / "printed"
        with log.open("w") as out:  # a pipe would stay open as long as the nodes run
            done = subprocess.run(
                ["bash", "-euo", "pipefail", "-c", text],
                cwd=folder,
                env={**os.environ, "PATH": path, "KAFKA_OPTS": "-Xmx256m"},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                timeout=_BLOCK_S,
                check=False,
            )
        printed.append(log.read_text())
        assert done.returncode == 0, f"{text}\n{printed[-1]}"
    assert "Created topic orders" in printed[0]
    assert "Apache Kafka" in printed[1] and "next node" in printed[2]
    assert [f"node {id} runs Odradek" in printed[3] for id in (1, 2, 3)] == [True] * 3
    assert "node 1 runs Apache Kafka" in printed[4]
