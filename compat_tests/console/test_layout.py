"""Every page with data that is hard to lay out, at four widths: no text overlaps, leaves its box or breaks within a word.

`make test` has the widest and the narrowest, `make nightly` all.

With `ODRADEK_PICTURES=docs/images/console` it writes the pictures of every page in the docs.
"""

from __future__ import annotations

import json
import re
import urllib.request
from collections.abc import Iterator
from urllib.parse import quote

import odradek
import pytest
from odradek.console.application import PAGES, RECORD_PAGES
from odradek.testing.registry.server import SchemaRegistry
from selenium.webdriver.common.keys import Keys

from compat_tests.cli.commands import odradek_command
from compat_tests.cli.three_node_cluster import three_nodes
from compat_tests.console.browser import Browser
from compat_tests.console.harness.awkward_data import (
    CHECKPOINT,
    LINK,
    LONG_GROUP,
    LONG_TOPIC,
    TOPIC,
    WIDE_TOPIC,
    fill,
    write_checkpoint,
)
from compat_tests.console.harness.connect_worker import connect_worker
from compat_tests.console.harness.layout import faults_of_layout
from compat_tests.console.harness.page_pictures import HEIGHT, keep_picture
from compat_tests.console.process import ConsoleProcess, Visitor

WIDTHS = (1600, 1100, 768, 390)
USER, PASSWORD = "someone.with-a-long-name@example.com", "correct horse battery"
_SUBJECT = f"{TOPIC}-value"
_FILTERS = "key=k&value=really&range=-7d&header=a-long-name%3Dwith-a-value&where=%40.total%20%3E%2010&partition=0"


def in_address(name: str) -> str:
    """A name as pages write it: with its slashes quoted twice."""
    return quote(name.replace("%", "%25").replace("/", "%2F"), safe="")


#: Route -> addresses of it.
CASES: dict[str, tuple[str, ...]] = {
    "/": ("/",),
    "/topics": ("/topics?internal=yes",),
    "/topics/{topic}": (f"/topics/{LONG_TOPIC}",),
    "/topics/{topic}/messages": (
        f"/topics/{TOPIC}/messages?limit=80",
        f"/topics/{TOPIC}/messages?{_FILTERS}",
        f"/topics/{TOPIC}/messages?tail=new",
        f"/topics/{TOPIC}/messages?column=customer&column=nested.deep.er",
        "/topics/large/messages",
        "/topics/nothing/messages",
        f"/topics/{WIDE_TOPIC}/messages?value=no-such-value",
    ),
    "/topics/{topic}/messages/{partition}/{offset}": (
        *(f"/topics/{TOPIC}/messages/0/{offset}" for offset in (0, 1, 2, 3, 6, 73)),
        "/topics/large/messages/0/0",
    ),
    "/topics/{topic}/partitions": (f"/topics/{LONG_TOPIC}/partitions", f"/topics/{WIDE_TOPIC}/partitions?page=1"),
    "/topics/{topic}/groups": (f"/topics/{TOPIC}/groups", "/topics/nothing/groups"),
    "/topics/{topic}/configuration": (f"/topics/{TOPIC}/configuration",),
    "/topics/{topic}/access": (f"/topics/{TOPIC}/access",),
    "/groups": ("/groups",),
    "/groups/{group}": (f"/groups/{in_address(LONG_GROUP)}",),
    "/groups/{group}/reset": (f"/groups/{in_address(LONG_GROUP)}/reset?to=beginning",),
    "/schemas": ("/schemas",),
    "/schemas/{subject}": (f"/schemas/{_SUBJECT}",),
    "/connect": ("/connect",),
    "/connect/{connector}": (f"/connect/{in_address('a-source.with/a-very-long-name' + '-and-parts' * 9)}",),
    "/pipelines": ("/pipelines",),
    "/pipelines/{kind}/{name}": (f"/pipelines/query/{CHECKPOINT}", f"/pipelines/mirror/{LINK}"),
    "/brokers": ("/brokers",),
    "/brokers/{broker}": ("/brokers/1?defaults=yes",),
    "/brokers/balance": ("/brokers/balance",),
    "/quorum": ("/quorum",),
    "/share": ("/share",),
    "/share/{topic}": (f"/share/{TOPIC}",),
    "/transactions": ("/transactions",),
    "/transactions/hanging": ("/transactions/hanging",),
    "/access": ("/access",),
    "/clients": ("/clients",),
}


@pytest.fixture(scope="module")
def awkward(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConsoleProcess]:
    directory = tmp_path_factory.mktemp("awkward")
    registry = SchemaRegistry()
    with odradek.Broker() as source, three_nodes(directory / "three") as bootstrap, connect_worker() as worker:
        source.topic(TOPIC).send(*[b"mirrored"] * 7)
        fill(bootstrap, source.bootstrap_servers)
        write_checkpoint(directory / CHECKPOINT)
        for count in (3, 4):
            register(registry.url, count)
        options = ("--schema-registry", registry.url, "--connect", worker.url)
        options += ("--checkpoint", str(directory / CHECKPOINT), "--checkpoint", str(directory / "nothing"))
        console = ConsoleProcess(bootstrap, directory, *options)
        Visitor(console.address).await_text("/pipelines", f"/pipelines/mirror/{LINK}")
        yield console
        console.stop()
    registry.close()


def register(url: str, count: int) -> None:
    fields = [{"name": f"field_{number}_{'x' * 60}", "type": "string", "default": ""} for number in range(count)]
    schema = {
        "type": "record",
        "name": "Awkward",
        "namespace": "com.example." + "deeply." * 12 + "nested",
        "fields": fields,
    }
    body = json.dumps({"schema": json.dumps(schema)}).encode()
    request = urllib.request.Request(f"{url}/subjects/{_SUBJECT}/versions", body, {"Content-Type": "application/json"})
    urllib.request.urlopen(request).close()


@pytest.fixture(scope="module")
def widths(request: pytest.FixtureRequest) -> tuple[int, ...]:
    is_short = request.config.pluginmanager.has_plugin("without_nightly")
    return (WIDTHS[0], WIDTHS[-1]) if is_short else WIDTHS


@pytest.fixture
def pages(driver: object, awkward: ConsoleProcess) -> Browser:
    made = Browser(driver, awkward.address)  # type: ignore[arg-type]
    made.scheme("light")
    made.errors()  # discards those of the previous test
    return made


def test_every_page_is_measured() -> None:
    assert set(CASES) == set(PAGES) | set(RECORD_PAGES)


@pytest.mark.parametrize(
    ("route", "address"), [(route, address) for route, addresses in CASES.items() for address in addresses]
)
def test_texts_neither_overlap_nor_leave_their_box_nor_break_within_words(
    pages: Browser, widths: tuple[int, ...], route: str, address: str
) -> None:
    open_whole(pages, address)
    assert found_at_widths(pages, widths, route if address == CASES[route][0] else "") == {}
    assert pages.errors() == []


def open_whole(pages: Browser, address: str) -> None:
    pages.size(WIDTHS[0], HEIGHT)
    pages.open(address)
    pages.await_true(lambda: pages.all("h1") and not pages.all(".stop:not([hidden])"))


def found_at_widths(pages: Browser, widths: tuple[int, ...], route: str = "") -> dict[int, list[str]]:
    """The faults of the page that is open. `route`: the name of its pictures, "" for none."""
    found = {}
    for width in widths:
        pages.size(width, HEIGHT)
        pages.await_true(lambda width=width: pages.driver.execute_script("return innerWidth") == width)  # type: ignore[misc]
        if faults := faults_of_layout(pages):
            found[width] = faults
        if route:
            keep_picture(pages, route, width)
    return found


@pytest.fixture(scope="module")
def entrance(awkward: ConsoleProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConsoleProcess]:
    """A console of several clusters with logins: its first page, and the page before it."""
    directory = tmp_path_factory.mktemp("entrance")
    users = directory / "users.txt"
    added = odradek_command("console", "--users", str(users), "--add-user", USER, stdin=f"{PASSWORD}\n")
    assert added.status == 0, added
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CONFIG_HOME", str(directory))
        names = ("east", "a-cluster.with-a-very-long-name" + "-and-parts" * 6)
        for name in names:
            assert odradek_command("context", "add", name, "-b", awkward.bootstrap).status == 0
        options = [word for name in names for word in ("--cluster", name)]
        console = ConsoleProcess("127.0.0.1:9", directory, "--users", str(users), *options)
    yield console
    console.stop()


def test_pages_before_and_beside_those_of_a_cluster_fit_every_width(
    driver: object, entrance: ConsoleProcess, widths: tuple[int, ...]
) -> None:
    pages = Browser(driver, entrance.address)  # type: ignore[arg-type]
    open_whole(pages, "/login")
    assert found_at_widths(pages, widths, "login") == {}
    pages.find("input[name=name]").send_keys(USER)
    pages.find("input[name=password]").send_keys(PASSWORD, Keys.ENTER)
    pages.await_true(lambda: pages.find("#live").text.count("running") == 2)
    assert found_at_widths(pages, widths, "clusters") == {}
    pages.errors()
    open_whole(pages, "/clusters/east/topics/no-such-topic" + "-x" * 100)
    assert found_at_widths(pages, widths, "error") == {}


def test_open_row_and_dialogs_fit_every_width(pages: Browser, widths: tuple[int, ...]) -> None:
    for width in widths:
        pages.size(width, HEIGHT)
        pages.open(f"/topics/{TOPIC}/messages?limit=20")
        pages.driver.execute_script("document.querySelectorAll('tr.opens')[3].click()")
        pages.await_true(lambda: pages.all("tr.detail"))
        assert faults_of_layout(pages) == [], width
        for address, opener in (
            (f"/topics/{TOPIC}/messages", ".actions [data-opens]"),
            (f"/topics/{TOPIC}/configuration", ".row-form button"),
        ):
            pages.open(address)
            pages.driver.execute_script("document.querySelector(arguments[0]).click()", opener)
            pages.await_true(lambda: pages.all("dialog[open]"))
            assert pages.driver.execute_script("return document.querySelector('dialog[open]').scrollWidth") <= width
    assert pages.errors() == []


def test_faults_are_found(pages: Browser) -> None:
    """Each of these styles makes a page that it reports."""
    for style, words in (
        (".strip { margin-top: -40px; }", "overlap"),
        (".strip dd { width: 4px; }", "leaves its box"),
        (
            ".tabs a, h1 .name { width: 40px; word-break: break-all; white-space: normal; display: inline-block; }",
            "breaks",
        ),
        ("main { width: 2000px; max-width: none; }", "the page is 2"),
    ):
        pages.size(1100, HEIGHT)
        pages.open(f"/topics/{TOPIC}/messages")
        pages.driver.execute_script(
            "const made = new CSSStyleSheet(); made.replaceSync(arguments[0]); document.adoptedStyleSheets = [made]",
            style,
        )
        assert any(re.search(words, one) for one in faults_of_layout(pages)), (style, faults_of_layout(pages))
