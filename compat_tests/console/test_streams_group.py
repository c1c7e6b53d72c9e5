"""A streams group with its topology, drawn from the description of a member. This test sends the member's requests."""

from __future__ import annotations

from odradek.protocol.messages.streams_group_topology_description_update import (
    UpdatedTopologyDescription,
    UpdatedTopologyDescriptionNode,
    UpdatedTopologyDescriptionSubtopology,
)

from compat_tests.cli.commands import odradek_command
from compat_tests.console.browser import Browser
from compat_tests.console.harness.streams_group import answered
from compat_tests.streams.application import GROUP, TOPIC, describe, join


def test_topology_of_a_streams_group_is_a_graph(browser: Browser, console_three: str) -> None:
    odradek_command("topic", "create", TOPIC, "--partitions", "2", "-b", console_three)
    assert answered(console_three, join(), 1).error_code == 0
    browser.open(f"/groups/{GROUP}")
    browser.await_text("subtopology 0")
    read = UpdatedTopologyDescriptionNode(name="read", node_type=1, source_topics=[TOPIC], successors=["count"])
    count = UpdatedTopologyDescriptionNode(name="count", node_type=2, stores=["counts"], successors=["write"])
    write = UpdatedTopologyDescriptionNode(name="write", node_type=3, sink_topic="words")
    nodes = UpdatedTopologyDescriptionSubtopology(subtopology_id="0", nodes=[read, count, write])
    topology = UpdatedTopologyDescription(subtopologies=[nodes], global_stores=[])
    assert answered(console_three, describe(topology), 0).error_code == 0
    browser.driver.refresh()
    browser.await_text("Topology")
    drawn = browser.steady(lambda: [one.get_attribute("textContent") for one in browser.all(".graph title")])
    assert sorted(drawn) == sorted([TOPIC, "read", "count", "counts", "write", "words"])
    assert len(browser.all(".graph .edge")) == 5
    assert "streams" in browser.text and "Tasks" in browser.text
    assert browser.violations() == []
