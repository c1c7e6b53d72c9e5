"""Metadata: brokers and topics as they are seen through the listener that the request came by.

- Null for the topics is every topic, and an empty list none; `protocol/messages/metadata.py` has the exception.
- Where a topic is named by id (KIP-516), the names in the request do not count.
- A topic that does not exist is created, if both the client and auto.create.topics.enable want it. The response does not
  wait for that: it has UNKNOWN_TOPIC_OR_PARTITION, as Kafka's does, and the client asks again.
- Replicas whose broker is away are listed. A leader without the listener is LISTENER_NOT_FOUND. The contract has what
  earlier versions say of both.
- A long description, as of every topic of a large cluster, is made in slices of the loop, out of one image. Its topics
  are kept encoded for the next such request (`KeptTopics`), until they or a broker change.
- A broker that accepts connections lists itself, also in the milliseconds until the controller unfences it.
- While leaders of a dead broker move, the response waits for a short time (`server/controller/stopped_brokers.py`).

Contract: `protocol/messages/metadata.py`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from ...metadata.acls import CLUSTER_NAME, Operation, ResourceType
from ...metadata.image import NO_LEADER, PartitionImage, TopicImage
from ...metadata.internal_topics import INTERNAL_TOPICS
from ...protocol.behaviour_versions import METADATA_BY_TOPIC_ID, METADATA_WITH_LISTENER_NOT_FOUND
from ...protocol.codec import stepwise_element_encoder
from ...protocol.encoded_runs import Encoded
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
from ..access.authorization.authorized_operations import authorized_operations, cluster_operations
from ..access.authorization.requirements import Each
from ..controller.cluster_view import ClusterView
from ..coordinators import topic_creation
from ..network.api_endpoint import ApiEndpoint
from ..network.call import Call
from ..network.response_size import PLAIN_RESPONSE_ITEMS
from ..network.work_in_turns import work_in_turns
from ..runtime.parted_set import PartedSet
from ..runtime.sliced_work import Steps, in_order

if TYPE_CHECKING:
    from ..controller.stopped_brokers import StoppedBrokers
    from ..services import Services

#: Imported with this file, on a thread: what creates a topic that a client asks for.
PRELOADED = (topic_creation,)

log = logging.getLogger("odradek.metadata")

_TOPICS = Each(Operation.DESCRIBE, ResourceType.TOPIC)
_CREATED_TOPICS = Each(Operation.CREATE, ResourceType.TOPIC)
_CREATED_ON_CLUSTER = Each(Operation.CREATE, ResourceType.CLUSTER)
_WITH_TOPIC_OPERATIONS = MetadataRequest.versions_with("include_topic_authorized_operations")
_WITH_CLUSTER_OPERATIONS = MetadataRequest.versions_with("include_cluster_authorized_operations")
#: Topics of a request that are kept until it is answered.
_KEPT_TOPICS = 1000
_FREED_AT_ONCE = 64
#: Encoded descriptions that are kept for a listener and a version: some 300,000 partitions.
KEPT_BYTES = 16 << 20
#: The memory of one of them beside its content.
KEPT_TOPIC_BYTES = 300
#: The listeners and versions that they are kept for, the latest ones: a cluster has few kinds of clients.
MOST_KEPT_VERSIONS = 4


def handle(services: Services, call: Call[MetadataRequest]) -> MetadataResponse | None:
    request = call.request
    stopped_brokers = services.controller.stopped_brokers
    if stopped_brokers is None or not _names_topics(request, call.version):
        _respond(services, call, _Wanted(request), call.reply)
    else:
        stopped_brokers.when_heard(lambda: _respond_when_known(services, call, _Wanted(request), stopped_brokers))
    return None


def _names_topics(request: MetadataRequest, version: int) -> bool:
    return bool(request.topics) or request.topics is None or version == 0


class _Wanted:
    """The topics that a request names. Its response is made twice if leaders move meanwhile; its topics are iterated
    once.
    """

    def __init__(self, request: MetadataRequest) -> None:
        self.request = request
        self.error: ErrorCode | None = None
        #: Each once, in order.
        self.ids: list[bytes] = []
        self.names: list[str] = []
        self.is_released = False

    def release(self) -> Steps[None]:
        """Frees very many names, some at a time; the request cannot be answered again then."""
        if len(self.names) > _KEPT_TOPICS:
            self.is_released = True
            while self.names:
                del self.names[-_FREED_AT_ONCE:]
                yield

    def read(self, version: int) -> Steps[None]:
        if self.error is not None:
            return
        error = yield from _validation_error(self.request, version)
        topics = self.request.topics
        seen: PartedSet[str | bytes] = PartedSet()
        for number, topic in enumerate(topics or () if not error else ()):
            if topic.topic_id != ZERO_UUID:
                if seen.add(topic.topic_id):
                    self.ids.append(topic.topic_id)
            elif topic.name is not None and seen.add(topic.name):
                self.names.append(topic.name)
            if number >= _KEPT_TOPICS:
                topics[number] = None  # type: ignore[index, call-overload]  # to free a million at once takes long
            yield
        yield from seen.clear()
        self.error = error


def _respond_when_known(
    services: Services, call: Call[MetadataRequest], wanted: _Wanted, stopped_brokers: StoppedBrokers
) -> None:
    def made(response: MetadataResponse) -> None:
        if wanted.is_released or not stopped_brokers.leaving or _leaders(response).isdisjoint(stopped_brokers.leaving):
            call.reply(response)
        else:
            stopped_brokers.when_known(lambda: _respond(services, call, wanted, call.reply))

    _respond(services, call, wanted, made)


def _leaders(response: MetadataResponse) -> set[int]:
    leaders: set[int] = set()
    for topic in response.topics:
        if isinstance(topic, KeptTopic):
            leaders |= topic.leaders
        else:
            leaders.update(partition.leader_id for partition in topic.partitions)
    return leaders


def _respond(
    services: Services, call: Call[MetadataRequest], wanted: _Wanted, done: Callable[[MetadataResponse], None]
) -> None:
    """`done` gets the response, before this returns if it did not take long."""

    def failed(failure: Exception) -> None:
        log.error("a bug: the topics could not be described", exc_info=failure)
        call.reply(MetadataResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR))

    view = ClusterView(services.metadata.image, call.listener)
    work_in_turns(call, _made(services, call, wanted, view), done, failed)


def _made(
    services: Services, call: Call[MetadataRequest], wanted: _Wanted, view: ClusterView
) -> Steps[MetadataResponse]:
    yield from wanted.read(call.version)
    if wanted.error:
        return (yield from _error_response(wanted.request, wanted.error))
    response = _response(services, call, wanted.request, view)
    yield from _describe(services, call, wanted, view, response.topics)
    yield from wanted.release()
    return response


def _response(
    services: Services, call: Call[MetadataRequest], request: MetadataRequest, view: ClusterView
) -> MetadataResponse:
    """All but the topics."""
    stopped_brokers, lifecycle = services.controller.stopped_brokers, services.controller.lifecycle
    listed = set(stopped_brokers.still_listed()) if stopped_brokers is not None else set()
    if lifecycle is not None and lifecycle.is_starting:
        # A client that has just connected would drop the connection of a broker that the response leaves out.
        listed.add(services.node_id)
    response = MetadataResponse(
        brokers=[
            MetadataResponseBroker(node_id=broker.id, host=endpoint.host, port=endpoint.port, rack=broker.rack)
            for broker, endpoint in view.brokers()
            if not broker.fenced or broker.id in listed
        ],
        cluster_id=services.cluster_id,
        controller_id=view.controller_id(),
    )
    asked = call.version in _WITH_CLUSTER_OPERATIONS
    if asked and request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = cluster_operations(services.access.authorizer, call)
    return response


def _validation_error(request: MetadataRequest, version: int) -> Steps[ErrorCode]:
    """The schema has ids from version 10 on; Kafka takes them in requests only later, and trips over a nameless topic."""
    has_ids = nameless = False
    for topic in request.topics or ():
        has_ids = has_ids or topic.topic_id != ZERO_UUID
        nameless = nameless or topic.name is None
        yield
    if version not in METADATA_BY_TOPIC_ID and (has_ids or nameless):
        return ErrorCode.INVALID_REQUEST
    return ErrorCode.UNKNOWN_SERVER_ERROR if nameless and not has_ids else ErrorCode.NONE


def _error_response(request: MetadataRequest, error: ErrorCode) -> Steps[MetadataResponse]:
    response = MetadataResponse(error_code=error)
    for topic in request.topics or ():
        response.topics.append(MetadataResponseTopic(error_code=error, name=topic.name or "", topic_id=topic.topic_id))
        yield
    return response


def _describe(
    services: Services,
    call: Call[MetadataRequest],
    wanted: _Wanted,
    view: ClusterView,
    entries: list[MetadataResponseTopic],
) -> Steps[None]:
    """Adds the topics to the response, a partition at a time; each once, however often the request has it."""
    image, request = view.image, wanted.request
    if request.topics is None or (call.version == 0 and not request.topics):
        names = yield from in_order(image.topics.by_name)
        all_topics = (image.topics.by_name[name] for name in names)
        if services.access.authorizer is not None:
            all_topics = (t for t in all_topics if not _is_hidden(services, call, t.name, log_denied=False))
        kept = None if request.include_topic_authorized_operations else (yield from _kept_topics(services, call, view))
        if kept is None:
            yield from described(services, call, request, view, all_topics, entries)
        else:
            yield from kept.describe(services, call, request, view, all_topics, entries)
        return
    known: list[TopicImage] = []
    missing: list[str] = []
    for topic_id in wanted.ids:
        topic = image.topic_by_id(topic_id)
        if topic is None:
            entries.append(_missing(ErrorCode.UNKNOWN_TOPIC_ID, None, topic_id))
        elif _is_hidden(services, call, topic.name):
            entries.append(_missing(ErrorCode.TOPIC_AUTHORIZATION_FAILED, None, topic_id))
        else:
            known.append(topic)
        yield
    for name in () if wanted.ids else wanted.names:
        topic = image.topic(name)
        if _is_hidden(services, call, name):
            entries.append(MetadataResponseTopic(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, name=name))
        elif topic is not None:
            known.append(topic)
        else:
            missing.append(name)
        yield
    yield from described(services, call, request, view, known, entries)
    yield from _absent(services, call, request, missing, entries)


def _is_hidden(services: Services, call: Call[MetadataRequest], name: str, *, log_denied: bool = True) -> bool:
    """Returns whether the client may not describe the topic: the response is the same whether it exists or not."""
    return _TOPICS.denies(services.access.authorizer, call, name, log_denied=log_denied)


class KeptTopic(Encoded):
    """The encoded description of a topic, as of its image."""

    __slots__ = ("leaders", "partitions", "topic")

    def __init__(self, content: bytes, topic: TopicImage, leaders: frozenset[int]) -> None:
        super().__init__(content)
        self.topic = topic
        #: As many as the topic has partitions: see `is_large`.
        self.partitions = range(len(topic.partitions))
        self.leaders = leaders


class KeptTopics:
    """The encoded descriptions of the topics that requests for every topic got by one listener, in one version."""

    def __init__(self, version: int) -> None:
        self._encoder = stepwise_element_encoder(MetadataResponse, "topics", version)
        self._topics: dict[str, KeptTopic] = {}
        #: The topics describe the leaders and replicas by these.
        self._brokers: object = None

    def describe(
        self,
        services: Services,
        call: Call[MetadataRequest],
        request: MetadataRequest,
        view: ClusterView,
        topics: Iterable[TopicImage],
        entries: list[MetadataResponseTopic],
    ) -> Steps[None]:
        """Adds the topics to the response. Those that it describes anew are kept, if there is room."""
        brokers = view.image.cluster.brokers
        before = self._topics if self._brokers is brokers else {}
        now: dict[str, KeptTopic] = {}
        room = KEPT_BYTES
        for topic in topics:
            kept = before.get(topic.name)
            if kept is None or kept.topic is not topic:
                made: list[MetadataResponseTopic] = []
                yield from described(services, call, request, view, (topic,), made)
                kept = yield from self._encoded(topic, made[0])
            entries.append(kept)  # type: ignore[arg-type]
            room -= len(kept.content) + KEPT_TOPIC_BYTES
            if room >= 0:
                now[topic.name] = kept
            yield
        before, self._topics, self._brokers = self._topics, now, brokers
        call.connection.listener.shared.turns.free(before)

    def _encoded(self, topic: TopicImage, response_topic: MetadataResponseTopic) -> Steps[KeptTopic]:
        pieces: list[bytes] = []
        yield from self._encoder(response_topic, pieces.append)
        return KeptTopic(b"".join(pieces), topic, frozenset(one.leader_id for one in response_topic.partitions))


def _kept_topics(services: Services, call: Call[MetadataRequest], view: ClusterView) -> Steps[KeptTopics | None]:
    """Returns None where there are too few partitions: a response that is encoded at once has no encoded topics."""
    left = PLAIN_RESPONSE_ITEMS
    for topic in view.image.topics.by_name.values():
        left -= 1 + len(topic.partitions)
        if left < 0:
            break
        yield
    else:
        return None
    described, key = services.metadata.described, (call.listener, call.version)
    found: KeptTopics | None = described.pop(key, None)
    described[key] = found = KeptTopics(call.version) if found is None else found
    if len(described) > MOST_KEPT_VERSIONS:
        del described[next(iter(described))]
    return found


def described(
    services: Services,
    call: Call[MetadataRequest],
    request: MetadataRequest,
    view: ClusterView,
    topics: Iterable[TopicImage],
    entries: list[MetadataResponseTopic],
) -> Steps[None]:
    for topic in topics:
        yield
        made = MetadataResponseTopic(name=topic.name, topic_id=topic.id, is_internal=topic.name in INTERNAL_TOPICS)
        entries.append(_with_operations(services, call, request, made))
        for index, partition in sorted(topic.partitions.items()):
            made.partitions.append(_partition(view, call.version, index, partition))
            yield


def _absent(
    services: Services,
    call: Call[MetadataRequest],
    request: MetadataRequest,
    names: list[str],
    entries: list[MetadataResponseTopic],
) -> Steps[None]:
    creates = request.allow_auto_topic_creation and services.config.get("auto.create.topics.enable")
    authorizer = services.access.authorizer
    may_create_any = not names or not _CREATED_ON_CLUSTER.denies(authorizer, call, CLUSTER_NAME, log_denied=False)
    for name in names:
        yield
        if creates and not may_create_any and _CREATED_TOPICS.denies(authorizer, call, name):
            entries.append(_missing(ErrorCode.TOPIC_AUTHORIZATION_FAILED, name))
            continue
        legal = topic_name_fault(name) is None
        if legal and creates:
            services.coordinators.auto_creation().create(
                name, principal=call.principal, client_host=call.client_host, client_id=call.client_id
            )
        error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if legal else ErrorCode.INVALID_TOPIC_EXCEPTION
        entries.append(_with_operations(services, call, request, _missing(error, name)))


def _missing(error: ErrorCode, name: str | None, topic_id: bytes = ZERO_UUID) -> MetadataResponseTopic:
    return MetadataResponseTopic(error_code=error, name=name, topic_id=topic_id, is_internal=name in INTERNAL_TOPICS)


def _with_operations(
    services: Services, call: Call[MetadataRequest], request: MetadataRequest, topic: MetadataResponseTopic
) -> MetadataResponseTopic:
    if call.version in _WITH_TOPIC_OPERATIONS and request.include_topic_authorized_operations:
        name = topic.name or ""
        topic.topic_authorized_operations = authorized_operations(
            services.access.authorizer, call, ResourceType.TOPIC, name
        )
    return topic


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
    if version in METADATA_WITH_LISTENER_NOT_FOUND and view.is_registered(leader):
        return ErrorCode.LISTENER_NOT_FOUND
    return ErrorCode.LEADER_NOT_AVAILABLE


ENDPOINT: ApiEndpoint[MetadataRequest, MetadataResponse] = ApiEndpoint(
    handle=handle, authorization=(_TOPICS, _CREATED_TOPICS, _CREATED_ON_CLUSTER), is_sliced=True
)
