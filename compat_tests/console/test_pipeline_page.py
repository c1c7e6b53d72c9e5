"""The page of an archive in Chromium: lag that grows after the archive stopped, and the age of its last commit."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import odradek
import pytest

from compat_tests.cli.commands import odradek_command
from compat_tests.console.browser import Browser
from compat_tests.console.harness.screenshots import take_screenshot
from compat_tests.console.process import ConsoleProcess

DONE, LEFT = 1_050, 400
#: Readings of the console, one in 5 s, with a viewer.
_POINTS, _DEADLINE_S = 4, 180


@pytest.fixture(scope="module")
def broker() -> Iterator[odradek.Broker]:
    with odradek.Broker() as running:
        yield running


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("page") / "tables"


@pytest.fixture
def archive(broker: odradek.Broker, tables: Path) -> None:
    """An archive of the topic orders that stopped, as `--once` does."""
    broker.topic("orders").send(*[b'{"id": %d}' % number for number in range(DONE)])
    words = ("archive", "orders", "--warehouse", str(tables), "--once", "-b", broker.bootstrap_servers)
    assert odradek_command(*words).status == 0


@pytest.fixture
def pages(
    archive: None,
    driver: object,
    broker: odradek.Broker,
    tables: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Browser]:
    monkeypatch.chdir(tables.parent)  # the picture shows the folder as the console has it
    console = ConsoleProcess(broker.bootstrap_servers, tmp_path, "--warehouse", tables.name)
    made = Browser(driver, console.address)  # type: ignore[arg-type]
    made.size(1100, 760)
    made.scheme("light")
    made.errors()
    yield made
    console.stop()


def test_page_of_an_archive_shows_its_lag_and_its_last_commit(
    pages: Browser, broker: odradek.Broker, tmp_path: Path
) -> None:
    pages.open("/pipelines")
    pages.await_text("kafka.orders", _DEADLINE_S)
    pages.open("/pipelines/archive/kafka.orders")
    broker.topic("orders").send(*[b"{}"] * LEFT)
    pages.await_true(
        lambda: f"{LEFT} offsets" in pages.text and f"Lag\n{LEFT}" in pages.text and pages.chart_points() >= _POINTS,
        _DEADLINE_S,
    )
    take_screenshot(pages, tmp_path, "console-pipeline.png")
    assert pages.violations() == [] and pages.errors() == []
