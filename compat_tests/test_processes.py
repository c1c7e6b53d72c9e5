"""Both brokers start, answer, are killed and recover: the basis of the other tests."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from odradek.protocol.messages.metadata import MetadataRequest

from compat_tests.broker_process import BrokerProcess, free_port
from compat_tests.java.tool import ToolHost
from compat_tests.watcher import FrameReader, Request, Watcher
from compat_tests.wire import WireClient, request_frame


def test_a_broker_answers_metadata_with_the_address_that_it_advertises(broker: BrokerProcess, bootstrap: str) -> None:
    with WireClient(broker.bootstrap) as client:
        response = client.call(MetadataRequest(topics=[]), 1)
    assert [f"{node.host}:{node.port}" for node in response.brokers] == [bootstrap]


def test_the_watcher_notes_requests_and_passes_them_on(watcher: Watcher) -> None:
    before = watcher.snapshot()
    with WireClient(watcher.address, client_id="someone") as client:
        client.call(MetadataRequest(topics=[]), 5)
    assert watcher.snapshot() - before == {(3, 5): 1}


def test_requests_are_found_in_pieces_of_any_size() -> None:
    frames = b"".join(request_frame(MetadataRequest(topics=[]), version, 1, "c") for version in (1, 9, 12))
    for size in (1, 3, 7, 1000):
        noted: list[Request] = []
        reader = FrameReader(noted.append)
        for at in range(0, len(frames), size):
            reader.feed(frames[at : at + size])
        assert noted == [(3, 1), (3, 9), (3, 12)]


def test_apaches_tools_run_one_after_the_other_in_one_jvm(tools: ToolHost, bootstrap: str, topic: str) -> None:
    command = ("org.apache.kafka.tools.TopicCommand", "--bootstrap-server", bootstrap)
    assert f"Created topic {topic}" in tools.run(*command, "--create", "--topic", topic).checked().out
    assert topic in tools.run(*command, "--list").checked().out.splitlines()
    again = tools.run(*command, "--create", "--topic", topic)
    assert again.status == 1
    assert "already exists" in again.out


def test_free_ports_of_two_processes_differ() -> None:
    own = {free_port() for _ in range(500)}
    program = "from compat_tests.broker_process import free_port; print(*(free_port() for _ in range(500)))"
    root = Path(__file__).resolve().parents[1]
    printed = subprocess.run([sys.executable, "-c", program], cwd=root, capture_output=True, text=True, check=True)
    others = set(map(int, printed.stdout.split()))
    assert len(own) == len(others) == 500
    assert not own & others
