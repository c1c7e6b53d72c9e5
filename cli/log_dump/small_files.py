"""Small files of a data directory, which are read as a whole: checkpoints and properties as lines."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ...protocol.json_value import JsonObject

#: Limit of a text file or a producer snapshot.
_MOST_BYTES = 64 << 20

TEXT_FILES = ("meta.properties", "partition.metadata", "quorum-state", "bootstrap.checkpoint")


def read_limited(path: Path) -> bytes:
    if path.stat().st_size > _MOST_BYTES:
        raise ValueError(f"{path} has more than {_MOST_BYTES >> 20} MB: it is none of these files")
    return path.read_bytes()


def lines_of(path: Path) -> Iterator[JsonObject]:
    for line in read_limited(path).decode(errors="backslashreplace").splitlines():
        yield {"kind": "line", "text": line}
