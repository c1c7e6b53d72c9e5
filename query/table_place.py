"""Where the tables of a query are, as its options name it."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple


class TablePlace(NamedTuple):
    """A folder with a catalog, properties of a catalog, or a folder of Parquet files; and the namespace of a catalog."""

    warehouse: Path | None
    catalog: list[str] | None
    parquet: Path | None
    namespace: str
