"""The files of docs/deployment: linters accept them, and their commands run a node of a container and three pods.

The commands are those of the files, with the test's addresses, ports and folders in place of theirs. Pods have addresses of
the loopback network: 127.0.0.1, .2 and .3.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from compat_tests.recipes import DEADLINE_S, eventually
from tests.docs.harness.deployment import serves_until_sigterm
from tests.docs.pages import DOCS
from tests.docs.shells import free_port
from tests.server.harness.http_responses import answered

DEPLOYMENT = DOCS / "deployment"
KUBERNETES, CONTAINERFILE = DEPLOYMENT / "kubernetes.yaml", DEPLOYMENT / "Containerfile"
BIN = Path(sys.executable).parent


def manifests() -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(KUBERNETES.read_text(encoding="utf-8")))


def container() -> dict[str, Any]:
    (stateful_set,) = [one for one in manifests() if one["kind"] == "StatefulSet"]
    (found,) = stateful_set["spec"]["template"]["spec"]["containers"]
    return dict(found)


def test_kubernetes_schemas_accept_the_manifests() -> None:
    assert [one["kind"] for one in manifests()] == ["Service", "PodDisruptionBudget", "StatefulSet"]
    for manifest in manifests():
        kubernetes_validate.validate(manifest, "1.30", strict=True)
    wrong = manifests()[2]
    wrong["spec"]["template"]["spec"]["containers"][0]["livenesProbe"] = {}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, "1.30", strict=True)


class Pods:
    """The three pods as processes. `ports`: the test's ports by the ports of the manifests."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ports = {one["containerPort"]: free_port() for one in container()["ports"]}
        self.processes: list[subprocess.Popen[bytes]] = []

    def address(self, index: int, port: int) -> str:
        return f"127.0.0.{index + 1}:{self.ports[port]}"

    def start(self, index: int) -> None:
        found = container()
        data = self.folder / f"data-{index}"
        (self.folder / f"tmp-{index}").mkdir()
        *shell, script = found["command"]
        script = script.replace("/tmp/", f"{self.folder}/tmp-{index}/").replace("/data", str(data))
        script = script.replace("//:", f"//127.0.0.{index + 1}:").replace("=0.0.0.0", f"=127.0.0.{index + 1}")
        script = re.sub(r"odradek-(\d)\.odradek", lambda pod: f"127.0.0.{int(pod[1]) + 1}", script)
        script = script.replace("$HOSTNAME.odradek", f"127.0.0.{index + 1}")
        script = re.sub(r"\b(9092|9093|9404)\b", lambda port: str(self.ports[int(port[1])]), script)
        variables = {one["name"]: one["value"] for one in found["env"]}
        environment = os.environ | variables | {"HOSTNAME": f"odradek-{index}", "PATH": f"{BIN}:{os.environ['PATH']}"}
        with (self.folder / f"log-{index}").open("wb") as log:
            self.processes.append(subprocess.Popen([*shell, script], env=environment, stdout=log, stderr=log))

    def status(self, index: int, probe: str) -> int:
        about = container()[probe]["httpGet"]
        (port,) = [one["containerPort"] for one in container()["ports"] if one["name"] == about["port"]]
        host, _, number = self.address(index, port).partition(":")
        try:
            return answered(int(number), about["path"], host)[0]
        except OSError:
            return 0


@pytest.fixture
def pods(processes: None, tmp_path: Path) -> Iterator[Pods]:
    made = Pods(tmp_path)
    yield made
    for process in made.processes:
        process.terminate()
    for process in made.processes:
        process.wait(DEADLINE_S * 4)


def test_pods_become_one_cluster_when_a_majority_is_there(pods: Pods) -> None:
    pods.start(0)
    eventually(lambda: pods.status(0, "livenessProbe") == 200, what="the first pod is live", deadline_s=120)
    assert pods.status(0, "readinessProbe") == 503, "a pod without a quorum is not ready"
    for index in (1, 2):
        pods.start(index)
    for index in range(3):
        eventually(lambda i=index: pods.status(i, "readinessProbe") == 200, what="a pod is ready", deadline_s=120)
    admin = AdminClient({"bootstrap.servers": pods.address(0, 9092)})
    admin.create_topics([NewTopic("orders", 3)])["orders"].result(DEADLINE_S)
    producer = Producer({"bootstrap.servers": pods.address(1, 9092), "acks": "all"})
    producer.produce("orders", b"x")
    assert producer.flush(DEADLINE_S) == 0
    described = admin.list_topics("orders", timeout=DEADLINE_S)
    assert all(len(one.replicas) == 3 for one in described.topics["orders"].partitions.values())
    lines = (pods.folder / "log-0").read_text().splitlines()
    assert len([json.loads(line)["logger"] for line in lines if line.startswith("{")]) > 5


# ---- the container file


def stages() -> list[list[tuple[str, str]]]:
    """Returns the instructions of each stage."""
    text = re.sub(r"\\\n\s*", " ", CONTAINERFILE.read_text(encoding="utf-8"))
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    found: list[list[tuple[str, str]]] = []
    for line in lines:
        name, _, value = line.partition(" ")
        if name == "FROM":
            found.append([])
        found[-1].append((name, value))
    return found


@pytest.mark.usefixtures("processes")
def test_linter_accepts_the_container_file_of_the_repository() -> None:
    done = subprocess.run([str(BIN / "hadolint"), "--no-color", str(CONTAINERFILE)], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.usefixtures("processes")
def test_container_serves_as_its_user_and_its_health_check_says_so(tmp_path: Path) -> None:
    build, image = stages()
    assert [name for name, _ in build] == ["FROM", "COPY", "RUN"]
    has = dict(image)
    assert has["USER"] == "1000:1000" and has["COPY"] == "--from=build /opt/odradek /opt/odradek"
    assert "/opt/odradek/bin/pip install --no-cache-dir --find-links /dist odradek==" in build[2][1]
    assert build[1][1] == "dist /dist"
    kafka, metrics, data = free_port(), free_port(), tmp_path / "data"

    def placed(word: str) -> str:
        return word.replace("9092", str(kafka)).replace("9404", str(metrics)).replace("/data", str(data))

    check = json.loads(has["HEALTHCHECK"].partition("CMD ")[2])
    words = [placed(word) for word in (*json.loads(has["ENTRYPOINT"]), *json.loads(has["CMD"]))]
    command = [str(BIN / words[0]), *words[1:], "--port", str(kafka)]
    health = [sys.executable, *map(placed, check[1:])]
    assert check[0] == "python" and subprocess.run(health, capture_output=True).returncode != 0

    class Watched(subprocess.Popen[str]):
        """The broker's process; checks its health before it stops."""

        def send_signal(self, sig: int) -> None:
            if sig == signal.SIGTERM:
                assert subprocess.run(health, capture_output=True, timeout=60).returncode == 0
            super().send_signal(sig)

    assert serves_until_sigterm(command, kafka, cwd=tmp_path, process=Watched) == 0
    assert (data / "t-0").is_dir() and shutil.which("sh")
