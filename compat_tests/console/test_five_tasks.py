"""Five tasks in the browser, with their clicks and seconds, beside the commands that do the same.

`ODRADEK_TASKS=docs/development/console-tasks.md` writes the table of the docs.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from odradek.testing.registry.server import SchemaRegistry
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement

from compat_tests.cli.commands import odradek_command
from compat_tests.cli.three_node_cluster import three_nodes
from compat_tests.console.browser import Browser
from compat_tests.console.process import ConsoleProcess, Visitor

_RECORDS, _KEY = 20_000, "customer-12345"
_BAD_OFFSET = 3
_WEEKS = str(14 * 86_400_000)
_PAGE = """# Five tasks, in the console and by command

Each begins at the first page of the console with the question, and ends when the facts are on the screen or the change is
made. A click is one of the pointer or the Enter key; a field is what a person types. Seconds are those of a program that
does not think: of the pages, and of the command with its start, on a machine with other work.
`compat_tests/console/test_five_tasks.py` does each in Chromium, runs each command on a cluster of three brokers with
{records} records, and checks what both show. [Testing](testing.md) has the command that writes this page.

| task | clicks | fields | s | commands | s |
|---|---|---|---|---|---|
{rows}
"""


@dataclass
class Task:
    """`commands`: as a person types them."""

    name: str
    clicks: int = 0
    fields: int = 0
    seconds: float = 0.0
    commands: list[str] = field(default_factory=list)
    command_s: float = 0.0

    @property
    def row(self) -> str:
        commands = "; ".join(f"`{one}`" for one in self.commands).replace("|", "\\|")
        return (
            f"| {self.name} | {self.clicks} | {self.fields} | {self.seconds:.1f} | {commands} | {self.command_s:.1f} |"
        )


@dataclass
class Person:
    """Clicks and types in one browser, and runs commands."""

    browser: Browser
    bootstrap: str
    task: Task

    def click(self, selector: str, text: str = "") -> None:
        def clicked() -> bool:
            found = [one for one in self.browser.all(selector) if text in one.text and one.is_displayed()]
            if found:
                found[0].click()
            return bool(found)

        self.browser.await_true(clicked)
        self.task.clicks += 1

    def type_into(self, selector: str, text: str, *, enter: bool = True) -> None:
        element = self.browser.await_true(lambda: next(one for one in self.browser.all(selector) if one.is_displayed()))
        _retype(element, text)
        self.task.fields += 1
        if enter:
            element.send_keys(Keys.ENTER)
            self.task.clicks += 1

    def run(self, command: str) -> str:
        """The output of a command, run as a person does, without the words that name the cluster."""
        self.task.commands.append(command)
        words = [*shlex.split(command)[1:], "-b", self.bootstrap]
        began = time.monotonic()
        done = subprocess.run([sys.executable, "-m", "odradek", *words], capture_output=True, text=True, check=False)
        self.task.command_s += time.monotonic() - began
        assert done.returncode == 0, done
        return done.stdout


def _retype(element: WebElement, text: str) -> None:
    """Each call releases the keys of the one before."""
    for keys in (Keys.CONTROL + "a", Keys.BACKSPACE, text):
        element.send_keys(keys)


TASKS: dict[str, Task] = {}
MOST_CLICKS = {
    "Find a key among 20,000": 4,
    "Why is this group behind": 2,
    "What is this bad record": 4,
    "Raise retention to two weeks": 6,
    "Move a partition": 4,
}


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, ConsoleProcess]]:
    directory = tmp_path_factory.mktemp("tasks")
    registry = SchemaRegistry()
    with three_nodes(directory / "three") as bootstrap:
        _fill(bootstrap, directory)
        console = ConsoleProcess(bootstrap, directory, "--schema-registry", registry.url)
        visitor = Visitor(console.address)
        for path, text in (("/", "shipping"), ("/topics", "orders"), ("/groups/shipping", "Committed")):
            visitor.await_text(path, text)
        yield bootstrap, console
        console.stop()
    registry.close()


def _fill(bootstrap: str, directory: Path) -> None:
    for words in (("orders", "--partitions", "3", "--replicas", "3"), ("payments", "--partitions", "1")):
        assert odradek_command("topic", "create", *words, "-b", bootstrap).status == 0
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20})
    for number in range(_RECORDS):
        producer.produce("orders", b'{"id": %d, "total": %d}' % (number, number % 97), f"customer-{number}")
        if number % 5_000 == 0:
            producer.poll(0.1)
    for number in range(5):
        value = b'{"id": 3, "total": 12.' if number == _BAD_OFFSET else b'{"id": %d, "total": 12.5}' % number
        producer.produce("payments", value, b"p%d" % number)
    assert producer.flush(60) == 0
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "shipping"})
    consumer.commit(offsets=[TopicPartition("orders", index, 10) for index in range(3)], asynchronous=False)
    consumer.close()
    plan = {"version": 1, "partitions": [{"topic": "lopsided", "partition": n, "replicas": [1]} for n in range(6)]}
    (directory / "plan.json").write_text(json.dumps(plan))
    words = ("topic", "create", "lopsided", "--partitions", "6", "--replicas", "1", "-b", bootstrap)
    assert odradek_command(*words).status == 0
    assert odradek_command("reassign", "run", str(directory / "plan.json"), "-b", bootstrap).status == 0


def done(driver: object, busy: tuple[str, ConsoleProcess], name: str, in_browser: Callable[[Person], None]) -> Person:
    """Does a task in the browser, from the first page on. Returns the person, for the commands."""
    bootstrap, console = busy
    browser = Browser(driver, console.address)  # type: ignore[arg-type]
    browser.size(1400, 900)
    browser.open("/")
    browser.await_text("Groups with the largest lag")
    person = Person(browser, bootstrap, TASKS.setdefault(name, Task(name)))
    began = time.monotonic()
    in_browser(person)
    person.task.seconds = time.monotonic() - began
    assert person.task.clicks <= MOST_CLICKS[name], person.task
    assert browser.errors() == []
    return person


def test_key_is_found(driver: object, busy: tuple[str, ConsoleProcess]) -> None:
    def in_browser(person: Person) -> None:
        person.click("nav#menu a", "Topics")
        person.click("#live a", "orders")
        person.type_into("input[name=key]", f"^{_KEY}$")
        person.browser.await_text('{"id": 12345')

    person = done(driver, busy, "Find a key among 20,000", in_browser)
    assert '"id": 12345' in person.run(f"odradek consume orders -o beginning --key {_KEY}")


def test_reason_of_a_lag_is_found(driver: object, busy: tuple[str, ConsoleProcess]) -> None:
    def in_browser(person: Person) -> None:
        person.click("#live a", "shipping")
        person.browser.await_text("No members.")
        assert re.search(r"Lag\s+19.970", person.browser.text)

    person = done(driver, busy, "Why is this group behind", in_browser)
    shown = person.run("odradek group describe shipping")
    assert "Empty" in shown or "no members" in shown.lower()


def test_bad_record_is_seen(driver: object, busy: tuple[str, ConsoleProcess]) -> None:
    def in_browser(person: Person) -> None:
        person.click("nav#menu a", "Topics")
        person.click("#live a", "payments")
        person.browser.await_text("5 shown")
        person.click(f"#records-rows tr:nth-child({5 - _BAD_OFFSET}) td:nth-child(6)")
        person.browser.await_true(lambda: person.browser.all("tr.detail"))
        detail = person.browser.find("tr.detail").text
        assert '{"id": 3, "total": 12.' in detail and re.search(r"Value is\s+text", detail)

    person = done(driver, busy, "What is this bad record", in_browser)
    assert '"total": 12.\n' in person.run(f"odradek consume payments -p 0 -o {_BAD_OFFSET} --count 1")


def test_retention_is_raised(driver: object, busy: tuple[str, ConsoleProcess]) -> None:
    def in_browser(person: Person) -> None:
        browser = person.browser
        person.click("nav#menu a", "Topics")
        person.click("#live a", "orders")
        person.click(".tabs a", "Configuration")
        browser.await_text("retention.ms")
        element = browser.row_field("retention.ms")
        _retype(element, _WEEKS)
        element.send_keys(Keys.ENTER)
        person.task.fields, person.task.clicks = person.task.fields + 1, person.task.clicks + 1
        person.click("#confirm button[value=yes]")
        browser.await_text("14.0 d")

    person = done(driver, busy, "Raise retention to two weeks", in_browser)
    person.run(f"odradek config set topic orders retention.ms={_WEEKS}")


def test_partition_is_moved(driver: object, busy: tuple[str, ConsoleProcess], tmp_path: Path) -> None:
    def in_browser(person: Person) -> None:
        person.click("nav#menu a", "Brokers")
        person.click(".actions a", "Balance")
        person.click("[data-opens='do-start-the-plan']")
        person.click("dialog[open] .answers button")
        person.browser.await_text("to new replicas")

    person = done(driver, busy, "Move a partition", in_browser)
    plan = {"version": 1, "partitions": [{"topic": "lopsided", "partition": 0, "replicas": [3]}]}
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    person.run(f"odradek reassign run {tmp_path / 'plan.json'}")
    person.task.commands = ["odradek reassign run plan.json"]


def test_table_has_all_tasks() -> None:
    assert set(TASKS) == set(MOST_CLICKS) and all(one.command_s for one in TASKS.values())
    rows = "\n".join(TASKS[name].row for name in MOST_CLICKS)
    print(rows)
    if path := os.environ.get("ODRADEK_TASKS"):
        Path(path).write_text(_PAGE.format(records=f"{_RECORDS:,}", rows=rows), encoding="utf-8")
