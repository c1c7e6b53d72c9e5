"""Produce: appends record batches to partitions.

Each partition gets one record batch of format 2, checked and written by `HostedPartition.append`; the rules for a
batch are in `server/partitions/batch_validation.py`. The response lists the rejected records (KIP-467), and the
current leader with NOT_LEADER_OR_FOLLOWER (KIP-951), where the version has fields for them.

- acks 0: no response; an error closes the connection, which is the only way to tell the producer.
- acks 1: answered once written here. acks -1: once all replicas in sync have it; REQUEST_TIMED_OUT after the request's
  timeout. With fewer than `min.insync.replicas` in sync it is NOT_ENOUGH_REPLICAS, and nothing is written; where they
  left while it waited, NOT_ENOUGH_REPLICAS_AFTER_APPEND.
- Any other value is INVALID_REQUIRED_ACKS for each partition.

Batches of an idempotent producer that follow a rejected batch are rejected alike until it is resent
(`RejectedBatches` in `server/produce/rejected_batches.py`).

Few clients may write to internal topics and to `__remote_log_metadata` (`server/produce/internal_topics.py`).
Transactional batches without a transactional id are TRANSACTIONAL_ID_AUTHORIZATION_FAILED for the whole request. For
those with one, the leader first asks the transaction coordinator, unless the partition has the transaction open already
(`server/produce/transactional_produce.py`), and in later versions adds
the partition (KIP-890).

Contract: `protocol/messages/produce.py`.
"""

from __future__ import annotations

from collections.abc import Set
from functools import partial
from typing import TYPE_CHECKING

from ...metadata.acls import Operation, ResourceType
from ...metadata.image import TopicPartition
from ...protocol.errors import ErrorCode
from ...protocol.messages.produce import (
    ProduceRequest,
    ProduceResponse,
)
from ...protocol.records.batch import FLAGS_AT, HEADER_BYTES, TRANSACTIONAL_FLAG
from ..access.authorization.requirements import Each
from ..network.api_endpoint import ApiEndpoint, Cost
from ..network.portions import Portioning
from ..partitions.append_result import AppendResult
from ..produce.appends import ACKS, append_batches, reject_batches
from ..produce.produce_authorization import NONE_DENIED, denied_topics, is_write_cached_as_allowed
from ..produce.produce_path import ProducePath

if TYPE_CHECKING:
    from ..access.authorization.sessions import AuthorizationSession
    from ..network.call import Call
    from ..produce.produce_authorization import TopicKey
    from ..services import Services


_UNAUTHORIZED = AppendResult(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)

_NOT_VERIFIED: dict[TopicPartition, int] = {}
_TOPICS = Each(Operation.WRITE, ResourceType.TOPIC, by=denied_topics)
_TRANSACTIONAL_ID = Each(Operation.WRITE, ResourceType.TRANSACTIONAL_ID)


def handle(services: Services, call: Call[ProduceRequest]) -> ProduceResponse | None:
    denied = NONE_DENIED
    authorizer, has_transactional = services.access.authorizer, _has_transactional(call.request)
    if authorizer is not None and (has_transactional or not is_write_cached_as_allowed(authorizer, call)):
        session = authorizer.session(call)
        if has_transactional and not _may_use_transaction(session, call.request):
            return reject_batches(call, _UNAUTHORIZED)
        denied = denied_topics(session, call, services.metadata.image)
    if call.request.transactional_id is not None:
        transactional = services.produce.transactional()
        if transactional.is_trusted(call.version):
            return append_batches(services.produce.path, call, _NOT_VERIFIED, denied, trusted=True)
        unverified = transactional.unverified(call, denied)
        if unverified is not None:
            transactional.verify(call, unverified, partial(_verified, services.produce.path, call, denied))
            return None
    elif has_transactional and call.request.acks in ACKS:
        return reject_batches(call, _UNAUTHORIZED, denied)
    return append_batches(services.produce.path, call, _NOT_VERIFIED, denied)


def _verified(
    path: ProducePath, call: Call[ProduceRequest], denied: Set[TopicKey], membership: dict[TopicPartition, int]
) -> None:
    response = append_batches(path, call, membership, denied)
    if response is not None:
        call.reply(response)


def _may_use_transaction(session: AuthorizationSession, request: ProduceRequest) -> bool:
    """Returns whether the client may write in the transaction of the request's batches."""
    transactional_id = request.transactional_id
    return transactional_id is not None and session.allows(
        _TRANSACTIONAL_ID.operation, _TRANSACTIONAL_ID.resource_type, transactional_id
    )


def _has_transactional(request: ProduceRequest) -> bool:
    for topic in request.topic_data:
        for data in topic.partition_data:
            records = data.records
            if records is not None and len(records) >= HEADER_BYTES and records[FLAGS_AT] & TRANSACTIONAL_FLAG:
                return True
    return False


ENDPOINT: ApiEndpoint[ProduceRequest, ProduceResponse] = ApiEndpoint(
    handle=handle,
    authorization=(_TOPICS, _TRANSACTIONAL_ID),
    portionings=(Portioning(("topic_data", "partition_data"), ("responses", "partition_responses")),),
    handles_many_whole=True,
    encodes_many_whole=True,
    cost=Cost.PRODUCED,
)
