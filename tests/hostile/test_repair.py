"""`odradek repair` on a stopped node: its output, its decisions and its exit status."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import odradek
import pytest

from tests.hostile.damaged_files import empty, overwrite, segments_of
from tests.server.harness.data_path import DataPath, batch_of

pytestmark = pytest.mark.usefixtures("processes")

VALUES = [b"one", b"two"]


def repair(directory: Path, *options: str) -> tuple[int, str]:
    command = [sys.executable, "-m", "odradek", "repair", "--data-dir", str(directory), *options]
    found = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    return found.returncode, found.stdout + found.stderr


def contents(directory: Path) -> dict[str, bytes]:
    files = [path for path in directory.rglob("*") if path.is_file() and path.name != ".lock"]
    return {str(path.relative_to(directory)): path.read_bytes() for path in files}


@pytest.fixture
def stopped(tmp_path: Path) -> tuple[Path, str]:
    """Returns a data directory, and a topic with records in it."""
    with odradek.Broker(data_dir=tmp_path / "data") as broker:
        path = DataPath(broker)
        name = path.topic()
        assert path.produce(name, batch_of(*VALUES)).error_code == 0
        path.topic()
        path.close()
    return tmp_path / "data", name


def test_repair_of_metadata_shows_then_cuts_and_the_start_serves_what_is_left(stopped: tuple[Path, str]) -> None:
    directory, name = stopped
    assert repair(directory)[0] == 0
    segment = segments_of(directory / "__cluster_metadata-0")[-1]
    at = segment.stat().st_size - 20
    overwrite(segment, at, bytes([segment.read_bytes()[at] ^ 0x10]))
    before = contents(directory)
    for options in ((), ("--dry-run", "--cut-metadata")):
        status, words = repair(directory, *options)
        assert status == 3
        assert segment.name in words
        assert "--cut-metadata" in words
        assert contents(directory) == before
    status, words = repair(directory, "--cut-metadata")
    assert status == 0, words
    kept = directory / "__cluster_metadata-0.damaged" / segment.name
    assert kept.read_bytes() == before[f"__cluster_metadata-0/{segment.name}"]
    with odradek.Broker(data_dir=directory) as broker:
        path = DataPath(broker)
        assert not path.fetch(name, 0).error_code
        path.close()


def test_repair_writes_meta_properties_again(stopped: tuple[Path, str]) -> None:
    directory, name = stopped
    file = directory / "meta.properties"
    cluster_id = next(line[11:] for line in file.read_text().splitlines() if line.startswith("cluster.id="))
    empty(file)
    assert repair(directory)[0] == 3
    assert repair(directory, "--write-meta-properties")[0] == 1
    status, words = repair(directory, "--write-meta-properties", "--cluster-id", cluster_id, "--node-id", "1")
    assert status == 0, words
    with odradek.Broker(data_dir=directory) as broker:
        path = DataPath(broker)
        assert not path.fetch(name, 0).error_code
        path.close()


def test_repair_refuses_what_cannot_be(tmp_path: Path) -> None:
    assert repair(tmp_path / "nowhere")[0] == 2
    with odradek.Broker(data_dir=tmp_path / "data"):
        assert repair(tmp_path / "data")[0] == 1
