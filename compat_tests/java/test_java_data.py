"""Apache's Java producer and consumer, through the tools that wrap them."""

from __future__ import annotations

from pathlib import Path

import pytest

from compat_tests.java.conftest import Tool
from compat_tests.java.harness.events import events
from compat_tests.recipes import make_topic


def test_the_console_consumer_reads_what_the_console_producer_wrote(tool: Tool, bootstrap: str, topic: str) -> None:
    make_topic(bootstrap, topic)
    lines = "h:1\tk1\tone\nh:2\tk2\ttwo\n"
    properties = ("--reader-property", "parse.key=true", "--reader-property", "parse.headers=true")
    tool("console_producer", "--topic", topic, *properties, stdin=lines).checked()
    shown = ("--formatter-property", "print.key=true", "--formatter-property", "print.headers=true")
    read = tool("console_consumer", "--topic", topic, "--from-beginning", "--max-messages", "2", *shown).checked()
    assert read.out == lines


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_the_performance_tools_move_records_by_every_codec(codec: str, tool: Tool, bootstrap: str, topic: str) -> None:
    make_topic(bootstrap, topic, partitions=2)
    load = ("--topic", topic, "--num-records", "2000", "--record-size", "200", "--throughput", "-1")
    sent = tool("producer_performance", *load, "--command-property", f"compression.type={codec}").checked()
    assert "2000 records sent" in sent.out
    read = tool("consumer_performance", "--topic", topic, "--num-records", "2000", "--timeout", "30000").checked()
    assert read.out.splitlines()[-1].split(", ")[4] == "2000"


@pytest.mark.parametrize("acks", ["0", "1", "-1"])
def test_the_verifiable_producer_is_acknowledged(acks: str, tool: Tool, bootstrap: str, topic: str) -> None:
    make_topic(bootstrap, topic)
    sent = tool("verifiable_producer", "--topic", topic, "--max-messages", "100", "--acks", acks).checked()
    assert len(events(sent.out, "producer_send_success")) == 100
    assert events(sent.out, "producer_send_error") == []


@pytest.mark.parametrize(
    "assignor", ["RangeAssignor", "RoundRobinAssignor", "StickyAssignor", "CooperativeStickyAssignor"]
)
def test_the_verifiable_consumer_goes_on_where_it_committed(
    assignor: str, tool: Tool, bootstrap: str, topic: str, group: str
) -> None:
    make_topic(bootstrap, topic, partitions=2)
    tool("console_producer", "--topic", topic, stdin="".join(f"{n}\n" for n in range(300))).checked()
    strategy = f"org.apache.kafka.clients.consumer.{assignor}"
    settings = ("--topic", topic, "--group-id", group, "--reset-policy", "earliest", "--assignment-strategy", strategy)
    # The count is of polled records; the limit is of committed ones.
    tool("verifiable_consumer", *settings, "--max-messages", "120").checked()
    second = tool("verifiable_consumer", *settings, "--max-messages", "180").checked()
    assert sum(int(str(one["count"])) for one in events(second.out, "records_consumed")) == 180


def test_a_group_checks_the_leader_epoch_of_what_it_committed_and_goes_on(
    tool: Tool, bootstrap: str, topic: str, group: str
) -> None:
    make_topic(bootstrap, topic)
    settings = ("--topic", topic, "--group", group, "--from-beginning", "--max-messages", "1")
    for line in ("a\n", "b\n"):
        tool("console_producer", "--topic", topic, stdin=line).checked()
        assert tool("console_consumer", *settings).checked().out == line


def test_a_static_member_consumes(tool: Tool, bootstrap: str, topic: str, group: str) -> None:
    make_topic(bootstrap, topic)
    tool("console_producer", "--topic", topic, stdin="".join(f"{n}\n" for n in range(10))).checked()
    settings = ("--topic", topic, "--group-id", group, "--reset-policy", "earliest", "--group-instance-id", "i")
    read = tool("verifiable_consumer", *settings, "--max-messages", "10").checked()
    assert events(read.out, "partitions_assigned")


def test_read_committed_consumes_what_is_outside_transactions(tool: Tool, bootstrap: str, topic: str) -> None:
    make_topic(bootstrap, topic)
    tool("console_producer", "--topic", topic, stdin="a\nb\n").checked()
    settings = ("--topic", topic, "--from-beginning", "--max-messages", "2", "--isolation-level", "read_committed")
    assert tool("console_consumer", *settings).checked().out == "a\nb\n"


def test_a_topic_is_made_by_the_first_record_to_it(tool: Tool, topic: str) -> None:
    tool("console_producer", "--topic", topic, stdin="a\n").checked()
    assert f"Topic: {topic}" in tool("topics", "--describe", "--topic", topic).checked().out


def test_too_large_record_raises_record_too_large(tool: Tool, bootstrap: str, topic: str, tmp_path: Path) -> None:
    make_topic(bootstrap, topic, configs={"max.message.bytes": "1000"})
    load = ("--topic", topic, "--num-records", "1", "--record-size", "2000", "--throughput", "-1")
    assert "RecordTooLargeException" in (reported := tool("producer_performance", *load)).out + reported.err


def test_latency_is_measured_end_to_end(tool: Tool, bootstrap: str, topic: str) -> None:
    make_topic(bootstrap, topic)
    settings = ("--topic", topic, "--num-records", "50", "--producer-acks", "1", "--record-size", "100")
    assert "Percentiles" in tool("latency", *settings).checked().out
