"""TxnOffsetCommit (key 28), versions 0-6. See coordinator/transactional_offsets.py.

The group's partition of `__consumer_offsets` must be in the transaction: from version 5 on this adds it, before it was
added by AddOffsetsToTxn and is looked up (KIP-890). A partition that does not exist is refused by itself. Version 6 names
topics by id.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from ...coordinator.refusals import transactional_commit_refused
from ...protocol.errors import ErrorCode
from ...protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from ..internal_topics import GROUP_METADATA_TOPIC
from ..transaction_membership import Membership, Place, ask

if TYPE_CHECKING:
    from ..dispatch import Call
from ..topic_answers import merged

TOPIC_ID_VERSION = 6
ADDING_VERSION = 5
ABORTABLE_VERSION = 4


def handle(call: Call) -> TxnOffsetCommitResponse | None:
    request: TxnOffsetCommitRequest = call.request
    if not request.group_id:
        return transactional_commit_refused(request, ErrorCode.INVALID_GROUP_ID)
    refusals = _take_out_unknown(call, request)
    if not request.topics:
        return TxnOffsetCommitResponse(topics=refusals)
    asked = _unasked(call, request)
    if asked is None:
        _commit(call, refusals)
    else:
        ask(call, asked, partial(_answered, call, refusals))
    return None


def _unasked(call: Call, request: TxnOffsetCommitRequest) -> Membership | None:
    place = (GROUP_METADATA_TOPIC, call.broker.groups.partition_for(request.group_id))
    hosted = call.broker.partitions.get(place)
    adds = call.version >= ADDING_VERSION
    is_known = hosted is None or hosted.is_in_transaction(request.producer_id, request.producer_epoch)
    if is_known or not (adds or call.broker.config.get("transaction.partition.verification.enable")):
        return None
    return Membership(request.transactional_id, request.producer_id, request.producer_epoch, (place,), adds)


def _answered(call: Call, refusals: list[TxnOffsetCommitResponseTopic], errors: dict[Place, int]) -> None:
    (error,) = errors.values()
    if not error:
        _commit(call, refusals)
        return
    if error == ErrorCode.PRODUCER_FENCED:
        error = ErrorCode.INVALID_PRODUCER_EPOCH
    elif error == ErrorCode.TRANSACTION_ABORTABLE and call.version < ABORTABLE_VERSION:
        error = ErrorCode.INVALID_TXN_STATE
    elif error == ErrorCode.NOT_COORDINATOR:
        # The transaction's coordinator, not the group's, which the client would look for.
        error = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    refused = transactional_commit_refused(call.request, ErrorCode(error))
    call.reply(TxnOffsetCommitResponse(topics=[*refusals, *refused.topics]))


def _commit(call: Call, refusals: list[TxnOffsetCommitResponseTopic]) -> None:
    def reply(response: TxnOffsetCommitResponse) -> None:
        call.reply(TxnOffsetCommitResponse(topics=merged(refusals, response.topics)))

    call.broker.groups.submit(call.request.group_id, call.request, call.version, call, reply)


def _take_out_unknown(call: Call, request: TxnOffsetCommitRequest) -> list[TxnOffsetCommitResponseTopic]:
    """Leaves in the request what exists, with names and ids both; the answers for the others."""
    image, by_id = call.broker.image, call.version >= TOPIC_ID_VERSION
    refusals: list[TxnOffsetCommitResponseTopic] = []
    kept: list[TxnOffsetCommitRequestTopic] = []
    for topic in request.topics:
        found = image.topic_by_id(topic.topic_id) if by_id else image.topic(topic.name)
        partitions: Any = () if found is None else found.partitions
        if found is not None:
            topic.name, topic.topic_id = found.name, found.id
        unknown = [p.partition_index for p in topic.partitions if p.partition_index not in partitions]
        if unknown:
            absent = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            error = ErrorCode.UNKNOWN_TOPIC_ID if by_id and found is None else absent
            answers = [TxnOffsetCommitResponsePartition(index, error) for index in unknown]
            refusals.append(TxnOffsetCommitResponseTopic(topic.name, topic.topic_id, answers))
        topic.partitions = [p for p in topic.partitions if p.partition_index in partitions]
        if topic.partitions:
            kept.append(topic)
    request.topics = kept
    return refusals
