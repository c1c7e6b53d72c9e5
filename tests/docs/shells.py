"""The shells of a reader who pastes the blocks of a page.

A page's blocks share one folder. A `sh` block whose title begins with "first shell" starts a broker in the background, in
place of the last one; other `sh` blocks run to their end; `python` blocks are programs. A block whose title is a file is
written to that file. Free ports replace 9092, 9404 and 8080; `secured.properties` has listeners of its own.
Apache Kafka's tools are on the path under their own names.
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
from compat_tests.java.fetch import ORACLE, classpath, java
from compat_tests.java.tool import JVM_FLAGS
from tests.docs.pages import Block

DEADLINE_S = 60
#: The scripts of Apache Kafka's distribution on the pages, and the classes that they run.
KAFKA_TOOLS = {
    "kafka-acls.sh": "org.apache.kafka.tools.AclCommand",
    "kafka-client-metrics.sh": "org.apache.kafka.tools.ClientMetricsCommand",
    "kafka-configs.sh": "kafka.admin.ConfigCommand",
    "kafka-delegation-tokens.sh": "org.apache.kafka.tools.DelegationTokenCommand",
    "kafka-features.sh": "org.apache.kafka.tools.FeatureCommand",
    "kafka-server-start.sh": "kafka.Kafka",
    "kafka-topics.sh": "org.apache.kafka.tools.TopicCommand",
}


def write_kafka_tools(folder: Path) -> None:
    """Writes a script for each of Apache Kafka's tools, because the tests fetch only jars. As Kafka's own scripts, they
    pass `KAFKA_OPTS` to Java.
    """
    folder.mkdir()
    for name, class_name in KAFKA_TOOLS.items():
        arguments = shlex.join([*JVM_FLAGS, "-cp", classpath(ORACLE), class_name])
        script = folder / name
        script.write_text(f'#!/bin/sh\nexec {shlex.quote(java())} $KAFKA_OPTS {arguments} "$@"\n', encoding="utf-8")
        script.chmod(0o755)


class Shells:
    """A first shell with a broker in the foreground, and a second shell for all other commands."""

    def __init__(self, folder: Path, tools: bool = False) -> None:
        self.folder = folder / "reader"
        self.folder.mkdir()
        self.ports = {"9092": str(free_port()), "9404": str(free_port()), "8080": str(free_port())}
        path = [str(Path(sys.executable).parent), os.environ["PATH"]]
        if tools:
            write_kafka_tools(folder / "kafka-tools")
            path.insert(0, str(folder / "kafka-tools"))
        config = str(folder / "config")  # for contexts of `odradek context`
        self.environment = {**os.environ, "PATH": os.pathsep.join(path), "XDG_CONFIG_HOME": config}
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
        command = (
            [sys.executable, "-c", text] if block.language == "python" else ["bash", "-euo", "pipefail", "-c", text]
        )
        done = subprocess.run(
            command,
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            check=False,
        )
        assert done.returncode == 0, f"{text}\n{done.stdout}{done.stderr}"
        return done.stdout

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
