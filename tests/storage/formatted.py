"""Formatting of log directories: opening a directory with logs but without `meta.properties` fails."""

from __future__ import annotations

from pathlib import Path

from odradek.storage.files.meta_properties import MetaProperties, write_meta_properties

CLUSTER_ID = "4L6g3nShT-eMCtK--X86sw"


def format_directory(path: Path) -> None:
    write_meta_properties(str(path), MetaProperties(CLUSTER_ID, node_id=1, directory_id=bytes(range(16))))
