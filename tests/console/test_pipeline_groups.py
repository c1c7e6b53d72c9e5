"""Pipelines by their commits to groups: archives, queries, sinks and replays without their tables and checkpoints."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import odradek
import pytest
from odradek.admin.connection import Connection
from odradek.admin.group_offsets import commit
from odradek.admin.pipeline_progress import PipelineKind, PipelineProgress
from odradek.console.pipelines.commits import kind_of
from odradek.console.pipelines.pace import Pace
from odradek.console.pipelines.pipeline import Kind, Reading
from odradek.sink.ledger import Attempt, Ledger

from compat_tests.cli.commands import odradek_command
from compat_tests.console.process import ConsoleProcess, Visitor
from compat_tests.recipes import eventually

pytestmark = pytest.mark.usefixtures("processes")

AT_MS = 1_772_600_000_000


@dataclass
class World:
    broker: odradek.Broker
    folder: Path
    visitor: Visitor

    def run(self, *words: str) -> None:
        done = odradek_command(*words, "-b", self.broker.bootstrap_servers)
        assert done.status == 0, done

    def commit(self, group: str, offset: int, text: str) -> None:
        with Connection({"bootstrap.servers": self.broker.bootstrap_servers}).admin() as admin:
            commit(admin, group, {("orders", 0): offset}, {("orders", 0): text})

    def row(self, name: str) -> list[str]:
        """The cells of a row, nothing without the row."""
        page = self.visitor.get("/pipelines")
        for one in re.findall(r"<tr[^>]*>(.*?)</tr>", page, re.DOTALL):
            cells = re.findall(r'<span class="cell">(.*?)</span></td>', one, re.DOTALL)
            shown = [re.sub(r"<svg.*?</svg>|<[^>]*>", "", cell).strip() for cell in cells]
            if shown and shown[0] == name:
                return shown
        return []

    def until(self, name: str, column: int, text: str) -> list[str]:
        return eventually(
            lambda: (row := self.row(name)) and row[column] == text and row,
            what=f"{name} has {text!r} in column {column}",
        )


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("groups")
    with odradek.Broker() as broker:
        made = World(broker, folder, Visitor(""))
        broker.topic("orders").send(*[b'{"id": 1}'] * 3, b"no json")
        console = ConsoleProcess(broker.bootstrap_servers, folder)
        made.visitor = Visitor(console.address)
        yield made
        console.stop()


def test_archive_without_a_place_of_tables_is_shown_by_its_group(world: World) -> None:
    options = ("--parquet", str(world.folder / "files"), "--value-format", "json", "--once")
    world.run("archive", "orders", *options)
    row = world.until("orders", 2, "has offsets")
    assert row[1] == "odradek-archive-orders" and row[3:5] == ["1", "0"] and row[7] == "1", "a dead-letter record"
    world.broker.topic("orders").send(b'{"id": 2}')
    assert world.until("orders", 4, "1")[2] == "has offsets"
    page = world.visitor.get("/pipelines/archive/orders")
    assert 'href="/groups/odradek-archive-orders"' in page and "Dead letters" in page
    world.run("archive", "orders", *options)
    row = world.until("orders", 4, "0")
    assert eventually(lambda: world.row("orders")[5] != "", what="a rate") and world.until("orders", 6, "0.0 s")


def test_query_is_shown_with_its_batch_and_the_error_that_stopped_it(world: World) -> None:
    progress = PipelineProgress(PipelineKind.query, "report", AT_MS, 12, 5.0)
    world.commit("odradek-query-report", 3, progress.text())
    row = world.until("report", 2, "has offsets")
    assert row[1] == "odradek-query-report" and row[7] == "12"
    failed = PipelineProgress(PipelineKind.query, "report", AT_MS, 12, error="orders-0: offset 3 is gone")
    world.commit("odradek-query-report", 3, failed.text())
    world.until("report", 2, "failed")
    assert "orders-0: offset 3 is gone" in world.visitor.get("/pipelines/query/report")
    assert "query report: failed" in world.visitor.get("/")


def test_sink_is_shown_by_its_ledger(world: World) -> None:
    attempts = tuple(Attempt(task, 0, 1000 + task, 0) for task in range(3))
    (piece,) = Ledger(41, "query", "run", True, attempts).encoded()
    world.commit("odradek-sink-0123", 41, piece)
    assert world.until("0123", 2, "whole")[1:] == ["orders", "whole", "41"]
    (piece,) = Ledger(42, "query", "run", False, attempts).encoded()
    world.commit("odradek-sink-0123", 42, piece)
    assert world.until("0123", 3, "42")[2] == "its transactions are being ended"
    assert "42" in world.visitor.get("/pipelines/sink/0123")


def test_replay_is_shown_with_what_is_left_in_the_table(world: World) -> None:
    world.run("archive", "orders", "--parquet", str(world.folder / "raw"), "--once", "--commit-group", "none")
    world.run("topic", "create", "again")
    world.run("replay", "orders", "again", "--parquet", str(world.folder / "raw"), "--name", "back")
    assert world.until("back", 2, "at the end of the table")[1:5] == [
        "odradek-replay-back", "at the end of the table", "1", "0",
    ]  # fmt: skip
    assert "End of the table" in world.visitor.get("/pipelines/replay/back")
    world.commit("odradek-replay-half", 4, f"table-offset=3 table-end=9 at-ms={AT_MS}")
    assert world.until("half", 2, "has records left")[4] == "6"


def test_groups_of_other_programs_are_no_pipelines(world: World) -> None:
    for group in ("odradek-query-other", "odradek-archive-other", "odradek-sink-other"):
        world.commit(group, 1, "text of another program")
    progress = PipelineProgress(PipelineKind.query, "last", AT_MS)
    world.commit("odradek-query-zzz", 1, progress.text())
    world.until("zzz", 2, "has offsets")
    assert not world.row("other")
    assert kind_of("orders") is None and kind_of("odradek-query-x") is Kind.query


def test_rate_and_freshness_follow_from_readings() -> None:
    pace = Pace()

    def reading(position: int, end: int) -> list[Reading]:
        return [Reading("orders", 0, position, end, end - position)]

    assert pace.add(0, reading(0, 100)) == (None, None), "never at an end that is known"
    assert pace.add(10, reading(50, 120)) == (5.0, None)
    assert pace.add(20, reading(110, 130)) == (5.5, 20), "all records of the first moment are read"
    assert pace.add(30, reading(130, 130)) == (pytest.approx(130 / 30), 0)
    assert pace.add(40, reading(130, 150)) == (pytest.approx(130 / 40), 10)


def test_pace_keeps_few_samples_and_reaches_back_for_long() -> None:
    pace = Pace()
    for second in range(2000):
        pace.add(second, [Reading("orders", 0, 0, second, second)])
    assert len(pace._samples) <= 32 and pace._samples[0].moment < 200
    assert pace.add(2000, [Reading("orders", 0, 500, 2000, 1500)])[1] == pytest.approx(1500, abs=500)
