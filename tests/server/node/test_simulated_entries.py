"""Entries of directories in a simulation: a power loss takes back the newest of those that were not synced."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from odradek.storage.files.writes import sync_directory, write_atomically, write_beside
from odradek.testing.simulation import Simulation
from odradek.testing.simulation.entries import COMMIT_S

#: Content by name; None for a directory.
Listing = dict[str, bytes | None]


def listing(folder: Path) -> Listing:
    return {path.name: None if path.is_dir() else path.read_bytes() for path in folder.iterdir()}


def create(folder: Path, rng: Random) -> None:
    path = folder / f"file {rng.randrange(6)}"
    if not path.exists():
        write_beside(str(path), rng.randbytes(4), sync=True)


def touch(folder: Path, rng: Random) -> None:
    with (folder / f"file {rng.randrange(6)}").open("ab") as file:
        os.fsync(file.fileno())


def remove(folder: Path, rng: Random) -> None:
    (folder / f"file {rng.randrange(6)}").unlink(missing_ok=True)


def rename(folder: Path, rng: Random) -> None:
    source, target = (folder / f"file {rng.randrange(6)}" for _ in range(2))
    if source.exists():
        source.replace(target)


def link(folder: Path, rng: Random) -> None:
    source, target = (folder / f"file {rng.randrange(6)}" for _ in range(2))
    if source.exists() and not target.exists():
        os.link(source, target)


def make_or_remove_directory(folder: Path, rng: Random) -> None:
    path = folder / f"directory {rng.randrange(2)}"
    if path.exists():
        shutil.rmtree(path)
    else:
        path.mkdir()
        create(path, rng)


CHANGES: tuple[Callable[[Path, Random], None], ...] = (create, touch, remove, rename, link, make_or_remove_directory)


@pytest.mark.parametrize("seed", range(60))
def test_power_loss_restores_a_state_since_the_last_sync_of_the_directory(seed: int) -> None:
    rng = Random(seed)
    with Simulation(seed) as simulation:
        folder = simulation.directory / "one" / "log"
        folder.mkdir(parents=True)
        simulation.disk.sync_all("one")
        states = [listing(folder)]
        for _ in range(rng.randrange(25)):
            rng.choice(CHANGES)(folder, rng)
            states.append(listing(folder))
            if rng.random() < 0.1:
                sync_directory(str(folder))
                states = states[-1:]
        simulation.disk.power_failure(simulation.directory / "one")
        assert listing(folder) in states


def test_power_losses_take_back_all_some_and_none() -> None:
    left = set()
    for seed in range(40):
        with Simulation(seed) as simulation:
            folder = simulation.directory / "one"
            folder.mkdir()
            for number in range(4):
                (folder / str(number)).touch()
            simulation.disk.power_failure(folder)
            left.add(tuple(sorted(path.name for path in folder.iterdir())))
    assert left >= {(), ("0", "1", "2", "3")} and len(left) > 2
    assert left <= {tuple("0123"[:count]) for count in range(5)}


def test_synced_or_old_entries_stay() -> None:
    for seed in range(10):
        with Simulation(seed) as simulation:
            folder = simulation.directory / "one"
            folder.mkdir()
            write_atomically(str(folder / "written"), b"content")
            (folder / "old").touch()
            simulation.loop.advance(COMMIT_S)
            (folder / "new").touch()
            simulation.disk.power_failure(folder)
            assert {"written", "old"} <= set(listing(folder)) and (folder / "written").read_bytes() == b"content"


def test_file_without_a_durable_name_counts_as_not_synced() -> None:
    with Simulation(1) as simulation:
        folder = simulation.directory / "one"
        folder.mkdir()
        with (folder / "log").open("wb") as file:
            file.write(b"content")
            file.flush()
            os.fsync(file.fileno())
            assert simulation.disk.synced_bytes(file.fileno()) == 0
            sync_directory(str(folder))
            assert simulation.disk.synced_bytes(file.fileno()) == len(b"content")
