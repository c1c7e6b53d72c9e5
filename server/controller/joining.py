"""Creates the replica with which a node takes part in a quorum of several nodes: as a voter, or as an observer.

Endpoints of the quorum's nodes, and the requests of the quorum that are sent to them.

Those in the voter set take precedence. After them come `controller.quorum.bootstrap.servers`, which have no ids and stand
for nodes -2, -3, ..., and the endpoints in other nodes' responses (KIP-853).
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from ...protocol.messages import begin_quorum_epoch, end_quorum_epoch, fetch, fetch_snapshot, vote
from ...protocol.schema import Message
from ...replication.quorum import wire
from ...replication.quorum.core import QuorumConfig
from ...replication.quorum.log import ElectionState, Send
from ...replication.quorum.replica import QuorumReplica
from ...replication.quorum.voters import Address, ReplicaKey, Voter, VoterHistory, VoterSet
from ...storage.files.identity import read_meta_properties
from ..config.listeners import Endpoint
from .raft import QuorumRaft, ReplicatedQuorumLog
from .startup import CorruptQuorumState, QuorumState, read_quorum_state

if TYPE_CHECKING:
    from ...client.peers import Peers
    from ..config.broker_config import BrokerConfig
    from ..runtime.clock import Clock
    from ..runtime.subsystem import BackgroundTasks, Lazy
    from ..runtime.thread_pools import ThreadPool
    from .metadata_log import QuorumLog, SnapshotId
    from .registration import Registration


_FIRST_BOOTSTRAP_ID = -2
_FETCH = "quorum-fetch"


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

    def learn_leader(self, request: Message, epoch: int) -> None:
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

    def add_listener_endpoints(self, request: Any) -> None:
        """Adds this leader's own endpoints to a request that announces its epoch."""
        kind = _LEADER_ENDPOINTS.get(type(request))
        if kind is not None:
            request.leader_endpoints = [kind(name=e.name, host=e.host, port=e.port) for e in self._own]


class QuorumSender:
    """Sends the requests of the replica, over one connection for fetches and one for the rest."""

    def __init__(self, peers: Lazy[Peers], endpoints: QuorumEndpoints, request_timeout_ms: int) -> None:
        #: Called when a node that was fetched from has ended the connection.
        self.on_connection_lost: Callable[[Endpoint], None]
        self._peers = peers
        self._endpoints = endpoints
        self._request_timeout_ms = request_timeout_ms
        #: The endpoints of the leaders fetched from so far.
        self._watched: set[Endpoint] = set()

    def send(self, send: Send, answered: Callable[[Send, Any], None]) -> None:
        """Sends the request. Calls `answered` later with the response, or with None without one."""
        endpoint = Endpoint(*send.address) if send.address is not None else self._endpoints.find(send.node)
        if endpoint is None:
            asyncio.get_running_loop().call_soon(answered, send, None)
            return
        self._endpoints.add_listener_endpoints(send.request)
        # The leader may delay a Fetch, and responses arrive in order.
        purpose = (
            _FETCH if isinstance(send.request, fetch.FetchRequest | fetch_snapshot.FetchSnapshotRequest) else "quorum"
        )
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


_OF_LEADERS = (begin_quorum_epoch.BeginQuorumEpochRequest, end_quorum_epoch.EndQuorumEpochRequest)
_NODE_ENDPOINTS: dict[type[Message], Any] = {
    vote.VoteResponse: vote.NodeEndpoint,
    begin_quorum_epoch.BeginQuorumEpochResponse: begin_quorum_epoch.NodeEndpoint,
    end_quorum_epoch.EndQuorumEpochResponse: end_quorum_epoch.NodeEndpoint,
    fetch.FetchResponse: fetch.NodeEndpoint,
    fetch_snapshot.FetchSnapshotResponse: fetch_snapshot.NodeEndpoint,
}
_LEADER_ENDPOINTS: dict[type[Message], Any] = {
    begin_quorum_epoch.BeginQuorumEpochRequest: begin_quorum_epoch.LeaderEndpoint,
    end_quorum_epoch.EndQuorumEpochRequest: end_quorum_epoch.LeaderEndpoint,
}


log = logging.getLogger("odradek.quorum")


def join(
    config: BrokerConfig,
    registration: Registration,
    peers: Lazy[Peers],
    quorum_log: QuorumLog,
    now_ms: Callable[[], int],
    flushing: ThreadPool,
    background: BackgroundTasks,
    *,
    changed: Callable[[], None],
    failed: Callable[[Exception], None],
    adopted: Callable[[SnapshotId], None],
    leads_from: int | None = None,
) -> QuorumRaft:
    """Creates the Raft driver and its log. `now_ms`: see `monotonic_clock`. `leads_from`: see QuorumReplica. `changed`,
    `failed`, `adopted`: see QuorumRaft and its log. Raises OSError, CorruptQuorumState.
    """
    cluster_id, own = registration.cluster_id, registration.endpoints.controller_endpoints()
    replicated = ReplicatedQuorumLog(quorum_log, now_ms, adopted)
    history = voter_history(config, replicated)
    last = _last_state(quorum_log, is_voter=local_key(config) in history.current)
    state = (
        ElectionState()
        if last is None
        else ElectionState(last.leader_id, last.leader_epoch, last.voted_id, last.voted_directory_id)
    )
    replica = QuorumReplica(
        local_key(config),
        _quorum_config(config, cluster_id, own),
        replicated,
        history,
        state,
        random.SystemRandom(),
        now_ms(),
        leads_from=leads_from,
        acknowledged=quorum_log.acknowledged,
    )
    endpoints = QuorumEndpoints(config.node_id, cluster_id, lambda: replica.voter_set, own, bootstrap_endpoints(config))
    sender = QuorumSender(peers, endpoints, config.get("controller.quorum.request.timeout.ms"))
    return QuorumRaft(quorum_log, replicated, replica, endpoints, sender, now_ms, flushing, background, changed, failed)


def _last_state(quorum_log: QuorumLog, *, is_voter: bool) -> QuorumState | None:
    """Returns the last election state. Raises CorruptQuorumState for a voter whose vote is lost: it might vote twice."""
    try:
        last = read_quorum_state(quorum_log.directory)
        if last is not None or not is_voter or not (quorum_log.end_offset or quorum_log.acknowledged):
            return last
        error = CorruptQuorumState(f"{quorum_log.directory}/quorum-state: missing")
    except CorruptQuorumState as damaged:
        error = damaged
        if not is_voter:
            log.warning("%s; this node is not a voter and creates a new quorum-state", error)
            return None
    raise CorruptQuorumState(
        f"{error}: this voter has lost its vote and might vote twice in one epoch; restore the file, or run "
        f"`odradek repair --data-dir {quorum_log.directory.parent}`"
    )


def monotonic_clock(clock: Clock) -> Callable[[], int]:
    """Returns a monotonic clock in ms since 1970."""
    loop = asyncio.get_running_loop()
    began = clock.now_ms() - loop.time() * 1000
    return lambda: int(began + loop.time() * 1000)


def local_key(config: BrokerConfig) -> ReplicaKey:
    """Returns the key of this node's replica: its id, and the id of the metadata log's directory."""
    properties = read_meta_properties(config.metadata_log_dir)
    if properties is None or properties.directory_id is None:
        return ReplicaKey(config.node_id)
    return ReplicaKey(config.node_id, properties.directory_id)


def voter_history(config: BrokerConfig, replicated: ReplicatedQuorumLog) -> VoterHistory:
    """Returns the voters over time: those of the configuration or of the formatted directory, then those in the log."""
    formatted = VoterHistory(VoterSet())
    newest = replicated.latest_snapshot
    for _, record in replicated.snapshot_controls():
        _learn(formatted, 0, record.message)
    if newest is not None and newest.end_offset > 0:
        history = VoterHistory(static_voters(config))
        for offset, record in replicated.snapshot_controls():
            _learn(history, offset, record.message)
    elif formatted.current.voters:
        history = VoterHistory(formatted.current, formatted.kraft_version)
    else:
        history = VoterHistory(static_voters(config))
    # The log may begin below the newest snapshot, which already covers that part.
    begin = max(replicated.start_offset, newest.end_offset if newest is not None else 0)
    for offset, record in replicated.controls(begin):
        if offset >= begin:
            _learn(history, offset, record.message)
    return history


def _learn(history: VoterHistory, offset: int, message: object) -> None:
    from ...protocol.internal.control_records import KRaftVersionRecord, VotersRecord

    if isinstance(message, VotersRecord):
        history.add(offset, VoterSet.from_record(message))
    elif isinstance(message, KRaftVersionRecord):
        history.set_kraft_version(offset, message.kraft_version)


def _quorum_config(config: BrokerConfig, cluster_id: str, own: Iterable[Endpoint]) -> QuorumConfig:
    addresses = [Address(e.name, e.host, e.port) for e in own]
    return QuorumConfig(
        cluster_id,
        election_timeout_ms=max(1, config.get("controller.quorum.election.timeout.ms")),
        fetch_timeout_ms=config.get("controller.quorum.fetch.timeout.ms"),
        election_backoff_max_ms=max(1, config.get("controller.quorum.election.backoff.max.ms")),
        request_timeout_ms=config.get("controller.quorum.request.timeout.ms"),
        retry_backoff_ms=config.get("controller.quorum.retry.backoff.ms"),
        fetch_max_bytes=config.get("controller.quorum.fetch.max.bytes"),
        fetch_snapshot_max_bytes=config.get("controller.quorum.fetch.snapshot.max.bytes"),
        auto_join=config.is_controller and config.get("controller.quorum.auto.join.enable"),
        bootstrap=tuple(bootstrap_endpoints(config)),
        addresses=tuple(addresses) if config.is_controller else (),
    )
