"""The shells of a reader who pastes the blocks of a page.

A page's blocks share one folder. A `sh` block whose title begins with "first shell" starts a broker in the background, in
place of the last one; other `sh` blocks run to their end; `python` blocks are programs. A block whose title is a file is
written to that file. tests/docs/environments.py runs the block "install". Blocks "Kafka's scripts" are for readers with
Apache Kafka's scripts: only these blocks have them on the path. Free ports replace 9092, 9404 and 8080;
`secured.properties` has listeners of its own.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

from compat_tests.broker_process import free_port as free_port
from compat_tests.java.program import java_command
from tests.docs.environments import search_path
from tests.docs.pages import Block

DEADLINE_S = 180
KAFKA_SCRIPTS = "Kafka's scripts"
#: The scripts of Apache Kafka's distribution on the pages, and the classes that they run.
KAFKA_TOOLS = {
    "kafka-acls.sh": "org.apache.kafka.tools.AclCommand",
    "kafka-client-metrics.sh": "org.apache.kafka.tools.ClientMetricsCommand",
    "kafka-configs.sh": "kafka.admin.ConfigCommand",
    "kafka-delegation-tokens.sh": "org.apache.kafka.tools.DelegationTokenCommand",
    "kafka-features.sh": "org.apache.kafka.tools.FeatureCommand",
    "kafka-server-start.sh": "kafka.Kafka",
    "kafka-storage.sh": "kafka.tools.StorageTool",
    "kafka-topics.sh": "org.apache.kafka.tools.TopicCommand",
}


def write_kafka_tools(folder: Path) -> None:
    """Writes a script for each of Apache Kafka's tools, because the tests fetch only jars. As Kafka's own scripts, they
    pass `KAFKA_OPTS` to Java.
    """
    folder.mkdir()
    for name, class_name in KAFKA_TOOLS.items():
        java, *arguments = java_command(class_name)
        script = folder / name
        script.write_text(
            f'#!/bin/sh\nexec {shlex.quote(java)} $KAFKA_OPTS {shlex.join(arguments)} "$@"\n', encoding="utf-8"
        )
        script.chmod(0o755)


class Shells:
    """A first shell with a broker in the foreground, and a second shell for all other commands."""

    def __init__(self, folder: Path, commands: Path | None = None) -> None:
        """`commands`: the folder of the reader's environment; without it, the reader has that of the tests."""
        self.folder = folder / "reader"
        self.folder.mkdir()
        self.ports = {"9092": str(free_port()), "9404": str(free_port()), "8080": str(free_port())}
        self.commands = commands or Path(sys.executable).parent
        self.kafka_tools = folder / "kafka-tools"
        config = str(folder / "config")  # for contexts of `odradek context`
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
        self.environment = {**kept, "PATH": search_path(self.commands), "XDG_CONFIG_HOME": config}
        self.first: subprocess.Popen[str] | None = None

    def placed(self, text: str) -> str:
        text = re.sub(r"\b(9092|9404|8080)\b", lambda found: self.ports[found[1]], text)
        text = text.replace("cluster start --brokers 3", "cluster start --brokers 3 --port 0")
        without_port = r"(odradek start (?!.*(?:--port|secured\.properties)))(?!odradek-cluster)"
        return re.sub(without_port, rf"\1--port {self.ports['9092']} ", text)

    def run(self, block: Block) -> str:
        """Runs a block. Returns its output, which is empty for a file and for the first shell."""
        text = self.placed(block.text)
        if block.title.endswith(".py"):
            with (self.folder / block.title).open("a", encoding="utf-8") as file:
                file.write(text)
            return ""
        if block.title.startswith("first shell"):
            self.start(text)
            return ""
        command = ["bash", "-euo", "pipefail", "-c", text]
        if block.language == "python":
            command = [str(self.commands / "python"), "-c", text]
        done = subprocess.run(
            command,
            cwd=self.folder,
            env=self.environment_of(block),
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            check=False,
        )
        assert done.returncode == 0, f"{text}\n{done.stdout}{done.stderr}"
        return done.stdout

    def environment_of(self, block: Block) -> dict[str, str]:
        if block.title != KAFKA_SCRIPTS:
            return self.environment
        if not self.kafka_tools.exists():
            write_kafka_tools(self.kafka_tools)
        return {**self.environment, "PATH": search_path(self.commands, self.kafka_tools)}

    def start(self, text: str) -> None:
        self.stop()
        self.first = subprocess.Popen(
            ["bash", "-c", f"exec {text.strip()}"],
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.first.stdout is not None
        assert "serving" in self.first.stdout.readline(), text

    def stop(self) -> None:
        if self.first is not None:
            self.first.send_signal(signal.SIGINT)
            assert self.first.wait(DEADLINE_S) == 0
            self.first = None
