"""BrokerRegistration, BrokerHeartbeat, UnregisterBroker, and the registration of controllers.

The controller sees a broker in one of these states:

    registered, fenced ------- heartbeat, caught up with the log --------> unfenced
    unfenced ----------------- wants to shut down, leads partitions -----> in controlled shutdown
    unfenced, leads nothing -- wants to shut down -----------------------> fenced, may stop
    in controlled shutdown --- leads nothing any more -------------------> fenced, may stop

A fenced broker leads nothing and is in no ISR. A new incarnation of a broker (after a restart) starts fenced and with
a new epoch, the offset at which its registration is decided. Requests with an older epoch are rejected (KIP-631).
`maintenance.py` fences brokers whose sessions expire (sessions.py).
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import TYPE_CHECKING

from ...metadata.image import METADATA_VERSION, NO_LEADER, BrokerImage, PartitionImage
from ...metadata.metadata_version import CONTROLLER_UNREGISTRATION, CORDONED_LOG_DIRS, DIRECTORY_ASSIGNMENT, MINIMUM
from ...protocol.errors import ErrorCode
from ...protocol.internal.cluster_metadata import (
    BrokerEndpoint,
    BrokerFeature,
    BrokerRegistrationChangeRecord,
    ControllerEndpoint,
    ControllerFeature,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    UnregisterBrokerRecord,
    UnregisterControllerRecord,
)
from ...protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from ...protocol.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse
from ...protocol.schema import Message
from .brokers_to_partitions import LEADERLESS
from .leadership import (
    MAX_MOVES,
    Move,
    leadership_records,
    leaving_records,
)
from .result import ControllerResult, RequestError
from .state import ControllerState

if TYPE_CHECKING:  # a single node registers no other one, and unregisters none
    from ...protocol.messages.controller_registration import ControllerRegistrationRequest
    from ...protocol.messages.unregister_broker import UnregisterBrokerRequest
    from ...protocol.messages.unregister_controller import UnregisterControllerRequest

#: Directory ids below this number are reserved by the protocol: unassigned, lost, ...
_RESERVED_DIRECTORIES = 100

_FENCE, _UNFENCE = 1, -1
_SHUTS_DOWN = 1


def register_broker(state: ControllerState, request: BrokerRegistrationRequest, version: int) -> ControllerResult:
    """Registers a new incarnation, or repeats the registration of the current one.

    A new incarnation does not inherit the leaderships and ISR memberships of the previous one.

    A broker of 10,000 partitions needs more records than an atomic decision may have. A part of them does no harm: they
    take partitions from the previous incarnation, as fencing does, and its registration stays until the last record.
    The next registration makes the rest.

    The only broker of a cluster of one node leads as before when it registers again after a clean stop, or after its
    process alone ended: no other process can have led in between, and its logs are whole. A start and a stop then write
    nothing for each partition.
    """
    _check_cluster(state, request.cluster_id)
    _check_directories(state, request)
    _check_features(state, request)
    before = state.image.broker(request.broker_id)
    record = _registration(request)
    records: list[Message] = []
    if before is not None and before.incarnation_id == request.incarnation_id:
        record.broker_epoch = before.epoch
        record.fenced = before.fenced
        record.in_controlled_shutdown = before.in_controlled_shutdown
    else:
        _check_alone(state, before)
        record.broker_epoch = state.next_offset
        records += _incarnation_ends(state, before, request)
    records.append(record)
    return ControllerResult(records, BrokerRegistrationResponse(broker_epoch=record.broker_epoch), atomic=False)


def _check_cluster(state: ControllerState, cluster_id: str) -> None:
    if cluster_id != state.cluster_id:
        raise RequestError(
            ErrorCode.INCONSISTENT_CLUSTER_ID,
            f"Expected cluster ID {state.cluster_id}, but got cluster ID {cluster_id}",
        )


def _check_directories(state: ControllerState, request: BrokerRegistrationRequest) -> None:
    if state.image.features.metadata_version < DIRECTORY_ASSIGNMENT:
        return
    code, directories = ErrorCode.INVALID_REGISTRATION, request.log_dirs
    if not directories:
        raise RequestError(code, "No directories specified in request")
    if any(int.from_bytes(directory, "big") < _RESERVED_DIRECTORIES for directory in directories):
        raise RequestError(code, "Reserved directory ID in request")
    if len(set(directories)) != len(directories):
        raise RequestError(code, "Duplicate directory ID in request")
    for broker in state.image.cluster.brokers.values():
        if broker.id != request.broker_id and set(broker.directories) & set(directories):
            raise RequestError(code, f"Broker {broker.id} is already registered with one of the directories")


def _check_features(state: ControllerState, request: BrokerRegistrationRequest) -> None:
    """Checks that the broker supports the finalized level of every feature."""
    supported = {f.name: (f.min_supported_version, f.max_supported_version) for f in request.features}
    for name, level in sorted(state.image.features.finalized.items()):
        low, high = supported.get(name, (MINIMUM, MINIMUM) if name == METADATA_VERSION else (0, 0))
        if not low <= level <= high:
            raise RequestError(
                ErrorCode.UNSUPPORTED_VERSION,
                f"Unable to register because the broker does not support finalized version {level} of {name}. The "
                f"broker wants a version between {low} and {high}, inclusive.",
            )


def _check_alone(state: ControllerState, before: BrokerImage | None) -> None:
    """Rejects a registration while another process with this id has a session and is not in controlled shutdown."""
    if before is None or before.in_controlled_shutdown or not state.sessions.has(before):
        return
    raise RequestError(ErrorCode.DUPLICATE_BROKER_REGISTRATION, "Another broker is registered with that broker id.")


def _registration(request: BrokerRegistrationRequest) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(
        broker_id=request.broker_id,
        is_migrating_zk_broker=request.is_migrating_zk_broker,
        incarnation_id=request.incarnation_id,
        end_points=[
            BrokerEndpoint(name=e.name, host=e.host, port=e.port, security_protocol=e.security_protocol)
            for e in request.listeners
        ],
        features=[
            BrokerFeature(
                name=f.name,
                min_supported_version=f.min_supported_version,
                max_supported_version=f.max_supported_version,
            )
            for f in request.features
        ],
        rack=request.rack,
        log_dirs=request.log_dirs,
    )


def _incarnation_ends(
    state: ControllerState, before: BrokerImage | None, request: BrokerRegistrationRequest
) -> Iterable[Message]:
    """Removes the previous incarnation from ISRs. If it did not stop cleanly, it also loses its ELR membership
    (KIP-966).

    The shutdown was unclean if the broker does not know its previous epoch.
    """
    broker_id = request.broker_id
    clean = before is None or before.epoch == request.previous_broker_epoch
    if clean and before is not None and _leads_on(state, before, request):
        return ()
    if state.elr_enabled and not clean:
        move = Move(lost_power=broker_id)
        return leadership_records(state, move, [broker_id], lambda p: broker_id in p.isr or broker_id in p.elr)
    return leadership_records(state, Move(leaves=broker_id), [broker_id], lambda p: broker_id in p.isr)


def _leads_on(state: ControllerState, before: BrokerImage, request: BrokerRegistrationRequest) -> bool:
    return (
        state.registers_alone
        and (not before.fenced or before.in_controlled_shutdown)
        and len(state.image.cluster.brokers) == 1
        and set(before.directories) == set(request.log_dirs)
    )


def register_controller(
    state: ControllerState, request: ControllerRegistrationRequest, version: int
) -> ControllerResult:
    """Registers the features and endpoints of a controller of the quorum (KIP-919)."""
    record = RegisterControllerRecord(
        controller_id=request.controller_id,
        incarnation_id=request.incarnation_id,
        zk_migration_ready=False,
        end_points=[
            ControllerEndpoint(name=e.name, host=e.host, port=e.port, security_protocol=e.security_protocol)
            for e in request.listeners
        ],
        features=[
            ControllerFeature(
                name=f.name,
                min_supported_version=f.min_supported_version,
                max_supported_version=f.max_supported_version,
            )
            for f in request.features
        ],
    )
    from ...protocol.messages.controller_registration import ControllerRegistrationResponse

    return ControllerResult([record], ControllerRegistrationResponse(error_message=None))


def heartbeat(state: ControllerState, request: BrokerHeartbeatRequest, version: int) -> ControllerResult:
    broker = check_epoch(state, request.broker_id, request.broker_epoch)
    caught_up = request.current_metadata_offset >= broker.epoch
    records: list[Message] = []
    fenced, may_stop = broker.fenced, False
    if request.want_shut_down and (broker.fenced or request.want_fence or _may_stop(state, broker)):
        fenced, may_stop = True, True
    elif request.want_shut_down or broker.in_controlled_shutdown:
        records += _shutdown_begins(state, broker)
    elif request.want_fence or (broker.fenced and not caught_up):
        fenced = True
    else:
        fenced = False
    if fenced != broker.fenced:
        records += fencing_records(state, broker) if fenced else _unfenced(state, broker)
    records += _directories_changed(state, broker, request)
    response = BrokerHeartbeatResponse(is_caught_up=caught_up, is_fenced=fenced, should_shut_down=may_stop)
    return ControllerResult(records, response, atomic=False)


def check_epoch(state: ControllerState, broker_id: int, broker_epoch: int) -> BrokerImage:
    """Checks that the request comes from the registered incarnation of the broker."""
    broker = state.image.broker(broker_id)
    if broker is None:
        raise RequestError(
            ErrorCode.BROKER_ID_NOT_REGISTERED, f"No broker registration found for broker id {broker_id}"
        )
    if broker.epoch != broker_epoch:
        raise RequestError(
            ErrorCode.STALE_BROKER_EPOCH, f"Expected broker epoch {broker.epoch}, but got broker epoch {broker_epoch}"
        )
    return broker


def _may_stop(state: ControllerState, broker: BrokerImage) -> bool:
    """Returns whether the broker leads nothing and the other brokers have seen that in the metadata."""
    return not _leads(state, broker) and state.sessions.may_stop(broker, state.image)


def _leads(state: ControllerState, broker: BrokerImage) -> bool:
    found = state.partitions_of(broker.id)
    return any(topic.partitions[index].leader == broker.id for topic, indexes in found for index in indexes)


def fencing_records(state: ControllerState, broker: BrokerImage) -> Iterable[Message]:
    """Fences a broker: it leaves every ISR, leads nothing, and is no longer listed to clients."""
    yield from leadership_records(state, Move(leaves=broker.id), [broker.id], lambda p: broker.id in p.isr)
    yield BrokerRegistrationChangeRecord(broker_id=broker.id, broker_epoch=broker.epoch, fenced=_FENCE)


def _unfenced(state: ControllerState, broker: BrokerImage) -> Iterable[Message]:
    yield BrokerRegistrationChangeRecord(broker_id=broker.id, broker_epoch=broker.epoch, fenced=_UNFENCE)
    yield from leadership_records(state, Move(comes=broker.id), [LEADERLESS], _leaderless)


def _leaderless(partition: PartitionImage) -> bool:
    return partition.leader == NO_LEADER


def only_broker_stops(broker: BrokerImage) -> BrokerRegistrationChangeRecord:
    """The only broker has shut down in order. It keeps its leaderships: no other one could lead. Since it is fenced, Apache
    Kafka's controller gives it no session, and its next process may register at once.
    """
    return BrokerRegistrationChangeRecord(
        broker_id=broker.id, broker_epoch=broker.epoch, fenced=_FENCE, in_controlled_shutdown=_SHUTS_DOWN
    )


def _shutdown_begins(state: ControllerState, broker: BrokerImage) -> Iterable[Message]:
    if not broker.in_controlled_shutdown:
        yield BrokerRegistrationChangeRecord(
            broker_id=broker.id, broker_epoch=broker.epoch, in_controlled_shutdown=_SHUTS_DOWN
        )
    yield from islice(leaving_records(state, broker.id), MAX_MOVES)


def _directories_changed(
    state: ControllerState, broker: BrokerImage, request: BrokerHeartbeatRequest
) -> Iterable[Message]:
    """Records directories that the broker has lost (KIP-858) and cordoned directories (KIP-1066)."""
    lost = set(request.offline_log_dirs) & set(broker.directories)
    if lost:
        yield from leadership_records(
            state,
            Move(leaves=broker.id),
            [broker.id, LEADERLESS],
            lambda p: broker.id in p.replicas and p.directory(broker.id) in lost,
        )
        online = [directory for directory in broker.directories if directory not in lost]
        yield BrokerRegistrationChangeRecord(broker_id=broker.id, broker_epoch=broker.epoch, log_dirs=online)
    cordoned = request.cordoned_log_dirs
    if state.image.features.metadata_version < CORDONED_LOG_DIRS:
        return
    if cordoned is not None and tuple(sorted(cordoned)) != broker.cordoned_directories:
        yield BrokerRegistrationChangeRecord(broker_id=broker.id, broker_epoch=broker.epoch, cordoned_log_dirs=cordoned)


def unregister_broker(state: ControllerState, request: UnregisterBrokerRequest, version: int) -> ControllerResult:
    """Takes the partitions from a broker, and removes its registration with the last record: a part of the records is
    completed by the next request.
    """
    broker_id = request.broker_id
    broker = state.image.broker(broker_id)
    if broker is None:
        raise RequestError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"Broker ID {broker_id} is not currently registered")
    records: list[Message] = [
        *leadership_records(
            state, Move(leaves=broker_id), [broker_id], lambda p: broker_id in p.isr or broker_id in p.elr
        ),
        UnregisterBrokerRecord(broker_id=broker_id, broker_epoch=broker.epoch),
    ]
    from ...protocol.messages.unregister_broker import UnregisterBrokerResponse

    return ControllerResult(records, UnregisterBrokerResponse(error_message=None), atomic=False)


def unregister_controller(
    state: ControllerState, request: UnregisterControllerRequest, version: int
) -> ControllerResult:
    """Unregisters a controller that is gone for good (KIP-1312). Its features would block higher levels."""
    controller_id = request.controller_id
    if controller_id == state.node_id:
        raise RequestError(ErrorCode.INVALID_REQUEST, "Controller cannot unregister itself while it is active.")
    if state.image.features.metadata_version < CONTROLLER_UNREGISTRATION:
        message = "The current MetadataVersion is too old to support controller unregistration."
        raise RequestError(ErrorCode.UNSUPPORTED_VERSION, message)
    if controller_id not in state.image.cluster.controllers:
        message = f"Controller ID {controller_id} is not currently registered."
        raise RequestError(ErrorCode.CONTROLLER_ID_NOT_REGISTERED, message)
    from ...protocol.messages.unregister_controller import UnregisterControllerResponse

    return ControllerResult([UnregisterControllerRecord(controller_id=controller_id)], UnregisterControllerResponse())
