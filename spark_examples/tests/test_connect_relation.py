"""Relations through a server of Spark Connect: `format("odradek")` with a table, SQL, `read_relation`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import odradek
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from odradek.archive import ArchiveOptions, Archiver
from odradek.archive.key_columns import KeyColumns
from odradek.archive.keyed import Keyed
from odradek.archive.relation import Relation
from odradek.columns import INFER, ValueSchema
from session import REMOTE

from spark_examples.tests.connect_server import ConnectServer
from spark_examples.tests.late_process import DEADLINE_S, in_time
from spark_examples.tests.programs import EXAMPLES
from tests.archive.harness.broker import Harness, rows_of_table
from tests.archive.harness.keyed import open_keyed
from tests.archive.harness.tables import open_table

WAYS = ("format", "sql", "read_relation")
INFERRED = ValueSchema("json", INFER)
KEYED = Keyed(KeyColumns.named(["key"]))
#: Topics with the kinds of their tables. The session adds to `grows`.
TOPICS = {
    "raw": "iceberg",
    "folder": "parquet",
    "catalog": "iceberg",
    "typed": "iceberg",
    "keyed": "keyed",
    "grows": "parquet",
}
ODD = {
    "a relation of format('odradek') has no option 'startingoffsets'": {"startingOffsets": "earliest"},
    "no table kafka.elsewhere": {"table": "elsewhere"},
    "Option 'parquet' excludes 'warehouse'": {"parquet": "elsewhere"},
}


@dataclass
class Found:
    """Rows that the session has read. `tables`: the rows by case and way."""

    tables: dict[tuple[str, str], pa.Table]
    printed: dict[str, Any]


class World:
    """Topics with tables, and with later records in their logs."""

    def __init__(self, harness: Harness, folder: Path) -> None:
        self.harness, self.folder = harness, folder
        for name in TOPICS:
            harness.create(name, 2)
            self._write(name)
            self.archiver(name).run(once=True)
            if name != "grows":
                self._write(name)
        harness.fill_transactions("raw")

    def _write(self, name: str) -> None:
        for partition in (0, 1):
            if name == "typed":
                self.harness.write(name, [b'{"n": %d, "of": {"a": "x"}}' % number for number in range(50)], partition)
            else:
                self.harness.fill(name, 60, partition=partition)

    def place(self, name: str) -> dict[str, str]:
        if name == "catalog":
            return {}
        return {"parquet" if TOPICS[name] == "parquet" else "warehouse": str(self.folder / name)}

    def catalog(self, name: str) -> dict[str, str]:
        if name != "catalog":
            return {}
        folder = self.folder / name
        return {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": folder.as_uri()}

    def archiver(self, name: str) -> Archiver:
        def opened(owner: Any) -> Any:
            if TOPICS[name] == "keyed":
                return open_keyed(self.folder / name, KEYED, owner)
            return open_table(TOPICS[name], self.folder / name, owner)

        options = ArchiveOptions(values=INFERRED if name == "typed" else None)
        return Archiver(self.harness.client, [name], opened, options)

    def relation(self, name: str) -> Relation:
        values = INFERRED if name == "typed" else None
        where: dict[str, Any] = {"parquet" if TOPICS[name] == "parquet" else "warehouse": self.folder / name}
        return odradek.relation(name, client=self.harness.client, values=values, **where)

    def case(self, name: str) -> dict[str, Any]:
        values = "json" if name == "typed" else None
        return {"topic": name, "place": self.place(name), "catalog": self.catalog(name), "values": values}

    def more(self) -> list[str]:
        """A command that archives records which it writes."""
        bootstrap, folder = self.harness.process.bootstrap, self.folder / "grows"
        text = (
            f"printf 'a\\nb\\nc\\n' | {sys.executable} -m odradek produce grows -b {bootstrap} && "
            f"{sys.executable} -m odradek archive grows --parquet {folder} --once -b {bootstrap}"
        )
        return ["sh", "-c", text]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    harness = Harness(tmp_path_factory.mktemp("broker"))
    with harness.process:
        yield World(harness, tmp_path_factory.mktemp("tables"))


@pytest.fixture(scope="module")
def found(server: ConnectServer, world: World, tmp_path_factory: pytest.TempPathFactory) -> Found:
    folder = tmp_path_factory.mktemp("found")
    file = folder / "cases.json"
    asked = {"cases": {name: world.case(name) for name in TOPICS}, "more": world.more(), "odd": list(ODD.values())}
    file.write_text(json.dumps(asked), encoding="utf-8")
    environment = {**os.environ, REMOTE: server.url, "PYTHONPATH": str(EXAMPLES)}

    def session() -> str:
        done = subprocess.run(
            [sys.executable, str(Path(__file__).with_name("relation_session.py")), world.harness.process.bootstrap, file],
            env=environment, capture_output=True, text=True, timeout=DEADLINE_S, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout[-2_000:] + done.stderr[-8_000:]
        return done.stdout

    printed = json.loads(in_time(session))
    tables = {(name, way): pq.read_table(folder / f"{name}-{way}.parquet") for name in TOPICS for way in WAYS}
    return Found(tables, printed)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", ["raw", "folder", "catalog"])
def test_rows_through_a_server_are_those_of_a_consumer(world: World, found: Found, name: str, way: str) -> None:
    assert rows_of_table(found.tables[name, way]) == world.harness.read(name)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", ["typed", "keyed"])
def test_typed_and_keyed_rows_through_a_server_are_those_of_the_relation(
    world: World, found: Found, name: str, way: str
) -> None:
    made = world.relation(name)
    expected = made.to_table()
    assert all(0 < start < end for start, end in made.offsets.values()) and expected.num_rows
    order = [("partition", "ascending"), ("offset", "ascending")]
    rows, wanted = found.tables[name, way].sort_by(order), expected.sort_by(order)
    assert rows.schema.names == wanted.schema.names
    assert rows.to_pylist() == wanted.to_pylist()


def test_conditions_through_a_server_keep_their_rows(world: World, found: Found) -> None:
    kept = [row for row in world.harness.read("raw") if row[0] == 1 and row[1] >= 30]
    assert found.printed["pushed"] == 2 * [len(kept)]


def test_data_frame_through_a_server_stays_as_of_its_first_query(found: Found) -> None:
    assert found.printed["added"] == {"format": 0, "sql": 0, "read_relation": 0, "new": 3}


def test_mistakes_through_a_server_are_named(found: Found) -> None:
    for words, text in zip(ODD, found.printed["errors"], strict=True):
        assert words in text
