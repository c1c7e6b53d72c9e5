"""Metadata (key 3), versions 0-13: brokers and topics as they are seen through the listener that the request came by.

- Null for the topics is every topic, and an empty list none; in version 0 an empty list is every topic.
- From version 12 topics may be asked for by id (KIP-516). If any is, the names in the request do not count.
- A topic that does not exist is created, if both the client and auto.create.topics.enable want it. The answer does not wait
  for that: it says UNKNOWN_TOPIC_OR_PARTITION, as Kafka's does, and the client asks again.
- Version 0 leaves out replicas whose broker is away and says so by REPLICA_NOT_AVAILABLE; later versions list them.
- A leader without the listener is LEADER_NOT_AVAILABLE, from version 6 LISTENER_NOT_FOUND.
- What takes long to be described, as every topic of a large cluster, is described in slices of the loop, out of one image.
- While leaders of a broker that died move, the answer waits for that, not for long (`departures.py`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from ...metadata.image import NO_LEADER, PartitionImage, TopicImage
from ...protocol.errors import ErrorCode
from ...protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from ...protocol.uuids import ZERO_UUID
from ...replication.controller.topic_names import topic_name_fault
from ..authorized_operations import CLUSTER_OPERATIONS, TOPIC_OPERATIONS
from ..cluster_view import ClusterView
from ..dispatch import Call
from ..internal_topics import INTERNAL_TOPICS
from ..slices import SlicedWork

if TYPE_CHECKING:
    from ..departures import Departures

log = logging.getLogger("odradek.metadata")

_FIRST_WITH_IDS = 12
_FIRST_WITH_LISTENER_NOT_FOUND = 6
_FIRST_WITH_OPERATIONS = 8
_LAST_WITH_CLUSTER_OPERATIONS = 10


def handle(call: Call) -> MetadataResponse | None:
    request: MetadataRequest = call.request
    error = _refusal(request, call.version)
    if error:
        return _refused(request, error)
    departures = call.broker.departures
    if departures is None or not _names_topics(request, call.version):
        _respond(call, request, call.reply)
    else:
        departures.when_heard(lambda: _answer(call, request, departures))
    return None


def _names_topics(request: MetadataRequest, version: int) -> bool:
    return bool(request.topics) or request.topics is None or version == 0


def _answer(call: Call, request: MetadataRequest, departures: Departures) -> None:
    def made(response: MetadataResponse) -> None:
        if not departures.leaving or _leaders(response).isdisjoint(departures.leaving):
            call.reply(response)
        else:
            departures.when_known(lambda: _respond(call, request, call.reply))

    _respond(call, request, made)


def _leaders(response: MetadataResponse) -> set[int]:
    return {partition.leader_id for topic in response.topics for partition in topic.partitions}


def _respond(call: Call, request: MetadataRequest, made: Callable[[MetadataResponse], None]) -> None:
    """`made` is told of the response, before this returns if it did not take long."""

    def failed(failure: Exception) -> None:
        log.error("a bug: the topics could not be described", exc_info=failure)
        call.reply(_refused(request, ErrorCode.UNKNOWN_SERVER_ERROR))

    view = ClusterView(call.broker.image, call.listener)
    response = _response(call, request, view)
    work = SlicedWork(failed)
    work.begin(_describe(call, request, view, response.topics), lambda: made(response))
    if work.is_busy:
        call.hold_connection()


def _response(call: Call, request: MetadataRequest, view: ClusterView) -> MetadataResponse:
    """All but the topics."""
    departures = call.broker.departures
    still_listed = departures.still_listed() if departures is not None else ()
    response = MetadataResponse(
        brokers=[
            MetadataResponseBroker(node_id=broker.id, host=endpoint.host, port=endpoint.port, rack=broker.rack)
            for broker, endpoint in view.brokers()
            if not broker.fenced or broker.id in still_listed
        ],
        cluster_id=call.broker.cluster_id,
        controller_id=view.controller_id(),
    )
    asked = _FIRST_WITH_OPERATIONS <= call.version <= _LAST_WITH_CLUSTER_OPERATIONS
    if asked and request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = CLUSTER_OPERATIONS
    return response


def _refusal(request: MetadataRequest, version: int) -> ErrorCode:
    """The schema has ids from version 10 on; Kafka takes them in requests only later, and trips over a nameless topic."""
    topics = request.topics or ()
    has_ids = any(topic.topic_id != ZERO_UUID for topic in topics)
    nameless = any(topic.name is None for topic in topics)
    if version < _FIRST_WITH_IDS and (has_ids or nameless):
        return ErrorCode.INVALID_REQUEST
    return ErrorCode.UNKNOWN_SERVER_ERROR if nameless and not has_ids else ErrorCode.NONE


def _refused(request: MetadataRequest, error: ErrorCode) -> MetadataResponse:
    topics = [
        MetadataResponseTopic(error_code=error, name=topic.name or "", topic_id=topic.topic_id)
        for topic in request.topics or ()
    ]
    return MetadataResponse(topics=topics, error_code=error)


def _describe(
    call: Call, request: MetadataRequest, view: ClusterView, answer: list[MetadataResponseTopic]
) -> Iterator[None]:
    """Adds the topics to the answer, a partition at a time."""
    image = view.image
    if request.topics is None or (call.version == 0 and not request.topics):
        yield from described(call, request, view, [topic for _, topic in sorted(image.topics.by_name.items())], answer)
        return
    ids = dict.fromkeys(topic.topic_id for topic in request.topics if topic.topic_id != ZERO_UUID)
    if ids:
        by_id = {topic_id: image.topic_by_id(topic_id) for topic_id in ids}
        answer += [_missing(ErrorCode.UNKNOWN_TOPIC_ID, None, topic_id) for topic_id in ids if by_id[topic_id] is None]
        yield from described(call, request, view, [topic for topic in by_id.values() if topic is not None], answer)
        return
    names = dict.fromkeys(topic.name for topic in request.topics if topic.name is not None)
    by_name = {name: image.topic(name) for name in names}
    missing = [name for name, topic in by_name.items() if topic is None]
    yield from described(call, request, view, [topic for topic in by_name.values() if topic is not None], answer)
    answer += _absent(call, request, missing)


def described(
    call: Call,
    request: MetadataRequest,
    view: ClusterView,
    topics: Iterable[TopicImage],
    answer: list[MetadataResponseTopic],
) -> Iterator[None]:
    for topic in topics:
        made = MetadataResponseTopic(name=topic.name, topic_id=topic.id, is_internal=topic.name in INTERNAL_TOPICS)
        answer += _with_operations(call, request, [made])
        for index, partition in sorted(topic.partitions.items()):
            made.partitions.append(_partition(view, call.version, index, partition))
            yield


def _absent(call: Call, request: MetadataRequest, names: list[str]) -> list[MetadataResponseTopic]:
    legal = [name for name in names if topic_name_fault(name) is None]
    if legal and request.allow_auto_topic_creation and call.broker.config.get("auto.create.topics.enable"):
        call.broker.auto_creation.create(legal)
    answers = [
        _missing(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if name in legal else ErrorCode.INVALID_TOPIC_EXCEPTION, name)
        for name in names
    ]
    return _with_operations(call, request, answers)


def _missing(error: ErrorCode, name: str | None, topic_id: bytes = ZERO_UUID) -> MetadataResponseTopic:
    return MetadataResponseTopic(error_code=error, name=name, topic_id=topic_id, is_internal=name in INTERNAL_TOPICS)


def _with_operations(
    call: Call, request: MetadataRequest, topics: list[MetadataResponseTopic]
) -> list[MetadataResponseTopic]:
    if call.version >= _FIRST_WITH_OPERATIONS and request.include_topic_authorized_operations:
        for topic in topics:
            topic.topic_authorized_operations = TOPIC_OPERATIONS
    return topics


def _partition(view: ClusterView, version: int, index: int, partition: PartitionImage) -> MetadataResponsePartition:
    replicas, isr = list(partition.replicas), list(partition.isr)
    if version == 0:
        replicas, isr = list(filter(view.is_alive, replicas)), list(filter(view.is_alive, isr))
    led = view.is_reachable(partition.leader)
    error = ErrorCode.NONE
    if not led:
        error = _no_leader(view, version, partition.leader)
    elif len(replicas) < len(partition.replicas) or len(isr) < len(partition.isr):
        error = ErrorCode.REPLICA_NOT_AVAILABLE
    return MetadataResponsePartition(
        error_code=error,
        partition_index=index,
        leader_id=partition.leader if led else NO_LEADER,
        leader_epoch=partition.leader_epoch,
        replica_nodes=replicas,
        isr_nodes=isr,
        offline_replicas=view.offline_replicas(partition),
    )


def _no_leader(view: ClusterView, version: int, leader: int) -> ErrorCode:
    if version >= _FIRST_WITH_LISTENER_NOT_FOUND and view.is_registered(leader):
        return ErrorCode.LISTENER_NOT_FOUND
    return ErrorCode.LEADER_NOT_AVAILABLE
