"""Changes that brokers report of their replicas: AlterPartition and AssignReplicasToDirs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...metadata.image import BrokerImage, PartitionImage, TopicImage
from ...protocol.errors import ErrorCode
from ...protocol.internal.cluster_metadata import PartitionChangeRecord
from ...protocol.messages.log_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    DirectoryDataResponse,
)
from ...protocol.messages.log_dirs import PartitionDataResponse as AssignedPartitionResponse
from ...protocol.messages.log_dirs import TopicDataResponse as AssignedTopicResponse
from ...protocol.messages.partitions import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    BrokerState,
    PartitionDataRequest,
    PartitionDataResponse,
    TopicDataRequest,
    TopicDataResponse,
)
from ...protocol.schema import Message
from .brokers import check_epoch
from .partition_change import LEADER_UNCHANGED, RECOVERED, Election, Move, PartitionChange, leadership_record
from .result import ControllerResult
from .state import RECOVERING, ControllerState

# AlterPartition (KIP-497): the leader of a partition requests a new ISR.
#
# The sender must be the registered incarnation of its broker and lead the partition in the epoch of the request. Its
# partition epoch must be the current one. Every change raises that epoch, so two changes never cross. A higher epoch
# than this controller's comes from a newer controller (NOT_CONTROLLER).
#
# A broker cannot join the ISR if it is fenced, shutting down, or registered anew since the leader saw it (KIP-841,
# KIP-903). It might have to leave again at once, or lack records that its previous incarnation had. An ISR that
# completes a reassignment may also move the leader. The record is then written, and the response is NEW_LEADER_ELECTED,
# so that the sender looks up the leader in the metadata.


#: The first version in which the ISR carries broker epochs.
_WITH_EPOCHS = 3
#: The leader does not know or does not send the replica's broker epoch.
_UNKNOWN_EPOCH = -1


def alter_partition(state: ControllerState, request: AlterPartitionRequest, version: int) -> ControllerResult:
    """Handles AlterPartition. Each partition succeeds or fails independently."""
    check_epoch(state, request.broker_id, request.broker_epoch)
    records: list[Message] = []
    response = AlterPartitionResponse()
    for asked in request.topics:
        result = TopicDataResponse(topic_id=asked.topic_id)
        topic = state.image.topic_by_id(asked.topic_id)
        if topic is None:
            result.partitions = _unknown(asked)
        else:
            for partition in asked.partitions:
                record, altered = _altered(state, topic, request.broker_id, _with_epochs(partition, version))
                records += [record] if record is not None else []
                result.partitions.append(altered)
        response.topics.append(result)
    return ControllerResult(records, response)


def _unknown(asked: TopicDataRequest) -> list[PartitionDataResponse]:
    error = ErrorCode.UNKNOWN_TOPIC_ID
    return [PartitionDataResponse(partition_index=p.partition_index, error_code=error) for p in asked.partitions]


def _with_epochs(asked: PartitionDataRequest, version: int) -> PartitionDataRequest:
    if version < _WITH_EPOCHS:
        asked.new_isr_with_epochs = [BrokerState(broker_id=broker_id) for broker_id in asked.new_isr]
    return asked


def _altered(
    state: ControllerState, topic: TopicImage, broker_id: int, asked: PartitionDataRequest
) -> tuple[PartitionChangeRecord | None, PartitionDataResponse]:
    index = asked.partition_index
    partition = topic.partitions.get(index)
    error = _fault(state, broker_id, partition, asked)
    if error != ErrorCode.NONE or partition is None:
        return None, PartitionDataResponse(partition_index=index, error_code=error)
    change = PartitionChange(state, topic, index)
    if state.unclean_elections(topic.name):
        change.election = Election.UNCLEAN
    change.isr = [replica.broker_id for replica in asked.new_isr_with_epochs]
    change.recovery_state = asked.leader_recovery_state
    record = change.record()
    if record is not None and record.leader != LEADER_UNCHANGED:
        return record, PartitionDataResponse(partition_index=index, error_code=ErrorCode.NEW_LEADER_ELECTED)
    return record, _as_it_is(index, partition, record)


def _as_it_is(index: int, partition: PartitionImage, record: PartitionChangeRecord | None) -> PartitionDataResponse:
    """Returns the partition's state with the change, if there is one."""
    isr, recovery, epoch = list(partition.isr), partition.leader_recovery_state, partition.partition_epoch
    if record is not None:
        isr = isr if record.isr is None else list(record.isr)
        recovery = recovery if record.leader_recovery_state == _RECOVERY_UNCHANGED else record.leader_recovery_state
        epoch += 1
    return PartitionDataResponse(
        partition_index=index,
        leader_id=partition.leader,
        leader_epoch=partition.leader_epoch,
        isr=isr,
        leader_recovery_state=recovery,
        partition_epoch=epoch,
    )


_RECOVERY_UNCHANGED = PartitionChangeRecord().leader_recovery_state


# ---- validation, in this order

_Check = Callable[[ControllerState, int, PartitionImage, PartitionDataRequest], ErrorCode]


def _fault(
    state: ControllerState, broker_id: int, partition: PartitionImage | None, asked: PartitionDataRequest
) -> ErrorCode:
    if partition is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    for check in _CHECKS:
        error = check(state, broker_id, partition, asked)
        if error != ErrorCode.NONE:
            return error
    return ErrorCode.NONE


def _check_epochs(
    state: ControllerState, broker_id: int, partition: PartitionImage, asked: PartitionDataRequest
) -> ErrorCode:
    if asked.leader_epoch > partition.leader_epoch or asked.partition_epoch > partition.partition_epoch:
        return ErrorCode.NOT_CONTROLLER
    if asked.leader_epoch < partition.leader_epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if broker_id != partition.leader:
        return ErrorCode.INVALID_REQUEST
    return ErrorCode.INVALID_UPDATE_VERSION if asked.partition_epoch < partition.partition_epoch else ErrorCode.NONE


def _check_isr(
    state: ControllerState, broker_id: int, partition: PartitionImage, asked: PartitionDataRequest
) -> ErrorCode:
    """Checks that the ISR lists replicas of the partition, each once, and the leader among them."""
    isr = [replica.broker_id for replica in asked.new_isr_with_epochs]
    fits = partition.leader in isr and len(set(isr)) == len(isr) and set(isr) <= set(partition.replicas)
    return ErrorCode.NONE if fits else ErrorCode.INVALID_REQUEST


def _check_recovery(
    state: ControllerState, broker_id: int, partition: PartitionImage, asked: PartitionDataRequest
) -> ErrorCode:
    """Checks that a recovering leader is alone in the ISR and that recovery does not start again once done (KIP-704)."""
    recovers = asked.leader_recovery_state == RECOVERING
    known = asked.leader_recovery_state in (RECOVERED, RECOVERING)
    again = recovers and partition.leader_recovery_state == RECOVERED
    wrong = not known or again or (recovers and len(asked.new_isr_with_epochs) > 1)
    return ErrorCode.INVALID_REQUEST if wrong else ErrorCode.NONE


def _check_eligible(
    state: ControllerState, broker_id: int, partition: PartitionImage, asked: PartitionDataRequest
) -> ErrorCode:
    return ErrorCode.NONE if _all_eligible(state, asked.new_isr_with_epochs) else ErrorCode.INELIGIBLE_REPLICA


def _all_eligible(state: ControllerState, replicas: Sequence[BrokerState]) -> bool:
    for replica in replicas:
        broker = state.image.broker(replica.broker_id)
        if broker is None or not broker.is_active:
            return False
        if replica.broker_epoch not in (_UNKNOWN_EPOCH, broker.epoch):
            return False
    return True


_CHECKS: tuple[_Check, ...] = (_check_epochs, _check_isr, _check_recovery, _check_eligible)


# AssignReplicasToDirs (KIP-858): a broker reports the log directories of its replicas.


def assign_replicas_to_directories(
    state: ControllerState, request: AssignReplicasToDirsRequest, version: int
) -> ControllerResult:
    """Assigns replicas to directories. A replica assigned to a lost directory leaves the ISR."""
    broker = check_epoch(state, request.broker_id, request.broker_epoch)
    response = AssignReplicasToDirsResponse()
    records: list[Message] = []
    stranded: set[tuple[bytes, int]] = set()
    for directory in request.directories:
        assigned = DirectoryDataResponse(id=directory.id)
        online = broker.has_online_directory(directory.id)
        for asked in directory.topics:
            topic = state.image.topic_by_id(asked.topic_id)
            result = AssignedTopicResponse(topic_id=asked.topic_id)
            for index in (partition.partition_index for partition in asked.partitions):
                error = _check_hosted(topic, index, broker)
                result.partitions.append(AssignedPartitionResponse(partition_index=index, error_code=error))
                if error == ErrorCode.NONE and topic is not None:
                    records += _moved(state, topic, index, broker, directory.id)
                    stranded |= set() if online else {(topic.id, index)}
            assigned.topics.append(result)
        response.directories.append(assigned)
    records += _left_behind(state, broker, stranded)
    return ControllerResult(records, response, atomic=False)


def _check_hosted(topic: TopicImage | None, index: int, broker: BrokerImage) -> ErrorCode:
    if topic is None:
        return ErrorCode.UNKNOWN_TOPIC_ID
    partition = topic.partitions.get(index)
    if partition is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return ErrorCode.NONE if broker.id in partition.replicas else ErrorCode.NOT_LEADER_OR_FOLLOWER


def _moved(
    state: ControllerState, topic: TopicImage, index: int, broker: BrokerImage, directory: bytes
) -> list[Message]:
    change = PartitionChange(state, topic, index)
    change.directories[broker.id] = directory
    record = change.record()
    return [record] if record is not None else []


def _left_behind(state: ControllerState, broker: BrokerImage, stranded: set[tuple[bytes, int]]) -> list[Message]:
    changes = (
        leadership_record(state, state.image.topics.by_id[topic_id], index, Move(leaves=broker.id))
        for topic_id, index in sorted(stranded)
    )
    return [record for record in changes if record is not None]
