"""Findings of `odradek migrate plan` about a node of this machine, without a cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from odradek.cli.migrate.findings import STOPS, STORES, WORKS, of_file, to_odradek
from odradek.cli.migrate.survey import APACHE, ODRADEK, Survey, SurveyedNode
from odradek.client.user_errors import UserError

from compat_tests.cli.commands import odradek_command

#: The head of a message of format 1: offset, size, checksum, magic.
OLD = bytes(8) + (30).to_bytes(4, "big") + bytes(4) + b"\x01" + bytes(40)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    made = tmp_path / "server.properties"
    made.write_text(f"log.dirs={tmp_path / 'data'}\n")
    assert odradek_command("format", "--data-dir", str(tmp_path / "data")).status == 0
    return made


def test_log_directory_is_named_with_its_node_and_cluster(file: Path) -> None:
    (found,) = of_file(file, ODRADEK)
    assert found.verdict == WORKS and "a log directory of node 1" in found.words


def test_old_message_formats_stop_the_way_to_odradek_only(file: Path, tmp_path: Path) -> None:
    partition = tmp_path / "data" / "ancient-0"
    partition.mkdir()
    (partition / f"{0:020d}.log").write_bytes(OLD)
    stops = [one for one in of_file(file, ODRADEK) if one.verdict == STOPS]
    assert len(stops) == 1 and "ancient-0" in stops[0].words
    assert [one for one in of_file(file, APACHE) if one.verdict == STOPS] == []


def test_directory_that_is_not_formatted_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    file = tmp_path / "server.properties"
    file.write_text(f"log.dirs={tmp_path / 'data'}\n")
    with pytest.raises(UserError, match="is not a formatted log directory"):
        list(of_file(file, ODRADEK))


def tiered_survey(*stores: str | None) -> Survey:
    """A broker of Apache Kafka for each store, a broker of Odradek, and a tiered topic."""
    nodes = {
        node_id: SurveyedNode(node_id, True, program=APACHE, configs={"remote.log.storage.manager.class.name": store})
        for node_id, store in enumerate(stores, 1)
    }
    nodes[9] = SurveyedNode(9, True, program=ODRADEK, configs={"remote.log.storage.manager.class.name": "folder"})
    quorum: Any = None
    return Survey("cluster", nodes, {}, quorum, [], ["orders"])


@pytest.mark.parametrize(
    ("stores", "verdict"),
    [(STORES, WORKS), ((), WORKS), (("com.example.Store",), STOPS), ((*STORES, "com.example.Store"), STOPS)],
)
def test_tiered_topic_stops_the_way_only_with_a_store_that_odradek_does_not_have(
    stores: tuple[str, ...], verdict: str
) -> None:
    (found,) = (one for one in to_odradek(tiered_survey(*stores)) if one.subject == "topic orders")
    assert found.verdict == verdict and ("com.example.Store" in found.words) == (verdict == STOPS)
