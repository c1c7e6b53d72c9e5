"""Pipelines in the console: mirrors, tiered topics, archives, queries of Spark and replays, each with its lag."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import odradek
import pytest
from odradek.console.pipelines.checkpoints import offsets_of

from compat_tests.broker_process import free_port
from compat_tests.cli.commands import odradek_command
from compat_tests.console.process import ConsoleProcess, Visitor
from compat_tests.recipes import eventually

pytestmark = pytest.mark.usefixtures("processes")

_TIERS = {
    "remote.log.storage.system.enable": "true",
    "remote.log.storage.manager.class.name": "folder",
    "remote.log.metadata.manager.listener.name": "PLAINTEXT",
    "rlmm.config.remote.log.metadata.topic.replication.factor": "1",
    "rlmm.config.remote.log.metadata.topic.min.isr": "1",
    "remote.log.manager.task.interval.ms": "200",
}
#: A query of Spark with one batch, whose checkpoint stays.
_QUERY = """
import sys
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
reader = spark.readStream.format("odradek").option("kafka.bootstrap.servers", sys.argv[1])
rows = reader.option("subscribe", "lines").option("startingOffsets", "earliest").load()
query = rows.writeStream.format("noop").option("checkpointLocation", sys.argv[2]).trigger(availableNow=True).start()
query.awaitTermination()
"""


@dataclass
class World:
    source: odradek.Broker
    here: odradek.Broker
    folder: Path
    visitor: Visitor

    def run(self, *words: str) -> str:
        done = odradek_command(*words, "-b", self.here.bootstrap_servers)
        assert done.status == 0, done
        return str(done.out)

    def row(self, name: str, path: str = "/pipelines") -> list[str]:
        """The cells of a row, "" without the row."""
        page = self.visitor.get(path)
        rows = re.findall(r"<tr[^>]*>(.*?)</tr>", page, re.DOTALL)
        cells = [re.findall(r'<span class="cell">(.*?)</span></td>', one, re.DOTALL) for one in rows]
        shown = [[re.sub(r"<svg.*?</svg>|<[^>]*>", "", cell).strip() for cell in one] for one in cells]
        return next((one for one in shown if one and one[0] == name), [])


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("pipelines")
    port = free_port()
    tiers = {**_TIERS, "rsm.config.dir": str(folder / "store"), "odradek.metrics.port": str(port)}
    with odradek.Broker() as source, odradek.Broker(config=tiers, data_dir=folder / "here") as here:
        made = World(source, here, folder, Visitor(""))
        _fill(made)
        options = ("--warehouse", str(folder / "tables"), "--checkpoint", str(folder / "query"))
        metrics = ("--metrics", f"http://127.0.0.1:{port}/metrics", "--checkpoint", str(folder / "nothing"))
        written = ("--checkpoint", str(folder / "written"))
        console = ConsoleProcess(here.bootstrap_servers, folder, *options, *metrics, *written)
        made.visitor = Visitor(console.address)
        yield made
        console.stop()


def _fill(world: World) -> None:
    """Each pipeline has taken 3 records; 4 more come after that."""
    orders = world.here.topic("orders")
    orders.send(*[b'{"id": 1}'] * 3)
    world.run("archive", "orders", "--warehouse", str(world.folder / "tables"), "--once")
    orders.send(*[b'{"id": 2}'] * 4)
    world.source.topic("followed").send(*[b"1"] * 5)
    world.run("mirror", "create", "dr", "--from", world.source.bootstrap_servers, "--topics", "followed")
    world.run("topic", "create", "deep", "--config", "remote.storage.enable=true", "--config", "segment.bytes=1048576")
    for _ in range(6):
        world.here.topic("deep").send(*[b"x" * 10_000] * 50)


def test_mirror_is_shown_with_its_progress(world: World) -> None:
    row = eventually(lambda: _with_lag(world.row("dr"), 4, "0"), what="the link has all of its source")
    assert row[1] == world.source.bootstrap_servers and row[2] == "following" and row[3] == "1"
    page = world.visitor.get("/pipelines/mirror/dr")
    assert "End at the source" in page and 'href="/groups/__mirror.dr"' in page


@pytest.fixture
def query_of_spark(world: World) -> None:
    """Has Spark take 3 records of a topic, to which 4 more come after that."""
    lines = world.here.topic("lines")
    lines.send(*[b"1"] * 3)
    query = [sys.executable, "-c", _QUERY, world.here.bootstrap_servers, str(world.folder / "query")]
    environment = os.environ | {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    done = subprocess.run(query, capture_output=True, text=True, timeout=300, check=False, env=environment)
    # The batch counts: on a busy machine Spark's own stop may fail after it.
    assert list((world.folder / "query/commits").glob("[0-9]*")), done.stderr[-2000:]
    lines.send(*[b"2"] * 4)


def _with_lag(row: list[str], column: int, lag: str) -> list[str]:
    return row if row and row[column] == lag else []


def test_lag_of_a_paused_mirror_stands_and_the_state_says_so(world: World) -> None:
    eventually(lambda: _with_lag(world.row("dr"), 4, "0"), what="the link has all of its source")
    world.run("mirror", "pause", "dr")
    eventually(lambda: world.row("dr")[2] == "paused", what="the pause is shown")
    world.run("mirror", "resume", "dr")
    eventually(lambda: world.row("dr")[2] == "following", what="the mirror goes on")


def test_archive_is_shown_with_the_records_that_its_table_lacks(world: World) -> None:
    row = eventually(lambda: world.row("kafka.orders"), what="the table is read")
    assert row[2:5] == ["has offsets", "1", "4"]
    assert "Position" in world.visitor.get("/pipelines/archive/kafka.orders")


@pytest.mark.usefixtures("query_of_spark")
def test_query_of_spark_is_shown_by_its_checkpoint(world: World) -> None:
    row = eventually(lambda: _with_lag(world.row("query"), 4, "4"), what="the checkpoint is read")
    assert row[2:5] == ["has offsets", "1", "4"]


def test_checkpoint_in_the_form_of_spark_is_shown_with_the_records_that_its_query_lacks(world: World) -> None:
    for name, text in (("offsets", 'v1\n{"batchWatermarkMs":0}\n{"orders":{"0":3}}\n'), ("commits", "v1\n{}\n")):
        (world.folder / "written" / name).mkdir(parents=True)
        (world.folder / "written" / name / "0").write_text(text)
    row = eventually(lambda: _with_lag(world.row("written"), 4, "4"), what="the checkpoint is read")
    assert row[2:5] == ["has offsets", "1", "4"]


def test_folder_without_a_checkpoint_is_named(world: World) -> None:
    eventually(lambda: world.row("nothing"), what="the folders are read")
    assert world.row("nothing")[2] == "no checkpoint of a query is in the folder"


def test_tiered_topic_is_shown_with_its_copy_lag(world: World) -> None:
    row = eventually(lambda: _with_lag(world.row("deep"), 5, "0"), what="all closed segments are copied")
    assert row[2] == "copied" and row[4] == "0 B" and 0 < int(row[3]) < 300
    assert "First offset on disks alone" in world.visitor.get("/pipelines/tier/deep")


def test_pipeline_that_does_not_exist_is_not_found(world: World) -> None:
    for path in ("/pipelines/mirror/typo", "/pipelines/typo/dr"):
        world.visitor.get(path)
        assert world.visitor.status == 404


def test_topic_that_does_not_exist_stops_its_mirror_and_the_overview_says_so(world: World) -> None:
    world.source.topic("gone").send(b"1")
    world.run("mirror", "create", "lost", "--from", world.source.bootstrap_servers, "--topics", "gone")
    eventually(lambda: _with_lag(world.row("lost"), 4, "0"), what="the topic is followed")
    done = odradek_command("topic", "delete", "gone", "--yes", "-b", world.source.bootstrap_servers)
    assert done.status == 0, done
    eventually(lambda: "stopped" in "".join(world.row("lost")[2:3]), what="the link stops")
    page = world.visitor.get("/")
    assert "mirror lost: 1 of 1 partition stopped" in page and 'href="/pipelines/mirror/lost"' in page


def test_pages_without_pipelines_name_the_next_action(world: World, tmp_path: Path) -> None:
    console = ConsoleProcess(world.source.bootstrap_servers, tmp_path)
    try:
        visitor = Visitor(console.address)
        page = visitor.await_text("/pipelines", "No topic follows another cluster")
        for words in (
            "odradek mirror create NAME",
            "remote.storage.enable=true",
            "--warehouse DIR",
            "--checkpoint DIR",
        ):
            assert words in page
    finally:
        console.stop()


@pytest.mark.parametrize(
    ("source", "offsets"),
    [
        ('{"offsets": {"a": {"0": 3, "1": 4}}, "topicIds": {"a": "x"}}', {("a", 0): 3, ("a", 1): 4}),
        ('{"a":{"0":3},"b":{"2":9}}', {("a", 0): 3, ("b", 2): 9}),
    ],
)
def test_offsets_of_sources_of_odradek_and_of_spark_are_read(source: str, offsets: dict[tuple[str, int], int]) -> None:
    assert offsets_of(f'v1\n{{"batchWatermarkMs":0}}\n{source}\n') == offsets


@pytest.mark.parametrize("source", ["", "7", "[]", "{}", '{"offsets": 3}', "null"])
def test_checkpoint_of_another_source_has_no_offsets(source: str) -> None:
    with pytest.raises((ValueError, TypeError, AttributeError)):
        offsets_of(f"v1\n{{}}\n{source}\n")
