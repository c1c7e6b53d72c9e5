"""ShareFetch: records for a member of a share group, and what became of those it has (KIP-932).

A request with renewals fetches nothing (KIP-1222).

Contract: `protocol/messages/share_fetch.py`.
"""

from __future__ import annotations

from functools import partial

from ...metadata.image import TopicIdPartition
from ...protocol.errors import ErrorCode
from ...protocol.messages.node_endpoints import NodeEndpoint
from ...protocol.messages.share_fetch import (
    ShareFetchableTopicResponse,
    ShareFetchPartitionData,
    ShareFetchRequest,
    ShareFetchResponse,
)
from ...protocol.messages.share_leaders import ShareLeaderIdAndEpoch
from ...protocol.session_epochs import FINAL_EPOCH, INITIAL_EPOCH
from ..access.authorization.usual_requirements import on_group
from ..network.api_endpoint import ApiEndpoint, Cost
from ..network.call import Call
from ..services import Services
from ..share.share_acknowledge import WITH_RENEWALS, Outcome, Renewing, topic_counters
from ..share.share_fetch import Response
from ..share.share_preconditions import READ_TOPICS, denied_topics, names_member, share_groups_precondition
from ..share.share_sessions import ShareSession

_LED_ELSEWHERE = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)


def handle(services: Services, call: Call[ShareFetchRequest]) -> ShareFetchResponse | None:
    request = call.request
    is_renewing = call.version in WITH_RENEWALS and request.is_renew_ack
    fetches = any((request.max_bytes, request.min_bytes, request.max_records, request.max_wait_ms))
    if not names_member(call) or (is_renewing and fetches):
        return ShareFetchResponse(error_code=ErrorCode.INVALID_REQUEST)
    has_acks = any(partition.acknowledgement_batches for topic in request.topics for partition in topic.partitions)
    session = services.share.sessions().open(request, call.connection, has_acks)
    if isinstance(session, ErrorCode):
        return _without_session(services, call, request, session)
    _Responding(services, call, session, is_renewing, has_acks).start()
    return None


def _without_session(
    services: Services, call: Call[ShareFetchRequest], request: ShareFetchRequest, error: ErrorCode
) -> ShareFetchResponse | None:
    response = ShareFetchResponse(error_code=error)
    if error is not ErrorCode.SHARE_SESSION_LIMIT_REACHED or request.max_wait_ms <= 0:
        return response
    # A client that gets this error at once retries at once.
    timer = services.clock.call_at(call.now_ms + request.max_wait_ms, partial(call.reply, response))
    call.on_departure = timer.cancel
    return None


class _Responding:
    """First what became of the member's records, then, when that is written, records for it."""

    def __init__(
        self,
        services: Services,
        call: Call[ShareFetchRequest],
        session: ShareSession,
        is_renewing: bool,
        has_acks: bool,
    ) -> None:
        self._services = services
        self._call = call
        self._request = call.request
        self._session = session
        self._is_renewing = is_renewing
        self._has_acks = has_acks
        self._outcome: Outcome = {}
        named = (topic.topic_id for topic in self._request.topics)
        #: The topics that the client may not read.
        self._denied = denied_topics(services, call, (*named, *(topic_id for topic_id, _ in session.partitions)))
        self._is_final = self._request.share_session_epoch == FINAL_EPOCH

    def start(self) -> None:
        if not self._has_acks:
            self._fetch({})
            return
        renewing = Renewing(self._call.version in WITH_RENEWALS, self._is_renewing)
        acknowledgements = self._services.share.acknowledgements()
        acknowledgements.acknowledge(self._session.key, self._request.topics, renewing, self._fetch, self._denied)

    def _fetch(self, outcome: Outcome) -> None:
        self._outcome = outcome
        if self._is_final or self._is_renewing:
            self._respond({})
        else:
            tells_all = self._request.share_session_epoch == INITIAL_EPOCH
            partitions = self._session.in_turn()
            if self._denied:
                self._fetch_permitted(partitions, tells_all=tells_all)
            else:
                self._services.share.fetches().start(self._call, partitions, self._respond, tells_all=tells_all)

    def _fetch_permitted(self, partitions: list[TopicIdPartition], *, tells_all: bool) -> None:
        permitted = [partition for partition in partitions if partition[0] not in self._denied]
        error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        rejected = {
            partition: ShareFetchPartitionData(partition_index=partition[1], error_code=error, records=b"")
            for partition in partitions
            if partition[0] in self._denied
        }
        if permitted:
            self._services.share.fetches().start(
                self._call, permitted, lambda partitions: self._respond({**partitions, **rejected}), tells_all=tells_all
            )
        else:
            self._respond(rejected)

    def _respond(self, partitions: Response) -> None:
        call, services = self._call, self._services
        failed = {topic_id for (topic_id, _), data in partitions.items() if data.error_code}
        topic_ids = {topic_id for topic_id, _ in self._session.partitions}
        for topic_id, counters in topic_counters(services.metadata.image, services.node.metrics, topic_ids):
            counters.share_fetches += 1
            counters.failed_share_fetches += topic_id in failed
        if self._is_final:
            services.share.sessions().end(self._session)
        for partition, validation_error in self._outcome.items():
            if partition not in partitions:
                partitions[partition] = ShareFetchPartitionData(partition_index=partition[1], records=b"")
            if validation_error is not None:
                partitions[partition].acknowledge_error_code = validation_error.error
                partitions[partition].acknowledge_error_message = validation_error.message
        response = ShareFetchResponse(
            acquisition_lock_timeout_ms=services.share.configs().lock_duration_ms(self._session.key.group_id)
        )
        topics: dict[bytes, ShareFetchableTopicResponse] = {}
        nodes: dict[int, NodeEndpoint] = {}
        for (topic_id, _), data in partitions.items():
            if data.error_code in _LED_ELSEWHERE:
                self._add_leader(topic_id, data, nodes)
            if topic_id not in topics:
                topics[topic_id] = ShareFetchableTopicResponse(topic_id=topic_id)
            topics[topic_id].partitions.append(data)
        response.responses = list(topics.values())
        response.node_endpoints = list(nodes.values())
        call.reply(response)

    def _add_leader(self, topic_id: bytes, data: ShareFetchPartitionData, nodes: dict[int, NodeEndpoint]) -> None:
        topic = self._services.metadata.image.topic_by_id(topic_id)
        if topic is not None:
            leader = self._services.replicas.leaders.current_leader(
                self._call.listener, topic.name, data.partition_index
            )
            data.current_leader = ShareLeaderIdAndEpoch(leader.id, leader.epoch)
            if leader.node is not None:
                nodes[leader.id] = NodeEndpoint(*leader.node)


ENDPOINT: ApiEndpoint[ShareFetchRequest, ShareFetchResponse] = ApiEndpoint(
    handle=handle,
    precondition=share_groups_precondition,
    authorization=(on_group(), READ_TOPICS),
    most_items=20_000,  # batches of acknowledged records
    cost=Cost.FETCHED,
    wanted_wait_ms=lambda request: request.max_wait_ms,
)
