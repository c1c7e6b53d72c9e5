"""The page of a topic: groups, sizes, rates, drawn replicas, and configs that are edited in their row."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from selenium.webdriver.common.by import By

from compat_tests.cli.commands import odradek_command
from compat_tests.console.browser import Browser
from compat_tests.console.process import ConsoleProcess, Visitor
from compat_tests.recipes import eventually

TOPIC, GROUP = "parcel-events", "parcel-readers"
_CREATE = ("topic", "create", TOPIC, "--partitions", "3", "--replicas", "3", "--config", "segment.bytes=104857600")


@pytest.fixture(scope="module")
def topic(console_three: str) -> str:
    for words, given in (
        (_CREATE, ""),
        (("produce", TOPIC, "--create"), "".join(f"{number}\n" for number in range(90))),
        (("consume", TOPIC, "--from-beginning", "--count", "30", "--group", GROUP), ""),
    ):
        done = odradek_command(*words, "-b", console_three, stdin=given)
        assert done.status == 0, done
    return f"/topics/{TOPIC}"


@pytest.fixture
def producing(console_three: str, topic: str) -> Iterator[None]:
    """A producer that writes until the end of the test."""
    stopping = threading.Event()
    producer = Producer({"bootstrap.servers": console_three})

    def write() -> None:
        while not stopping.wait(0.05):
            producer.produce(TOPIC, b"x" * 500, partition=1)
            producer.poll(0)
        producer.flush(30)

    writing = threading.Thread(target=write)
    writing.start()
    yield
    stopping.set()
    writing.join(60)


def rows(browser: Browser, table: str) -> dict[str, list[str]]:
    """Cells of a table by the first cell of each row."""
    script = (
        "return [...document.querySelectorAll(arguments[0] + ' tbody tr')]"
        ".map(row => [...row.cells].map(one => one.querySelector('.row-form [name=config_value]')?.value ?? one.innerText))"
    )
    return {cells[0]: cells for cells in browser.driver.execute_script(script, table)}


def lag_of_committed_partitions(bootstrap: str) -> int:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": GROUP})
    try:
        committed = consumer.committed([TopicPartition(TOPIC, number) for number in range(3)], 30)
        ends = {one.partition: consumer.get_watermark_offsets(one)[1] for one in committed}
        return sum(ends[one.partition] - one.offset for one in committed if one.offset >= 0)
    finally:
        consumer.close()


def test_groups_that_read_the_topic_are_listed_with_their_lag(browser: Browser, topic: str, console_three: str) -> None:
    browser.open(f"{topic}/groups")
    lag = lag_of_committed_partitions(console_three)
    browser.await_true(lambda: rows(browser, "#groups-that-read-it").get(GROUP, [""])[-1] == str(lag))
    browser.steady(lambda: browser.find(f"#groups-that-read-it a[href='/groups/{GROUP}']").click())
    browser.await_text("Committed")


def test_sizes_and_rates_of_topic_and_partitions_are_shown(browser: Browser, topic: str, producing: None) -> None:
    browser.open(f"{topic}/partitions")

    def fact(name: str) -> str:
        (found,) = [one for one in browser.all("#live dl > div") if one.find_element(By.TAG_NAME, "dt").text == name]
        return found.find_element(By.TAG_NAME, "dd").text

    browser.await_true(lambda: re.fullmatch(r"[\d.]+ (B|KB)/s", fact("Bytes/s in these partitions")))
    browser.await_true(lambda: float(rows(browser, "#partitions")["1"][8] or 0) > 0)
    assert rows(browser, "#partitions")["0"][8] == "0"
    browser.await_true(lambda: "KB" in fact("Bytes of all their replicas"))
    browser.await_true(lambda: len(browser.find(".chart").get_attribute("data-values") or "") > 4)


def test_leaders_and_replicas_are_drawn(browser: Browser, console_three: str, topic: str) -> None:
    browser.open(f"{topic}/partitions")
    browser.await_true(lambda: len(rows(browser, "#partitions")) == 3)
    browser.steady(lambda: check_drawings(browser))


def check_drawings(browser: Browser) -> None:
    for row in browser.all("#partitions tbody tr"):
        leader = row.find_elements(By.TAG_NAME, "td")[1].text.partition(",")[0]
        drawing = row.find_element(By.CSS_SELECTOR, "svg.replicas")
        assert f"led by {leader}, all in sync" in str(drawing.get_attribute("aria-label"))
        assert [one.text for one in drawing.find_elements(By.CSS_SELECTOR, ".leader text")] == [leader]
        assert len(drawing.find_elements(By.CSS_SELECTOR, ".follower")) == 2


def test_configs_have_units_and_mark_what_differs(browser: Browser, topic: str) -> None:
    browser.open(f"{topic}/configuration")
    found = rows(browser, "#configs")
    assert next(iter(found)) == "segment.bytes"  # the only one that differs stands first
    assert found["segment.bytes"][1:] == ["104857600", "104.9 MB", "differs", "1073741824", "this topic"]
    assert found["retention.ms"][1:4] == ["604800000", "7.0 d", ""] and found["retention.ms"][5] == "default"


def test_config_is_edited_in_its_row_by_keyboard_and_set_back(browser: Browser, console_three: str, topic: str) -> None:
    def value() -> str:
        words = ("config", "get", "topic", TOPIC, "retention.ms", "--output", "json", "-b", console_three)
        return str(odradek_command(*words).json[0]["value"])

    browser.open(f"{topic}/configuration")
    browser.set_row("retention.ms", "86400000")
    browser.await_text(f"retention.ms of {TOPIC} was set.")
    eventually(lambda: value() == "86400000", what="brokers have the value")
    browser.open(f"{topic}/configuration")
    browser.await_true(lambda: rows(browser, "#configs")["retention.ms"][2:4] == ["1.0 d", "differs"])
    browser.set_row("retention.ms", "")
    browser.await_text(f"retention.ms of {TOPIC} was reset to its default.")
    eventually(lambda: value() == "604800000", what="brokers have the default")


def test_refused_config_stays_in_its_row(browser: Browser, topic: str) -> None:
    browser.open(f"{topic}/configuration")
    browser.set_row("retention.ms", "a week")
    browser.await_true(lambda: browser.all(".words.bad[role=status]:not([hidden])"))
    assert browser.row_field("retention.ms").get_attribute("value") == "a week"
    assert browser.row_field("segment.ms").get_attribute("value") != "a week"


def test_viewers_without_rights_see_values_and_no_forms(console_three: str, topic: str, tmp_path: Path) -> None:
    console = ConsoleProcess(console_three, tmp_path, "--read-only")
    try:
        page = Visitor(console.address).await_text(f"{topic}/configuration", "104857600")
        assert "row-form" not in page and "config_value" not in page
    finally:
        console.stop()
