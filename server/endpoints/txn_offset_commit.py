"""TxnOffsetCommit: offsets committed in a transaction (KIP-98, KIP-447).

Decided in `coordinator/groups/transactional_offsets.py`.

The group's partition of `__consumer_offsets` must be in the transaction. In later versions this request adds it. In
earlier ones AddOffsetsToTxn adds it, and this request verifies it (KIP-890). If the response comes after the end of that
transaction, the offsets are not written: they would be pending for good. A missing partition gets its own error. Topics
are named by name or by id.

Contract: `protocol/messages/txn_offset_commit.py`.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from ...metadata.acls import Operation, ResourceType
from ...metadata.image import TopicPartition
from ...metadata.internal_topics import GROUP_METADATA_TOPIC
from ...protocol.behaviour_versions import TXN_OFFSET_COMMIT_ADDS_GROUPS, TXN_OFFSET_COMMIT_WITH_ABORTABLE
from ...protocol.error_responses import error_response, error_response_to
from ...protocol.errors import ErrorCode
from ...protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from ...protocol.records.batch import NO_SEQUENCE
from ..access.authorization.requirements import Each
from ..access.authorization.usual_requirements import on_group, on_transactional_id
from ..coordinators.group_coordinator import GROUP_COORDINATOR
from ..coordinators.topic_responses import merged
from ..coordinators.transaction_coordinator import PRELOADED as _PRELOADED
from ..coordinators.transaction_verification import Membership
from ..network.api_endpoint import ApiEndpoint
from ..network.portions import TOPIC_PARTITIONS

if TYPE_CHECKING:
    from ...storage.log.verifications import Verification
    from ..network.call import Call
    from ..partitions.hosted_partition import HostedPartition
    from ..services import Services

#: Imported with this file, on a thread: the event loop imports none of it later.
PRELOADED = _PRELOADED
_TOPICS = Each(Operation.READ, ResourceType.TOPIC)
WITH_TOPIC_IDS = TxnOffsetCommitRequestTopic.versions_with("topic_id")


def handle(services: Services, call: Call[TxnOffsetCommitRequest]) -> TxnOffsetCommitResponse | None:
    request = call.request
    if not request.group_id:
        return error_response(TxnOffsetCommitResponse, call.version, request, ErrorCode.INVALID_GROUP_ID)
    error_results = _take_out_unknown(services, call, request)
    if not request.topics:
        return TxnOffsetCommitResponse(topics=error_results)
    place = (GROUP_METADATA_TOPIC, services.coordinators.groups.partition_for(request.group_id))
    hosted = services.partitions.hosted.get(place)
    if hosted is None or not hosted.is_leader or not _is_asked(services, call, hosted):
        _commit(services, call, error_results)
        return None
    producer_id, epoch, adds = (
        request.producer_id,
        request.producer_epoch,
        call.version in TXN_OFFSET_COMMIT_ADDS_GROUPS,
    )
    asked = Membership(request.transactional_id, producer_id, epoch, (place,), adds)
    verifying = _Verifying(services, hosted, asked)
    verifying.begin()
    answered = partial(_answered, services, call, error_results, verifying)
    services.coordinators.verification().verify(call, asked, answered, verifying.begin)
    return None


class _Verifying:
    """The verification that the partition of the offsets keeps. It begins with each request to the coordinator: the marker
    of the previous transaction ends an earlier one.
    """

    def __init__(self, services: Services, hosted: HostedPartition, asked: Membership) -> None:
        self._clock = services.clock
        self.hosted = hosted
        self._asked = asked
        self.verification: Verification | None = None

    def begin(self) -> None:
        _, producer_id, epoch, _, adds = self._asked
        now_ms, producers = self._clock.now_ms(), self.hosted.open_log().producers
        self.verification = producers.verify(producer_id, epoch, NO_SEQUENCE, now_ms, bumps_epochs=adds)


def _is_asked(services: Services, call: Call[TxnOffsetCommitRequest], hosted: HostedPartition) -> bool:
    if hosted.is_in_transaction(call.request.producer_id, call.request.producer_epoch):
        return False
    adds = call.version in TXN_OFFSET_COMMIT_ADDS_GROUPS
    return adds or bool(services.config.get("transaction.partition.verification.enable"))


def _answered(
    services: Services,
    call: Call[TxnOffsetCommitRequest],
    error_results: list[TxnOffsetCommitResponseTopic],
    verifying: _Verifying,
    errors: dict[TopicPartition, int],
) -> None:
    (error,) = errors.values()
    error = error or _error_by_now(call.request, verifying)
    if not error:
        _commit(services, call, error_results)
        return
    if error == ErrorCode.PRODUCER_FENCED:
        error = ErrorCode.INVALID_PRODUCER_EPOCH
    elif error == ErrorCode.TRANSACTION_ABORTABLE and call.version not in TXN_OFFSET_COMMIT_WITH_ABORTABLE:
        error = ErrorCode.INVALID_TXN_STATE
    elif error == ErrorCode.NOT_COORDINATOR:
        # The transaction's coordinator, not the group's, which the client would look for.
        error = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    rejected: Any = error_response_to(call.request, call.version, ErrorCode(error))
    call.reply(TxnOffsetCommitResponse(topics=[*error_results, *rejected.topics]))


def _error_by_now(request: TxnOffsetCommitRequest, verifying: _Verifying) -> int:
    """0 when the transaction that was asked for is still going on, and where the group has left to another coordinator."""
    hosted = verifying.hosted
    producer_id, producers = request.producer_id, hosted.open_log().producers
    if producers.verifications.get(producer_id) is verifying.verification or not hosted.is_leader:
        return 0
    if hosted.is_in_transaction(producer_id, request.producer_epoch):
        return 0
    known = producers.by_id.get(producer_id)
    is_stale = known is not None and request.producer_epoch < known.epoch
    return ErrorCode.INVALID_PRODUCER_EPOCH if is_stale else ErrorCode.INVALID_TXN_STATE


def _commit(
    services: Services, call: Call[TxnOffsetCommitRequest], error_results: list[TxnOffsetCommitResponseTopic]
) -> None:
    def reply(response: TxnOffsetCommitResponse) -> None:
        call.reply(TxnOffsetCommitResponse(topics=merged(error_results, response.topics)))

    services.coordinators.groups.submit(call.request.group_id, call.request, call.version, call, reply)


def _take_out_unknown(
    services: Services, call: Call[TxnOffsetCommitRequest], request: TxnOffsetCommitRequest
) -> list[TxnOffsetCommitResponseTopic]:
    """Leaves in the request what exists, with names and ids both; the responses for the others."""
    image, by_id = services.metadata.image, call.version in WITH_TOPIC_IDS
    error_results: list[TxnOffsetCommitResponseTopic] = []
    kept: list[TxnOffsetCommitRequestTopic] = []
    places = [(image.topic_by_id(t.topic_id) if by_id else image.topic(t.name)) for t in request.topics]
    names = [topic.name if found is None else found.name for topic, found in zip(request.topics, places, strict=True)]
    denied = _TOPICS.denied(services.access.authorizer, call, filter(None, names))
    for topic, found, name in zip(request.topics, places, names, strict=True):
        if name in denied:
            error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            responses = [TxnOffsetCommitResponsePartition(p.partition_index, error) for p in topic.partitions]
            error_results.append(TxnOffsetCommitResponseTopic(topic.name, topic.topic_id, responses))
            continue
        partitions: Any = () if found is None else found.partitions
        if found is not None:
            topic.name, topic.topic_id = found.name, found.id
        unknown = [p.partition_index for p in topic.partitions if p.partition_index not in partitions]
        if unknown:
            absent = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            error = ErrorCode.UNKNOWN_TOPIC_ID if by_id and found is None else absent
            responses = [TxnOffsetCommitResponsePartition(index, error) for index in unknown]
            error_results.append(TxnOffsetCommitResponseTopic(topic.name, topic.topic_id, responses))
        topic.partitions = [p for p in topic.partitions if p.partition_index in partitions]
        if topic.partitions:
            kept.append(topic)
    request.topics = kept
    return error_results


ENDPOINT: ApiEndpoint[TxnOffsetCommitRequest, TxnOffsetCommitResponse] = ApiEndpoint(
    handle=handle,
    authorization=(on_transactional_id(), on_group(), _TOPICS),
    place=GROUP_COORDINATOR,
    portionings=TOPIC_PARTITIONS,
)
