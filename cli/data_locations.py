"""The place of a node's data: `node-2/log.dirs` names the log directories where a node of a cluster ran last.

`odradek start node-2/server.properties --data-dir NEW` writes it when the node serves. `odradek cluster` then looks for the
node there and starts it there, since the folder that the node left may hold an older copy of its data.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from ..storage.files.meta_properties import META_PROPERTIES

#: The plan of a cluster, beside the folders of its nodes.
PLAN_FILE = "cluster.json"
#: A node's properties, in its folder.
NODE_FILE = "server.properties"
PLACE_FILE = "log.dirs"
_DEFAULT = "data"
#: Limit of the file: a path has 4096 bytes, and a node a handful of directories.
_MOST_BYTES = 64 << 10


def remember(properties: Path | None, log_dirs: list[str]) -> None:
    """Writes where a node runs, if `properties` is the file of a node of a cluster. Raises OSError."""
    if properties is None or properties.name != NODE_FILE:
        return
    folder = properties.resolve().parent
    if not (folder.parent / PLAN_FILE).is_file():
        return
    text = ",".join(str(Path(one).absolute()) for one in log_dirs)
    with contextlib.suppress(ValueError):
        if text == (_recorded(folder) or _default(folder)):
            return
    written = folder / f"{PLACE_FILE}.tmp"
    with written.open("w", encoding="utf-8") as file:
        file.write(f"{text}\n")
        file.flush()
        os.fsync(file.fileno())
    written.replace(folder / PLACE_FILE)


def log_dirs_of(folder: Path) -> str:
    """Returns the log directories of the node in `folder`: where it ran last, unless only the first place has data now.
    Raises ValueError for a file that `remember` did not write.
    """
    default, recorded = _default(folder), _recorded(folder)
    if recorded is None or (not _has_data(recorded) and _has_data(default)):
        return default
    return recorded


def _default(folder: Path) -> str:
    return str(folder / _DEFAULT)


def _has_data(log_dirs: str) -> bool:
    return any((Path(one) / META_PROPERTIES).exists() for one in log_dirs.split(","))


def _recorded(folder: Path) -> str | None:
    path = folder / PLACE_FILE
    try:
        with path.open("rb") as file:
            text = file.read(_MOST_BYTES).decode("utf-8").removesuffix("\n")
    except FileNotFoundError:
        return None
    except UnicodeDecodeError:
        text = ""
    if not text.isprintable() or not all(one.startswith("/") for one in text.split(",")):
        raise ValueError(f"{path} does not name directories; remove it if the node's data is in {_default(folder)}")
    return text
