"""A share group and its dead-letter queue: a record is rejected, shown with its origin, and sent back."""

from __future__ import annotations

from odradek.admin.connection import Connection
from odradek.admin.features import Change, update_features

from compat_tests.cli.commands import odradek_command
from compat_tests.console.browser import Browser
from compat_tests.console.harness.dead_letters import rejected, reloaded


def test_rejected_record_is_shown_and_driven_back(browser: Browser, console_three: str) -> None:
    queue = ("errors.deadletterqueue.topic.name=dlq.work", "errors.deadletterqueue.copy.record.enable=true")
    with Connection({"bootstrap.servers": console_three}).admin() as admin:
        update_features(admin, {"share.version": (2, Change.UPGRADE)})
    for words in (
        ("topic", "create", "work", "dlq.work", "--partitions", "1"),
        ("config", "set", "topic", "dlq.work", "errors.deadletterqueue.group.enable=true"),
        ("config", "set", "group", "sharers", "share.auto.offset.reset=earliest", *queue),
    ):
        done = odradek_command(*words, "-b", console_three)
        assert done.status == 0, done
    odradek_command("produce", "work", "--create", "-b", console_three, stdin='{"job": "broken"}\n')
    consumer = rejected(console_three)
    try:
        browser.open("/groups?kind=share")
        browser.await_text("sharers")
        browser.open("/groups/sharers")
        browser.await_text("work-0")
        browser.open("/share")
        browser.await_text("dlq.work")
        browser.find("main a[href='/share/dlq.work']").click()
        browser.await_true(lambda: "work-0 at 0" in reloaded(browser))
        assert '"job": "broken"' in browser.text
        browser.send("Redrive", first="0")
        browser.await_text("Wrote 1 record of dlq.work")
        found = odradek_command("consume", "work", "--from-beginning", "--output", "jsonl", "-b", console_three).lines
        assert [(one["value"], one["headers"]) for one in found] == [('{"job": "broken"}', [])] * 2
        browser.open("/groups/sharers")
        browser.await_true(lambda: browser.find("#live .charts b").text == "1 records")
        browser.await_true(lambda: drawn_lag(browser).startswith("Lag: 1 now"))
    finally:
        consumer.close()
    browser.open("/groups/sharers/reset?to=beginning")
    browser.await_text("Nothing has changed yet")
    browser.find("main form[method=post] button").click()
    browser.await_text("Set 1 offset of group sharers")


def drawn_lag(browser: Browser) -> str:
    """Returns the label of the chart in the row of the only partition."""
    return str(browser.find("#live td .spark").get_attribute("aria-label"))
