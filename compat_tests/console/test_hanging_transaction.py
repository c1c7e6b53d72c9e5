"""A transaction without a coordinator: shown with its age, aborted in the browser."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from odradek.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from odradek.protocol.records.record import Record, encode_batch

from compat_tests.batches import leader_of
from compat_tests.cli.commands import Done, odradek_command
from compat_tests.cli.test_clusters import PRODUCE_WITHOUT_VERIFICATION
from compat_tests.console.browser import Browser
from compat_tests.console.test_dead_letters import reloaded
from compat_tests.recipes import eventually
from compat_tests.wire import WireClient

TOPIC, PRODUCER = "estates", 888_000
_VERIFICATION = "transaction.partition.verification.enable"


@pytest.fixture
def unverified(console_three: str) -> Iterator[None]:
    """Lets brokers accept transactional records without a coordinator's transaction, as brokers before KIP-890 do."""

    def run(*words: str) -> Done:
        return odradek_command(*words, "-b", console_three)

    assert run("config", "set", "broker", "default", f"{_VERIFICATION}=false").status == 0
    for broker in run("cluster", "describe", "--output", "json").json[0]["brokers"]:
        words = ("config", "get", "broker", str(broker["broker"]), _VERIFICATION, "--output", "json")
        eventually(lambda words=words: run(*words).json[0]["value"] == "false", what="each broker has it")
    yield
    assert run("config", "set", "broker", "default", "--delete", _VERIFICATION).status == 0


def test_hanging_transaction_is_shown_and_aborted(browser: Browser, console_three: str, unverified: None) -> None:
    write_hanging(console_three)
    browser.open(f"/transactions/hanging?topic={TOPIC}")
    browser.await_true(lambda: str(PRODUCER) in reloaded(browser))
    assert browser.find("main .badge.bad").text == "hangs" and "1.0 h" in browser.text
    assert browser.violations() == []
    browser.confirm("form[action='/transactions/abort-hanging'] button")
    browser.await_text(f"The hanging transaction in {TOPIC}-0 was aborted.")
    browser.open(f"/transactions/hanging?topic={TOPIC}")
    browser.await_true(lambda: "No open transaction" in reloaded(browser))


def write_hanging(bootstrap: str, *more: str) -> None:
    """Creates the topic, with `more` options, and writes a batch of a transaction that no coordinator has. Brokers must not
    verify transactions.
    """
    odradek_command("topic", "create", TOPIC, "--partitions", "1", *more, "-b", bootstrap)
    hour_ago = int(time.time() * 1000) - 3_600_000
    producer = {"producer_id": PRODUCER, "producer_epoch": 1, "base_sequence": 0, "transactional": True}
    batch = encode_batch([Record(0, hour_ago, None, b"lost")], **producer)  # type: ignore[arg-type]
    data = [TopicProduceData(TOPIC, partition_data=[PartitionProduceData(0, batch)])]

    def written() -> bool:
        with WireClient(leader_of(bootstrap, TOPIC, 0)) as client:
            answer = client.call(ProduceRequest("gone", -1, 10_000, data), PRODUCE_WITHOUT_VERIFICATION)
        return bool(answer.responses[0].partition_responses[0].error_code == 0)

    eventually(written, what="the batch is written")
