"""Kafka Connect, distributed: the file source and the file sink, with exactly-once support, through a kill of the worker."""

from __future__ import annotations

from pathlib import Path

import pytest
from odradek.client.error_kinds import ErrorKind
from odradek.client.user_errors import UserError
from odradek.console.cluster.connect import ACTIONS, ConnectCluster

from compat_tests.ecosystem import reference_client
from compat_tests.ecosystem.connect_worker import ConnectWorker
from compat_tests.ecosystem.running import Running

ROUND = 2000


def change_as_the_console(address: str, running: Running) -> None:
    """Lists, pauses, resumes and restarts connectors by the console's client."""
    cluster = ConnectCluster(address)

    def has(state: str) -> bool:
        states = {one.name: (one.kind, one.state, [task.state for task in one.tasks]) for one in cluster.connectors()}
        return states == {
            "sink": ("sink", state, [state]),
            "source": ("source", "RUNNING", ["RUNNING"]),
        }

    running.wait_for(lambda: has("RUNNING"), "both connectors run")
    assert all(one.worker and not one.trace for one in cluster.connectors())
    assert cluster.config("sink")["connector.class"] == "org.apache.kafka.connect.file.FileStreamSinkConnector"
    cluster.act("sink", "pause")
    running.wait_for(lambda: has("PAUSED"), "the sink is paused")
    cluster.act("sink", "resume")
    running.wait_for(lambda: has("RUNNING"), "the sink is resumed")
    cluster.act("sink", "restart")
    running.wait_for(lambda: has("RUNNING"), "the sink is restarted")
    for action in ACTIONS:
        with pytest.raises(UserError, match=r"Kafka Connect: .*none") as missing:
            cluster.act("none", action)
        assert missing.value.kind is ErrorKind.NOT_FOUND


def append(file: Path, numbers: range) -> None:
    with file.open("a") as lines:
        lines.writelines(f"line {number}\n" for number in numbers)


@pytest.mark.timeout(600)
def test_lines_go_from_file_to_file_exactly_once_through_a_kill(bootstrap: str, topic: str, tmp_path: Path) -> None:
    topic = topic[:50]
    reference_client.create(bootstrap, topic)
    source, sink = tmp_path / "source.txt", tmp_path / "sink.txt"
    append(source, range(ROUND))
    properties = {"exactly.once.source.support": "enabled"}
    worker = ConnectWorker(bootstrap, f"connect-{topic}", tmp_path, properties=properties)
    file_source = {
        "connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector",
        "exactly.once.support": "required",
        "tasks.max": "1",
        "file": str(source),
        "topic": topic,
        "batch.size": "100",
        "transaction.boundary": "poll",
    }
    file_sink = {
        "connector.class": "org.apache.kafka.connect.file.FileStreamSinkConnector",
        "tasks.max": "1",
        "file": str(sink),
        "topics": topic,
        "consumer.override.isolation.level": "read_committed",
    }
    with worker.start() as running:
        for name, config in (("source", file_source), ("sink", file_sink)):
            worker.run_connector(running, name, config)
        running.wait_for(
            lambda: len(reference_client.values(bootstrap, topic)) >= ROUND, "the first lines in the topic"
        )
        running.wait_for(lambda: len(sink.read_text().splitlines()) >= ROUND, "the first lines in the sink")
        reference_client.await_committed(bootstrap, "connect-sink", ROUND)
        change_as_the_console(f"http://127.0.0.1:{worker.port}", running)
        append(source, range(ROUND, 2 * ROUND))
        running.wait_for(lambda: len(reference_client.values(bootstrap, topic)) > ROUND, "more lines")
        running.kill()
    append(source, range(2 * ROUND, 3 * ROUND))
    with worker.start() as running:
        running.wait_for(lambda: len(reference_client.values(bootstrap, topic)) >= 3 * ROUND, "all lines in the topic")
        running.wait_for(lambda: len(set(sink.read_text().splitlines())) >= 3 * ROUND, "all lines in the sink")
        running.stop()
    wanted = [f"line {number}" for number in range(3 * ROUND)]
    assert reference_client.values(bootstrap, topic) == wanted
    # The sink commits after it writes: after a kill it may repeat lines, and loses none.
    assert set(sink.read_text().splitlines()) == set(wanted)
