"""Requests to the leaders of the source's partitions, for the fetchers of a link. They are a consumer's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...client.peers import Peers
from ...protocol.messages.fetch import ReplicaState
from ...protocol.uuids import ZERO_UUID

if TYPE_CHECKING:
    from ...client.peers import Endpoint
    from ...protocol.messages.fetch import FetchableTopicResponse
    from ...protocol.schema import Request, ResponseCallback
    from ..config.broker_config import BrokerConfig
    from .source import Source, SourceTopic, SourceView

_READ_COMMITTED = 1
_CONSUMER = ReplicaState(-1, -1)


class SourceRequests:
    """`view`: set anew with each read of the source's metadata."""

    #: Up to the last stable offset: nothing has to be taken back.
    isolation_level = _READ_COMMITTED
    view: SourceView

    def __init__(self, node_id: int, config: BrokerConfig, source: Source, view: SourceView) -> None:
        self.node_id = node_id
        self.view = view
        self._config = config
        self._peers = Peers(source.client_id, source.login, source.tls)

    def close(self) -> None:
        self._peers.close()

    def endpoint(self, broker_id: int) -> Endpoint | None:
        return self.view.nodes.get(broker_id)

    def replica_state(self) -> ReplicaState:
        return _CONSUMER

    def topic_name(self, topic_id: bytes) -> str:
        return name_of(topic_id, self.view)

    def topic_id(self, topic: FetchableTopicResponse) -> bytes:
        """Before version 13 a response has names."""
        if topic.topic_id != ZERO_UUID:
            return topic.topic_id
        found = self.view.topics.get(topic.topic)
        return key_of(found) if found is not None else b""

    def send(self, endpoint: Endpoint, request: Request, reply: ResponseCallback, *, purpose: str) -> None:
        timeout_ms = self._config.get("replica.socket.timeout.ms")
        self._peers.send(endpoint, request, reply, timeout_ms=timeout_ms, purpose=purpose)


def key_of(topic: SourceTopic) -> bytes:
    """The id of a topic, or its name where the source has no ids: no name has 16 bytes with a zero in front."""
    return topic.id if topic.id != ZERO_UUID else b"\0" + topic.name.encode()


def name_of(key: bytes, view: SourceView) -> str:
    if key[:1] == b"\0" and key[1:].decode("utf-8", "replace") in view.topics:
        return key[1:].decode()
    return next((topic.name for topic in view.topics.values() if topic.id == key), "")
