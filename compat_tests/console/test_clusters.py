"""One console of several clusters, which are contexts of the command line."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import odradek
import pytest
from selenium.webdriver.common.keys import Keys

from compat_tests.cli.commands import odradek_command
from compat_tests.console.browser import Browser
from compat_tests.console.process import ConsoleProcess, Visitor


@pytest.fixture(scope="module")
def brokers() -> Iterator[dict[str, odradek.Broker]]:
    with odradek.Broker() as east, odradek.Broker() as west:
        east.topic("eastern").send(b'{"of": "east"}')
        west.topic("western").send(b'{"of": "west"}')
        yield {"east": east, "west": west}


@pytest.fixture(scope="module")
def console_of_two(
    brokers: dict[str, odradek.Broker], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ConsoleProcess]:
    directory = tmp_path_factory.mktemp("clusters")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CONFIG_HOME", str(directory))
        for name, broker in brokers.items():
            assert odradek_command("context", "add", name, "-b", broker.bootstrap_servers).status == 0
        made = ConsoleProcess("127.0.0.1:9", directory, "--cluster", "east", "--cluster", "west")
    yield made
    made.stop()


@pytest.fixture
def two(driver: object, console_of_two: ConsoleProcess) -> Browser:
    made = Browser(driver, console_of_two.address)  # type: ignore[arg-type]
    made.size(1100, 800)
    made.scheme("light")
    made.errors()
    return made


def test_first_page_shows_each_cluster_and_leads_to_it(two: Browser) -> None:
    two.open("/")
    two.await_true(lambda: two.find("#live").text.count("running") == 2)
    two.pause()
    assert two.violations() == []
    two.tab_to(two.find("main a[href='/clusters/west/']"))
    two.press(Keys.ENTER)
    two.await_text("Active controller")
    two.find("#menu a[data-key=t]").click()
    two.await_true(lambda: two.path == "/clusters/west/topics")
    two.await_text("western")
    assert "eastern" not in two.text and "west" in two.find("header .cluster").text
    two.find("main a[href='/clusters/west/topics/western/messages']").click()
    two.await_text('"of": "west"')
    two.tab_to(two.find(".toggle"))
    two.press(Keys.ENTER)
    two.await_true(lambda: two.all("tr.detail"))
    assert two.errors() == []
    two.tab_to(two.find(".switcher summary"))
    two.press(Keys.ENTER)
    assert [one.text for one in two.all(".switcher li")] == ["east", "All clusters"]
    two.find(".switcher li:last-child a").click()
    two.await_true(lambda: two.path == "/")


def test_changes_reach_the_cluster_of_the_page_alone(two: Browser, brokers: dict[str, odradek.Broker]) -> None:
    two.open("/clusters/east/topics")
    two.send("Create a topic", name="only here", partitions="1")
    two.await_true(lambda: two.all(".words.bad[role=status]:not([hidden])"))
    assert two.path == "/clusters/east/topics"
    assert two.find("main dialog [name=name]").get_attribute("value") == "only here"
    two.send("Create a topic", name="only-east", partitions="1")
    two.await_text("Topic only-east was created")
    assert two.path == "/clusters/east/topics/only-east/messages"
    two.open("/clusters/east/topics/only-east/configuration")
    two.set_row("retention.ms", "86400000")
    two.await_text("retention.ms of only-east was set")
    names = {name: {one["name"] for one in _topics(broker.bootstrap_servers)} for name, broker in brokers.items()}
    assert "only-east" in names["east"] and "only-east" not in names["west"]


def _topics(bootstrap: str) -> list[dict[str, str]]:
    found: list[dict[str, str]] = odradek_command("topic", "list", "--output", "jsonl", "-b", bootstrap).lines
    return found


def test_live_parts_pages_and_sorting_stay_in_the_cluster(console_of_two: ConsoleProcess) -> None:
    visitor = Visitor(console_of_two.address)
    page = visitor.await_text("/clusters/east/topics?sort=list.Topic", "eastern")
    assert 'hx-get="/clusters/east/topics?sort=list.Topic"' in page
    assert 'href="/clusters/east/topics?sort=list.Topic&desc=yes#list"' in page
    assert 'href="/topics' not in page and 'action="/topics' not in page


def test_unknown_cluster_is_a_page_and_an_unknown_context_one_line(
    console_of_two: ConsoleProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    visitor = Visitor(console_of_two.address)
    assert "There is no such page" in visitor.get("/clusters/north/topics") and visitor.status == 404
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    done = odradek_command("console", "--port", "0", "--cluster", "north")
    assert done.status != 0 and "there is no context 'north'" in done.err and done.err.count("\n") == 1
