"""`odradek cluster start --security …` and `--properties …`: TLS and SASL between nodes and for clients, real processes."""

from __future__ import annotations

import os
import re
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from odradek.client.properties import read_client_properties
from odradek.client.security_options import jaas_options

from compat_tests.recipes import eventually
from tests.server.harness.certificates import Authority, pem_properties

pytestmark = pytest.mark.usefixtures("processes")

DEADLINE_S = 120
SERVING = re.compile(
    r"^odradek: \d+ brokers serving on (?P<addresses>\S+) \(data in [^;]+(; settings of clients in (?P<file>.+))?\)$"
)
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required"
SECRET = "between-brokers-5c1d"


def cluster(verb: str, directory: Path, *more: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "odradek", "cluster", verb, "--data-dir", str(directory), *more]
    return subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S)


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Path]:
    """Yields the cluster's directory, and stops what still runs in it."""
    yield tmp_path / "cluster"
    cluster("stop", tmp_path / "cluster")


def start(directory: Path, *more: str) -> tuple[str, str | None]:
    """Starts a cluster. Returns its addresses, and the file with the clients' settings."""
    command = [sys.executable, "-m", "odradek", "cluster", "start", "--data-dir", str(directory), *more]
    with (directory.parent / "cluster.err").open("w") as errors:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
    assert process.stdout is not None
    line = process.stdout.readline()
    found = SERVING.match(line.rstrip("\n"))
    assert found, (line, (directory.parent / "cluster.err").read_text())
    return found["addresses"], found["file"]


def librdkafka(file: Path) -> dict[str, str]:
    """Returns the settings of a file for Kafka's tools under librdkafka's names."""
    found = read_client_properties(file)
    made = {
        "bootstrap.servers": found["bootstrap.servers"],
        "security.protocol": found["security.protocol"],
        "ssl.ca.location": found["ssl.truststore.location"],
    }
    if "ssl.keystore.location" in found:
        made |= dict.fromkeys(("ssl.certificate.location", "ssl.key.location"), found["ssl.keystore.location"])
    if "sasl.jaas.config" in found:
        user = jaas_options(found["sasl.jaas.config"])
        made |= {"sasl.mechanism": found["sasl.mechanism"]}
        made |= {"sasl.username": user["username"], "sasl.password": user["password"]}
    return made


def write_and_read(settings: dict[str, str], count: int = 1) -> None:
    """Writes a record, and checks that the topic has `count` records."""
    producer = Producer(settings)
    producer.produce("orders", b"order")
    assert producer.flush(DEADLINE_S) == 0
    group = {"group.id": f"reader-{count}", "auto.offset.reset": "earliest"}
    consumer = Consumer({**settings, **group})
    consumer.subscribe(["orders"])
    assert len(consumer.consume(count, DEADLINE_S)) == count
    consumer.close()


def states(directory: Path) -> list[str]:
    shown = cluster("status", directory)
    assert shown.returncode == 0, shown.stderr
    return [re.split(r"\s{2,}", line)[4] for line in shown.stdout.splitlines()[1:] if line[:1].isdigit()]


def test_cluster_with_scram_serves_is_shown_and_starts_again_with_its_user(directory: Path) -> None:
    _, file = start(directory, "--security", "scram", "--port", "0")
    assert file is not None
    settings = librdkafka(Path(file))
    admin = AdminClient(settings)
    admin.create_topics([NewTopic("orders", 1, 3)])["orders"].result(DEADLINE_S)
    write_and_read(settings)
    assert states(directory) == ["serving"] * 3
    secret = [
        *directory.glob("tls/*.pem"),
        *directory.glob("tls/*.key"),
        *directory.glob("*/server.properties"),
        Path(file),
    ]
    assert len(secret) == 9
    open_to_others = stat.S_IRWXG | stat.S_IRWXO
    assert [one.name for one in secret if one.stat().st_mode & open_to_others] == ["authority.pem"]
    password = settings["sasl.password"]
    assert [log for log in directory.glob("node-*/node.log") if password in log.read_text()] == []

    os.kill(int((directory / "node-2" / "node.pid").read_text()), signal.SIGKILL)
    command = [sys.executable, "-m", "odradek", "start", str(directory / "node-2" / "server.properties")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as restarted:
        assert restarted.stdout is not None and "serving" in restarted.stdout.readline()
        eventually(lambda: states(directory) == ["serving"] * 3, what="status shows it", deadline_s=DEADLINE_S)
        assert cluster("stop", directory).returncode == 0
    again, same = start(directory, "--brokers", "4")
    assert same == file and librdkafka(Path(file)) == {**settings, "bootstrap.servers": again}
    write_and_read(librdkafka(Path(file)), 2)
    assert states(directory) == ["serving"] * 4


def test_client_uses_the_certificate_that_the_cluster_wrote(directory: Path) -> None:
    _, file = start(directory, "--security", "mtls", "--brokers", "1", "--port", "0")
    assert file is not None
    write_and_read(librdkafka(Path(file)))
    assert states(directory) == ["serving"]


def test_cluster_runs_on_a_properties_file_with_own_certificates_and_users(directory: Path, tmp_path: Path) -> None:
    authority = Authority()
    stores = pem_properties(authority.issue(name="node"), authority, tmp_path / "own")
    properties = {
        "listener.security.protocol.map": "SASL_SSL:SASL_SSL,CONTROLLER:SSL",
        "security.inter.broker.protocol": "SASL_SSL",
        "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
        "sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "listener.name.controller.ssl.client.auth": "required",
        "listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config": f'{SCRAM} username="node" password="{SECRET}";',
        **stores,
    }
    own = tmp_path / "own.properties"
    own.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
    user = ("--add-scram", f"SCRAM-SHA-512=[name=node,password={SECRET}]")
    addresses, file = start(directory, "--properties", str(own), *user, "--brokers", "2", "--port", "0")
    assert file is None
    write_and_read(
        {
            "bootstrap.servers": addresses,
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": stores["ssl.truststore.location"],
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": "node",
            "sasl.password": SECRET,
        }
    )
    assert states(directory) == ["serving"] * 2
    assert cluster("stop", directory).returncode == 0


def test_cluster_keeps_the_security_with_which_it_was_made(directory: Path) -> None:
    start(directory, "--brokers", "1", "--port", "0")
    assert cluster("stop", directory).returncode == 0
    refused = cluster("start", directory, "--security", "tls")
    assert refused.returncode == 2 and "was created with no --security" in refused.stderr


def test_properties_that_are_a_nodes_own_are_refused(directory: Path, tmp_path: Path) -> None:
    file = tmp_path / "own.properties"
    file.write_text("node.id=7\nlisteners=SSL://localhost:9092\n")
    refused = cluster("start", directory, "--properties", str(file))
    assert refused.returncode == 2 and "listeners, node.id: each node of a cluster has its own" in refused.stderr
    missing = cluster("start", directory, "--properties", str(tmp_path / "nothing"))
    assert missing.returncode == 2 and "cannot read" in missing.stderr
    assert not directory.exists()
