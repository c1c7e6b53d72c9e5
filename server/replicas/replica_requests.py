"""Requests of this broker, as a replica, to other replicas of its partitions."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ...protocol.isolation import READ_UNCOMMITTED
from ...protocol.messages.fetch import ReplicaState

if TYPE_CHECKING:
    from ...client.peers import Endpoint as AnyEndpoint
    from ...client.peers import Peers
    from ...protocol.messages.fetch import FetchableTopicResponse
    from ...protocol.schema import Request, ResponseCallback
    from ..config.broker_config import BrokerConfig
    from ..config.endpoint import Endpoint
    from ..controller.leaders import Leaders
    from ..runtime.lazy import Lazy


class ReplicaRequests:
    """Sends requests to other brokers with `replica.socket.timeout.ms`.

    `broker_epoch` returns the epoch of this broker's registration.
    """

    #: A follower fetches everything.
    isolation_level = READ_UNCOMMITTED

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

    def topic_name(self, topic_id: bytes) -> str:
        """Returns the name by which a Fetch has to name a topic besides its id; "" for none."""
        return ""

    def topic_id(self, topic: FetchableTopicResponse) -> bytes:
        """Returns the id of a topic of a response."""
        return topic.topic_id

    def send(self, endpoint: AnyEndpoint, request: Request, reply: ResponseCallback, *, purpose: str) -> None:
        """Sends the request; `reply` gets the response, or None. Each `purpose` has a connection of its own."""
        timeout_ms = self._config.get("replica.socket.timeout.ms")
        self._peers().send(endpoint, request, reply, timeout_ms=timeout_ms, purpose=purpose)
