"""The quorum, described and changed by Apache's own tool (KIP-853)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from odradek.server.config.broker_config import BrokerConfig
from odradek.server.controller.formatting import format_directories, standalone_voters

from compat_tests.broker_process import free_port
from compat_tests.java.tool import ToolHost, ToolResult
from compat_tests.odradek_process import OdradekProcess
from compat_tests.watcher import Watcher

_TOOL = "org.apache.kafka.tools.MetadataQuorumCommand"
_CLUSTER_ID = "4L6g3nShT-eMCtK--X86sw"


class Node(OdradekProcess):
    """A node started from a properties file, because the tool needs such a file."""

    def __init__(self, directory: Path, node_id: int, role: str, port: int, bootstrap: int, **more: str) -> None:
        listener = "PLAINTEXT" if role == "broker" else "CONTROLLER"
        properties = {
            "process.roles": role,
            "node.id": str(node_id),
            "listeners": f"{listener}://127.0.0.1:{port}",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.bootstrap.servers": f"127.0.0.1:{bootstrap}",
            "log.dirs": str(directory / "data"),
            **{key.replace("_", "."): value for key, value in more.items()},
        }
        super().__init__(directory, properties)
        self.file = directory / "server.properties"
        self.file.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
        config = BrokerConfig(properties)
        format_directories(config, _CLUSTER_ID, initial_voters=standalone_voters(config) if port == bootstrap else ())

    def command(self) -> list[str]:
        return [*self.python, "-m", "odradek", "start", str(self.file)]

    @property
    def directory_id(self) -> str:
        return (self.data_dir / "meta.properties").read_text().partition("directory.id=")[2].strip()


def roles(described: ToolResult) -> dict[str, str]:
    """Returns node id to Leader, Follower or Observer, from `describe --replication`."""
    rows = [line.split() for line in described.checked().out.splitlines()[1:]]
    return {row[0]: row[-1] for row in rows if row}


@pytest.fixture
def noted(request: pytest.FixtureRequest) -> Iterator[Watcher]:
    """Proxies the broker of this test's own cluster."""
    with Watcher() as watcher:
        yield watcher
        request.node.user_properties.append(("requests", sorted(watcher.snapshot())))


def test_the_tool_describes_a_quorum_adds_a_controller_and_removes_one(
    tools: ToolHost, noted: Watcher, tmp_path: Path
) -> None:
    port = free_port()
    first = Node(tmp_path / "1", 1, "controller", port, port)
    broker = Node(tmp_path / "2", 2, "broker", free_port(), port, advertised_listeners=f"PLAINTEXT://{noted.address}")
    third = Node(tmp_path / "3", 3, "controller", free_port(), port)
    with first, broker, third:
        noted.target = broker.bootstrap

        def tool(*arguments: str) -> ToolResult:
            return tools.run(_TOOL, "--bootstrap-server", noted.address, *arguments)

        status = tool("describe", "--status").checked().out
        assert f"ClusterId:              {_CLUSTER_ID}" in status and "LeaderId:               1" in status
        assert f'"endpoints": ["CONTROLLER://127.0.0.1:{port}"]' in status
        while roles(tool("describe", "--replication")) != {"1": "Leader", "2": "Observer", "3": "Observer"}:
            pass
        added = tool("--command-config", str(third.file), "add-controller")
        while "REQUEST_TIMED_OUT" in added.err:  # while the new controller has not caught up
            added = tool("--command-config", str(third.file), "add-controller")
        assert f"Added controller 3 with directory id {third.directory_id}" in added.checked().out
        assert roles(tool("describe", "--replication")) == {"1": "Leader", "3": "Follower", "2": "Observer"}
        named = ("--controller-id", "3", "--controller-directory-id", third.directory_id)
        assert "Removed" in tool("remove-controller", *named).checked().out
        assert roles(tool("describe", "--replication"))["3"] == "Observer"
