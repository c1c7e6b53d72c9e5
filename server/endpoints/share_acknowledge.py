"""ShareAcknowledge: a member's acknowledgements of its records (KIP-932).

The response waits until the persister has the state. The last epoch of a session
releases all other records of the member.

Contract: `protocol/messages/share_acknowledge.py`.
"""

from __future__ import annotations

from functools import partial

from ...protocol.errors import ErrorCode
from ...protocol.messages.node_endpoints import NodeEndpoint
from ...protocol.messages.share_acknowledge import (
    ShareAcknowledgePartitionData,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareAcknowledgeTopicResponse,
)
from ...protocol.messages.share_leaders import ShareLeaderIdAndEpoch
from ...protocol.session_epochs import FINAL_EPOCH
from ..access.authorization.usual_requirements import on_group
from ..network.api_endpoint import ApiEndpoint
from ..network.call import Call
from ..services import Services
from ..share.share_acknowledge import WITH_RENEWALS, Outcome, Renewing
from ..share.share_preconditions import READ_TOPICS, denied_topics, names_member, share_groups_precondition
from ..share.share_sessions import SessionKey, ShareSession

_LED_ELSEWHERE = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)


def handle(services: Services, call: Call[ShareAcknowledgeRequest]) -> ShareAcknowledgeResponse | None:
    request = call.request
    if not names_member(call):
        return ShareAcknowledgeResponse(error_code=ErrorCode.INVALID_REQUEST)
    key = SessionKey(request.group_id or "", request.member_id or "")
    session = services.share.sessions().acknowledge(key, request.share_session_epoch)
    if isinstance(session, ErrorCode):
        return ShareAcknowledgeResponse(error_code=session)
    renewing = Renewing(call.version in WITH_RENEWALS, request.is_renew_ack)
    is_final = request.share_session_epoch == FINAL_EPOCH
    answered = partial(_acknowledged, services, call, session, is_final)
    denied = denied_topics(services, call, (topic.topic_id for topic in request.topics))
    services.share.acknowledgements().acknowledge(key, request.topics, renewing, answered, denied)
    return None


def _acknowledged(
    services: Services, call: Call[ShareAcknowledgeRequest], session: ShareSession, is_final: bool, outcome: Outcome
) -> None:
    if is_final:
        services.share.sessions().end(session)
    response = ShareAcknowledgeResponse(
        acquisition_lock_timeout_ms=services.share.configs().lock_duration_ms(session.key.group_id)
    )
    topics: dict[bytes, ShareAcknowledgeTopicResponse] = {}
    nodes: dict[int, NodeEndpoint] = {}
    for (topic_id, index), validation_error in outcome.items():
        data = ShareAcknowledgePartitionData(partition_index=index)
        if validation_error is not None:
            data.error_code, data.error_message = validation_error.error, validation_error.message
            topic = services.metadata.image.topic_by_id(topic_id)
            if validation_error.error in _LED_ELSEWHERE and topic is not None:
                leader = services.replicas.leaders.current_leader(call.listener, topic.name, index)
                data.current_leader = ShareLeaderIdAndEpoch(leader.id, leader.epoch)
                if leader.node is not None:
                    nodes[leader.id] = NodeEndpoint(*leader.node)
        if topic_id not in topics:
            topics[topic_id] = ShareAcknowledgeTopicResponse(topic_id=topic_id)
        topics[topic_id].partitions.append(data)
    response.responses = list(topics.values())
    response.node_endpoints = list(nodes.values())
    call.reply(response)


ENDPOINT: ApiEndpoint[ShareAcknowledgeRequest, ShareAcknowledgeResponse] = ApiEndpoint(
    handle=handle,
    precondition=share_groups_precondition,
    authorization=(on_group(), READ_TOPICS),
    most_items=20_000,  # batches of acknowledged records
)
