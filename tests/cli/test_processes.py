"""`odradek start --processes`: the brokers and the controller of a machine as one service."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import NewTopic
from odradek.cli.command_parser import UsageError
from odradek.cli.processes.endpoint import LABEL, merged, under_replicated
from odradek.cli.processes.members import free_port, service_of
from odradek.cli.processes.supervisor import next_pause_s
from prometheus_client.parser import text_string_to_metric_families

DEADLINE_S = 120.0
#: Time between two records of `Senders`: more of them cost the brokers CPU, and show no more gaps.
_PACE_S = 0.03


def until(holds: Callable[[], Any], words: str) -> Any:
    deadline = time.monotonic() + DEADLINE_S
    while not (found := holds()):
        assert time.monotonic() < deadline, words
        time.sleep(0.05)
    return found


# ---- properties of the processes


def test_brokers_have_the_ports_and_ids_after_those_of_the_service(tmp_path: Path) -> None:
    given = {
        "listeners": "PLAINTEXT://:9092,SSL://:9192",
        "advertised.listeners": "PLAINTEXT://kafka.example:19092,SSL://kafka.example:19192",
        "log.dirs": f"{tmp_path}/a,{tmp_path}/b",
        "node.id": "100",
        "broker.rack": "machine-7",
    }
    service = service_of(given, 3)
    controller, *brokers = service.members
    assert (controller.node_id, controller.role) == (100, "controller")
    assert controller.properties["listeners"] == "CONTROLLER://127.0.0.1:9195"
    assert [one.node_id for one in brokers] == [101, 102, 103]
    assert [one.properties["listeners"] for one in brokers] == [
        f"PLAINTEXT://:{9092 + number},SSL://:{9192 + number}" for number in range(3)
    ]
    assert brokers[2].properties["advertised.listeners"] == (
        "PLAINTEXT://kafka.example:19094,SSL://kafka.example:19194"
    )
    assert {one.properties["broker.rack"] for one in brokers} == {"machine-7"}
    assert {one.properties["controller.quorum.voters"] for one in service.members} == {"100@127.0.0.1:9195"}
    assert brokers[0].properties["log.dirs"] == f"{tmp_path}/a/node-101,{tmp_path}/b/node-101"
    assert brokers[0].properties["offsets.topic.replication.factor"] == "1"


def test_machine_of_a_cluster_has_the_controller_that_the_voters_name(tmp_path: Path) -> None:
    voters = {"controller.quorum.voters": "100@one.example:9090,200@two.example:9090"}
    given = {"listeners": "PLAINTEXT://:9092", "log.dirs": str(tmp_path), **voters}
    service = service_of({**given, "node.id": "200"}, 2)
    assert [(one.node_id, one.role) for one in service.members] == [
        (200, "controller"),
        (201, "broker"),
        (202, "broker"),
    ]
    assert service.members[0].properties["listeners"] == "CONTROLLER://two.example:9090"
    assert "offsets.topic.replication.factor" not in service.members[1].properties
    without = service_of({**given, "node.id": "300", "process.roles": "broker"}, 2)
    assert [one.role for one in without.members] == ["broker", "broker"]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"listeners": "PLAINTEXT://:9092,SSL://:9093"}, "two listeners would have port 9093"),
        ({"listeners": "PLAINTEXT://:65535"}, "leaves no ports for broker 2"),
        ({"process.roles": "broker", "listeners": "PLAINTEXT://:9092"}, "needs controller.quorum.voters"),
        ({"controller.quorum.bootstrap.servers": "one:9090"}, "name the controllers in controller.quorum.voters"),
        ({"listeners": "PLAINTEXT://:9092", "odradek.metrics.port": "9093"}, "two listeners would have port 9093"),
    ],
)
def test_configuration_without_room_for_the_processes_is_refused(
    tmp_path: Path, given: dict[str, str], words: str
) -> None:
    with pytest.raises(UsageError, match=words):
        service_of({"log.dirs": str(tmp_path), **given}, 2)


def test_directory_of_a_node_that_ran_alone_is_refused(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_text("version=1\n")
    with pytest.raises(UsageError, match="holds the data of a node that ran alone"):
        service_of({"log.dirs": str(tmp_path)}, 2)


def test_samples_of_every_process_are_one_family() -> None:
    text = (
        "# HELP a_total Bytes.\n# TYPE a_total counter\na_total {}\n"
        "# HELP kafka_server_replicamanager_underreplicatedpartitions x\n"
        "# TYPE kafka_server_replicamanager_underreplicatedpartitions gauge\n"
        "kafka_server_replicamanager_underreplicatedpartitions {}\n"
    )
    texts = {1: text.format(5, 2), 2: text.format(7, 1)}
    assert under_replicated(texts) == 3
    families = {one.name: one for one in text_string_to_metric_families(merged(texts).decode())}
    assert [(one.name, one.labels, one.value) for one in families["a"].samples] == [
        ("a_total", {LABEL: "1"}, 5.0),
        ("a_total", {LABEL: "2"}, 7.0),
    ]


def test_pause_doubles_while_a_process_keeps_ending_and_is_short_after_a_long_run() -> None:
    pauses = [0.25]
    for _ in range(8):
        pauses.append(next_pause_s(pauses[-1], 1.0))
    assert pauses[1:4] == [0.5, 1.0, 2.0] and pauses[-1] == 30.0
    assert next_pause_s(pauses[-1], 3600.0) == 0.5


# ---- in processes


class Machine:
    """A service of two brokers with a rack of its own."""

    def __init__(self, directory: Path, *settings: str) -> None:
        self.directory = directory
        self.metrics_port = free_port()
        settings = (*settings, f"odradek.metrics.port={self.metrics_port}")
        overrides = [word for setting in settings for word in ("--override", setting)]
        self.options = ["--processes", "2", "--data-dir", str(directory), *overrides]
        self.process: subprocess.Popen[str] | None = None

    def command(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "odradek", *words, *self.options]

    def begin(self) -> None:
        self.process = subprocess.Popen(
            self.command("start"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def await_serving(self) -> list[str]:
        assert self.process is not None and self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line.startswith("odradek: 2 brokers serving on "), (line, self.process.poll())
        return line.partition(" serving on ")[2].partition(" (")[0].split(",")

    def pids(self) -> dict[int, int]:
        """The process of each node, by its id."""
        assert self.process is not None
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        found = {}
        for pid in map(int, children):
            with suppress(FileNotFoundError, ProcessLookupError):
                for word in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0"):
                    if word.endswith(b".properties"):
                        found[int(Path(os.fsdecode(word)).stem.removeprefix("node-"))] = pid
        return found

    def get(self, path: str) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.metrics_port}{path}", timeout=60) as response:
                return response.status, response.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def is_ready(self) -> bool:
        return self.get("/health/ready")[0] == 200

    def end(self) -> tuple[int, str]:
        """The exit status and what was written to standard error."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        _, err = self.process.communicate(timeout=DEADLINE_S)
        return self.process.returncode, err


@contextmanager
def started(*machines: Machine) -> Iterator[None]:
    try:
        for machine in machines:
            machine.begin()
        yield
    finally:
        for machine in machines:
            if machine.process is not None and machine.process.poll() is None:
                machine.process.kill()
                machine.process.communicate(timeout=DEADLINE_S)


@pytest.fixture(scope="module")
def alone(processes: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Machine, list[str]]]:
    machine = Machine(tmp_path_factory.mktemp("alone"), "listeners=PLAINTEXT://127.0.0.1:0")
    with started(machine):
        yield machine, machine.await_serving()


def test_one_port_has_health_and_metrics_of_every_process(alone: tuple[Machine, list[str]]) -> None:
    machine, addresses = alone
    assert len(set(addresses)) == 2
    status, text = machine.get("/health/ready")
    assert status == 200 and json.loads(text)["nodes"].keys() == {"1", "2", "3"}
    assert machine.get("/health/live")[0] == 200 and machine.get("/nothing")[0] == 404
    families = {one.name: one for one in text_string_to_metric_families(machine.get("/metrics")[1])}
    bytes_in = families["kafka_server_brokertopicmetrics_bytesin"]
    assert {one.labels[LABEL] for one in bytes_in.samples} >= {"2", "3"}


def test_killed_process_is_started_again_and_keeps_its_records(alone: tuple[Machine, list[str]]) -> None:
    machine, addresses = alone
    producer = KafkaProducer(bootstrap_servers=addresses, acks="all", max_block_ms=60_000)
    offsets = [producer.send("kept", b"%d" % number).get(60).offset for number in range(10)]
    before = machine.pids()
    assert before.keys() == {1, 2, 3}
    for node in (2, 3):
        os.kill(before[node], signal.SIGKILL)
    until(lambda: not machine.is_ready(), "the endpoint names the processes that do not run")
    until(machine.is_ready, "both processes run again")
    after = machine.pids()
    assert after[1] == before[1] and after[2] != before[2] and after[3] != before[3]
    consumer = KafkaConsumer(
        "kept", bootstrap_servers=addresses, auto_offset_reset="earliest", consumer_timeout_ms=60_000
    )
    assert [next(consumer).value for _ in offsets] == [b"%d" % number for number in range(10)]
    consumer.close()
    producer.close()


def test_process_that_ends_while_another_one_stops_for_a_restart_is_started_again(
    alone: tuple[Machine, list[str]],
) -> None:
    machine, addresses = alone
    until(machine.is_ready, "both brokers are ready")
    admin = KafkaAdminClient(bootstrap_servers=addresses)
    admin.create_topics([NewTopic("led_by_both", 4, 1)])
    assert machine.process is not None and machine.process.stderr is not None
    # A leader that has clients stops for a heartbeat interval.
    connected = [KafkaProducer(bootstrap_servers=[address], max_block_ms=60_000) for address in addresses]
    for partition in range(4):
        connected[0].send("led_by_both", b"record", partition=partition).get(60)
    before = machine.pids()
    machine.process.send_signal(signal.SIGHUP)
    while "restarting" not in (line := machine.process.stderr.readline()):
        assert line
    slow, other = (2, 3) if "2" in line else (3, 2)
    os.kill(before[slow], signal.SIGSTOP)
    try:
        os.kill(before[other], signal.SIGKILL)
        until(lambda: machine.pids().get(other) not in (None, before[other]), "the process is started again")
        assert machine.pids()[slow] == before[slow], "the other one has not ended"
    finally:
        os.kill(before[slow], signal.SIGCONT)
    while "every process was restarted" not in (line := machine.process.stderr.readline()):
        assert line and "stops here" not in line, line
    until(machine.is_ready, "both brokers are ready")
    admin.close()
    for producer in connected:
        producer.close()


def test_processes_stop_when_the_supervisor_is_killed(processes: None, tmp_path: Path) -> None:
    machine = Machine(tmp_path, "listeners=PLAINTEXT://127.0.0.1:0")
    with started(machine):
        machine.await_serving()
        pids = machine.pids()
        assert machine.process is not None
        machine.process.kill()
        machine.process.communicate(timeout=DEADLINE_S)
        until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids.values()), "every process has ended")
    for node in pids:
        assert (tmp_path / f"node-{node}" / ".kafka_cleanshutdown").exists() or node == 1


class Senders(threading.Thread):
    """Sends numbers with acks=all until `end`."""

    def __init__(self, addresses: list[str], topic: str) -> None:
        super().__init__(daemon=True)
        self.acknowledged: list[int] = []
        self.failed: list[BaseException] = []
        self._producer = KafkaProducer(
            bootstrap_servers=addresses,
            acks="all",
            enable_idempotence=True,
            delivery_timeout_ms=120_000,
            max_block_ms=120_000,
        )
        self._topic = topic
        self._is_over = threading.Event()

    def run(self) -> None:
        number = 0
        while not self._is_over.wait(_PACE_S):
            sent = self._producer.send(self._topic, b"%d" % number)
            sent.add_callback(lambda _, number=number: self.acknowledged.append(number))
            sent.add_errback(self.failed.append)
            number += 1

    def end(self) -> None:
        self._is_over.set()
        self.join()
        self._producer.close(120)


def test_replicas_are_on_different_machines_and_a_roll_loses_nothing(processes: None, tmp_path: Path) -> None:
    ports = [free_port() for _ in range(2)]
    voters = f"controller.quorum.voters=100@127.0.0.1:{ports[0]},200@127.0.0.1:{ports[1]}"
    machines = [
        Machine(
            tmp_path / rack,
            "listeners=PLAINTEXT://127.0.0.1:0",
            voters,
            f"node.id={node}",
            f"broker.rack={rack}",
            "offsets.topic.replication.factor=2",
        )
        for node, rack in ((100, "a"), (200, "b"))
    ]
    not_formatted = subprocess.run(machines[0].command("start"), capture_output=True, text=True, timeout=DEADLINE_S)
    assert not_formatted.returncode == 2 and "odradek format --processes" in not_formatted.stderr
    for machine in machines:
        formatting = [*machine.command("format"), "-t", "MkU3OEVBNTcwNTJENDM2Qg"]
        subprocess.run(formatting, check=True, timeout=DEADLINE_S)
    with started(*machines):
        addresses = [address for machine in machines for address in machine.await_serving()]
        admin = KafkaAdminClient(bootstrap_servers=addresses)
        admin.create_topics([NewTopic("spread", 12, 2), NewTopic("rolled", 4, 2)])
        described = AdminClient({"bootstrap.servers": ",".join(addresses)}).list_topics(timeout=60).topics
        replicas = [
            sorted(partition.replicas)
            for topic in ("spread", "rolled")
            for partition in described[topic].partitions.values()
        ]
        assert len(replicas) == 16
        assert all([node // 100 for node in nodes] == [1, 2] for nodes in replicas)
        assert {node for nodes in replicas for node in nodes} == {101, 102, 201, 202}
        admin.close()

        senders = Senders(addresses, "rolled")
        senders.start()
        until(lambda: len(senders.acknowledged) > 50, "records are acknowledged")
        before = machines[0].pids()
        machine = machines[0]
        assert machine.process is not None and machine.process.stderr is not None
        machine.process.send_signal(signal.SIGHUP)
        lines = []
        while not lines or "every process was restarted" not in lines[-1]:
            lines.append(machine.process.stderr.readline())
            assert lines[-1], lines
        count = len(senders.acknowledged)
        until(lambda: len(senders.acknowledged) > count + 50, "records are acknowledged after the restart")
        after = machine.pids()
        assert before.keys() == after.keys() == {100, 101, 102}
        assert all(after[node] != pid for node, pid in before.items())
        senders.end()
        assert senders.failed == []
        assert found_in("rolled", addresses) == sorted(senders.acknowledged)
        assert machines[0].end()[0] == 0 and machines[1].end()[0] == 0


def found_in(topic: str, addresses: list[str]) -> list[int]:
    """The numbers in the topic, sorted."""
    consumer = KafkaConsumer(bootstrap_servers=addresses, auto_offset_reset="earliest")
    places = [TopicPartition(topic, partition) for partition in consumer.partitions_for_topic(topic)]
    consumer.assign(places)
    ends, found = consumer.end_offsets(places), []

    def is_read() -> bool:
        for records in consumer.poll(500).values():
            found.extend(int(record.value) for record in records)
        return all(consumer.position(place) >= ends[place] for place in places)

    until(is_read, "all records are read")
    consumer.close()
    return sorted(found)
