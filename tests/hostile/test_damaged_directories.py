"""Every kind of file of a data directory with every damage, after a clean stop and after a kill."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from odradek.storage.directory import CLEAN_SHUTDOWN_FILE
from odradek.storage.files.clean_replicas import CLEAN_REPLICAS_FILE
from odradek.storage.files.use_mark import USE_FILE

from tests.hostile.damaged_directories import Case, DamageFound, Images, cases, run

pytestmark = pytest.mark.usefixtures("sockets")

#: The share of `python -m tests.hostile.damage` to run; with 1, each kind of file gets each damage after both stops.
SHARE = float(os.environ.get("ODRADEK_DAMAGE_SHARE", "0.35"))
SEED = int(os.environ.get("ODRADEK_DAMAGE_SEED", "1"))
IN_MEMORY = Path("/dev/shm")


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """Returns a folder in memory where possible: a start waits for the disk several times."""
    with TemporaryDirectory(dir=IN_MEMORY if os.access(IN_MEMORY, os.W_OK) else None) as name:
        yield Path(name)


@pytest.fixture(scope="module")
def images(folder: Path) -> Images:
    return Images.make(folder)


def test_start_serves_what_is_whole_or_names_the_damaged_file(images: Images, folder: Path) -> None:
    every = cases(images, SEED)
    chosen = every[SEED % 3 :: max(1, round(1 / SHARE))]
    found = []
    outcomes = set()
    for case in chosen:
        try:
            outcomes.add(run(images, case, folder))
        except DamageFound as failure:
            found.append(str(failure))
    assert not found, "\n".join(found)
    assert outcomes == {"served", "refused"}


@pytest.mark.parametrize("stop", ["clean", "killed"])
@pytest.mark.parametrize("damage", ["halve", "empty", "remove", "flip", "rubbish"])
def test_lost_metadata_of_a_single_node_is_refused(images: Images, folder: Path, stop: str, damage: str) -> None:
    case = Case(stop, "__cluster_metadata-0/00000000000000000000.log", damage, SEED)
    assert run(images, case, folder) == "refused"


@pytest.mark.parametrize("stop", ["clean", "killed"])
@pytest.mark.parametrize("damage", ["flip", "flip-many", "halve", "empty", "remove", "rubbish", "directory"])
def test_unreadable_partition_metadata_hides_no_record(images: Images, folder: Path, stop: str, damage: str) -> None:
    name, index = next(iter(images.sent))
    assert run(images, Case(stop, f"{name}-{index}/partition.metadata", damage, SEED), folder) == "served"


@pytest.mark.parametrize("file", [CLEAN_SHUTDOWN_FILE, CLEAN_REPLICAS_FILE, USE_FILE])
@pytest.mark.parametrize("damage", ["directory", "rubbish", "halve", "remove"])
def test_a_mark_of_the_last_use_that_is_damaged_costs_no_record(
    images: Images, folder: Path, file: str, damage: str
) -> None:
    assert run(images, Case("clean", file, damage, SEED), folder) == "served"
