"""AlterPartition (KIP-497): the leader of a partition requests a new ISR."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...metadata.image import PartitionImage, TopicImage
from ...protocol.errors import ErrorCode
from ...protocol.internal.cluster_metadata import PartitionChangeRecord
from ...protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionRequestPartition,
    AlterPartitionRequestTopic,
    AlterPartitionResponse,
    AlterPartitionResponsePartition,
    AlterPartitionResponseTopic,
    BrokerState,
)
from ...protocol.node_ids import LEADER_UNCHANGED
from ...protocol.schema import Message
from .brokers import check_epoch
from .partition_change import RECOVERED, Election, PartitionChange
from .result import ControllerResult
from .state import RECOVERING, ControllerState

#: The versions in which the ISR carries broker epochs.
_WITH_EPOCHS = AlterPartitionRequestPartition.versions_with("new_isr_with_epochs")
#: The leader does not know or does not send the replica's broker epoch.
_UNKNOWN_EPOCH = -1
_RECOVERY_UNCHANGED = PartitionChangeRecord().leader_recovery_state
_Check = Callable[[ControllerState, int, PartitionImage, AlterPartitionRequestPartition], ErrorCode]


def alter_partition(state: ControllerState, request: AlterPartitionRequest, version: int) -> ControllerResult:
    """Handles AlterPartition. Each partition succeeds or fails independently."""
    check_epoch(state, request.broker_id, request.broker_epoch)
    records: list[Message] = []
    response = AlterPartitionResponse()
    for asked in request.topics:
        result = AlterPartitionResponseTopic(topic_id=asked.topic_id)
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


def _unknown(asked: AlterPartitionRequestTopic) -> list[AlterPartitionResponsePartition]:
    error = ErrorCode.UNKNOWN_TOPIC_ID
    return [
        AlterPartitionResponsePartition(partition_index=p.partition_index, error_code=error) for p in asked.partitions
    ]


def _with_epochs(asked: AlterPartitionRequestPartition, version: int) -> AlterPartitionRequestPartition:
    if version not in _WITH_EPOCHS:
        asked.new_isr_with_epochs = [BrokerState(broker_id=broker_id) for broker_id in asked.new_isr]
    return asked


def _altered(
    state: ControllerState, topic: TopicImage, broker_id: int, asked: AlterPartitionRequestPartition
) -> tuple[PartitionChangeRecord | None, AlterPartitionResponsePartition]:
    index = asked.partition_index
    partition = topic.partitions.get(index)
    error = _fault(state, broker_id, partition, asked)
    if error != ErrorCode.NONE or partition is None:
        return None, AlterPartitionResponsePartition(partition_index=index, error_code=error)
    change = PartitionChange(state, topic, index)
    if state.unclean_elections(topic.name):
        change.election = Election.UNCLEAN
    change.isr = [replica.broker_id for replica in asked.new_isr_with_epochs]
    change.recovery_state = asked.leader_recovery_state
    record = change.record()
    if record is not None and record.leader != LEADER_UNCHANGED:
        return record, AlterPartitionResponsePartition(partition_index=index, error_code=ErrorCode.NEW_LEADER_ELECTED)
    return record, _as_it_is(index, partition, record)


def _as_it_is(
    index: int, partition: PartitionImage, record: PartitionChangeRecord | None
) -> AlterPartitionResponsePartition:
    """Returns the partition's state with the change, if there is one."""
    isr, recovery, epoch = list(partition.isr), partition.leader_recovery_state, partition.partition_epoch
    if record is not None:
        isr = isr if record.isr is None else list(record.isr)
        recovery = recovery if record.leader_recovery_state == _RECOVERY_UNCHANGED else record.leader_recovery_state
        epoch += 1
    return AlterPartitionResponsePartition(
        partition_index=index,
        leader_id=partition.leader,
        leader_epoch=partition.leader_epoch,
        isr=isr,
        leader_recovery_state=recovery,
        partition_epoch=epoch,
    )


def _fault(
    state: ControllerState, broker_id: int, partition: PartitionImage | None, asked: AlterPartitionRequestPartition
) -> ErrorCode:
    if partition is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    for check in _CHECKS:
        error = check(state, broker_id, partition, asked)
        if error != ErrorCode.NONE:
            return error
    return ErrorCode.NONE


def _check_epochs(
    state: ControllerState, broker_id: int, partition: PartitionImage, asked: AlterPartitionRequestPartition
) -> ErrorCode:
    if asked.leader_epoch > partition.leader_epoch or asked.partition_epoch > partition.partition_epoch:
        return ErrorCode.NOT_CONTROLLER
    if asked.leader_epoch < partition.leader_epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if broker_id != partition.leader:
        return ErrorCode.INVALID_REQUEST
    return ErrorCode.INVALID_UPDATE_VERSION if asked.partition_epoch < partition.partition_epoch else ErrorCode.NONE


def _check_isr(
    state: ControllerState, broker_id: int, partition: PartitionImage, asked: AlterPartitionRequestPartition
) -> ErrorCode:
    """Checks that the ISR lists replicas of the partition, each once, and the leader among them."""
    isr = [replica.broker_id for replica in asked.new_isr_with_epochs]
    fits = partition.leader in isr and len(set(isr)) == len(isr) and set(isr) <= set(partition.replicas)
    return ErrorCode.NONE if fits else ErrorCode.INVALID_REQUEST


def _check_recovery(
    state: ControllerState, broker_id: int, partition: PartitionImage, asked: AlterPartitionRequestPartition
) -> ErrorCode:
    """Checks that a recovering leader is alone in the ISR and that recovery does not start again once done (KIP-704)."""
    recovers = asked.leader_recovery_state == RECOVERING
    known = asked.leader_recovery_state in (RECOVERED, RECOVERING)
    again = recovers and partition.leader_recovery_state == RECOVERED
    wrong = not known or again or (recovers and len(asked.new_isr_with_epochs) > 1)
    return ErrorCode.INVALID_REQUEST if wrong else ErrorCode.NONE


def _check_eligible(
    state: ControllerState, broker_id: int, partition: PartitionImage, asked: AlterPartitionRequestPartition
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
