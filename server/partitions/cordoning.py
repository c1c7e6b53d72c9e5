"""Log directories that accept no new replicas (`cordoned.log.dirs`, KIP-1066).

Existing replicas stay. The controller places no new replicas on a broker whose directories are all cordoned. It learns
this from heartbeats; a changed configuration sends one immediately (`quorum/driver.py`).
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ...storage.directory import LogDirectory
    from ..node import Node

CORDONED_KEY = "cordoned.log.dirs"


def cordoned_directories(broker: Node) -> list[LogDirectory]:
    named = broker.config.get(CORDONED_KEY) or ()
    paths = {os.path.abspath(name) for name in named}  # noqa: PTH100  (as LogDirectory has its path)
    return [directory for directory in broker.directories if "*" in named or directory.path in paths]


def cordoned_ids(broker: Node) -> list[bytes]:
    """Returns the ids of the cordoned directories that could be read."""
    return [d.directory_id for d in cordoned_directories(broker) if d.directory_id is not None]
