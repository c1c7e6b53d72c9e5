"""The beginning of a Fetch of very many partitions: which of them its client may read, and how it is answered."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ...protocol.encoded_fetch import WITH_TOPIC_IDS, EncodedPartitions
from ...protocol.errors import ErrorCode
from ...protocol.isolation import READ_COMMITTED
from ...protocol.messages.fetch import FetchResponse
from ...protocol.session_epochs import FINAL_EPOCH
from ..network.response_size import PLAIN_RESPONSE_ITEMS
from ..network.sliced_responses import released
from ..network.work_in_turns import work_in_turns
from .encoded_fetch import EncodedFetch
from .fetch_context import FetchContext
from .follower_fetch import FollowerFetch
from .large_fetch import LargeFetch
from .quiet_partitions import WITH_LOG_START
from .topic_counts import TopicCounts

if TYPE_CHECKING:
    from ...protocol.messages.fetch import FetchRequest
    from ..network.call import Call
    from ..runtime.sliced_work import Steps
    from .fetch_memories import FetchMemories
    from .fetch_path import FetchPath
    from .fetched_partition import Topic


def open_and_fetch(path: FetchPath, call: Call[FetchRequest], *, is_follower: bool) -> None:
    """Takes a Fetch whose request is large."""
    if path.memories is not None and _remembers(path, call.request, call.version, is_follower=is_follower):
        _fetch_remembered(path, call, path.memories())
        return

    def opened(context: FetchContext | ErrorCode) -> None:
        if isinstance(context, ErrorCode):
            call.reply(FetchResponse(error_code=context))
        else:
            fetch(path, call, context, is_follower=is_follower)

    work_in_turns(call, _open(path, call), opened)


def _open(path: FetchPath, call: Call[FetchRequest]) -> Steps[FetchContext | ErrorCode]:
    """Opens the context of a request, and frees the topics that it names: to free 100,000 at once takes 15 ms."""
    request = call.request
    context = yield from path.sessions.open(request, call.version, path.clock.now_ms(), call.connection)
    for topic in request.topics:
        if isinstance(topic.partitions, EncodedPartitions):  # of at most MOST_TOPICS
            topic.partitions = []
        yield
    yield from released(request, ("topics", "partitions"))
    yield from released(request, ("forgotten_topics_data", "partitions"))
    return context


def fetch(path: FetchPath, call: Call[FetchRequest], context: FetchContext, *, is_follower: bool) -> None:
    if is_follower:
        call.exempt()
    kind = LargeFollowerFetch if is_follower else LargeFetch

    def start() -> None:
        kind(path, call, context).start()

    _decide(path, call, context, start, is_follower=is_follower)


def _decide(
    path: FetchPath,
    call: Call[FetchRequest],
    context: FetchContext,
    decided: Callable[[], None],
    *,
    is_follower: bool = False,
) -> None:
    """Decides in slices which topics the client may read, then calls `decided`."""
    authorization = path.authorization
    if authorization is None:
        decided()
        return

    def decide() -> Steps[None]:
        denied = context.denied = yield from authorization.denied_in_steps(call, context, is_follower=is_follower)
        if context.session is not None and not is_follower:
            yield from context.session.deny_in_steps(denied)

    work_in_turns(call, decide(), lambda _: decided())


class LargeFollowerFetch(LargeFetch, FollowerFetch):
    __slots__ = ()


def _remembers(path: FetchPath, request: FetchRequest, version: int, *, is_follower: bool) -> bool:
    """Returns whether a Fetch is of the kind that is remembered: of a consumer without a session, and its response has
    what the partitions' leaders have.
    """
    topics = request.topics
    return (
        not is_follower
        and request.session_epoch == FINAL_EPOCH
        and version in WITH_LOG_START
        and path.memories is not None
        and all(isinstance(topic.partitions, EncodedPartitions) for topic in topics)
        and not request.forgotten_topics_data
        and path.sessions.get(request.session_id) is None
        and not (request.rack_id and path.selector.is_rack_aware)
        and sum(len(topic.partitions) for topic in topics) > PLAIN_RESPONSE_ITEMS
        and not _has_repeated(request, version)
    )


def _has_repeated(request: FetchRequest, version: int) -> bool:
    names = {topic.topic_id if version in WITH_TOPIC_IDS else topic.topic for topic in request.topics}
    return len(names) < len(request.topics) or any(topic.partitions.has_repeated() for topic in request.topics)  # type: ignore[attr-defined]


def _fetch_remembered(path: FetchPath, call: Call[FetchRequest], memories: FetchMemories) -> None:
    request = call.request
    uses_ids = call.version in WITH_TOPIC_IDS
    topics: dict[Topic, Any] = {}
    for topic in request.topics:
        topics[topic.topic_id if uses_ids else topic.topic], topic.partitions = topic.partitions, []
    counts, named = TopicCounts(), 0
    for name, partitions in topics.items():
        counts.add(name, len(partitions))
        named += len(partitions)
    context = FetchContext({}, uses_topic_ids=uses_ids, topic_counts=counts)
    kind = (call.version, request.isolation_level == READ_COMMITTED)
    memory = memories.begin(call.connection, kind, named)

    def start() -> None:
        EncodedFetch(path, call, context, topics, memories, memory).start()

    _decide(path, call, context, start)
