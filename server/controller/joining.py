"""Creates the replica with which a node takes part in a quorum of several nodes: as a voter, or as an observer."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from ...replication.quorum.core import QuorumConfig
from ...replication.quorum.effects import ElectionState
from ...replication.quorum.replica import QuorumReplica, Remembered
from ...replication.quorum.voters import Address, ReplicaKey, VoterHistory, VoterSet
from ...storage.files.meta_properties import read_meta_properties
from ...storage.files.quorum_state import CorruptQuorumState, QuorumState, read_quorum_state
from .quorum_requests import (
    QuorumEndpoints,
    QuorumSender,
    bootstrap_endpoints,
    static_voters,
)
from .raft import QuorumRaft
from .replicated_log import ReplicatedQuorumLog

if TYPE_CHECKING:
    from ...client.peers import Peers
    from ..config.broker_config import BrokerConfig
    from ..config.endpoint import Endpoint
    from ..runtime.clock import Clock
    from ..runtime.lazy import Lazy
    from ..runtime.node import Node
    from .metadata_log import QuorumLog
    from .metadata_snapshots import SnapshotId
    from .registration import Registration

log = logging.getLogger("odradek.quorum")


def join(
    node: Node,
    registration: Registration,
    peers: Lazy[Peers],
    quorum_log: QuorumLog,
    now_ms: Callable[[], int],
    *,
    changed: Callable[[], None],
    failed: Callable[[Exception], None],
    adopted: Callable[[SnapshotId], None],
    leads_from: int | None = None,
) -> QuorumRaft:
    """Creates the Raft driver and its log. `now_ms`: see `monotonic_clock`. `leads_from`: see Remembered. `changed`,
    `failed`, `adopted`: see QuorumRaft and its log. Raises OSError, CorruptQuorumState.
    """
    config = node.config
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
        Remembered(state, leads_from, quorum_log.acknowledged),
        random.SystemRandom(),
        now_ms(),
    )
    endpoints = QuorumEndpoints(config.node_id, cluster_id, lambda: replica.voter_set, own, bootstrap_endpoints(config))
    sender = QuorumSender(peers, endpoints, config.get("controller.quorum.request.timeout.ms"))
    return QuorumRaft(node, replicated, replica, sender, now_ms, changed, failed)


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
