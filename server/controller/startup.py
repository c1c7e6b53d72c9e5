"""The start of a node's part in the quorum: its metadata log is opened, a single voter leads at once, and it registers.

- `open_log`: opens the metadata log, also a damaged one, and finds out whether this node is its only voter.
- `take_over`: the start as single voter begins an epoch, writes a new leader's records, and registers this node. All
  of it is appended before the first flush. So a start waits for the disk once, and the first published image already
  has this broker registered and as leader.
- `leaving`: the decisions of a single broker that stops.
- `Registration`: the requests in which this node registers with the active controller, as a broker and as a controller.
"""

from __future__ import annotations

import logging
import random
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

from ...metadata.configs import InvalidConfig
from ...metadata.delta import MetadataDelta
from ...metadata.features import supported_features, unsupported
from ...metadata.image import METADATA_VERSION, MetadataImage
from ...protocol.codec import MalformedMessage
from ...protocol.messages.nodes import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    ControllerRegistrationRequest,
    Feature,
    Listener,
)
from ...protocol.records.control import ControlRecord, ControlType, LeaderChangeMessage, LeaderChangeVoter, VotersVoter
from ...protocol.records.control import Endpoint as VoterEndpoint
from ...protocol.records.errors import BatchError
from ...protocol.schema import Message
from ...replication.controller.brokers import only_broker_stops
from ...replication.controller.controller import Controller
from ...replication.controller.policies import Policies
from ...replication.controller.result import ControllerResult
from ...replication.controller.state import random_uuid
from ...storage.directory import LogDirectory
from ...storage.files.identity import (
    META_PROPERTIES,
    QUORUM_STATE,
    CorruptPartitionMetadata,
    CorruptQuorumState,
    QuorumState,
    read_quorum_state,
    read_topic_id,
    write_quorum_state,
)
from ...storage.files.open_files import make_folder, set_aside
from ...storage.log.loading import DamagedLog
from ..config.listeners import SECURITY_PROTOCOLS, Endpoint
from ..partitions.partitions import cordoned_ids
from ..runtime.sliced_work import Steps
from .formatting import BOOTSTRAP_FILE
from .metadata_log import (
    DIRECTORY_NAME,
    Loaded,
    MetadataLost,
    QuorumLog,
    quorum_records,
    read_records,
    sound_snapshots,
)

if TYPE_CHECKING:
    from ...storage.directory import LogDirectory
    from ..config.broker_config import BrokerConfig
    from ..config.listeners import Endpoint
    from ..runtime.clock import Clock


log = logging.getLogger("odradek.quorum")


# ---- opening the metadata log
#
# A node of a larger quorum puts a damaged log aside and fetches it again. Until it has everything that it had, it
# stands for no election, and votes only for a replica that has it (`acknowledged`, replication/quorum/core.py). A
# single voter cannot fetch it from others: it does not start, and the error names the records that a truncation would
# lose and the command for it.


class InvalidQuorum(InvalidConfig):
    """This node cannot lead the quorum that its directory or its configuration names."""


class Opened(NamedTuple):
    """The opened log. `loaded`: everything in the log of a single voter; None for any other node, which does not know
    what is committed.
    """

    log: QuorumLog
    loaded: Loaded | None


def open_log(config: BrokerConfig, clock: Clock, directories: Sequence[LogDirectory]) -> Steps[Opened]:
    """Opens the metadata log, and loads that of a single voter. See QuorumDriver.start."""
    quorum_log = _open_quorum_log(config, clock, Path(config.metadata_log_dir, DIRECTORY_NAME))
    try:
        return (yield from _load(config, clock, quorum_log, directories))
    except BaseException:
        quorum_log.log.close(clock.now_ms(), clean=False)
        raise


def _load(
    config: BrokerConfig, clock: Clock, quorum_log: QuorumLog, directories: Sequence[LogDirectory]
) -> Steps[Opened]:
    """Loads the log of a single voter."""
    node_id, configured = config.node_id, _configured(config)
    if not config.is_controller or configured - {node_id}:
        return Opened(quorum_log, None)
    loaded = yield from quorum_log.load(clock.now_ms())
    voters = {voter.voter_id for voter in quorum_log.quorum.voters} | configured
    servers = config.get("controller.quorum.bootstrap.servers")
    if voters - {node_id} or (not voters and servers):
        if node_id not in voters and not servers:
            raise InvalidQuorum(
                f"the voters of the metadata quorum are {sorted(voters)}, and this node is {node_id}: set their "
                "addresses in "
                "controller.quorum.bootstrap.servers where they are reached"
            )
        return Opened(quorum_log, None)
    _check_directory(quorum_log, directories)
    if not quorum_log.flushed_end.is_known:
        image = loaded.delta.apply(quorum_log.end_offset - 1, loaded.last_epoch, loaded.last_append_timestamp_ms)
        _check_partitions(quorum_log, image, directories)
    return Opened(quorum_log, loaded)


def _configured(config: BrokerConfig) -> set[int]:
    """Returns the ids in controller.quorum.voters, which apply while the log names no voters."""
    return {int(text.partition("@")[0]) for text in config.get("controller.quorum.voters")}


def _open_quorum_log(config: BrokerConfig, clock: Clock, directory: Path) -> QuorumLog:
    """Opens the log, or begins it again. Raises MetadataLost, LogDirectoryFailure, OSError."""
    is_short = False
    snapshots = sound_snapshots(directory)
    try:
        opened = QuorumLog(directory, config, clock.now_ms())
        oldest = opened.log.log_start_offset
        newest = opened.snapshots[-1].end_offset if opened.snapshots else 0
        if oldest <= newest and (opened.end_offset or not snapshots.damaged):
            snapshots.rename_damaged()
            return opened
        opened.log.close(clock.now_ms(), clean=False)
        name = snapshots.damaged[-1][0].name if snapshots.damaged else "a snapshot"
        damage = f"{directory}/{name}: missing or damaged, and the log begins at offset {oldest}"
        what = "all records before that offset would be lost"
    except DamagedLog as damaged:
        from .repairing import loss

        damage, what = str(damaged), loss(directory, damaged)
        is_short = all(one.size == 0 for one in damaged.ranges)
    if _is_alone(config, directory):
        raise _validation_error(damage, what, directory.parent)
    decision = f"if no other voter has the log, run `odradek repair --data-dir {directory.parent}`"
    if is_short:
        log.error("%s; the rest is fetched again from the quorum; %s", damage, decision)
    else:
        kept = _begin_again(directory)
        log.error("%s; the log is fetched again from the quorum, and kept as %s; %s", damage, kept, decision)
    return QuorumLog(directory, config, clock.now_ms(), gives_up=True)


def _validation_error(damage: str, what: str, directory: Path) -> MetadataLost:
    return MetadataLost(f"{damage}: {what}; restore the file, or run `odradek repair --data-dir {directory}`")


def _is_alone(config: BrokerConfig, directory: Path) -> bool:
    """Returns whether this node is the only voter, by what a damaged log still holds."""
    configured = _configured(config)
    if not config.is_controller or configured - {config.node_id}:
        return False
    from .repairing import survey

    voters = survey(directory).voters | configured
    return not voters - {config.node_id} and bool(voters or not config.get("controller.quorum.bootstrap.servers"))


def _begin_again(directory: Path) -> str:
    """Replaces the log by an empty one with the sound snapshots and the election state. Returns the old one's new path."""
    sound = [one.file_name for one in sound_snapshots(directory).sound]
    kept = Path(set_aside(str(directory)))
    make_folder(directory)
    for name in (*sound, QUORUM_STATE):
        if (kept / name).is_file():
            shutil.copy2(kept / name, directory / name)
    return str(kept)


def _check_directory(quorum_log: QuorumLog, directories: Sequence[LogDirectory]) -> None:
    ids = {directory.directory_id for directory in directories}
    for voter in quorum_log.quorum.voters:
        if (
            any(str(quorum_log.directory.parent.absolute()) == d.path for d in directories)
            and voter.voter_directory_id not in ids
        ):
            raise InvalidQuorum(
                f"{quorum_log.directory.parent}/{META_PROPERTIES}: the directory.id is not that of the voter in the "
                "metadata log; was it copied from another directory? `odradek repair --data-dir "
                f"{quorum_log.directory.parent}` shows the damage and rewrites the file"
            )


def _check_partitions(quorum_log: QuorumLog, image: MetadataImage, directories: Sequence[LogDirectory]) -> None:
    """Checks a log whose end was not recorded against the partitions on the disk. Raises MetadataLost when they show that
    metadata is missing.

    A topic that was deleted just before a crash may leave directories behind; after a clean stop none are left.
    """
    known, unknown = 0, []
    for directory in directories:
        for replica in directory.replicas():
            if replica.suffix:
                continue
            if _topic_id(replica.path) in image.topics.by_id or image.topic(replica.topic) is not None:
                known += 1
            else:
                unknown.append(Path(replica.path).name)
    is_clean = all(directory.had_clean_shutdown for directory in directories)
    if unknown and (is_clean or len(unknown) > known):
        from .repairing import named

        raise _validation_error(
            f"{quorum_log.directory}: the metadata ends at offset {quorum_log.end_offset}, and it lacks the topics of "
            f"{len(unknown)} partitions on the disk ({named(sorted(unknown))})",
            "their records would become inaccessible; is it the metadata.log.dir that the cluster used before?",
            quorum_log.directory.parent,
        )


def _topic_id(path: str) -> bytes | None:
    try:
        return read_topic_id(path)
    except (CorruptPartitionMetadata, IsADirectoryError):
        return None


# ---- the start as single voter


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
        self._log = quorum_log
        self._controller = controller
        self._epoch = epoch
        self._delta = delta

    def append(self, records: Sequence[Message], *, atomic: bool) -> None:
        if not records:
            return
        now_ms = self._clock.now_ms()
        metadata_version = self._controller.image.features.metadata_version
        self._log.append(records, self._epoch, now_ms, metadata_version, atomic)
        self._controller.replay(records, self._epoch, now_ms)
        for record in records:
            self._delta.replay(record)

    def decide(self, request: Message, version: int) -> Message:
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


# ---- the registrations of this node


class OwnEndpoints(Protocol):
    """The endpoints of this node, as others reach them. See ListenerSet."""

    def advertised_endpoints(self) -> list[Endpoint]: ...

    def controller_endpoints(self) -> list[Endpoint]: ...


def new_incarnation_id() -> bytes:
    """Returns the id of one life of a process: a registration with another id replaces it."""
    return random_uuid(random.SystemRandom())


class Registration:
    """The requests of one node. `directories`: the log directories that could be opened."""

    def __init__(
        self,
        node_id: int,
        cluster_id: str,
        config: BrokerConfig,
        endpoints: OwnEndpoints,
        directories: Sequence[LogDirectory],
    ) -> None:
        self.node_id = node_id
        self.cluster_id = cluster_id
        self.endpoints = endpoints
        self._config = config
        self._directories = directories

    def of_broker(self, incarnation_id: bytes, *, kill_loses_nothing: bool = False) -> BrokerRegistrationRequest:
        """Returns the registration as a broker. `previous_broker_epoch` shows that the last stop was clean: then every
        directory has stored the same epoch. With `kill_loses_nothing` the end of a process counts as such a stop, if the
        machine has run since.
        """
        epochs = {directory.previous_broker_epoch for directory in self._directories}
        if kill_loses_nothing and epochs == {-1}:
            epochs = {directory.interrupted_broker_epoch or -1 for directory in self._directories}
        return BrokerRegistrationRequest(
            broker_id=self.node_id,
            cluster_id=self.cluster_id,
            incarnation_id=incarnation_id,
            listeners=self._listeners(self.endpoints.advertised_endpoints()),
            features=_features(),
            rack=self._config.get("broker.rack"),
            log_dirs=[d.directory_id for d in self._directories if d.directory_id is not None],
            previous_broker_epoch=epochs.pop() if len(epochs) == 1 else -1,
        )

    def of_controller(self, incarnation_id: bytes) -> ControllerRegistrationRequest:
        """Returns the registration as a controller (KIP-919)."""
        return ControllerRegistrationRequest(
            controller_id=self.node_id,
            incarnation_id=incarnation_id,
            listeners=self._listeners(self.endpoints.controller_endpoints()),
            features=_features(),
        )

    def heartbeat(
        self,
        broker_epoch: int,
        metadata_offset: int,
        *,
        want_fence: bool = False,
        want_shut_down: bool = False,
        offline_log_dirs: Sequence[bytes] = (),
    ) -> BrokerHeartbeatRequest:
        """Returns a heartbeat of the broker. `metadata_offset`: the last one that it has published."""
        return BrokerHeartbeatRequest(
            broker_id=self.node_id,
            broker_epoch=broker_epoch,
            current_metadata_offset=metadata_offset,
            want_fence=want_fence,
            want_shut_down=want_shut_down,
            offline_log_dirs=list(offline_log_dirs),
            cordoned_log_dirs=cordoned_ids(self._config, self._directories),
        )

    def offline_log_dirs(self) -> list[bytes]:
        """Returns the ids of the directories that have failed."""
        return [d.directory_id for d in self._directories if not d.is_online and d.directory_id is not None]

    def _listeners(self, endpoints: Iterable[Endpoint]) -> list[Listener]:
        protocols = self._config.listeners.protocols
        return [
            Listener(name=e.name, host=e.host, port=e.port, security_protocol=SECURITY_PROTOCOLS[protocols[e.name]])
            for e in endpoints
        ]


def _features() -> list[Feature]:
    return [
        Feature(name=name, min_supported_version=low, max_supported_version=high)
        for name, (low, high) in supported_features().items()
    ]
