"""The rows of a file of a data directory. A row is a mapping whose `kind` names it.

Files are read in pieces; nothing is changed, and a broker may run meanwhile.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from .contents import Decode
from .indexes import offset_index, producer_snapshot, time_index, transaction_index
from .segments import DumpSelection, segment_rows
from .small_files import TEXT_FILES, lines_of

if TYPE_CHECKING:
    from ...protocol.json_value import JsonObject

_SNAPSHOT_OF_METADATA = re.compile(r"\d{20}-\d{10}\.checkpoint")

_INDEXES: dict[str, Callable[[Path], Iterator[JsonObject]]] = {
    ".index": offset_index,
    ".timeindex": time_index,
    ".txnindex": transaction_index,
    ".snapshot": producer_snapshot,
}


def rows_of(path: Path, selection: DumpSelection, decode: Decode) -> Iterator[JsonObject]:
    """Rows of one file. Raises OSError, and ValueError for a file that is none of a data directory."""
    name = path.name
    if name.endswith(".log") or _SNAPSHOT_OF_METADATA.fullmatch(name):
        yield from segment_rows(path, selection, decode)
    elif name.endswith((".index", ".timeindex", ".txnindex", ".snapshot")):
        yield from _INDEXES[path.suffix](path)
    elif name in TEXT_FILES or name.endswith("-checkpoint"):
        yield from lines_of(path)
    else:
        raise ValueError(f"{path} is not a segment, index, snapshot or checkpoint of Kafka")


def is_known(name: str) -> bool:
    suffixes = (".log", ".index", ".timeindex", ".txnindex", ".snapshot", "-checkpoint")
    return name.endswith(suffixes) or name in TEXT_FILES or _SNAPSHOT_OF_METADATA.fullmatch(name) is not None
