"""Creates the replica with which a node takes part in a quorum of several nodes: as a voter, or as an observer."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from ...replication.quorum.core import QuorumConfig
from ...replication.quorum.effects import ElectionState
from ...replication.quorum.replica import QuorumReplica
from ...replication.quorum.voters import Address, ReplicaKey, VoterHistory, VoterSet
from ...storage.files.meta_properties import read_meta_properties
from .endpoints import QuorumEndpoints, bootstrap_endpoints, static_voters
from .raft import QuorumRaft
from .replicated_log import ReplicatedQuorumLog
from .state_file import CorruptQuorumState, QuorumState, read_quorum_state

if TYPE_CHECKING:
    from ..config.broker_config import BrokerConfig
    from ..node import Node
    from .metadata_log import QuorumLog


log = logging.getLogger("odradek.quorum")


def join(
    broker: Node,
    quorum_log: QuorumLog,
    clock: Callable[[], int],
    flushing: ThreadPoolExecutor,
    *,
    leads_from: int | None = None,
) -> tuple[QuorumRaft, ReplicatedQuorumLog]:
    """Creates the Raft driver and its log. `leads_from`: see QuorumReplica. Raises OSError, CorruptQuorumState."""
    replicated = ReplicatedQuorumLog(quorum_log, clock)
    history = voter_history(broker.config, replicated)
    last = _last_state(quorum_log, is_voter=local_key(broker) in history.current)
    state = (
        ElectionState()
        if last is None
        else ElectionState(last.leader_id, last.leader_epoch, last.voted_id, last.voted_directory_id)
    )
    replica = QuorumReplica(
        local_key(broker),
        _quorum_config(broker),
        replicated,
        history,
        state,
        random.SystemRandom(),
        clock(),
        leads_from=leads_from,
        acknowledged=quorum_log.acknowledged,
    )
    endpoints = QuorumEndpoints(
        broker.node_id,
        lambda: replica.voter_set,
        broker.listeners.controller_endpoints(),
        bootstrap_endpoints(broker.config),
    )
    return QuorumRaft(broker, quorum_log, replicated, replica, endpoints, clock, flushing), replicated


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
            log.warning("%s; this node does not vote, and begins it again", error)
            return None
    raise CorruptQuorumState(
        f"{error}: this voter does not know for whom it voted, and might vote twice; restore the file, or let "
        f"`odradek repair --data-dir {quorum_log.directory.parent}` show and decide"
    )


def monotonic_clock(broker: Node) -> Callable[[], int]:
    """Returns a monotonic clock in ms since 1970."""
    loop = asyncio.get_running_loop()
    began = broker.now_ms() - loop.time() * 1000
    return lambda: int(began + loop.time() * 1000)


def local_key(broker: Node) -> ReplicaKey:
    properties = read_meta_properties(broker.config.metadata_log_dir)
    if properties is None or properties.directory_id is None:
        return ReplicaKey(broker.node_id)
    return ReplicaKey(broker.node_id, properties.directory_id)


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


def _quorum_config(broker: Node) -> QuorumConfig:
    config = broker.config
    addresses = [Address(e.name, e.host, e.port) for e in broker.listeners.controller_endpoints()]
    return QuorumConfig(
        broker.cluster_id,
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
