"""Queries of Spark, by the offsets in their checkpoints.

A checkpoint has the end of each batch in a file of the folder `offsets`: a line of the version, one of the query's settings,
and one of each source. The folder `commits` has a file of the same name when the batch is done. The sources of Odradek and
of Spark itself name offsets by topic and partition; that of Odradek names the group of its commits, too.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from ...admin.places import Place
from .pipeline import MOST_PIPELINES, Kind, Pipeline, read_until

_OFFSETS, _COMMITS = "offsets", "commits"
_MOST_BYTES = 4 << 20
#: Lines before those of sources.
_HEAD_LINES = 2

Ends = Callable[[list[Place]], dict[Place, int]]


def read_queries(checkpoints: Sequence[Path], ends: Ends) -> list[Pipeline]:
    """One query for each folder. A folder that is no checkpoint is a query with a state of its own."""
    read = {folder: _read(folder) for folder in checkpoints[:MOST_PIPELINES]}
    known = ends([place for found in read.values() if not isinstance(found, str) for place in found[0]])
    names = {folder: folder.name for folder in read}
    return [
        Pipeline(
            Kind.query,
            str(folder) if list(names.values()).count(names[folder]) > 1 else names[folder],
            str(folder),
            found if isinstance(found, str) else "has offsets",
            "warn" if isinstance(found, str) else "good",
            () if isinstance(found, str) else read_until(found[0], known),
            None if isinstance(found, str) else found[1],
            group="" if isinstance(found, str) else found[2],
        )
        for folder, found in read.items()
    ]


def _read(folder: Path) -> tuple[dict[Place, int], int, str] | str:
    """The offsets of the newest batch that is done, the time of its commit and the group, or why there are none."""
    try:
        commits = [one for one in (folder / _COMMITS).iterdir() if one.name.isdecimal()]
        if not commits:
            return "no batch is done"
        newest = max(commits, key=lambda one: int(one.name))
        with (folder / _OFFSETS / newest.name).open("rb") as opened:
            text = opened.read(_MOST_BYTES).decode()
        return offsets_of(text), int(newest.stat().st_mtime * 1000), group_of(text)
    except FileNotFoundError:
        return "no checkpoint of a query is in the folder"
    except OSError as error:
        return f"the checkpoint cannot be read: {error.strerror}"
    except (ValueError, TypeError, AttributeError, RecursionError):
        return "the checkpoint has no offsets of topics"


def group_of(text: str) -> str:
    """The group of the first source that names one, "" without."""
    try:
        sources = [json.loads(line) for line in text.splitlines()[_HEAD_LINES:]]
    except (ValueError, RecursionError):
        return ""
    groups = [one.get("group") for one in sources if isinstance(one, dict)]
    return next((one for one in groups if isinstance(one, str)), "")


def offsets_of(text: str) -> dict[Place, int]:
    """The offsets of all sources of topics in such a file. Raises ValueError and others for another text."""
    found: dict[Place, int] = {}
    for line in text.splitlines()[_HEAD_LINES:]:
        try:
            source = json.loads(line)
        except RecursionError:
            raise ValueError("a line is nested too deeply") from None
        topics: Mapping[str, Mapping[str, int]] = source.get("offsets", source) if isinstance(source, dict) else {}
        for topic, partitions in topics.items():
            if isinstance(partitions, dict):
                found |= {(topic, int(index)): int(offset) for index, offset in partitions.items()}
    if not found:
        raise ValueError("no source of topics")
    return found
