"""Starts a single voter as leader: reads the log, begins an epoch, writes a new leader's records, registers the broker.

All of it is appended before the first flush. So a start waits for the disk once, and the first published image already
has this broker registered and as leader.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ...metadata.configs import InvalidConfig
from ...metadata.delta import MetadataDelta
from ...metadata.features import unknown_feature
from ...metadata.image import METADATA_VERSION
from ...protocol.codec import MalformedMessage
from ...protocol.internal.control_records import Endpoint as VoterEndpoint
from ...protocol.internal.control_records import LeaderChangeMessage, LeaderChangeVoter, VotersVoter
from ...protocol.messages.broker_registration import BrokerRegistrationResponse
from ...protocol.records.control import ControlRecord, ControlType
from ...protocol.records.errors import BatchError
from ...protocol.schema import Message
from ...replication.controller.controller import Controller
from ...storage.files.meta_properties import FILE_NAME as META_PROPERTIES
from ..runtime.sliced_work import Steps
from .formatting import BOOTSTRAP_FILE
from .metadata_log import DIRECTORY_NAME, Loaded, MetadataLost, QuorumLog
from .opening import check_partitions, open_quorum_log
from .registration import Registration, new_incarnation_id
from .snapshots import quorum_records, read_records
from .state_file import CorruptQuorumState, QuorumState, read_quorum_state, write_quorum_state

if TYPE_CHECKING:
    from ...storage.directory import LogDirectory
    from ..node import Node


log = logging.getLogger("odradek.quorum")


class InvalidQuorum(InvalidConfig):
    """This node cannot lead the quorum that its directory or its configuration names."""


class Opened(NamedTuple):
    """The opened log. `loaded`: everything in the log of a single voter; None for any other node, which does not know
    what is committed.
    """

    log: QuorumLog
    loaded: Loaded | None


class Taken(NamedTuple):
    """A controller that leads, with this broker registered and unfenced. None of its records is flushed yet."""

    controller: Controller
    epoch: int
    epoch_start_offset: int
    broker_epoch: int
    #: Leads from the empty image to the controller's image.
    delta: MetadataDelta


def open_log(broker: Node, directories: Sequence[LogDirectory]) -> Steps[Opened]:
    """Opens the metadata log. See QuorumDriver.start."""
    directory = Path(broker.config.metadata_log_dir, DIRECTORY_NAME)
    quorum_log = open_quorum_log(broker, directory)
    if not broker.config.is_controller or _configured(broker) - {broker.node_id}:
        return Opened(quorum_log, None)
    loaded = yield from quorum_log.load(broker.now_ms())
    voters = {voter.voter_id for voter in quorum_log.quorum.voters} | _configured(broker)
    servers = broker.config.get("controller.quorum.bootstrap.servers")
    if voters - {broker.node_id} or (not voters and servers):
        if broker.node_id not in voters and not servers:
            raise InvalidQuorum(
                f"the voters of the metadata quorum are {sorted(voters)}, and this node is {broker.node_id}: say in "
                "controller.quorum.bootstrap.servers where they are reached"
            )
        return Opened(quorum_log, None)
    _check_directory(quorum_log, directories)
    if not quorum_log.flushed_end.is_known:
        image = loaded.delta.apply(quorum_log.end_offset - 1, loaded.last_epoch, loaded.last_append_timestamp_ms)
        check_partitions(quorum_log, image, directories)
    return Opened(quorum_log, loaded)


def _configured(broker: Node) -> set[int]:
    """Returns the ids in controller.quorum.voters, which apply while the log names no voters."""
    return {int(text.partition("@")[0]) for text in broker.config.get("controller.quorum.voters")}


def take_over(broker: Node, registration: Registration, quorum_log: QuorumLog, loaded: Loaded) -> Taken:
    """Makes a single voter the leader. The caller flushes afterwards."""
    controller = new_controller(broker)
    image = loaded.delta.apply(quorum_log.end_offset - 1, loaded.last_epoch, loaded.last_append_timestamp_ms)
    unknown = unknown_feature(image.features)
    if unknown is not None:
        raise InvalidQuorum(f"{quorum_log.directory}: {unknown}")
    epoch_start_offset = quorum_log.end_offset
    epoch = _begin_epoch(broker, quorum_log, loaded)
    controller.load(image, quorum_log.end_offset, quorum_log.quorum.kraft_version)
    start = _Start(broker, registration, quorum_log, controller, epoch, loaded.delta)
    start.append(activation(broker, controller, transaction_open=loaded.transactions.is_open), atomic=True)
    start.register_controller()
    broker_epoch = start.register_broker() if broker.config.is_broker else -1
    return Taken(controller, epoch, epoch_start_offset, broker_epoch, loaded.delta)


def new_controller(broker: Node) -> Controller:
    static, chance = broker.config.values.static, random.SystemRandom()
    return Controller(broker.node_id, broker.cluster_id, static, chance, broker.controller.kraft_upgrade_refusal)


def _check_directory(quorum_log: QuorumLog, directories: Sequence[LogDirectory]) -> None:
    ids = {directory.directory_id for directory in directories}
    for voter in quorum_log.quorum.voters:
        if (
            any(str(quorum_log.directory.parent.absolute()) == d.path for d in directories)
            and voter.voter_directory_id not in ids
        ):
            raise InvalidQuorum(
                f"{quorum_log.directory.parent}/{META_PROPERTIES}: the directory.id is not that of the voter in the "
                "metadata log; was it copied from elsewhere? `odradek repair --data-dir "
                f"{quorum_log.directory.parent}` shows what is wrong, and writes it again"
            )


def _begin_epoch(broker: Node, quorum_log: QuorumLog, loaded: Loaded) -> int:
    """Stores the epoch before anything is written in it, and writes the leader's first record."""
    last = _last_state(quorum_log)
    epoch = max(last.leader_epoch, loaded.last_epoch) + 1
    quorum = quorum_log.quorum
    has_news = _update_voter(quorum.voters, broker) or quorum_log.end_offset == 0
    write_quorum_state(quorum_log.directory, QuorumState(broker.node_id, epoch), quorum.kraft_version, [broker.node_id])
    voter = LeaderChangeVoter(voter_id=broker.node_id)
    change = LeaderChangeMessage(version=0, leader_id=broker.node_id, voters=[voter], granting_voters=[voter])
    # The first leader copies the voters of the formatted directory into the log, where followers find them.
    who_votes = quorum_records(quorum) if has_news else ()
    quorum_log.append_control([ControlRecord(ControlType.LEADER_CHANGE, change), *who_votes], epoch, broker.now_ms())
    return epoch


def _last_state(quorum_log: QuorumLog) -> QuorumState:
    """Returns the last election state. A single voter may lose its votes: no other node was elected, and the log
    contains the last epoch.
    """
    try:
        return read_quorum_state(quorum_log.directory) or QuorumState()
    except CorruptQuorumState as error:
        log.warning("%s; begun again after the last epoch of the log", error)
        return QuorumState()


def _update_voter(voters: Sequence[VotersVoter], broker: Node) -> bool:
    """Updates this voter's endpoints. Returns False when the log already has them."""
    endpoints = [VoterEndpoint(name=e.name, host=e.host, port=e.port) for e in broker.listeners.controller_endpoints()]
    changed = [voter for voter in voters if voter.voter_id == broker.node_id and voter.endpoints != endpoints]
    for voter in changed if endpoints else ():
        voter.endpoints = endpoints
    return bool(endpoints and changed)


def activation(broker: Node, controller: Controller, *, transaction_open: bool) -> Sequence[Message]:
    """Returns the records with which a new controller begins. Raises MetadataLost."""
    path = Path(broker.config.metadata_log_dir, BOOTSTRAP_FILE)
    is_begun = METADATA_VERSION in controller.image.features.finalized
    try:
        bootstrap = read_records(path) if path.exists() else ()
    except (BatchError, MalformedMessage, IsADirectoryError) as damage:
        if not is_begun:
            raise MetadataLost(
                f"{path}: damaged ({damage}), and the cluster was never begun with it: `odradek repair --data-dir "
                f"{path.parent}` shows what is wrong; a directory without records may be removed and formatted again"
            ) from None
        log.warning("%s: damaged (%s); it is needed no more", path, damage)
        bootstrap = ()
    if not bootstrap and not is_begun:
        raise MetadataLost(
            f"{path.parent} is part of a cluster, and has neither its metadata nor {BOOTSTRAP_FILE}: is it the "
            "metadata.log.dir that the cluster has had?"
        )
    return controller.activate(bootstrap, transaction_open=transaction_open)


class _Start:
    """Appends the decisions of the broker's start and keeps `delta` up to date."""

    def __init__(
        self,
        broker: Node,
        registration: Registration,
        quorum_log: QuorumLog,
        controller: Controller,
        epoch: int,
        delta: MetadataDelta,
    ) -> None:
        self._broker = broker
        self._registration = registration
        self._log = quorum_log
        self._controller = controller
        self._epoch = epoch
        self._delta = delta

    def append(self, records: Sequence[Message], *, atomic: bool) -> None:
        if not records:
            return
        now_ms = self._broker.now_ms()
        metadata_version = self._controller.image.features.metadata_version
        self._log.append(records, self._epoch, now_ms, metadata_version, atomic)
        self._controller.replay(records, self._epoch, now_ms)
        for record in records:
            self._delta.replay(record)

    def decide(self, request: Message, version: int) -> Message:
        """Decides a request and appends its records. Raises InvalidQuorum when the controller rejects this node."""
        result = self._controller.handle(request, version)
        if getattr(result.response, "error_code", 0):
            raise InvalidQuorum(f"this broker cannot be registered: {result.response}")
        self.append(result.records, atomic=result.atomic)
        return result.response

    def register_controller(self) -> None:
        features = self._controller.image.features
        self.decide(self._registration.of_controller(features, new_incarnation_id()), 0)

    def register_broker(self) -> int:
        features = self._controller.image.features
        registered = self.decide(self._registration.of_broker(features, new_incarnation_id()), 4)
        assert isinstance(registered, BrokerRegistrationResponse)
        broker_epoch = registered.broker_epoch
        self.decide(self._registration.heartbeat(broker_epoch, self._controller.next_offset - 1), 1)
        return broker_epoch
