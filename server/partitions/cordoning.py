"""Log directories that take no new replicas (`cordoned.log.dirs`, KIP-1066).

Replicas that are there stay. The controller gives nothing new to a broker all of whose directories are cordoned; it knows
from the heartbeats, of which a changed configuration sends one at once (`quorum_driver.py`).
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ...storage.directory import LogDirectory
    from ..broker import BrokerServer

CORDONED_KEY = "cordoned.log.dirs"


def cordoned_directories(broker: BrokerServer) -> list[LogDirectory]:
    named = broker.config.get(CORDONED_KEY) or ()
    paths = {os.path.abspath(name) for name in named}  # noqa: PTH100  (as LogDirectory has its path)
    return [directory for directory in broker.directories if "*" in named or directory.path in paths]


def cordoned_ids(broker: BrokerServer) -> list[bytes]:
    """The ids of those that could be read."""
    return [d.directory_id for d in cordoned_directories(broker) if d.directory_id is not None]
