"""Snapshots of embedded brokers: `save` and `restore` copy their state to a folder and back.

A snapshot is a copy of the data directories while nothing is appended, as a crash would leave them; a start recovers what
is in memory only. Segment files of a test are small, so that takes milliseconds.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from ..storage.files.modes import make_folder

if TYPE_CHECKING:
    from .broker_run import EmbeddedRun

FILE = "odradek-snapshot.json"
SCHEMAS_FILE = "odradek-schemas.json"
FORMAT = 1
_LOCKS = shutil.ignore_patterns(".lock", "*.deleted", "*-delete")


def save(run: EmbeddedRun, path: Path) -> None:
    """Writes the state of all brokers into a folder, in place of a snapshot that is there. Belongs to the loop's thread.

    Raises FileExistsError for a folder with anything else in it, OSError.
    """
    if path.exists() and any(path.iterdir()) and not (path / FILE).is_file():
        raise FileExistsError(f"{path} has other files in it: choose a new folder, an empty one or a snapshot")
    shutil.rmtree(path, ignore_errors=True)
    make_folder(path)
    for node_id, directory in directories(run).items():
        shutil.copytree(directory, path / f"node-{node_id}", ignore=_LOCKS)
    (path / FILE).write_text(json.dumps({"format": FORMAT, "nodes": sorted(run.configs)}), encoding="utf-8")


async def restore(run: EmbeddedRun, path: Path) -> None:
    """Starts all brokers anew on the state that was saved; their ports stay. Raises ValueError for what is no snapshot."""
    check(run, path)
    for node_id in list(run.servers):
        await run.kill(node_id)
    for node_id, directory in directories(run).items():
        shutil.rmtree(directory, ignore_errors=True)
        shutil.copytree(path / f"node-{node_id}", directory)
    await run.start_all()


def check(run: EmbeddedRun, path: Path) -> None:
    """Raises ValueError for a folder that is no snapshot of as many brokers."""
    try:
        found = json.loads((path / FILE).read_text(encoding="utf-8"))
        nodes, form = found["nodes"], found["format"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        raise ValueError(f"{path} is not a snapshot that save() wrote") from None
    if form != FORMAT or nodes != sorted(run.configs):
        raise ValueError(f"{path} is a snapshot of brokers {nodes}, and these are {sorted(run.configs)}")


def directories(run: EmbeddedRun) -> dict[int, Path]:
    """Returns the data directory of each broker. Raises ValueError where one has several."""
    found = {}
    for node_id, properties in run.configs.items():
        given = properties.get("log.dirs") or properties.get("log.dir", "")
        if "," in given or "metadata.log.dir" in properties:
            raise ValueError("snapshots are of brokers with one log directory")
        found[node_id] = Path(given)
    return found
