"""The console while one of three brokers is down, and after its return."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from compat_tests.cli.commands import odradek_command
from compat_tests.cli.test_broker_killed import pid_of
from compat_tests.console.browser import Browser


def test_console_shows_a_killed_broker_and_goes_on(
    browser: Browser, console_three: str, console_directory: Path, nodes_to_stop: list[Any]
) -> None:
    browser.open("/")
    browser.await_text("3 running")
    os.kill(pid_of(console_directory / "three", "3"), signal.SIGKILL)
    browser.await_text("2 running")
    browser.open("/topics?short=yes")
    browser.await_text("orders")
    browser.open("/topics/orders")
    browser.await_true(lambda: len(browser.all("#live .badge.warn")) >= 3)
    assert browser.violations() == []
    browser.open("/topics/orders/messages?from=beginning&limit=500")
    browser.await_text("shown of")
    browser.open("/topics")
    browser.send("Create a topic", name="meanwhile", partitions="1", replicas="2")
    browser.await_text("Topic meanwhile was created")
    browser.open("/groups/billing")
    browser.await_text("Committed")
    browser.open("/quorum")
    browser.await_text("leader")
    properties = console_directory / "three" / "node-3" / "server.properties"
    command = [sys.executable, "-m", "odradek", "start", str(properties)]
    with (console_directory / "restarted.log").open("w") as output:
        node = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
    try:
        browser.open("/")
        browser.await_text("3 running")
        browser.await_true(lambda: "Under-replicated\n0" in browser.text)
        odradek_command("topic", "delete", "meanwhile", "-b", console_three)
    finally:
        nodes_to_stop.append(node)
