"""The start of a single voter, which leads at once."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ...metadata.delta import MetadataDelta
from ...metadata.image import METADATA_VERSION
from ...metadata.unsupported import unsupported
from ...protocol.codec import MalformedMessage
from ...protocol.internal.control_records import Endpoint as VoterEndpoint
from ...protocol.internal.control_records import LeaderChangeMessage, LeaderChangeVoter, VotersVoter
from ...protocol.messages.broker_heartbeat import BrokerHeartbeatResponse
from ...protocol.messages.broker_registration import BrokerRegistrationResponse
from ...protocol.records.control import ControlRecord, ControlType
from ...protocol.records.errors import BatchError
from ...protocol.schema import Message, Request
from ...replication.controller.brokers import only_broker_stops
from ...replication.controller.controller import Controller
from ...replication.controller.policies import Policies
from ...replication.controller.result import ControllerResult
from ...storage.files.quorum_state import CorruptQuorumState, QuorumState, read_quorum_state, write_quorum_state
from .formatting import BOOTSTRAP_FILE
from .metadata_log import Loaded, MetadataLost, QuorumLog
from .metadata_opening import InvalidQuorum
from .metadata_snapshots import quorum_records, read_records
from .registration import Registration, new_incarnation_id

if TYPE_CHECKING:
    from ..config.broker_config import BrokerConfig
    from ..config.endpoint import Endpoint
    from ..runtime.clock import Clock

log = logging.getLogger("odradek.quorum")


class LeadershipStart(NamedTuple):
    """A controller that leads, with this broker registered and unfenced. None of its records is flushed yet."""

    controller: Controller
    epoch: int
    epoch_start_offset: int
    broker_epoch: int
    #: Leads from the empty image to the controller's image.
    delta: MetadataDelta


def take_over(
    config: BrokerConfig,
    clock: Clock,
    registration: Registration,
    quorum_log: QuorumLog,
    loaded: Loaded,
    controller: Controller,
) -> LeadershipStart:
    """Makes a single voter the leader, with a new controller. The caller flushes afterwards. Raises InvalidQuorum,
    MetadataLost.
    """
    image = loaded.delta.apply(quorum_log.end_offset - 1, loaded.last_epoch, loaded.last_append_timestamp_ms)
    why = unsupported(loaded.delta, image, is_tiered=config.is_tiered)
    if why is not None:
        raise InvalidQuorum(f"{quorum_log.directory}: {why}")
    epoch_start_offset = quorum_log.end_offset
    epoch = _begin_epoch(registration, quorum_log, loaded, clock.now_ms())
    controller.load(image, quorum_log.end_offset, quorum_log.quorum.kraft_version)
    start = _Start(clock, registration, quorum_log, controller, epoch, loaded.delta)
    start.append(activation(config, controller, transaction_open=loaded.transactions.is_open), atomic=True)
    start.register_controller()
    broker_epoch = start.register_broker() if config.is_broker else -1
    return LeadershipStart(controller, epoch, epoch_start_offset, broker_epoch, loaded.delta)


def new_controller(
    config: BrokerConfig,
    cluster_id: str,
    kraft_upgrade_error: Callable[[int], str | None],
    *,
    uses_acls: bool,
    policies: Policies,
) -> Controller:
    """Returns a controller without state. `kraft_upgrade_error`, `uses_acls`, `policies`: see Controller."""
    return Controller(
        config.node_id,
        cluster_id,
        config.values.static,
        random.SystemRandom(),
        kraft_upgrade_error,
        uses_acls=uses_acls,
        policies=policies,
    )


def _begin_epoch(registration: Registration, quorum_log: QuorumLog, loaded: Loaded, now_ms: int) -> int:
    """Stores the epoch before anything is written in it, and writes the leader's first record."""
    last = _last_state(quorum_log)
    epoch = max(last.leader_epoch, loaded.last_epoch) + 1
    quorum, node_id = quorum_log.quorum, registration.node_id
    is_new = _update_voter(quorum.voters, node_id, registration.endpoints.controller_endpoints())
    write_quorum_state(quorum_log.directory, QuorumState(node_id, epoch), quorum.kraft_version, [node_id])
    voter = LeaderChangeVoter(voter_id=node_id)
    change = LeaderChangeMessage(version=0, leader_id=node_id, voters=[voter], granting_voters=[voter])
    # The first leader copies the voters of the formatted directory into the log, where followers find them.
    voters = quorum_records(quorum) if is_new or quorum_log.end_offset == 0 else ()
    quorum_log.append_control([ControlRecord(ControlType.LEADER_CHANGE, change), *voters], epoch, now_ms)
    return epoch


def _last_state(quorum_log: QuorumLog) -> QuorumState:
    """Returns the last election state. A single voter may lose its votes: no other node was elected, and the log
    contains the last epoch.
    """
    try:
        return read_quorum_state(quorum_log.directory) or QuorumState()
    except CorruptQuorumState as error:
        log.warning("%s; created anew after the last epoch of the log", error)
        return QuorumState()


def _update_voter(voters: Sequence[VotersVoter], node_id: int, own: Sequence[Endpoint]) -> bool:
    """Updates this voter's endpoints. Returns False when the log already has them."""
    endpoints = [VoterEndpoint(name=e.name, host=e.host, port=e.port) for e in own]
    changed = [voter for voter in voters if voter.voter_id == node_id and voter.endpoints != endpoints]
    for voter in changed if endpoints else ():
        voter.endpoints = endpoints
    return bool(endpoints and changed)


def activation(config: BrokerConfig, controller: Controller, *, transaction_open: bool) -> Sequence[Message]:
    """Returns the records with which a new controller begins. Raises MetadataLost."""
    path = Path(config.metadata_log_dir, BOOTSTRAP_FILE)
    is_begun = METADATA_VERSION in controller.image.features.finalized
    try:
        bootstrap = read_records(path) if path.exists() else ()
    except (BatchError, MalformedMessage, IsADirectoryError) as damage:
        if not is_begun:
            raise MetadataLost(
                f"{path}: damaged ({damage}), and the cluster has not started with it yet: `odradek repair --data-dir "
                f"{path.parent}` shows what is wrong; a directory without records may be removed and formatted again"
            ) from None
        log.warning("%s: damaged (%s); it is no longer needed", path, damage)
        bootstrap = ()
    if not bootstrap and not is_begun:
        raise MetadataLost(
            f"{path.parent} is part of a cluster, and has neither its metadata nor {BOOTSTRAP_FILE}: is it the "
            "metadata.log.dir that the cluster used before?"
        )
    return controller.activate(bootstrap, transaction_open=transaction_open)


class _Start:
    """Appends the decisions of the broker's start and keeps `delta` up to date."""

    def __init__(
        self,
        clock: Clock,
        registration: Registration,
        quorum_log: QuorumLog,
        controller: Controller,
        epoch: int,
        delta: MetadataDelta,
    ) -> None:
        self._clock = clock
        self._registration = registration
        self._quorum_log = quorum_log
        self._controller = controller
        self._epoch = epoch
        self._delta = delta

    def append(self, records: Sequence[Message], *, atomic: bool) -> None:
        if not records:
            return
        now_ms = self._clock.now_ms()
        metadata_version = self._controller.image.features.metadata_version
        self._quorum_log.append(records, self._epoch, now_ms, metadata_version, atomic)
        self._controller.replay(records, self._epoch, now_ms)
        for record in records:
            self._delta.replay(record)

    def decide(self, request: Request, version: int) -> Message:
        """Decides a request and appends its records. Raises InvalidQuorum when the controller rejects this node."""
        result = self._controller.handle(request, version)
        if getattr(result.response, "error_code", 0):
            raise InvalidQuorum(f"the controller cannot register this broker: {result.response}")
        self.append(result.records, atomic=result.atomic)
        return result.response

    def register_controller(self) -> None:
        self.decide(self._registration.of_controller(new_incarnation_id()), 0)

    def register_broker(self) -> int:
        self._controller.registers_alone(True)
        registered = self.decide(self._registration.of_broker(new_incarnation_id(), kill_loses_nothing=True), 4)
        self._controller.registers_alone(False)
        assert isinstance(registered, BrokerRegistrationResponse)
        broker_epoch = registered.broker_epoch
        self.decide(self._registration.heartbeat(broker_epoch, self._controller.next_offset - 1), 1)
        return broker_epoch


def leaving(registration: Registration, broker_epoch: int, controller: Controller) -> Iterator[ControllerResult]:
    """Yields the decisions of a stopping single voter that is a broker; each must be appended before the next. The first
    begins the shutdown. The last finds that the broker leads nothing and ends it.

    The only broker keeps its leaderships for its next start. It is fenced all the same: Apache Kafka on the same directories
    would else reject its registration until the session of this process has ended.
    """
    brokers = controller.image.cluster.brokers
    if len(brokers) == 1 and (broker := brokers.get(registration.node_id)) is not None:
        yield ControllerResult([only_broker_stops(broker)], BrokerHeartbeatResponse(should_shut_down=True))
        return
    leaves = True
    while leaves:
        request = registration.heartbeat(broker_epoch, controller.next_offset - 1, want_shut_down=True)
        result = controller.handle(request, 1)
        yield result
        leaves = bool(result.records) and not getattr(result.response, "should_shut_down", True)
