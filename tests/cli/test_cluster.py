"""`odradek cluster` in real processes, as a person or a script uses it."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import time
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from odradek.cli.local_cluster import plan as cluster_plan
from odradek.cli.local_cluster.plan import Plan, PlannedNode, grown, read_plan, write_plan
from odradek.protocol.messages.metadata import MetadataRequest

from compat_tests.broker_process import free_port
from compat_tests.wire import WireClient
from tests.cli.harness.clusters import DEADLINE_S, SERVING, asked, cluster, started

pytestmark = pytest.mark.usefixtures("processes")


def test_four_brokers_serve_are_shown_and_stop(directory: Path) -> None:
    process, addresses = started(directory, "--brokers", "4", "--port", "0")
    assert len(set(addresses)) == 4
    for address in addresses:
        with WireClient(address, timeout=DEADLINE_S) as client:
            listed = client.call(MetadataRequest(topics=[]), 12).brokers
        assert sorted(f"{one.host}:{one.port}" for one in listed) == sorted(addresses)
    shown = asked("status", directory)
    assert shown.returncode == 0, shown.stderr
    rows = [re.split(r"\s{2,}", line) for line in shown.stdout.splitlines()]
    assert rows[0] == ["NODE", "ROLES", "ADDRESS", "PID", "STATE", "LEADS", "REPLICAS", "IN SYNC"]
    assert [row[0] for row in rows[1:5]] == ["1", "2", "3", "4"]
    assert [row[2] for row in rows[1:5]] == addresses and {row[4] for row in rows[1:5]} == {"serving"}
    assert sorted(row[1].removesuffix(" (active)") for row in rows[1:5]) == ["broker", *["broker,controller"] * 3]
    assert sum(row[1].endswith("(active)") for row in rows[1:5]) == 1
    again = subprocess.run(cluster("start", directory), capture_output=True, text=True, timeout=DEADLINE_S)
    assert again.returncode == 1 and "runs already" in again.stderr
    assert asked("stop", directory).returncode == 0
    out, err = process.communicate(timeout=DEADLINE_S)
    assert (process.returncode, out, err) == (0, "", "")


def test_sigterm_stops_every_node_and_a_start_finds_what_there_was(directory: Path) -> None:
    process, before = started(directory, "--brokers", "1", "--port", "0")
    cluster_id = re.search(r'"cluster_id": "(.+)"', (directory / "cluster.json").read_text())
    process.send_signal(signal.SIGTERM)
    assert process.wait(DEADLINE_S) == 0
    process, after = started(directory)
    assert after == before and cluster_id and cluster_id[1] in (directory / "cluster.json").read_text()
    process.send_signal(signal.SIGINT)
    assert process.wait(DEADLINE_S) == 0


def test_ports_of_a_plan_differ_also_where_one_is_chosen_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    only = free_port()
    monkeypatch.setattr(cluster_plan, "_ANY_PORTS", range(only, only + 1))
    monkeypatch.setattr(cluster_plan, "_MOST_TRIES", 1)
    (node,) = grown(None, 1, None, has_internal=True).nodes
    assert node.port == only and len({node.port, node.controller_port, node.internal_port}) == 3


def test_a_port_that_is_taken_before_its_node_listens_is_replaced(directory: Path) -> None:
    command = cluster("start", directory, "--brokers", "1", "--port", "0")
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + DEADLINE_S
    while not (directory / "cluster.json").exists():
        assert time.monotonic() < deadline
    plan = read_plan(directory)
    assert plan is not None
    with socket.create_server(("127.0.0.1", plan.nodes[0].port)):  # long before the node, which has modules to import
        out, err = process.stdout, process.stderr
        assert out is not None and err is not None
        found = SERVING.match(out.readline().rstrip("\n"))
        assert found and found["addresses"] != plan.nodes[0].address, err.read()
        assert asked("stop", directory).returncode == 0
    assert process.wait(DEADLINE_S) == 0


def test_nodes_that_lost_the_process_that_began_them_are_found_and_stopped(directory: Path) -> None:
    process, _ = started(directory, "--brokers", "1", "--port", "0")
    pid = int((directory / "node-1" / "node.pid").read_text())
    process.kill()
    process.wait()
    assert str(pid) in asked("status", directory).stdout
    assert asked("stop", directory).returncode == 0
    deadline = time.monotonic() + DEADLINE_S
    while "down" not in asked("status", directory).stdout:
        assert time.monotonic() < deadline


def test_status_shows_the_problems_of_a_dead_node(directory: Path) -> None:
    _, addresses = started(directory, "--brokers", "3", "--port", "0")
    admin = AdminClient({"bootstrap.servers": ",".join(addresses)})
    admin.create_topics([NewTopic("orders", 2, 3)])["orders"].result(DEADLINE_S)
    os.kill(int((directory / "node-1" / "node.pid").read_text()), signal.SIGKILL)
    deadline = time.monotonic() + DEADLINE_S
    while "topics 1, partitions 2, under-replicated 2, offline 0" not in (shown := asked("status", directory).stdout):
        assert time.monotonic() < deadline, shown
    rows = {row[0]: row for row in (re.split(r"\s{2,}", line) for line in shown.splitlines())}
    assert rows["1"][3:] == ["-", "down", "0", "2", "0"]
    assert [rows[node][4] for node in "23"] == ["serving"] * 2
    assert sum(int(rows[node][5]) for node in "23") == 2
    assert re.search(r"^controller [23] in epoch \d+, metadata offset \d+, lag of voters: 1 ", shown, re.MULTILINE)


@pytest.mark.parametrize("verb", ["status", "stop"])
def test_missing_cluster_is_one_clear_line(verb: str, tmp_path: Path) -> None:
    said = asked(verb, tmp_path)
    assert said.returncode == 1 and "there is no cluster in" in said.stderr


def test_a_smaller_cluster_is_not_made_of_a_larger_one(directory: Path) -> None:
    directory.mkdir()
    write_plan(directory, Plan("MkU3OEVBNTcwNTJENDM2Qg", (PlannedNode(1, 0), PlannedNode(2, 0))))
    rejected = subprocess.run(
        cluster("start", directory, "--brokers", "1"), capture_output=True, text=True, timeout=DEADLINE_S
    )
    assert rejected.returncode == 2 and "has 2 brokers already" in rejected.stderr
