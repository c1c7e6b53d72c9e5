"""Log directories that accept no new replicas (`cordoned.log.dirs`, KIP-1066).

Existing replicas stay. The controller places no new replicas on a broker whose directories are all cordoned. It
learns this from heartbeats; a changed configuration sends one immediately (`controller/driver.py`).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from ...storage.directory import LogDirectory
    from ..config.broker_config import BrokerConfig

CORDONED_KEY: Final = "cordoned.log.dirs"


def cordoned_directories(config: BrokerConfig, directories: Sequence[LogDirectory]) -> list[LogDirectory]:
    """Returns those of `directories` that the configuration names, by path or by "*"."""
    named = config.get(CORDONED_KEY) or ()
    paths = {os.path.abspath(name) for name in named}  # noqa: PTH100  (as LogDirectory has its path)
    return [directory for directory in directories if "*" in named or directory.path in paths]


def cordoned_ids(config: BrokerConfig, directories: Sequence[LogDirectory]) -> list[bytes]:
    """Returns the ids of the cordoned directories that could be read."""
    return [d.directory_id for d in cordoned_directories(config, directories) if d.directory_id is not None]
