"""A streams group with its topology, drawn from the description of a member. This test sends the member's requests."""

from __future__ import annotations

from typing import Any

from odradek.cli.client.connection import Connection
from odradek.console.cluster.own_messages import coordinator_of
from odradek.protocol.messages.streams_group_topology_description_update import (
    TopologyDescription,
    TopologyDescriptionNode,
    TopologyDescriptionSubtopology,
)
from odradek.protocol.schema import Message

from compat_tests.cli.commands import odradek_command
from compat_tests.console.browser import Browser
from compat_tests.recipes import eventually
from compat_tests.streams.application import GROUP, LATER, TOPIC, describe, join
from compat_tests.wire import WireClient


def test_topology_of_a_streams_group_is_a_graph(browser: Browser, console_three: str) -> None:
    odradek_command("topic", "create", TOPIC, "--partitions", "2", "-b", console_three)
    assert answered(console_three, join(), 1).error_code == 0
    browser.open(f"/groups/{GROUP}")
    browser.await_text("subtopology 0")
    read = TopologyDescriptionNode(name="read", node_type=1, source_topics=[TOPIC], successors=["count"])
    count = TopologyDescriptionNode(name="count", node_type=2, stores=["counts"], successors=["write"])
    write = TopologyDescriptionNode(name="write", node_type=3, sink_topic="words")
    nodes = TopologyDescriptionSubtopology(subtopology_id="0", nodes=[read, count, write])
    topology = TopologyDescription(subtopologies=[nodes], global_stores=[])
    assert answered(console_three, describe(topology), 0).error_code == 0
    browser.driver.refresh()
    browser.await_text("Topology")
    drawn = [one.get_attribute("textContent") for one in browser.all(".graph title")]
    assert sorted(drawn) == sorted([TOPIC, "read", "count", "counts", "write", "words"])
    assert len(browser.all(".graph .edge")) == 5
    assert "streams" in browser.text and "Tasks" in browser.text
    assert browser.violations() == []


def answered(bootstrap: str, request: Message, version: int) -> Any:
    """Returns the response of the group's coordinator, once it is available."""

    def ask() -> Any:
        with Connection({"bootstrap.servers": bootstrap}).admin() as admin:
            node = coordinator_of(admin, GROUP)
            (broker,) = [one for one in admin.describe_cluster()["brokers"] if one["broker_id"] == node]
        with WireClient(f"{broker['host']}:{broker['port']}") as client:
            answer = client.call(request, version)
        return None if answer.error_code in LATER else answer

    return eventually(ask, what=f"{type(request).__name__} is answered", deadline_s=60)
