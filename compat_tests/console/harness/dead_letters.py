"""Rejected records, and pages that are loaded again."""

from __future__ import annotations

import time
from typing import Any

from compat_tests.console.browser import Browser
from compat_tests.console.process import DEADLINE_S


def rejected(bootstrap: str) -> Any:
    """Returns a share consumer that has rejected the first record, and stays a member."""
    from confluent_kafka import AcknowledgeType, ShareConsumer

    settings = {"bootstrap.servers": bootstrap, "group.id": "sharers", "share.acknowledgement.mode": "explicit"}
    consumer = ShareConsumer(settings)
    consumer.subscribe(["work"])
    deadline = time.monotonic() + DEADLINE_S
    while not (found := list(consumer.poll(1.0) or ())):
        assert time.monotonic() < deadline
    consumer.acknowledge(found[0], AcknowledgeType.REJECT)
    consumer.commit_sync()
    return consumer


def reloaded(browser: Browser) -> str:
    browser.driver.refresh()
    return browser.text
