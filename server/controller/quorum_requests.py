"""Endpoints of the quorum's nodes, and requests to them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from ...protocol.messages import fetch
from ...protocol.messages.begin_quorum_epoch import BeginQuorumEpochRequest, BeginQuorumEpochResponse
from ...protocol.messages.end_quorum_epoch import EndQuorumEpochRequest, EndQuorumEpochResponse
from ...protocol.messages.fetch_snapshot import FetchSnapshotRequest, FetchSnapshotResponse
from ...protocol.messages.node_endpoints import NodeEndpoint
from ...protocol.messages.quorum_endpoints import LeaderEndpoint, QuorumEndpoint
from ...protocol.messages.vote import VoteResponse
from ...protocol.schema import Message, Request
from ...replication.quorum import wire
from ...replication.quorum.effects import Send
from ...replication.quorum.voters import Address, ReplicaKey, Voter, VoterSet
from ..config.endpoint import Endpoint
from ..runtime.lazy import Lazy

if TYPE_CHECKING:
    from ...client.peers import Peers
    from ..config.broker_config import BrokerConfig

_FIRST_BOOTSTRAP_ID = -2
_FETCH = "quorum-fetch"
_OF_LEADERS = (BeginQuorumEpochRequest, EndQuorumEpochRequest)
_NODE_ENDPOINTS: dict[type[Message], type[QuorumEndpoint] | type[NodeEndpoint]] = {
    VoteResponse: QuorumEndpoint,
    BeginQuorumEpochResponse: QuorumEndpoint,
    EndQuorumEpochResponse: QuorumEndpoint,
    fetch.FetchResponse: NodeEndpoint,
    FetchSnapshotResponse: QuorumEndpoint,
}


def static_voters(config: BrokerConfig) -> VoterSet:
    """Returns the voters in `controller.quorum.voters`: id@host:port, on the first of the controllers' listeners."""
    name = config.get("controller.listener.names")[0].upper()
    return VoterSet.of(_static_voter(text, name) for text in config.get("controller.quorum.voters"))


def _static_voter(text: str, name: str) -> Voter:
    id, _, address = text.strip().partition("@")
    host, port = _host_and_port(address)
    return Voter(ReplicaKey(int(id)), (Address(name, host, port),))


def _host_and_port(text: str) -> tuple[str, int]:
    host, _, port = text.strip().rpartition(":")
    return host.strip("[]"), int(port)


def bootstrap_endpoints(config: BrokerConfig) -> dict[int, Endpoint]:
    """Returns the bootstrap servers by the negative id that stands in for their unknown one."""
    name = config.get("controller.listener.names")[0].upper()
    servers = [_host_and_port(text) for text in config.get("controller.quorum.bootstrap.servers")]
    return {_FIRST_BOOTSTRAP_ID - n: Endpoint(name, host, port) for n, (host, port) in enumerate(servers)}


class QuorumEndpoints:
    """Finds the endpoint of a node. `voters` returns the current voters. `own`: those of this node's controller
    listeners.

    Nodes in the voter set take precedence. After them come `controller.quorum.bootstrap.servers`, which have no ids
    and stand for nodes -2, -3, ..., and the endpoints in other nodes' responses (KIP-853).
    """

    def __init__(
        self,
        node_id: int,
        cluster_id: str,
        voters: Callable[[], VoterSet],
        own: Iterable[Endpoint],
        bootstrap: dict[int, Endpoint],
    ) -> None:
        self._node_id = node_id
        self._cluster_id = cluster_id
        self._voters = voters
        self._own = list(own)
        self._reported: dict[int, Endpoint] = dict(bootstrap)

    def find(self, node_id: int) -> Endpoint | None:
        if node_id == self._node_id and self._own:
            return self._own[0]
        voter = self._voters().voters.get(node_id)
        if voter is not None and voter.addresses:
            return Endpoint(*voter.addresses[0])
        return self._reported.get(node_id)

    def learn_leader(self, request: Request, epoch: int) -> None:
        """Learns the endpoints of a leader that announces itself, or its end, in this epoch or a later one. Otherwise any
        stranger could redirect this node's search for the leader.
        """
        if not isinstance(request, _OF_LEADERS):
            return
        asked = wire.partition_of(request)
        is_ours = request.cluster_id in (None, self._cluster_id)
        if is_ours and asked is not None and asked.leader_epoch >= epoch and asked.leader_id >= 0:
            self.learn(request)

    def learn(self, message: Any) -> None:
        """Learns endpoints from a response, or from the request of a leader, which names the quorum's only partition."""
        for node in getattr(message, "node_endpoints", ()):
            self._reported[node.node_id] = Endpoint("", node.host, node.port)
        for endpoint in getattr(message, "leader_endpoints", ())[:1]:
            partition = message.topics[0].partitions[0]
            self._reported[partition.leader_id] = Endpoint(endpoint.name, endpoint.host, endpoint.port)

    def tell_of_leader(self, response: Any, leader_id: int) -> None:
        """Adds the endpoint of the leader to a response that names the leader."""
        endpoint, kind = self.find(leader_id), _NODE_ENDPOINTS.get(type(response))
        if kind is not None and endpoint is not None and leader_id >= 0:
            response.node_endpoints = [kind(node_id=leader_id, host=endpoint.host, port=endpoint.port)]

    def add_listener_endpoints(self, request: Request) -> None:
        """Adds this leader's own endpoints to a request that announces its epoch."""
        if isinstance(request, _OF_LEADERS):
            request.leader_endpoints = [LeaderEndpoint(name=e.name, host=e.host, port=e.port) for e in self._own]


class QuorumSender:
    """Sends the requests of the replica, over one connection for fetches and one for the rest."""

    def __init__(self, peers: Lazy[Peers], endpoints: QuorumEndpoints, request_timeout_ms: int) -> None:
        #: Called when a node that was fetched from has ended the connection.
        self.on_connection_lost: Callable[[Endpoint], None]
        self._peers = peers
        self.endpoints = endpoints
        self._request_timeout_ms = request_timeout_ms
        #: The endpoints of the leaders fetched from so far.
        self._watched: set[Endpoint] = set()

    def send(self, send: Send, answered: Callable[[Send, Message | None], None]) -> None:
        """Sends the request. Calls `answered` later with the response, or with None without one."""
        endpoint = Endpoint(*send.address) if send.address is not None else self.endpoints.find(send.node)
        if endpoint is None:
            asyncio.get_running_loop().call_soon(answered, send, None)
            return
        self.endpoints.add_listener_endpoints(send.request)
        # The leader may delay a Fetch, and responses arrive in order.
        purpose = _FETCH if isinstance(send.request, fetch.FetchRequest | FetchSnapshotRequest) else "quorum"
        peers = self._peers()
        if purpose == _FETCH and endpoint not in self._watched:
            self._watched.add(endpoint)
            peers.on_lost(endpoint, lambda: self.on_connection_lost(endpoint), _FETCH)
        peers.send(
            endpoint,
            send.request,
            lambda response: answered(send, response),
            timeout_ms=self._request_timeout_ms,
            purpose=purpose,
        )
