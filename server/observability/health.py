"""Health of a node for load balancers and supervisors: `/health/live` and `/health/ready`.

Live: the event loop answers. A node that recovers its logs or waits for a quorum is live, and must not be
restarted. Ready: the node serves, has a leader of the quorum, is registered and not fenced, and all its log
directories are online. A condition that does not hold is named with its reason. Background work that fails, and is
tried again, is named in "failing": the node serves meanwhile, so it stays ready.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ...replication.quorum.roles import Follower, Leader
from ..controller.broker_lifecycle import LifecycleState
from ..services import Services

if TYPE_CHECKING:
    from ..config.broker_config import BrokerConfig
    from ..services import NodeServices

_LEAVING = (LifecycleState.PENDING_CONTROLLED_SHUTDOWN, LifecycleState.SHUTTING_DOWN)


class NotReady(NamedTuple):
    """A check that fails, and why."""

    check: str
    reason: str


def not_ready(config: BrokerConfig, services: NodeServices | None, *, is_stopping: bool) -> Iterator[NotReady]:
    """Yields the checks that fail now. `services`: None until the node has opened its log directories."""
    if is_stopping:
        yield NotReady("serving", "the node is stopping")
    if services is None:
        if not is_stopping:
            yield NotReady("serving", "the node is starting: it opens its log directories")
        return
    if not is_stopping:
        yield from _serving(services)
    yield from _quorum(services)
    yield from _registration(services)
    yield from _directories(config, services)


def _serving(services: NodeServices) -> Iterator[NotReady]:
    closed = [listener.name for listener in services.network.listeners if not listener.is_started]
    lifecycle = services.controller.lifecycle if isinstance(services, Services) else None
    if closed:
        yield NotReady("serving", f"the node is starting: listener {', '.join(closed)} does not accept connections yet")
    elif lifecycle is not None and lifecycle.state in _LEAVING:
        yield NotReady("serving", "the node is stopping")


def _quorum(services: NodeServices) -> Iterator[NotReady]:
    """A node that holds an election may still name the leader that it misses (KIP-996)."""
    raft = services.controller.driver.raft
    if raft is not None and not isinstance(raft.replica.role, (Leader, Follower)):
        yield NotReady("quorum", f"no leader of the quorum responds in epoch {services.controller.driver.epoch}")


def _registration(services: NodeServices) -> Iterator[NotReady]:
    if not isinstance(services, Services):  # a mere controller is no broker
        return
    registered = services.metadata.image.broker(services.node_id)
    if registered is None:
        yield NotReady("registration", "no controller has registered this broker")
    elif registered.fenced:
        yield NotReady("registration", "this broker is fenced")


def _directories(config: BrokerConfig, services: NodeServices) -> Iterator[NotReady]:
    online = {Path(directory.path).resolve() for directory in services.directories if directory.is_online}
    offline = [path for path in config.log_dirs if Path(path).resolve() not in online]
    if offline:
        yield NotReady("directories", f"log directory {', '.join(offline)} is offline")


def body(config: BrokerConfig, services: NodeServices | None, failed: list[NotReady]) -> bytes:
    """Returns the JSON response."""
    named = {one.check: one.reason for one in failed}
    found = {"ready": not failed, "node_id": config.node_id, "not_ready": named}
    text = json.dumps({**found, "failing": services.node.background.failing if services is not None else {}})
    return f"{text}\n".encode()
