"""Requests of this broker, as a replica, to other replicas of its partitions."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ...protocol.messages.fetch import ReplicaState
from ...protocol.schema import Message

if TYPE_CHECKING:
    from ..cluster.leaders import Leaders
    from ..config.broker_config import BrokerConfig
    from ..network.endpoint import Endpoint
    from ..peers.peers import Peers
    from ..runtime.lazy import Lazy


class ReplicaRequests:
    """Sends requests to other brokers with `replica.socket.timeout.ms`.

    `broker_epoch` returns the epoch of this broker's registration.
    """

    def __init__(
        self,
        node_id: int,
        broker_epoch: Callable[[], int],
        config: BrokerConfig,
        peers: Lazy[Peers],
        leaders: Leaders,
    ) -> None:
        self.node_id = node_id
        self._broker_epoch = broker_epoch
        self._config = config
        self._peers = peers
        self._leaders = leaders

    def endpoint(self, broker_id: int) -> Endpoint | None:
        """Returns the endpoint of another broker; None when it is not known."""
        return self._leaders.broker_endpoint(broker_id)

    def replica_state(self) -> ReplicaState:
        """Returns this broker as the sender of a follower's Fetch."""
        return ReplicaState(self.node_id, self._broker_epoch())

    def send(self, endpoint: Endpoint, request: Message, reply: Callable[[Any], None], *, purpose: str) -> None:
        """Sends the request; `reply` gets the response, or None. Each `purpose` has a connection of its own."""
        timeout_ms: int = self._config.get("replica.socket.timeout.ms")
        self._peers().send(endpoint, request, reply, timeout_ms=timeout_ms, purpose=purpose)
