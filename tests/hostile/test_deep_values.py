"""Deeply nested values where JSON of others is parsed: each ends in one line of error."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import odradek
import pytest
from odradek.admin.connection import Connection
from odradek.cli.main import main
from odradek.client.user_errors import Misused, UserError
from odradek.columns.errors import InvalidScan
from odradek.columns.json_schema_types import type_of_json_schema
from odradek.console.backend import Backend
from odradek.console.cluster.connect import ConnectCluster
from odradek.console.pages import balance, group_reset
from odradek.console.settings import Settings
from odradek.storage.files.quorum_state import CorruptQuorumState, decode_quorum_state

from tests.hostile.liar import Liar

DEPTHS = (1_000, 100_000)
SHAPES = {
    "lists": lambda depth: "[" * depth + "]" * depth,
    "objects": lambda depth: '{"a":' * depth + "1" + "}" * depth,
    "lists in a field": lambda depth: '{"message": ' + "[" * depth + "]" * depth + "}",
    "never closed": lambda depth: '[{"a":' * depth,
}
DEEP = {f"{name} {depth}": shape(depth) for name, shape in SHAPES.items() for depth in DEPTHS}


@pytest.fixture(params=sorted(DEEP))
def deep(request: pytest.FixtureRequest) -> str:
    return DEEP[request.param]


def test_forms_of_the_console_refuse_deep_values(deep: str) -> None:
    backend: Any = Backend(Connection({"bootstrap.servers": "127.0.0.1:1"}), Settings())
    with pytest.raises(Misused):
        group_reset.reset(backend, {"group": "g", "offsets": deep})
    with pytest.raises(Misused):
        balance.start(backend, {"plan": deep})


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with odradek.Broker() as broker:
        broker.topic("t").send(b"1")
        yield broker.bootstrap_servers


@pytest.fixture(scope="module")
def liar() -> Iterator[Liar]:
    made = Liar()
    yield made
    made.close()


@pytest.mark.usefixtures("sockets")
@pytest.mark.parametrize("status", [200, 404, 409, 500])
def test_deep_responses_of_kafka_connect_are_one_error(deep: str, status: int, liar: Liar) -> None:
    liar.body, liar.status = deep[: 60 << 10].encode(), status
    connect = ConnectCluster(liar.url)
    for call in (connect.connectors, lambda: connect.config("a"), lambda: connect.act("a", "pause")):
        try:
            call()
        except UserError as error:
            assert len(str(error)) < 1000


def test_schema_of_columns_may_not_be_deep(deep: str) -> None:
    with pytest.raises(InvalidScan):
        type_of_json_schema(deep)


def test_deep_quorum_state_is_damaged(deep: str) -> None:
    with pytest.raises(CorruptQuorumState):
        decode_quorum_state(deep.encode())


@pytest.mark.usefixtures("sockets")
@pytest.mark.parametrize("line", ['{{"value": {}}}', '{{"value": "a", "headers": {}}}', "{}"])
def test_deep_line_of_produce_ends_in_one_line(
    bootstrap: str, deep: str, line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "records.json"
    file.write_text(line.format(deep) + "\n")
    assert main(["produce", "t", str(file), "--input", "jsonl", "-b", bootstrap]) != 0
    words = capsys.readouterr().err
    assert len(words.splitlines()) == 1 and "Traceback" not in words


@pytest.mark.usefixtures("sockets")
def test_deep_plan_of_reassign_ends_in_one_line(
    bootstrap: str, deep: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "plan.json"
    file.write_text(deep)
    assert main(["reassign", "run", str(file), "-b", bootstrap]) != 0
    words = capsys.readouterr().err
    assert len(words.splitlines()) == 1 and "Traceback" not in words
