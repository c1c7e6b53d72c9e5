"""Makes the parts that hold the data of partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..fetch.fetch_sessions import FetchSessions
from ..log_maintenance.log_cleaner import LogCleaner
from ..log_maintenance.log_maintenance import LogMaintenance
from ..log_maintenance.replica_moves import ReplicaMoves
from ..log_maintenance.scrubber import Scrubber
from ..partitions.partitions import Partitions

if TYPE_CHECKING:
    from ..node import Node


def fetch_sessions(node: Node) -> FetchSessions:
    made = FetchSessions(
        node.config.get("max.incremental.fetch.session.cache.slots"),
        node.config.get("odradek.fetch.session.cache.partitions"),
        node.turns.free,
    )
    node.listeners.on_connection_lost.append(made.connection_lost)
    return made


def log_maintenance(node: Node) -> LogMaintenance:
    return LogMaintenance(node)


def log_cleaner(node: Node) -> LogCleaner:
    return LogCleaner(node)


def scrubber(node: Node) -> Scrubber:
    return Scrubber(node)


def partitions(node: Node) -> Partitions:
    return Partitions(node, node.directories)


def replica_moves(node: Node) -> ReplicaMoves:
    return ReplicaMoves(node)
