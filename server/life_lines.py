"""Log lines of a node's start and stop."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .node import Node

log = logging.getLogger("odradek.broker")


def log_starting(broker: Node) -> None:
    from ..version import __version__

    held = {"broker": broker.config.is_broker, "controller": broker.config.is_controller}
    log.info(
        "starting Odradek %s as node %d (%s) with log directories %s",
        __version__, broker.node_id, " and ".join(role for role in held if held[role]), ", ".join(broker.config.log_dirs),
    )  # fmt: skip


def log_started(broker: Node, took_s: float) -> None:
    listeners = ", ".join(f"{listener.name}://{listener.endpoint.address}" for listener in broker.listeners)
    log.info(
        "node %d of cluster %s started in %.0f ms; listeners %s",
        broker.node_id, broker.cluster_id, took_s * 1000, listeners,
    )  # fmt: skip


def log_stopping(broker: Node) -> None:
    log.info("stopping node %d", broker.node_id)


def log_stopped(broker: Node, took_s: float) -> None:
    log.info("node %d stopped in %.0f ms", broker.node_id, took_s * 1000)
