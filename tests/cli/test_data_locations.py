"""The file with the place of a node's data: written by `odradek start`, read by `odradek cluster`."""

from __future__ import annotations

from pathlib import Path

import pytest
from odradek.cli.data_locations import log_dirs_of, remember


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Returns the folder of a node, in the directory of a cluster."""
    made = tmp_path / "cluster" / "node-2"
    made.mkdir(parents=True)
    (made.parent / "cluster.json").write_text("{}")
    return made


def with_data(path: Path) -> str:
    path.mkdir(parents=True)
    (path / "meta.properties").write_text("version=1\n")
    return str(path)


def test_node_without_a_record_has_its_data_in_its_folder(folder: Path) -> None:
    default = with_data(folder / "data")
    remember(folder / "server.properties", [default])
    assert log_dirs_of(folder) == default and not (folder / "log.dirs").exists()


def test_last_place_counts_even_if_the_folder_has_an_older_copy(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    default, moved = with_data(folder / "data"), with_data(tmp_path / "moved")
    monkeypatch.chdir(tmp_path)
    remember(Path("cluster/node-2/server.properties"), ["moved", "more"])
    assert log_dirs_of(folder) == f"{moved},{tmp_path / 'more'}"
    remember(folder / "server.properties", [default])
    assert log_dirs_of(folder) == default


def test_data_that_was_moved_back_is_found(folder: Path, tmp_path: Path) -> None:
    moved = tmp_path / "moved"
    remember(folder / "server.properties", [str(moved)])
    assert log_dirs_of(folder) == str(moved), "neither place has data: a new disk"
    default = with_data(folder / "data")
    assert log_dirs_of(folder) == default


@pytest.mark.parametrize("properties", [None, "cluster/node-2/other.properties", "lone/server.properties"])
def test_broker_outside_of_a_cluster_writes_nothing(properties: str | None, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "lone").mkdir()
    remember(tmp_path / properties if properties else None, [str(tmp_path / "data")])
    assert not list(tmp_path.rglob("log.dirs*"))


@pytest.mark.parametrize("content", [b"", b"data\n", b"/a,b\n", b"/a\n/b\n", b"/\xff\n", b"/a\0"])
def test_file_that_names_no_directories_is_an_error_until_the_next_start(folder: Path, content: bytes) -> None:
    (folder / "log.dirs").write_bytes(content)
    with pytest.raises(ValueError, match="does not name directories"):
        log_dirs_of(folder)
    remember(folder / "server.properties", ["/new"])
    assert log_dirs_of(folder) == "/new"
