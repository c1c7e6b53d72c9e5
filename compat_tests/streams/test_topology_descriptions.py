"""Topology descriptions of members (KIP-1331), as Apache's admin client of 4.4 receives them.

No published release of Kafka Streams sends descriptions yet, so this test makes a member's requests.
"""

from __future__ import annotations

import queue
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from odradek.protocol.messages.find_coordinator import FindCoordinatorRequest
from odradek.protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest
from odradek.protocol.messages.streams_group_topology_description_update import (
    StreamsGroupTopologyDescriptionUpdateRequest,
    UpdatedTopologyDescription,
    UpdatedTopologyDescriptionGlobalStore,
    UpdatedTopologyDescriptionNode,
    UpdatedTopologyDescriptionSubtopology,
)
from odradek.protocol.schema import Message

from compat_tests.broker_process import BrokerProcess
from compat_tests.java.fetch import SPECIFICATION
from compat_tests.java.program import java_command
from compat_tests.recipes import eventually, make_topic
from compat_tests.streams.application import GROUP, LATER, MEMBER, TOPIC, describe, join
from compat_tests.wire import WireClient

_SOURCE = Path(__file__).resolve().parent / "Describer.java"
DEADLINE_S = 60.0


class Describer:
    """Describer.java as a process. It prints a dot at the end of a response."""

    def __init__(self, bootstrap: str) -> None:
        command = java_command(_SOURCE, bootstrap, version=SPECIFICATION)
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
        self._lines: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line.rstrip("\n"))

    def ask(self, what: str) -> list[str]:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{what} {GROUP}\n")
        reported: list[str] = []
        while (line := self._lines.get(timeout=DEADLINE_S)) != ".":
            reported.append(line)
        return reported

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()


@pytest.fixture
def describers(java_tools: None) -> Iterator[Callable[[str], Describer]]:
    made: list[Describer] = []

    def make(bootstrap: str) -> Describer:
        made.append(Describer(bootstrap))
        return made[-1]

    yield make
    for one in made:
        one.close()


def ask(bootstrap: str, request: Message, version: int) -> Any:
    with WireClient(bootstrap) as client:
        find = FindCoordinatorRequest(key_type=0, coordinator_keys=[GROUP])
        eventually(lambda: client.call(find, 6).coordinators[0].error_code == 0, what="there is a coordinator")

        def answered() -> Any:
            response = client.call(request, version)
            return None if response.error_code in LATER else response

        return eventually(answered, what=f"{type(request).__name__} is answered", deadline_s=DEADLINE_S)


def described() -> StreamsGroupTopologyDescriptionUpdateRequest:
    read = UpdatedTopologyDescriptionNode(name="read", node_type=1, source_topics=[TOPIC], successors=["count"])
    count = UpdatedTopologyDescriptionNode(name="count", node_type=2, stores=["counts"], successors=["write"])
    write = UpdatedTopologyDescriptionNode(name="write", node_type=3, sink_topic="words")
    everywhere = UpdatedTopologyDescriptionGlobalStore(
        source=UpdatedTopologyDescriptionNode(
            name="all", node_type=1, source_topics=["countries"], successors=["keep"]
        ),
        processor=UpdatedTopologyDescriptionNode(name="keep", node_type=2, stores=["countries"]),
    )
    topology = UpdatedTopologyDescription(
        subtopologies=[UpdatedTopologyDescriptionSubtopology(subtopology_id="0", nodes=[read, count, write])],
        global_stores=[everywhere],
    )
    return describe(topology)


def test_apaches_admin_client_reads_topology_until_group_deletion_and_after_kill_9(
    target: str, new_broker: Callable[[dict[str, str]], BrokerProcess], describers: Callable[[str], Describer]
) -> None:
    if target == "apache":
        pytest.skip("Apache Kafka 4.3.1 does not know descriptions of topologies")
    broker = new_broker({})
    make_topic(broker.bootstrap, TOPIC)
    describer = describers(broker.bootstrap)
    assert ask(broker.bootstrap, join(), 1).topology_description_required
    assert describer.ask("describe") == ["NOT_STORED"]
    assert ask(broker.bootstrap, described(), 0).error_code == 0
    reported = describer.ask("describe")
    assert reported[0] == "AVAILABLE"
    words = "\n".join(reported)
    for name in ("read", TOPIC, "count", "counts", "write", "words", "keep", "countries"):
        assert name in words, words
    broker.kill()
    broker.start()
    assert describer.ask("describe") == reported
    leave = StreamsGroupHeartbeatRequest(group_id=GROUP, member_id=MEMBER, member_epoch=-1)
    assert ask(broker.bootstrap, leave, 1).error_code == 0
    assert describer.ask("delete") == ["deleted"]
    assert "GroupIdNotFoundException" in describer.ask("describe")[0]
