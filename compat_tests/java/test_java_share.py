"""Apache's share consumer (KIP-932), through the tools that wrap it, and the command that administers share groups."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from confluent_kafka import Producer

from compat_tests.java.conftest import Tool
from compat_tests.java.harness.events import events
from compat_tests.java.program import java_command
from compat_tests.recipes import eventually, make_topic

_ACQUISITION = Path(__file__).with_name("ShareAcquisition.java")

#: A member gets its partitions with a later heartbeat. The limit is far above the time for that.
TIMEOUT_MS = "60000"


@pytest.fixture
def from_the_start(tool: Tool, group: str) -> str:
    """Returns a share group that starts at the first record of a topic."""
    entity = ("--entity-type", "groups", "--entity-name", group)
    tool("configs", *entity, "--alter", "--add-config", "share.auto.offset.reset=earliest").checked()
    eventually(lambda: "earliest" in tool("configs", *entity, "--describe").out, what="the setting is described")
    return group


def test_accepted_records_are_finished_and_released_ones_are_not(
    tool: Tool, bootstrap: str, topic: str, from_the_start: str
) -> None:
    make_topic(bootstrap, topic)
    tool("console_producer", "--topic", topic, stdin="a\nb\nc\n").checked()
    settings = ("--topic", topic, "--group", from_the_start, "--max-messages", "3", "--timeout-ms", TIMEOUT_MS)
    assert tool("console_share_consumer", *settings, "--release", timeout=90).checked().out == "a\nb\nc\n"
    assert tool("console_share_consumer", *settings, timeout=90).checked().out == "a\nb\nc\n"
    described = tool("share_groups", "--describe", "--group", from_the_start).checked().out
    columns = described.splitlines()[-1].split()
    assert (columns[:3], columns[-1]) == ([from_the_start, topic, "0"], "0"), "it is not behind"


def test_a_share_group_is_listed_described_moved_and_deleted(
    tool: Tool, bootstrap: str, topic: str, from_the_start: str
) -> None:
    make_topic(bootstrap, topic)
    group = from_the_start
    tool("console_producer", "--topic", topic, stdin="a\nb\nc\n").checked()
    settings = ("--topic", topic, "--group", group, "--max-messages", "3", "--timeout-ms", TIMEOUT_MS)
    tool("console_share_consumer", *settings, timeout=90).checked()
    assert group in tool("share_groups", "--list").checked().out.split()
    assert "Empty" in tool("share_groups", "--describe", "--group", group, "--state").checked().out
    members = tool("share_groups", "--describe", "--group", group, "--members").checked()
    assert "has no active members" in members.out + members.err
    reset = ("--reset-offsets", "--group", group, "--topic", topic, "--to-earliest", "--execute")
    assert tool("share_groups", *reset).checked().out.splitlines()[-1].split() == [group, topic, "0", "0"]
    assert tool("console_share_consumer", *settings, timeout=90).checked().out == "a\nb\nc\n"
    tool("share_groups", "--delete-offsets", "--group", group, "--topic", topic).checked()
    deleted = tool("share_groups", "--delete", "--group", group).checked().out
    assert f"Deletion of requested share groups ('{group}') was successful." in deleted
    assert group not in tool("share_groups", "--list").checked().out.split()


def test_share_consumers_read_at_speed(tool: Tool, bootstrap: str, topic: str, from_the_start: str) -> None:
    make_topic(bootstrap, topic, partitions=2)
    load = ("--topic", topic, "--num-records", "5000", "--record-size", "200", "--throughput", "-1")
    tool("producer_performance", *load).checked()
    settings = ("--topic", topic, "--group", from_the_start, "--num-records", "5000", "--timeout", TIMEOUT_MS)
    read = tool("share_performance", *settings, timeout=90).checked()
    columns = dict(zip(*(line.split(", ") for line in read.out.splitlines()[-2:]), strict=True))
    assert int(columns["data.consumed.in.nMsg"]) >= 5000, columns


@pytest.mark.parametrize("mode", ["auto", "sync", "async"])
def test_a_verifiable_share_consumer_acknowledges_every_record_once(
    mode: str, tool: Tool, bootstrap: str, topic: str, group: str
) -> None:
    make_topic(bootstrap, topic, partitions=2)
    tool("console_producer", "--topic", topic, stdin="".join(f"{n}\n" for n in range(200))).checked()
    settings = ("--topic", topic, "--group-id", group, "--offset-reset-strategy", "earliest")
    limits = ("--max-messages", "200", "--acknowledgement-mode", mode)
    done = tool("verifiable_share_consumer", *settings, *limits, timeout=90).checked()
    acknowledged = events(done.out, "offsets_acknowledged")
    counts = [one["count"] for one in acknowledged]
    assert sum(count for count in counts if isinstance(count, int)) == 200
    assert all(one["success"] for one in acknowledged)


#: Records of one batch in the log, and the number that a member requests.
BATCH, WANTED = 50, 10


@pytest.mark.parametrize("mode", ["record_limit", "batch_optimized"])
def test_a_share_consumer_acquires_whole_batches_or_no_more_records_than_it_asks_for(
    mode: str, tool: Tool, bootstrap: str, topic: str, from_the_start: str
) -> None:
    """KIP-1206. The second member gets the records that the first has not acquired, while the first holds its own."""
    make_topic(bootstrap, topic)
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 10_000})
    for number in range(BATCH):
        producer.produce(topic, str(number))
    assert producer.flush(30) == 0
    arguments = [bootstrap, topic, from_the_start, mode, str(WANTED), str(BATCH)]
    command = java_command(_ACQUISITION, *arguments)
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    given = [(line.split()[0], int(line.split()[1])) for line in done.stdout.splitlines()]
    if mode == "record_limit":
        assert given[0] == ("first", WANTED)
        assert all(count <= WANTED for _, count in given)
        assert sum(count for _, count in given) == BATCH, given
    else:
        assert given == [("first", BATCH)]
