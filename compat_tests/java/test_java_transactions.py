"""Apache's Java transactions: the copier of its system tests, and kafka-transactions.sh."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import pytest
from odradek.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from odradek.protocol.records.record import Record, encode_batch

from compat_tests.broker_process import BrokerProcess
from compat_tests.java.conftest import Tool
from compat_tests.java.tool import ToolHost, run_tool
from compat_tests.recipes import hanging_transaction, make_topic
from compat_tests.wire import WireClient

COPIER = "org.apache.kafka.tools.TransactionalMessageCopier"
COMMAND = "org.apache.kafka.tools.TransactionsCommand"
#: The last version of Produce whose clients add partitions themselves.
EXPLICIT = 11
RECORDS = 300


def lines(out: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.splitlines() if line.startswith("{")]


@pytest.mark.parametrize("mode", [(), ("--group-mode",), ("--group-mode", "--use-group-metadata")], ids=len)
def test_the_transactional_message_copier_copies_each_record_once(
    mode: tuple[str, ...], tool: Tool, bootstrap: str, topic: str, group: str
) -> None:
    """The copier aborts a third of its transactions itself."""
    target = f"{topic}-copy"
    for name in (topic, target):
        make_topic(bootstrap, name)
    tool("console_producer", "--topic", topic, stdin="".join(f"{n}\n" for n in range(RECORDS))).checked()
    where = ("--broker-list", bootstrap, "--input-topic", topic, "--input-partition", "0", "--output-topic", target)
    names = ("--consumer-group", group, "--transactional-id", topic)
    work = ("--max-messages", str(RECORDS), "--transaction-size", "20", "--enable-random-aborts")
    reported = lines(run_tool(COPIER, *where, *names, *work, *mode, timeout=120).checked().out)
    assert reported[-1]["remaining"] == 0
    read = ("--topic", target, "--from-beginning", "--isolation-level", "read_committed")
    copied = tool("console_consumer", *read, "--max-messages", str(RECORDS)).checked().out
    assert [int(line) for line in copied.split()] == list(range(RECORDS))
    assert f"{target}:0:" in (ends := tool("offsets", "--topic", target).checked().out)
    # Every transaction has a marker; aborted records are in the log as well.
    assert int(ends.strip().rpartition(":")[2]) >= RECORDS + RECORDS // 20


def test_transactions_are_filtered_by_how_long_they_run_and_by_their_names(
    tool: Tool, bootstrap: str, topic: str
) -> None:
    make_topic(bootstrap, topic)
    name = f"long-{topic}"
    with hanging_transaction(bootstrap, topic, name):
        assert name in tool("transactions", "list").checked().out
        assert name in tool("transactions", "list", "--transactional-id-pattern", "long-.*").checked().out
        assert name not in tool("transactions", "list", "--transactional-id-pattern", "short-.*").checked().out
        assert name not in tool("transactions", "list", "--duration-filter", "3600000").checked().out
        assert "Ongoing" in (reported := tool("transactions", "describe", "--transactional-id", name).checked().out)
        assert f"{topic}-0" in reported
        tool("transactions", "forceTerminateTransaction", "--transactionalId", name).checked()
    # The abort bumps the epoch, and in the new epoch nothing has happened yet.
    assert "Empty" in tool("transactions", "describe", "--transactional-id", name).checked().out


def test_transaction_without_coordinator_is_found_hanging_and_aborted(
    new_broker: Callable[[dict[str, str]], BrokerProcess], tools: ToolHost
) -> None:
    """Brokers without verification (KIP-890) could leave such records of an ended transaction."""
    broker = new_broker({"transaction.partition.verification.enable": "false"})
    make_topic(broker.bootstrap, "t")
    an_hour_ago = int(time.time() * 1000) - 3_600_000
    batch = encode_batch(
        [Record(0, an_hour_ago, None, b"x")], producer_id=77, producer_epoch=1, base_sequence=0, transactional=True
    )
    data = [TopicProduceData("t", partition_data=[PartitionProduceData(0, batch)])]
    with WireClient(broker.bootstrap) as client:
        response = client.call(ProduceRequest("gone", -1, 10_000, data), EXPLICIT)
    assert response.responses[0].partition_responses[0].error_code == 0

    def command(*words: str) -> str:
        return tools.run(COMMAND, "--bootstrap-server", broker.bootstrap, *words).checked().out

    found = command("find-hanging", "--topic", "t").splitlines()
    assert [line.split()[:3] for line in found[1:]] == [["t", "0", "77"]]
    command("abort", "--topic", "t", "--partition", "0", "--start-offset", "0")
    assert command("find-hanging", "--topic", "t").splitlines()[1:] == []
    producers = command("describe-producers", "--topic", "t", "--partition", "0").splitlines()[1:]
    assert [line.split()[-1] for line in producers] == ["None"]
