"""A worker of Kafka Connect, distributed, with its REST interface."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from compat_tests.broker_process import free_port

from .running import Running, java

_CONFIG = """
bootstrap.servers={bootstrap}
group.id={name}
config.storage.topic={name}-configs
offset.storage.topic={name}-offsets
status.storage.topic={name}-status
config.storage.replication.factor=1
offset.storage.replication.factor=1
status.storage.replication.factor=1
offset.storage.partitions=2
status.storage.partitions=2
key.converter=org.apache.kafka.connect.storage.StringConverter
value.converter=org.apache.kafka.connect.storage.StringConverter
listeners=HTTP://127.0.0.1:{port}
offset.flush.interval.ms=500
session.timeout.ms=10000
heartbeat.interval.ms=1000
"""
_LOGGING = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
_REQUEST_S = 60


class ConnectWorker:
    """A worker of one Connect cluster. `tool`: the folder of the tool with the jars. `properties`: beside the defaults."""

    def __init__(
        self, bootstrap: str, name: str, folder: Path, *, tool: str = "connect", properties: Mapping[str, str] = {}
    ) -> None:
        self.port = free_port()
        self.folder = folder
        self._tool = tool
        self.config = folder / "worker.properties"
        lines = [f"{key}={value}\n" for key, value in properties.items()]
        self.config.write_text(_CONFIG.format(bootstrap=bootstrap, name=name, port=self.port) + "".join(lines))

    def start(self, *jvm: str) -> Running:
        """`jvm`: flags in place of those of tests."""
        command = java(self._tool, "org.apache.kafka.connect.cli.ConnectDistributed", str(self.config), jvm=(_LOGGING,))
        if jvm:
            command[1 : command.index("-cp")] = [*jvm, _LOGGING]
        worker = Running(command, self.folder / "connect.log")
        worker.wait_for(lambda: self.ask("GET", "/connectors") is not None, "REST interface")
        return worker

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """Returns the response of the REST interface; None on an error or while it does not serve."""
        data = json.dumps(body).encode() if body is not None else None
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", data, method=method)
        request.add_header("Content-Type", "application/json")
        try:
            with urllib.request.urlopen(request, timeout=_REQUEST_S) as response:
                return json.loads(response.read() or b"{}")
        except (OSError, urllib.error.HTTPError):
            return None

    def states(self, connector: str) -> set[str]:
        reported = self.ask("GET", f"/connectors/{connector}/status")
        return (
            {one["state"] for one in (reported["connector"], *reported["tasks"])}
            if reported and reported["tasks"]
            else set()
        )

    def run_connector(self, running: Running, name: str, config: Mapping[str, str]) -> None:
        """Creates a connector, and waits until it runs."""
        running.wait_for(lambda: self.ask("PUT", f"/connectors/{name}/config", config), name)
        running.wait_for(lambda: self.states(name) == {"RUNNING"}, f"{name} running")
