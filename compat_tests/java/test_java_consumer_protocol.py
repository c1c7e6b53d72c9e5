"""Apache's Java consumer in groups of KIP-848 (`group.protocol=consumer`), and the tools that inspect such groups."""

from __future__ import annotations

import pytest

from compat_tests.java.conftest import Tool
from compat_tests.java.harness.events import events
from compat_tests.recipes import make_topic

NEW = ("--command-property", "group.protocol=consumer")


def test_a_group_goes_on_where_it_committed(tool: Tool, bootstrap: str, topic: str, group: str) -> None:
    make_topic(bootstrap, topic, partitions=2)
    settings = ("--topic", topic, "--group", group, "--from-beginning", "--max-messages", "1", *NEW)
    for line in ("a\n", "b\n"):
        tool("console_producer", "--topic", topic, stdin=line).checked()
        assert tool("console_consumer", *settings).checked().out == line


@pytest.mark.parametrize("assignor", ["uniform", "range"])
def test_the_verifiable_consumer_goes_on_where_it_committed(
    assignor: str, tool: Tool, bootstrap: str, topic: str, group: str
) -> None:
    make_topic(bootstrap, topic, partitions=2)
    tool("console_producer", "--topic", topic, stdin="".join(f"{n}\n" for n in range(300))).checked()
    settings = ("--topic", topic, "--group-id", group, "--reset-policy", "earliest")
    new = ("--group-protocol", "consumer", "--group-remote-assignor", assignor)
    tool("verifiable_consumer", *settings, *new, "--max-messages", "120").checked()
    second = tool("verifiable_consumer", *settings, *new, "--max-messages", "180").checked()
    assert sum(int(str(one["count"])) for one in events(second.out, "records_consumed")) == 180


def test_a_static_member_consumes(tool: Tool, bootstrap: str, topic: str, group: str) -> None:
    make_topic(bootstrap, topic)
    tool("console_producer", "--topic", topic, stdin="".join(f"{n}\n" for n in range(10))).checked()
    settings = ("--topic", topic, "--group-id", group, "--reset-policy", "earliest", "--group-instance-id", "i")
    read = tool("verifiable_consumer", *settings, "--group-protocol", "consumer", "--max-messages", "10").checked()
    assert events(read.out, "partitions_assigned")


def test_a_pattern_is_resolved_by_the_broker(tool: Tool, bootstrap: str, topic: str, group: str) -> None:
    make_topic(bootstrap, topic)
    tool("console_producer", "--topic", topic, stdin="a\n").checked()
    settings = ("--include", f"{topic}.*", "--group", group, "--from-beginning", "--max-messages", "1", *NEW)
    assert tool("console_consumer", *settings).checked().out == "a\n"


def test_a_group_is_described_reset_and_deleted(tool: Tool, bootstrap: str, topic: str, group: str) -> None:
    make_topic(bootstrap, topic)
    tool("console_producer", "--topic", topic, stdin="a\nb\nc\n").checked()
    read = ("--topic", topic, "--group", group, "--from-beginning", "--max-messages", "3", *NEW)
    tool("console_consumer", *read).checked()
    listed = tool("groups", "--list", "--type", "consumer").checked().out
    assert [line.split() for line in listed.splitlines() if group in line] == [[group, "Consumer"]]
    assert [line.split()[:2] for line in tool("all_groups", "--list").checked().out.splitlines() if group in line] == [
        [group, "Consumer"]
    ]
    for option in ("--state", "--offsets"):
        assert group in tool("groups", "--describe", "--group", group, option).checked().out
    reset = ("--reset-offsets", "--group", group, "--topic", topic, "--to-offset", "1", "--execute")
    assert " 1" in tool("groups", *reset).checked().out
    tool("groups", "--delete-offsets", "--group", group, "--topic", topic).checked()
    assert f"Deletion of requested consumer groups ('{group}') was successful." in (
        tool("groups", "--delete", "--group", group).checked().out
    )
