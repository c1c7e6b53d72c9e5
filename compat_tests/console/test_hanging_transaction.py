"""A transaction without a coordinator: shown with its age, aborted in the browser."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from compat_tests.cli.commands import Done, odradek_command
from compat_tests.console.browser import Browser
from compat_tests.console.harness.dead_letters import reloaded
from compat_tests.console.harness.hanging_transaction import PRODUCER, TOPIC, write_hanging
from compat_tests.recipes import eventually

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
