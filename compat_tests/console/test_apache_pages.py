"""Pages and changes in Chromium against Apache Kafka."""

from __future__ import annotations

import pytest

from compat_tests.cli.commands import odradek_command
from compat_tests.console.browser import Browser
from compat_tests.console.harness.pages import PAGES
from compat_tests.console.process import ConsoleProcess
from compat_tests.oracle import ApacheKafka

TOPIC, GROUP = "crates", "couriers"
_NAMES = {"orders": TOPIC, "billing": GROUP, "/transactions/hanging": f"/transactions/hanging?topic={TOPIC}"}


def renamed(text: str) -> str:
    for name, other in _NAMES.items():
        text = text.replace(name, other)
    return text


@pytest.fixture(scope="module")
def filled(apache_kafka: ApacheKafka) -> None:
    """A topic, and a group with lag."""
    address = ("-b", apache_kafka.bootstrap)
    for words, given in (
        (("topic", "create", TOPIC, "--partitions", "2"), ""),
        (
            ("produce", TOPIC, "-p", "0"),
            "".join(f'{{"id": {number}, "password": "x"}}\n' for number in range(20)),
        ),
        (("consume", TOPIC, "--from-beginning", "--count", "5", "--group", GROUP), ""),
    ):
        done = odradek_command(*words, *address, stdin=given)
        assert done.status == 0, done


@pytest.fixture
def apache_browser(driver: object, console_of_apache: ConsoleProcess, filled: None) -> Browser:
    made = Browser(driver, console_of_apache.address)  # type: ignore[arg-type]
    made.size(1200, 900)
    made.scheme("light")
    made.errors()  # discards those of the previous test
    return made


def broker_path(browser: Browser) -> str:
    """Returns the page of the only broker; "" until the page of brokers lists it."""
    links = [str(one.get_attribute("href")) for one in browser.all("main table a[href*='/brokers/']")]
    return links[0].removeprefix(browser.address) if links else ""


@pytest.mark.oracle
def test_pages_of_apache_kafka_show_their_words(apache_browser: Browser) -> None:
    apache_browser.open("/brokers")
    broker = apache_browser.await_true(lambda: broker_path(apache_browser))
    for path, words in PAGES.items():
        if path.startswith(("/schemas", "/connect")):  # no broker serves them
            continue
        apache_browser.open(broker if path == "/brokers/1" else renamed(path))
        apache_browser.await_text(renamed(words))
        assert apache_browser.errors() == [], path


@pytest.mark.oracle
def test_topic_record_group_user_and_quota_of_apache_kafka_are_changed(apache_browser: Browser) -> None:
    browser = apache_browser
    browser.open("/topics")
    browser.send("Create a topic", name="barrels", partitions="1", replicas="1", configs="retention.ms=3600000")
    browser.await_text("Topic barrels was created")
    browser.open("/topics/barrels/configuration")
    browser.set_row("cleanup.policy", "compact")
    browser.await_text("cleanup.policy of barrels was set")
    browser.open("/topics/barrels/messages")
    browser.send("Write a record", key="k", value='{"n": 1, "password": "hunter2"}')
    browser.await_text("Written to barrels-0 at offset 0.")
    assert "hunter2" not in browser.text and "n: 1" in browser.text
    browser.open(f"/groups/{GROUP}")
    browser.send("Reset offsets", to="beginning", topic=TOPIC)
    browser.await_text("Nothing has changed yet")
    browser.find("main form[method=post] button").click()
    browser.await_text(f"of group {GROUP}.")
    browser.send("Delete the group", confirm=GROUP)
    browser.await_text(f"Group {GROUP} was deleted")
    browser.open("/access")
    browser.send("Create a user", user="greta", password="correct horse")
    browser.await_text("The credentials of greta were set")
    browser.send("Set a quota", user="greta", key="producer_byte_rate", quota="1048576")
    browser.await_text("producer_byte_rate was set")
    browser.confirm("form[action='/access/quotas/delete'] button")
    browser.await_text("producer_byte_rate was deleted")
    browser.confirm("form[action='/access/users/delete'] button")
    browser.await_text("credentials of greta were deleted")
    browser.open("/topics/barrels/configuration")
    browser.send("Delete the topic", confirm="barrels")
    browser.await_text("Topic barrels was deleted")
