"""Requests to the leaders of the source's partitions, for the fetchers of a link. They are a consumer's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...client.peers import Peers
from ...protocol.isolation import READ_COMMITTED
from ...protocol.messages.fetch import ReplicaState
from ...protocol.uuids import ZERO_UUID
from .source import SourceView

if TYPE_CHECKING:
    from ...client.peers import Endpoint
    from ...protocol.messages.fetch import FetchableTopicResponse
    from ...protocol.schema import Request, ResponseCallback
    from ..config.broker_config import BrokerConfig
    from .source import Source

_CONSUMER = ReplicaState(-1, -1)


class SourceRequests:
    """`take` is called with each read of the source's metadata."""

    #: Up to the last stable offset: nothing has to be taken back.
    isolation_level = READ_COMMITTED

    def __init__(self, node_id: int, config: BrokerConfig, source: Source) -> None:
        self.node_id = node_id
        self._view = SourceView()
        #: Names of topics by their keys.
        self._names: dict[bytes, str] = {}
        self._config = config
        self._peers = Peers(source.client_id, source.login, source.tls)

    def take(self, view: SourceView) -> None:
        self._view = view
        self._names = {topic.key: topic.name for topic in view.topics.values()}

    def close(self) -> None:
        self._peers.close()

    def endpoint(self, broker_id: int) -> Endpoint | None:
        return self._view.nodes.get(broker_id)

    def replica_state(self) -> ReplicaState:
        return _CONSUMER

    def topic_name(self, topic_id: bytes) -> str:
        return self._names.get(topic_id, "")

    def topic_id(self, topic: FetchableTopicResponse) -> bytes:
        """Before version 13 a response has names."""
        if topic.topic_id != ZERO_UUID:
            return topic.topic_id
        found = self._view.topics.get(topic.topic)
        return found.key if found is not None else b""

    def send(self, endpoint: Endpoint, request: Request, reply: ResponseCallback, *, purpose: str) -> None:
        timeout_ms = self._config.get("replica.socket.timeout.ms")
        self._peers.send(endpoint, request, reply, timeout_ms=timeout_ms, purpose=purpose)
