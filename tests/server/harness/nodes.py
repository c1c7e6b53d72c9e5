"""A node for the parts of one: real parts, and those of the test in the places that it names."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from odradek.server.config.broker_config import BrokerConfig
from odradek.server.runtime.clock import Clock
from odradek.server.runtime.halt import Halt
from odradek.server.runtime.node import Node
from odradek.server.runtime.node_identity import NodeIdentity

#: Pools of threads.
_POOLS = ("cpu", "disk", "metadata_log", "scrub")


class NotedHalt(Halt):
    """Notes the failures for which a node halts. Each of them halts it."""

    def __init__(self) -> None:
        self.failures: list[Exception] = []

    def halt(self, failure: Exception) -> bool:
        self.failures.append(failure)
        return True


def node_of(
    config: BrokerConfig | dict[str, str] | None = None, *, clock: Any = None, cluster_id: str = "cluster", **parts: Any
) -> Node:
    """Returns a node. `clock`: without one, its time is 1. `parts`: fields of `Node`, and the pools `cpu`, `disk`,
    `metadata_log` and `scrub`.
    """
    config = config if isinstance(config, BrokerConfig) else BrokerConfig(config or {})
    node = Node.of(config, clock=Clock(lambda: 1))
    for name in _POOLS:
        if name in parts:
            setattr(node.pools, "metadata" if name == "metadata_log" else name, parts.pop(name))
    identity = NodeIdentity(config.node_id, cluster_id)
    return replace(node, **({"identity": identity, "clock": clock or node.clock} | parts))
